//! Opening names below a directory descriptor, and nowhere else.
//!
//! Where the kernel has `openat2`, it does the whole resolution in one call and refuses what leads out. Elsewhere,
//! and wherever the parent of a file is needed, the path is taken one component at a time: each is opened relative
//! to the descriptor of the one before without following links, a link's text is read and put in front of what
//! remains, and `..` goes back to a descriptor that is already held. Neither ever hands a path with a link or a `..`
//! in it to a call that would follow them, so nothing can be swapped in between.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Most folders between the root and a file.
pub(crate) const MAX_DEPTH: usize = 128;

/// Most symbolic links in one resolution; Linux's own number.
const MAX_LINKS: usize = 40;

/// How often a resolution is repeated that the kernel gave up because something moved meanwhile.
const MAX_RETRIES: usize = 64;

/// What to do about symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    /// Follow those that stay beneath.
    Follow,
    /// Fail with `ELOOP`.
    Refuse,
}

/// What to do about a folder that is missing on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parents {
    Create,
    Existing,
}

/// Who resolves a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolver {
    /// `openat2` with `RESOLVE_BENEATH`.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Kernel,
    /// This module, one component at a time.
    Steps,
}

impl Resolver {
    /// Returns the kernel's resolver where it works. A sandbox may answer `EPERM` for a call that it does not know,
    /// so any failure on the directory itself counts as missing.
    pub(crate) fn detect(directory: BorrowedFd<'_>) -> Self {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if Self::Kernel
            .open(directory, ".", OFlags::PATH | OFlags::DIRECTORY, Links::Refuse)
            .is_ok()
        {
            return Self::Kernel;
        }
        let _ = directory;
        Self::Steps
    }

    /// Opens a path below a directory. `..` may come from links only; the path itself is clean.
    ///
    /// # Errors
    /// `EXDEV` for a path that leads out, `ELOOP` for too many links or a refused one, else what the kernel says.
    pub(crate) fn open(
        self,
        directory: BorrowedFd<'_>,
        path: &str,
        flags: OFlags,
        links: Links,
    ) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Kernel => {
                use rustix::fs::ResolveFlags;

                let resolve = match links {
                    Links::Follow => ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
                    Links::Refuse => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
                };
                for _ in 0..MAX_RETRIES {
                    match rustix::fs::openat2(directory, path, flags, Mode::empty(), resolve) {
                        Err(Errno::AGAIN | Errno::INTR) => {}
                        result => return result,
                    }
                }
                Err(Errno::AGAIN)
            }
            Self::Steps => {
                let mut steps = Steps::new(directory, path, links, Parents::Existing);
                loop {
                    let Some(name) = steps.next_last()? else {
                        // The path ended on a directory that is already open.
                        return retry(|| rustix::fs::openat(steps.top(), ".", flags, Mode::empty()));
                    };
                    match retry(|| {
                        rustix::fs::openat(
                            steps.top(),
                            OsStr::from_bytes(&name),
                            flags | OFlags::NOFOLLOW,
                            Mode::empty(),
                        )
                    }) {
                        // The names for "this is a link" differ between systems and flags; reading it tells.
                        Err(error @ (Errno::LOOP | Errno::MLINK | Errno::NOTDIR)) => {
                            if !steps.expand(&name)? {
                                return Err(error);
                            }
                        }
                        result => return result,
                    }
                }
            }
        }
    }
}

/// Finds the directory and the name that a path stands for, its last component not being a link just now.
///
/// The name is `None` when the path stands for a directory that needs no name: the starting one, or one that a link
/// reached through `..`.
///
/// # Errors
/// As [`Resolver::open`].
pub(crate) fn locate(
    directory: BorrowedFd<'_>,
    path: &str,
    parents: Parents,
) -> Result<(OwnedFd, Option<Vec<u8>>), Errno> {
    let mut steps = Steps::new(directory, path, Links::Follow, parents);
    loop {
        let Some(name) = steps.next_last()? else {
            return Ok((steps.into_top()?, None));
        };
        if !steps.expand(&name)? {
            return Ok((steps.into_top()?, Some(name)));
        }
    }
}

