//! One directory, held by descriptor, and the only door to the files below it.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::beneath::{Links, MAX_DEPTH, Resolver, kind_of};

/// Most bytes of a path. Linux takes no longer ones.
const MAX_PATH_BYTES: usize = 4_095;

/// Most bytes of a path that an error message repeats.
const MAX_SHOWN_BYTES: usize = 200;

/// Most names that are compared to find the nearest one.
const MAX_NEAREST: usize = 2_000;

/// How alike two names are at least when one is offered for the other.
const NEAREST_SIMILARITY: f64 = 0.6;

/// A directory whose files the tools may reach. Cheap to clone.
#[derive(Clone)]
pub struct Root {
    inner: Arc<Inner>,
}

struct Inner {
    directory: OwnedFd,
    resolver: Resolver,
    /// Absolute names of the directory, only to take them off absolute paths in arguments.
    names: Vec<PathBuf>,
    /// Held from looking at a file to replacing it.
    writing: Mutex<()>,
}

/// A file or directory that cannot be reached. Nothing was changed, and the root stays usable.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// [`Root::open`] found no directory that it may list.
    #[error("cannot open `{}` as a root folder", path.display())]
    Open {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the path is empty: give a path relative to the root folder, `.` for the folder itself")]
    Empty,
    #[error("`{path}` contains a NUL character, which no file name has")]
    Nul { path: String },
    #[error("the path is too long: {bytes} bytes > {MAX_PATH_BYTES}")]
    TooLong { bytes: usize },
    #[error("the path has a component that is too long, or more than {MAX_DEPTH} folders: `{path}`")]
    TooDeep { path: String },
    #[error("`{path}` is outside the root folder: give a path relative to it, such as `src/main.rs`")]
    Outside { path: String },
    #[error("`{path}` goes through a symbolic link that is absolute or leads out of the root folder")]
    LinkOutside { path: String },
    #[error("`{path}` goes through too many symbolic links, or one that is not followed")]
    LinkLoop { path: String },
    #[error("`{path}` does not exist{}", hint(nearest))]
    Missing { path: String, nearest: Option<String> },
    #[error("permission denied: `{path}`")]
    Denied { path: String },
    #[error("`{path}` is a folder, not a file")]
    IsDirectory { path: String },
    #[error("`{path}` is not a folder, or a part of it that should be one is not")]
    NotDirectory { path: String },
    #[error("`{path}` is a {kind}; only regular files can be used")]
    Special { path: String, kind: &'static str },
    #[error("`{path}` was changed by somebody else meanwhile: read it again and repeat")]
    Changed { path: String },
    #[error("cannot use `{path}`: {source}")]
    Io { path: String, source: io::Error },
}

fn hint(nearest: &Option<String>) -> String {
    nearest
        .as_ref()
        .map_or_else(String::new, |near| format!("; the nearest name is `{near}`"))
}

/// A path relative to the root: no `.`, no `..`, no empty component. Empty for the root itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RelPath(String);

impl RelPath {
    pub(crate) fn root() -> Self {
        Self(String::new())
    }

    /// Returns the path as an argument that names the same file.
    pub(crate) fn as_str(&self) -> &str {
        if self.0.is_empty() { "." } else { &self.0 }
    }

    /// Returns the path of something below.
    pub(crate) fn join(&self, below: &str) -> String {
        if self.0.is_empty() {
            below.to_owned()
        } else {
            format!("{}/{below}", self.0)
        }
    }

    pub(crate) fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|name| !name.is_empty())
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Root {
    /// Opens a directory. It stays the same directory when it is renamed or another one takes its name.
    ///
    /// # Errors
    /// [`RootError::Open`] when it is not a directory that can be listed.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, RootError> {
        Self::open_with(path.as_ref(), Resolver::detect)
    }

    /// Opens a directory as on a system without `openat2`, so that tests reach that way everywhere.
    ///
    /// # Errors
    /// As [`Root::open`].
    #[doc(hidden)]
    pub fn open_portable(path: impl AsRef<Path>) -> Result<Self, RootError> {
        Self::open_with(path.as_ref(), |_| Resolver::Steps)
    }

    fn open_with(path: &Path, resolver: impl Fn(BorrowedFd<'_>) -> Resolver) -> Result<Self, RootError> {
        let fail = |source: io::Error| RootError::Open {
            path: path.to_owned(),
            source,
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| fail(errno.into()))?;
        let mut names = vec![path.canonicalize().map_err(fail)?];
        if path.is_absolute() && names[0] != path {
            names.push(normal(path));
        }
        Ok(Self {
            inner: Arc::new(Inner {
                resolver: resolver(directory.as_fd()),
                directory,
                names,
                writing: Mutex::new(()),
            }),
        })
    }

    /// Returns the absolute path that the directory had when it was opened.
    pub fn path(&self) -> &Path {
        self.inner.names.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// Makes a path from an argument relative and clean. Looks at no file.
    ///
    /// `a/../b` becomes `b` here, by its text, before any link is considered.
    pub(crate) fn relative(&self, path: &str) -> Result<RelPath, RootError> {
        if path.is_empty() {
            return Err(RootError::Empty);
        }
        if path.len() > MAX_PATH_BYTES {
            return Err(RootError::TooLong { bytes: path.len() });
        }
        if path.contains('\0') {
            return Err(RootError::Nul {
                path: shown(&path.replace('\0', "\u{2400}")),
            });
        }
        let outside = || RootError::Outside { path: shown(path) };
        let mut rest = Path::new(path);
        let absolute;
        if rest.is_absolute() {
            absolute = normal(rest);
            rest = self
                .inner
                .names
                .iter()
                .find_map(|name| absolute.strip_prefix(name).ok())
                .ok_or_else(outside)?;
        }
        let mut names = Vec::new();
        for component in rest.components() {
            match component {
                Component::Normal(name) => names.push(name.to_str().ok_or_else(outside)?),
                Component::CurDir => {}
                Component::ParentDir => {
                    names.pop().ok_or_else(outside)?;
                }
                Component::RootDir | Component::Prefix(_) => return Err(outside()),
            }
        }
        if names.len() > MAX_DEPTH {
            return Err(RootError::TooDeep { path: shown(path) });
        }
        Ok(RelPath(names.join("/")))
    }

    /// Opens a regular file for reading.
    pub(crate) fn open_file(&self, path: &RelPath) -> Result<(File, Stat), RootError> {
        let opened = self
            .inner
            .resolver
            .open(self.directory(), path.as_str(), READ_FILE, Links::Follow)
            .and_then(|file| Ok((rustix::fs::fstat(&file)?, file)));
        let (stat, file) = opened.map_err(|errno| self.error(path, errno))?;
        regular(path.as_str(), &stat)?;
        Ok((File::from(file), stat))
    }

    /// Opens a directory for listing.
    pub(crate) fn open_directory(&self, path: &RelPath) -> Result<OwnedFd, RootError> {
        self.inner
            .resolver
            .open(self.directory(), path.as_str(), READ_DIRECTORY, Links::Follow)
            .map_err(|errno| self.error(path, errno))
    }

    /// Turns the kernel's word into ours, with the nearest name for one that does not exist.
    pub(crate) fn error(&self, path: &RelPath, errno: Errno) -> RootError {
        match error(path.as_str(), errno) {
            RootError::Missing { path: shown, .. } => RootError::Missing {
                path: shown,
                nearest: self.nearest(path),
            },
            other => other,
        }
    }

    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.inner.directory.as_fd()
    }

    pub(crate) fn resolver(&self) -> Resolver {
        self.inner.resolver
    }

    /// Waits until no other call of this process replaces a file below this root.
    pub(crate) fn lock_writing(&self) -> MutexGuard<'_, ()> {
        self.inner.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds an existing path that somebody may have meant, by the first component that does not exist.
    fn nearest(&self, path: &RelPath) -> Option<String> {
        let mut parent = RelPath::root();
        for name in path.components() {
            let directory = self
                .inner
                .resolver
                .open(self.directory(), parent.as_str(), READ_DIRECTORY, Links::Follow)
                .ok()?;
            if kind_of(directory.as_fd(), OsStr::new(name)).is_ok() {
                parent = RelPath(parent.join(name));
                continue;
            }
            let mut best: Option<(f64, String)> = None;
            for entry in rustix::fs::Dir::new(directory).ok()?.take(MAX_NEAREST) {
                let entry = entry.ok()?;
                let Ok(candidate) = entry.file_name().to_str() else {
                    continue;
                };
                if candidate == "." || candidate == ".." {
                    continue;
                }
                let score =
                    strsim::normalized_damerau_levenshtein(&name.to_lowercase(), &candidate.to_lowercase());
                let better = best
                    .as_ref()
                    .is_none_or(|(most, who)| score > *most || (score == *most && candidate < who.as_str()));
                if score >= NEAREST_SIMILARITY && better {
                    best = Some((score, candidate.to_owned()));
                }
            }
            return best.map(|(_, near)| shown(&parent.join(&near)));
        }
        None
    }
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Root")
            .field("path", &self.path())
            .field("resolver", &self.inner.resolver)
            .finish_non_exhaustive()
    }
}

