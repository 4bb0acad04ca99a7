//! Replacing a file as a whole: the new content is complete under another name before it takes the old one's place.
//!
//! Whatever fails on the way, the old file is still there, whole. A power cut right after may lose the new content:
//! nothing waits for the disk.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;

use crate::beneath::{Parents, locate};
use crate::root::{RelPath, Root, RootError, error, os_name, regular};

/// How many names are tried for the temporary file.
const MAX_NAMES: usize = 16;

/// A name in a directory below the root, where a file is or will be.
pub(crate) struct Slot {
    directory: OwnedFd,
    name: Vec<u8>,
    path: String,
}

/// A file that a slot already holds.
pub(crate) struct Existing {
    pub(crate) file: File,
    pub(crate) stat: Stat,
}

impl Root {
    /// Finds where a file is or will be. A link at the end is followed, so that its target is replaced.
    pub(crate) fn slot(&self, path: &RelPath, parents: Parents) -> Result<Slot, RootError> {
        match locate(self.directory(), path.as_str(), parents) {
            Ok((directory, Some(name))) => Ok(Slot {
                directory,
                name,
                path: path.to_string(),
            }),
            Ok((_, None)) => Err(RootError::IsDirectory {
                path: path.to_string(),
            }),
            Err(errno) => Err(self.error(path, errno)),
        }
    }
}

impl Slot {
    /// Opens the file that is there, checking that it may be written.
    pub(crate) fn existing(&self) -> Result<Option<Existing>, RootError> {
        let open = |mode: OFlags| {
            let flags = mode | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(&self.directory, os_name(&self.name), flags, Mode::empty())
        };
        let opened = match open(OFlags::RDWR) {
            // A program that is running cannot be written to, but can be replaced.
            Err(Errno::TXTBSY) => open(OFlags::RDONLY),
            other => other,
        };
        let file = match opened {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(error(&self.path, errno)),
        };
        let stat = rustix::fs::fstat(&file).map_err(|errno| error(&self.path, errno))?;
        regular(&self.path, &stat)?;
        Ok(Some(Existing {
            file: File::from(file),
            stat,
        }))
    }

    /// Fails when the name no longer stands for the file as it was opened.
    pub(crate) fn unchanged(&self, before: &Stat) -> Result<(), RootError> {
        let now = rustix::fs::statat(&self.directory, os_name(&self.name), AtFlags::SYMLINK_NOFOLLOW);
        match now {
            Ok(now) if same(&now, before) => Ok(()),
            Ok(_) | Err(Errno::NOENT) => Err(RootError::Changed {
                path: self.path.clone(),
            }),
            Err(errno) => Err(error(&self.path, errno)),
        }
    }

    /// Puts new content in place of the old, with the permissions of the file that was there.
    pub(crate) fn replace(&self, content: &[u8], before: Option<&Stat>) -> Result<(), RootError> {
        let fail = |errno: Errno| error(&self.path, errno);
        let (mut file, temporary) = self.temporary().map_err(fail)?;
        let written = file
            .write_all(content)
            .map_err(|source| RootError::Io {
                path: self.path.clone(),
                source,
            })
            .and_then(|()| {
                if let Some(before) = before {
                    keep_attributes(&file, before).map_err(fail)?;
                }
                rustix::fs::renameat(&self.directory, &temporary, &self.directory, os_name(&self.name))
                    .map_err(fail)
            });
        if written.is_err() {
            // Nothing more can be done when this fails too; the first error is the one to tell.
            let _ = rustix::fs::unlinkat(&self.directory, &temporary, AtFlags::empty());
        }
        written
    }

    fn temporary(&self) -> Result<(File, String), Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..MAX_NAMES {
            let name = format!(".toolweave-{:016x}.tmp", RandomState::new().hash_one(0));
            match rustix::fs::openat(&self.directory, &name, flags, Mode::from_raw_mode(0o666)) {
                Ok(file) => return Ok((File::from(file), name)),
                Err(Errno::EXIST | Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::EXIST)
    }
}

fn keep_attributes(file: &File, before: &Stat) -> Result<(), Errno> {
    let fresh = rustix::fs::fstat(file)?;
    if (fresh.st_uid, fresh.st_gid) != (before.st_uid, before.st_gid) {
        // Only a privileged process may give files away; for others the file becomes their own.
        let _ = rustix::fs::fchown(
            file.as_fd(),
            Some(Uid::from_raw(before.st_uid)),
            Some(Gid::from_raw(before.st_gid)),
        );
    }
    // The bits that change who a program runs as do not survive new content, as with any write.
    rustix::fs::fchmod(
        file,
        Mode::from_raw_mode(before.st_mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO),
    )
}

fn same(a: &Stat, b: &Stat) -> bool {
    (a.st_dev, a.st_ino, a.st_size, a.st_mtime, a.st_mtime_nsec)
        == (b.st_dev, b.st_ino, b.st_size, b.st_mtime, b.st_mtime_nsec)
}

/// Reads a file to its end, up to a size. `None` for a larger one.
pub(crate) fn read_all(file: &mut File, size_hint: u64, most: usize) -> io::Result<Option<Vec<u8>>> {
    use std::io::Read;

    if size_hint > most as u64 {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size_hint).unwrap_or(0));
    // One byte more than allowed tells a file that grew meanwhile.
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() <= most).then_some(bytes))
}
