//! The state folder: what Toolweave keeps for itself between runs, session logs aside.
//!
//! These are the shapes of results, one file for each version of a server. Several processes may use the folder at
//! once: files are replaced whole, under a lock, merged with what is there. Nothing here is worth a failed call, so
//! whatever goes wrong with a file is a warning.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use toolweave_tools::{Forget, Forgotten, Provider, Shape, ShapeStore};

use crate::terminal::Terminal;

/// What the files say that they are.
const FORMAT: &str = "toolweave-observed/1";
/// Where they are in the state folder.
const FOLDER: &str = "observed";
const LOCK_FILE: &str = ".lock";
/// The ending of a file that could not be read and was moved out of the way.
const ASIDE: &str = "aside";
/// The largest file that is written or read.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;
/// Bytes for what stands around the shapes of a file.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Files in the folder; a new one beyond that takes the place of the oldest.
const MAX_FILES: usize = 200;
/// Tools of one server that are remembered, and the longest name of one in bytes.
const MAX_TOOLS: usize = 2_000;
const MAX_TOOL_NAME: usize = 256;
/// Servers that are remembered in one process.
const MAX_PROVIDERS: usize = 1_000;
/// How long news is collected before it is written.
const WRITE_AFTER: Duration = Duration::from_secs(3);
/// How long another process may hold the lock before this one gives up.
const LOCK_WITHIN: Duration = Duration::from_secs(2);
const LOCK_POLL: Duration = Duration::from_millis(10);