/// Flags for reading a file that may turn out to be a pipe or a terminal: open must not wait for one or adopt one.
pub(crate) const READ_FILE: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Flags for listing a directory.
pub(crate) const READ_DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// Says what keeps a path from being used.
pub(crate) fn error(path: &str, errno: Errno) -> RootError {
    let path = shown(path);
    match errno {
        Errno::NOENT => RootError::Missing { path, nearest: None },
        Errno::ACCESS | Errno::PERM => RootError::Denied { path },
        Errno::ISDIR => RootError::IsDirectory { path },
        Errno::NOTDIR => RootError::NotDirectory { path },
        Errno::XDEV => RootError::LinkOutside { path },
        Errno::LOOP | Errno::MLINK => RootError::LinkLoop { path },
        Errno::NAMETOOLONG => RootError::TooDeep { path },
        // What open says about a socket, and about a device that nothing drives.
        Errno::NXIO | Errno::NODEV | Errno::OPNOTSUPP => RootError::Special {
            path,
            kind: "socket, pipe or device",
        },
        other => RootError::Io {
            path,
            source: other.into(),
        },
    }
}

/// Fails unless a file is a regular one.
pub(crate) fn regular(path: &str, stat: &Stat) -> Result<(), RootError> {
    let path = || shown(path);
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => return Err(RootError::IsDirectory { path: path() }),
        FileType::Fifo => "named pipe",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        FileType::Symlink => "symbolic link",
        _ => "special file",
    };
    Err(RootError::Special { path: path(), kind })
}

/// Cuts a path for a message.
pub(crate) fn shown(path: &str) -> String {
    if path.len() <= MAX_SHOWN_BYTES {
        return path.to_owned();
    }
    format!("{}…", &path[..path.floor_char_boundary(MAX_SHOWN_BYTES)])
}

/// Applies `.` and `..` by the text alone.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

/// Returns the name that bytes from a directory stand for.
pub(crate) fn os_name(name: &[u8]) -> &OsStr {
    OsStr::from_bytes(name)
}
