//! Walking a folder in a fixed order, leaving out what `.gitignore` and `.ignore` say.
//!
//! The rules are those of the `ignore` crate; the walk itself is ours, because that crate opens folders by path, and a
//! path can lead out of the root when somebody swaps a folder for a link. Here every folder and file is opened below
//! the descriptor that the walk started from, and no link is followed.
//!
//! Left out: git's global excludes and any rule file above the root, which the tools do not see.

use std::borrow::Cow;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{Dir, FileType};
use tokio_util::sync::CancellationToken;

use crate::beneath::{Links, MAX_DEPTH, kind_of};
use crate::replace::read_all;
use crate::root::{READ_DIRECTORY, READ_FILE, RelPath, Root, RootError, os_name, regular};

/// Most directory entries that one walk looks at.
pub(crate) const MAX_ENTRIES: u64 = 1_000_000;

/// Most bytes of one rule file; a larger one is left aside.
const MAX_RULES_BYTES: usize = 256 * 1024;

/// What a walk passes over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WalkOptions {
    /// Whether names that begin with a dot are visited. `.git` never is.
    pub(crate) hidden: bool,
    /// Whether files are visited that the rules leave out.
    pub(crate) ignored: bool,
}

/// How a walk went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walked {
    /// Folders that could not be listed, and names that are not UTF-8.
    pub(crate) skipped: u64,
    pub(crate) end: WalkEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkEnd {
    Complete,
    Cancelled,
    /// [`MAX_ENTRIES`] were looked at.
    TooMany,
}

/// A folder to walk.
pub(crate) struct Walk<'a> {
    root: &'a Root,
    start: RelPath,
    directory: OwnedFd,
    options: WalkOptions,
}

/// A regular file on the way.
pub(crate) struct Found<'a> {
    walk: &'a Walk<'a>,
    /// The path below the root.
    pub(crate) path: &'a str,
    /// The path below the folder that is walked.
    pub(crate) below: &'a str,
}

impl<'a> Walk<'a> {
    /// Prepares a walk. The start may be reached through links that stay in the root.
    pub(crate) fn new(root: &'a Root, start: RelPath, options: WalkOptions) -> Result<Self, RootError> {
        Ok(Self {
            directory: root.open_directory(&start)?,
            root,
            start,
            options,
        })
    }

    /// Visits every regular file in byte order of its path.
    pub(crate) fn run(&self, cancel: &CancellationToken, mut visit: impl FnMut(Found<'_>)) -> Walked {
        let mut skipped = 0;
        let mut seen = 0;
        let mut rules = self.rules_above();
        let mut stack = Vec::new();
        match self.list(String::new(), &mut rules, &mut seen, &mut skipped) {
            Some(folder) => stack.push(folder),
            None => skipped += 1,
        }
        while let Some(folder) = stack.last_mut() {
            if cancel.is_cancelled() {
                return Walked {
                    skipped,
                    end: WalkEnd::Cancelled,
                };
            }
            if seen > MAX_ENTRIES {
                return Walked {
                    skipped,
                    end: WalkEnd::TooMany,
                };
            }
            let Some(entry) = folder.entries.pop() else {
                rules.truncate(folder.rules_above);
                stack.pop();
                continue;
            };
            let below = join(&folder.below, entry.name());
            let path = self.start.join(&below);
            if !self.options.ignored && is_ignored(&rules, &path, entry.is_folder()) {
                continue;
            }
            if !entry.is_folder() {
                visit(Found {
                    walk: self,
                    path: &path,
                    below: &below,
                });
            } else if stack.len() >= MAX_DEPTH {
                skipped += 1;
            } else {
                match self.list(below, &mut rules, &mut seen, &mut skipped) {
                    Some(folder) => stack.push(folder),
                    None => skipped += 1,
                }
            }
        }
        Walked {
            skipped,
            end: WalkEnd::Complete,
        }
    }

    /// Reads a folder and its rules.
    fn list(
        &self,
        below: String,
        rules: &mut Vec<Rules>,
        seen: &mut u64,
        skipped: &mut u64,
    ) -> Option<Folder> {
        let path = if below.is_empty() { "." } else { &below };
        let resolver = self.root.resolver();
        let opened = resolver.open(self.directory.as_fd(), path, READ_DIRECTORY, Links::Refuse);
        let mut listing = Dir::new(opened.ok()?).ok()?;
        let mut entries = Vec::new();
        let mut has_rules = false;
        while let Some(entry) = listing.read() {
            let entry = entry.ok()?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b".." | b".git") {
                continue;
            }
            *seen += 1;
            if *seen > MAX_ENTRIES {
                break;
            }
            has_rules |= matches!(name, b".gitignore" | b".ignore");
            if name.starts_with(b".") && !self.options.hidden {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => kind_of(listing.fd().ok()?, os_name(name)).unwrap_or(FileType::Unknown),
                known => known,
            };
            let folder = match kind {
                FileType::Directory => true,
                FileType::RegularFile => false,
                _ => continue,
            };
            match std::str::from_utf8(name) {
                Ok(name) => entries.push(Entry::new(name, folder)),
                Err(_) => *skipped += 1,
            }
        }
        // Taken from the end.
        entries.sort_unstable_by(|a, b| b.cmp(a));
        let rules_above = rules.len();
        if !self.options.ignored && has_rules {
            let full = self.start.join(&below);
            rules.extend(self.rules_of(full.trim_end_matches('/')));
        }
        Some(Folder {
            below,
            entries,
            rules_above,
        })
    }