/// Returns the state folder that the environment names; it need not exist.
pub(crate) fn folder(variable: impl Fn(&str) -> Option<String>, working_directory: &Path) -> Option<PathBuf> {
    let set = |name: &str| {
        variable(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(own) = set("TOOLWEAVE_HOME") {
        return Some(working_directory.join(own));
    }
    let base = set("XDG_STATE_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| Some(set("HOME")?.join(".local").join("state")))?;
    Some(base.join("toolweave"))
}

/// Shapes of results in files.
pub(crate) struct FileShapes {
    shared: Arc<Shared>,
}

struct Shared {
    folder: PathBuf,
    terminal: Terminal,
    memory: Mutex<Memory>,
    news: Condvar,
    /// Held while files are written, so that a later write waits for an earlier one.
    writing: Mutex<()>,
}

#[derive(Default)]
struct Memory {
    providers: BTreeMap<Key, Known>,
    news: bool,
    writer: bool,
    closed: bool,
    warned: bool,
}

/// Name and version of a provider.
type Key = (Arc<str>, Option<Arc<str>>);
type Shapes = BTreeMap<String, Shape>;

#[derive(Default)]
struct Known {
    read: bool,
    shapes: Shapes,
    /// What was seen here and stands in no file yet.
    fresh: Shapes,
}

/// One file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Stored {
    format: String,
    provider: Arc<str>,
    #[serde(default)]
    version: Option<Arc<str>>,
    tools: Shapes,
}

impl FileShapes {
    /// Uses a state folder. Nothing is read or made before it is needed.
    pub(crate) fn new(state: &Path, terminal: Terminal) -> Self {
        Self {
            shared: Arc::new(Shared {
                folder: state.join(FOLDER),
                terminal,
                memory: Mutex::default(),
                news: Condvar::new(),
                writing: Mutex::default(),
            }),
        }
    }

    /// Writes what is new, now and for the last time.
    pub(crate) fn close(&self) {
        self.shared.memory().closed = true;
        self.shared.news.notify_all();
        self.shared.write();
    }

    /// Returns the names of all tools that something is known of.
    pub(crate) fn tools(&self) -> Vec<String> {
        let files = self.shared.files();
        let stored = files.iter().filter_map(|path| read(path).ok().flatten());
        stored.flat_map(|stored| stored.tools.into_keys()).collect()
    }
}

impl Drop for FileShapes {
    fn drop(&mut self) {
        self.close();
    }
}

impl ShapeStore for FileShapes {
    fn load(&self, provider: &Provider, tool: &str) -> Option<Shape> {
        let key = key(provider);
        let read = self
            .shared
            .memory()
            .providers
            .get(&key)
            .is_some_and(|known| known.read);
        let on_disk = if read { None } else { Some(self.shared.read(&key)) };
        let mut memory = self.shared.memory();
        let known = memory.known(&key)?;
        if let Some(on_disk) = on_disk
            && !known.read
        {
            known.read = true;
            merge(&mut known.shapes, &on_disk);
        }
        known.shapes.get(tool).cloned()
    }

    fn observe(&self, provider: &Provider, tool: &str, shape: Shape) {
        let mut memory = self.shared.memory();
        let Some(known) = memory.known(&key(provider)) else {
            return;
        };
        if !add(&mut known.shapes, tool, &shape) || !add(&mut known.fresh, tool, &shape) {
            return;
        }
        memory.news = true;
        let start = !memory.writer && !memory.closed;
        memory.writer |= start;
        drop(memory);
        self.shared.news.notify_all();
        if start {
            let shared = Arc::clone(&self.shared);
            let started = thread::Builder::new()
                .name("observed".to_owned())
                .spawn(move || shared.write_now_and_then());
            if let Err(error) = started {
                tracing::warn!(%error, "what tools give is written at the end only");
            }
        }
    }

    fn forget(&self, what: &Forget) -> Vec<Forgotten> {
        let shared = &*self.shared;
        let _one = shared.writing.lock().unwrap_or_else(PoisonError::into_inner);
        for ((name, version), known) in &mut shared.memory().providers {
            let provider = Provider {
                name: Arc::clone(name),
                version: version.clone(),
            };
            known.shapes.retain(|tool, _| !what.concerns(&provider, tool));
            known.fresh.retain(|tool, _| !what.concerns(&provider, tool));
        }
        if !shared.folder.is_dir() {
            return Vec::new();
        }
        let outcome = shared.lock().and_then(|_lock| shared.forget_files(what));
        outcome.unwrap_or_else(|error| {
            shared.warn(&format!("{}: {error}", shared.folder.display()));
            Vec::new()
        })
    }
}

impl Shared {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Warns once: a folder that cannot be written cannot be written every few seconds.
    fn warn(&self, message: &str) {
        let warned = std::mem::replace(&mut self.memory().warned, true);
        if !warned {
            self.terminal.warning(message);
        }
    }

    fn write_now_and_then(&self) {
        loop {
            let memory = self.memory();
            let memory = self
                .news
                .wait_while(memory, |memory| !memory.news && !memory.closed)
                .unwrap_or_else(PoisonError::into_inner);
            let (memory, _) = self
                .news
                .wait_timeout_while(memory, WRITE_AFTER, |memory| !memory.closed)
                .unwrap_or_else(PoisonError::into_inner);
            if memory.closed {
                return;
            }
            drop(memory);
            self.write();
        }
    }

    fn write(&self) {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh: Vec<(Key, Shapes)> = {
            let mut memory = self.memory();
            memory.news = false;
            memory
                .providers
                .iter_mut()
                .filter(|(_, known)| !known.fresh.is_empty())
                .map(|(key, known)| (key.clone(), std::mem::take(&mut known.fresh)))
                .collect()
        };
        for (key, shapes) in fresh {
            let Err(error) = self.write_one(&key, &shapes) else {
                continue;
            };
            self.warn(&format!(
                "cannot keep what the tools of `{}` give: {}: {error}",
                key.0,
                self.folder.display()
            ));
            if let Some(known) = self.memory().known(&key) {
                merge(&mut known.fresh, &shapes);
            }
        }
    }

    /// Merges shapes into a file.
    fn write_one(&self, key: &Key, fresh: &Shapes) -> io::Result<()> {
        make_folder(&self.folder)?;
        let _lock = self.lock()?;
        let path = self.folder.join(file_name(key));
        let there = self.read_or_put_aside(&path, key);
        let is_new = there.is_none();
        let mut shapes = there.unwrap_or_default();
        if !merge(&mut shapes, fresh) && !is_new {
            return Ok(());
        }
        if is_new {
            self.make_room();
        }
        replace(&self.folder, &path, key, shapes)
    }

    /// Returns what the file of a provider says.
    fn read(&self, key: &Key) -> Shapes {
        let path = self.folder.join(file_name(key));
        match read(&path) {
            Ok(None) => return Shapes::new(),
            Ok(Some(stored)) if stored.is_of(key) => return stored.tools,
            Ok(Some(_)) | Err(_) => {}
        }
        // It may have been replaced by a good one since.
        match self.lock() {
            Ok(_lock) => self.read_or_put_aside(&path, key).unwrap_or_default(),
            Err(_) => Shapes::new(),
        }
    }

    /// Reads a file under the lock. One that cannot be used is moved out of the way.
    fn read_or_put_aside(&self, path: &Path, key: &Key) -> Option<Shapes> {
        let reason = match read(path) {
            Ok(None) => return None,
            Ok(Some(stored)) if stored.is_of(key) => return Some(stored.tools),
            Ok(Some(_)) => "it is about another server".to_owned(),
            Err(error) => error.to_string(),
        };
        let aside = path.with_extension(format!("json.{ASIDE}"));
        let kept = match fs::rename(path, &aside) {
            Ok(()) => format!("kept aside as {}", aside.display()),
            Err(error) => format!("it cannot be moved either: {error}"),
        };
        self.terminal
            .warning(&format!("{} is ignored: {reason}; {kept}", path.display()));
        None
    }

    fn forget_files(&self, what: &Forget) -> io::Result<Vec<Forgotten>> {
        let mut forgotten = Vec::new();
        for path in self.files() {
            let Ok(Some(mut stored)) = read(&path) else {
                if *what == Forget::All {
                    fs::remove_file(&path)?;
                }
                continue;
            };
            let provider = Provider {
                name: Arc::clone(&stored.provider),
                version: stored.version.clone(),
            };
            let before = forgotten.len();
            stored.tools.retain(|tool, _| {
                let gone = what.concerns(&provider, tool);
                if gone {
                    forgotten.push(Forgotten {
                        provider: provider.clone(),
                        tool: tool.clone(),
                    });
                }
                !gone
            });
            if stored.tools.is_empty() {
                fs::remove_file(&path)?;
            } else if forgotten.len() > before {
                replace(
                    &self.folder,
                    &path,
                    &(provider.name, provider.version),
                    stored.tools,
                )?;
            }
        }
        if *what == Forget::All {
            for path in entries(&self.folder) {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if name.ends_with(&format!(".{ASIDE}")) || name.ends_with(".tmp") {
                    fs::remove_file(&path)?;
                }
            }
        }
        Ok(forgotten)
    }

    /// Returns the files, in the order of their names.
    fn files(&self) -> Vec<PathBuf> {
        let mut files = entries(&self.folder);
        files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        files.sort();
        files
    }

    fn make_room(&self) {
        let mut files: Vec<(SystemTime, PathBuf)> = self
            .files()
            .into_iter()
            .map(|path| {
                let written = fs::metadata(&path).and_then(|about| about.modified());
                (written.unwrap_or(SystemTime::UNIX_EPOCH), path)
            })
            .collect();
        files.sort();
        let surplus = (files.len() + 1).saturating_sub(MAX_FILES);
        for (_, path) in files.into_iter().take(surplus) {
            let _ = fs::remove_file(path);
        }
    }

    /// Takes the lock that all processes share. Dropping the file releases it.
    fn lock(&self) -> io::Result<File> {
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.folder.join(LOCK_FILE))?;
        let since = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(fs::TryLockError::WouldBlock) if since.elapsed() < LOCK_WITHIN => {
                    thread::sleep(LOCK_POLL);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Memory {
    fn known(&mut self, key: &Key) -> Option<&mut Known> {
        if !self.providers.contains_key(key) && self.providers.len() >= MAX_PROVIDERS {
            return None;
        }
        Some(self.providers.entry(key.clone()).or_default())
    }
}

impl Stored {
    fn is_of(&self, (name, version): &Key) -> bool {
        self.provider == *name && self.version == *version
    }
}

/// Adds one shape, and returns whether that changed anything.
fn add(shapes: &mut Shapes, tool: &str, shape: &Shape) -> bool {
    if let Some(known) = shapes.get_mut(tool) {
        return known.merge(shape);
    }
    if shapes.len() >= MAX_TOOLS || tool.len() > MAX_TOOL_NAME {
        return false;
    }
    shapes.insert(tool.to_owned(), shape.clone());
    true
}

fn merge(shapes: &mut Shapes, more: &Shapes) -> bool {
    let mut changed = false;
    for (tool, shape) in more {
        changed |= add(shapes, tool, shape);
    }
    changed
}

fn key(provider: &Provider) -> Key {
    (Arc::clone(&provider.name), provider.version.clone())
}

/// Returns a name that tells a person what is inside, and is a plain file name whatever a server calls itself.
fn file_name((name, version): &Key) -> String {
    let plain = |text: &str, most: usize| -> String {
        text.chars()
            .take(most)
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect()
    };
    let version = version.as_deref().unwrap_or_default();
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in name.bytes().chain([0xff]).chain(version.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{}-{}-{hash:016x}.json", plain(name, 40), plain(version, 20))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// Reads a file; `None` when there is none.
fn read(path: &Path) -> io::Result<Option<Stored>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other(format!(
            "it is larger than {MAX_FILE_BYTES} bytes"
        )));
    }
    let stored: Stored = serde_json::from_slice(&text).map_err(io::Error::other)?;
    if stored.format != FORMAT {
        return Err(io::Error::other(format!("its format is not {FORMAT}")));
    }
    Ok(Some(stored))
}

/// Puts a file in the place of another in one step. Under the lock.
fn replace(folder: &Path, path: &Path, key: &Key, mut tools: Shapes) -> io::Result<()> {
    keep_small(&mut tools)?;
    let stored = Stored {
        format: FORMAT.to_owned(),
        provider: Arc::clone(&key.0),
        version: key.1.clone(),
        tools,
    };
    let text = serde_json::to_string(&stored).map_err(io::Error::other)?;
    // Made for its owner alone.
    let mut temporary = tempfile::Builder::new()
        .prefix(".")
        .suffix(".tmp")
        .tempfile_in(folder)?;
    temporary.write_all(text.as_bytes())?;
    temporary.as_file().sync_data()?;
    temporary.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Drops shapes until a file has room for all. The largest go first: they tell the least for what they take.
fn keep_small(tools: &mut Shapes) -> io::Result<()> {
    let mut sizes = Vec::with_capacity(tools.len());
    for (tool, shape) in &*tools {
        let text = serde_json::to_string(shape).map_err(io::Error::other)?;
        sizes.push((text.len() + tool.len() * 2 + 8, tool.clone()));
    }
    sizes.sort();
    let mut room = usize::try_from(MAX_FILE_BYTES).unwrap_or(usize::MAX) - MAX_HEAD_BYTES;
    for (size, tool) in sizes {
        match room.checked_sub(size) {
            Some(rest) => room = rest,
            None => {
                room = 0;
                tracing::warn!(tool, "what it gives is not kept: its server's file is full");
                tools.remove(&tool);
            }
        }
    }
    Ok(())
}

fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use super::{file_name, folder};

    #[test]
    fn the_folder_is_where_the_environment_says() {
        type Case<'t> = (&'t [(&'t str, &'t str)], Option<&'t str>);
        let cases: [Case<'_>; 6] = [
            (&[], None),
            (&[("HOME", "/h")], Some("/h/.local/state/toolweave")),
            (&[("HOME", "/h"), ("XDG_STATE_HOME", "/x")], Some("/x/toolweave")),
            (
                &[("HOME", "/h"), ("XDG_STATE_HOME", "relative")],
                Some("/h/.local/state/toolweave"),
            ),
            (
                &[
                    ("HOME", "/h"),
                    ("XDG_STATE_HOME", "/x"),
                    ("TOOLWEAVE_HOME", "/own"),
                ],
                Some("/own"),
            ),
            (&[("HOME", "/h"), ("TOOLWEAVE_HOME", "own")], Some("/w/own")),
        ];
        for (set, expected) in cases {
            let variable = |name: &str| {
                let found = set.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(
                folder(variable, Path::new("/w")),
                expected.map(PathBuf::from),
                "{set:?}"
            );
        }
    }

    #[test]
    fn file_names_are_plain_and_distinct() {
        let name = |name: &str, version: Option<&str>| file_name(&(Arc::from(name), version.map(Arc::from)));
        assert_eq!(
            name("../../etc/passwd", Some("1.0/../x"))
                .matches(['/', '.'])
                .count(),
            1
        );
        assert_ne!(name("a.b", None), name("a-b", None));
        assert_ne!(name("a", Some("1")), name("a", Some("2")));
        assert!(name(&"x".repeat(10_000), None).len() < 100);
    }
}
