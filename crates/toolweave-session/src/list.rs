//! Lists the sessions of a folder.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use crate::limits::{MAX_HEADER_BYTES, MAX_LISTED_SESSIONS};
use crate::{Error, Reader, SessionHeader, SessionId};

/// One log file of a folder.
#[derive(Debug)]
pub struct SessionEntry {
    /// The session's name, which is the file's.
    pub id: SessionId,
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// When the session was started, in milliseconds since 1970, and its header; or why these cannot be read.
    pub started: Result<(i64, SessionHeader), Error>,
}

/// Returns the sessions of a folder, oldest first; none where the folder does not exist. Files that are not logs by their
/// name are passed over, damaged logs are listed with what is wrong.
///
/// # Errors
/// When the folder cannot be read.
pub fn list_sessions(dir: &Path) -> Result<Vec<SessionEntry>, Error> {
    let files = match std::fs::read_dir(dir) {
        Ok(files) => files,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("list", dir, error)),
    };
    let mut found = Vec::new();
    for file in files {
        let path = file.map_err(|e| Error::io("list", dir, e))?.path();
        let id = match (path.extension(), path.file_stem().and_then(|stem| stem.to_str())) {
            (Some(extension), Some(stem)) if extension == "jsonl" => stem.parse::<SessionId>(),
            _ => continue,
        };
        if let Ok(id) = id {
            found.push((id, path));
        }
    }
    found.sort();
    let surplus = found.len().saturating_sub(MAX_LISTED_SESSIONS);
    let sessions = found.into_iter().skip(surplus).map(|(id, path)| {
        let bytes = std::fs::metadata(&path).map_or(0, |meta| meta.len());
        let started = read_start(&path);
        SessionEntry {
            id,
            path,
            bytes,
            started,
        }
    });
    Ok(sessions.collect())
}

fn read_start(path: &Path) -> Result<(i64, SessionHeader), Error> {
    let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
    let mut reader = Reader::new(BufReader::new(file.take(MAX_HEADER_BYTES as u64)))?;
    match reader.next() {
        Some(first) => Ok((first?.ts, reader.header().clone())),
        None => Err(Error::NoHeader),
    }
}