/// Returns whether a name in a directory is a link, without following it.
pub(crate) fn kind_of(directory: BorrowedFd<'_>, name: &OsStr) -> Result<FileType, Errno> {
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

/// A resolution under way.
struct Steps<'a> {
    start: BorrowedFd<'a>,
    /// The directories below the start that are open, outermost first.
    open: Vec<OwnedFd>,
    /// Components still to take, the next one last.
    pending: Vec<Vec<u8>>,
    links: Links,
    links_left: usize,
    parents: Parents,
}

impl<'a> Steps<'a> {
    fn new(start: BorrowedFd<'a>, path: &str, links: Links, parents: Parents) -> Self {
        let mut steps = Self {
            start,
            open: Vec::new(),
            pending: Vec::new(),
            links,
            links_left: MAX_LINKS,
            parents,
        };
        steps.push(path.as_bytes());
        steps
    }

    fn push(&mut self, path: &[u8]) {
        let components = path.split(|&byte| byte == b'/').rev();
        self.pending.extend(
            components
                .filter(|name| !name.is_empty() && *name != b".")
                .map(<[u8]>::to_vec),
        );
    }

    fn top(&self) -> BorrowedFd<'_> {
        self.open.last().map_or(self.start, AsFd::as_fd)
    }

    fn into_top(mut self) -> Result<OwnedFd, Errno> {
        match self.open.pop() {
            Some(directory) => Ok(directory),
            None => Ok(rustix::io::fcntl_dupfd_cloexec(self.start, 0)?),
        }
    }

    /// Enters directories until one component remains, and returns that, unopened. `None` when the path ended on a
    /// directory.
    fn next_last(&mut self) -> Result<Option<Vec<u8>>, Errno> {
        while let Some(name) = self.pending.pop() {
            if name == b".." {
                // Back to the directory we came through, which is still open. Above the start there is nothing.
                if self.open.pop().is_none() {
                    return Err(Errno::XDEV);
                }
            } else if self.pending.is_empty() {
                return Ok(Some(name));
            } else {
                self.enter(&name)?;
            }
        }
        Ok(None)
    }

    fn enter(&mut self, name: &[u8]) -> Result<(), Errno> {
        if self.open.len() == MAX_DEPTH {
            return Err(Errno::NAMETOOLONG);
        }
        let os_name = OsStr::from_bytes(name);
        let mut opened = self.open_directory(os_name);
        if matches!(opened, Err(Errno::NOENT)) && self.parents == Parents::Create {
            // Somebody else may make it first; either way it is there afterwards.
            match rustix::fs::mkdirat(self.top(), os_name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
            opened = self.open_directory(os_name);
        }
        match opened {
            Ok(directory) => {
                self.open.push(directory);
                Ok(())
            }
            Err(error @ (Errno::LOOP | Errno::MLINK | Errno::NOTDIR)) => match self.expand(name)? {
                true => Ok(()),
                false => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    fn open_directory(&self, name: &OsStr) -> Result<OwnedFd, Errno> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Passing through needs no right to list.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let flags = flags | OFlags::PATH;
        retry(|| rustix::fs::openat(self.top(), name, flags, Mode::empty()))
    }

    /// Puts a link's text in front of what remains. Returns false when the name is no link.
    fn expand(&mut self, name: &[u8]) -> Result<bool, Errno> {
        let target = match rustix::fs::readlinkat(self.top(), OsStr::from_bytes(name), Vec::new()) {
            Ok(target) => target,
            Err(Errno::INVAL | Errno::NOENT) => return Ok(false),
            Err(error) => return Err(error),
        };
        let target = target.as_bytes();
        if self.links == Links::Refuse || self.links_left == 0 {
            return Err(Errno::LOOP);
        }
        self.links_left -= 1;
        if target.starts_with(b"/") {
            return Err(Errno::XDEV);
        }
        self.push(target);
        Ok(true)
    }
}

fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}