    /// Collects the rules of the folders from the root to the start, outermost first.
    fn rules_above(&self) -> Vec<Rules> {
        if self.options.ignored {
            return Vec::new();
        }
        let mut rules = Vec::new();
        let excludes = self.rule_file("", ".git/info/exclude");
        rules.extend(excludes.map(|excludes| Rules {
            ignore: None,
            git: Some(excludes),
        }));
        let mut folder = String::new();
        for name in self.start.components() {
            rules.extend(self.rules_of(&folder));
            folder = join(&folder, name);
        }
        rules
    }

    fn rules_of(&self, folder: &str) -> Option<Rules> {
        let rules = Rules {
            ignore: self.rule_file(folder, ".ignore"),
            git: self.rule_file(folder, ".gitignore"),
        };
        (rules.ignore.is_some() || rules.git.is_some()).then_some(rules)
    }

    /// Reads one file of rules. One that cannot be read or has no rule counts as absent, and so does a bad line.
    fn rule_file(&self, folder: &str, name: &str) -> Option<Gitignore> {
        let path = self.root.relative(&join(folder, name)).ok()?;
        let (mut file, stat) = self.root.open_file(&path).ok()?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let bytes = read_all(&mut file, size, MAX_RULES_BYTES).ok()??;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let mut builder = GitignoreBuilder::new(folder);
        for line in text.lines() {
            let _ = builder.add_line(None, line);
        }
        let rules = builder.build().ok()?;
        (!rules.is_empty()).then_some(rules)
    }
}

impl Found<'_> {
    /// Opens the file. It may have become something else since it was listed.
    pub(crate) fn open(&self) -> Result<File, RootError> {
        let resolver = self.walk.root.resolver();
        let opened = resolver.open(self.walk.directory.as_fd(), self.below, READ_FILE, Links::Refuse);
        let (stat, file) = opened
            .and_then(|file| Ok((rustix::fs::fstat(&file)?, file)))
            .map_err(|errno| crate::root::error(self.path, errno))?;
        regular(self.path, &stat)?;
        Ok(File::from(file))
    }
}

/// A folder that is being walked.
struct Folder {
    below: String,
    /// What is left to visit, the next one last.
    entries: Vec<Entry>,
    /// How many rules apply without this folder's own.
    rules_above: usize,
}

/// A name in a folder. A folder's name ends in a slash, so that comparing names orders whole paths.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Entry(Box<str>);

impl Entry {
    fn new(name: &str, folder: bool) -> Self {
        let name: Cow<'_, str> = if folder {
            format!("{name}/").into()
        } else {
            name.into()
        };
        Self(name.into())
    }

    fn name(&self) -> &str {
        self.0.strip_suffix('/').unwrap_or(&self.0)
    }

    fn is_folder(&self) -> bool {
        self.0.ends_with('/')
    }
}

/// The rules of one folder.
struct Rules {
    ignore: Option<Gitignore>,
    git: Option<Gitignore>,
}

/// Asks the innermost rules first, `.ignore` before `.gitignore`.
fn is_ignored(rules: &[Rules], path: &str, folder: bool) -> bool {
    let ask = |rules: &Option<Gitignore>| match rules.as_ref()?.matched(path, folder) {
        Match::None => None,
        Match::Ignore(_) => Some(true),
        Match::Whitelist(_) => Some(false),
    };
    let mut inner = rules.iter().rev();
    let by_ignore = inner.find_map(|rules| ask(&rules.ignore));
    by_ignore
        .or_else(|| rules.iter().rev().find_map(|rules| ask(&rules.git)))
        .unwrap_or(false)
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}
