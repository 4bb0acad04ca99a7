//! Which compiler is used. Knows how packages lay it out on disk; starts nothing.

use std::ffi::OsStr;
use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::limits::MAX_PACKAGE_BYTES;

/// How to get a compiler that can be used.
pub const INSTALL: &str = "install TypeScript 7 or later (`npm install --global typescript`)";

/// The first version whose compiler can stay warm.
const FIRST_USABLE: Version = Version {
    major: 7,
    minor: 0,
    patch: 0,
};

/// A version of TypeScript.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Changes with the kind of compiler.
    pub major: u32,
    /// Counts releases.
    pub minor: u32,
    /// Counts fixes.
    pub patch: u32,
}

/// A compiler on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiler {
    /// As it was found or named.
    path: PathBuf,
    /// The file that the path leads to.
    real: PathBuf,
    /// The program proper, which needs no Node.
    native: Option<PathBuf>,
    /// Where the package says so.
    version: Option<Version>,
}

/// The outcome of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// One that can be used, as far as is known without starting it.
    Compiler(Compiler),
    /// Only ones that are too old.
    TooOld(Compiler),
    /// None.
    Nothing,
}

impl Compiler {
    /// Looks for `tsc` in the folders of a `PATH` value. Relative folders are left out: what they hold depends on where
    /// this was started, and somebody else may have put it there.
    pub fn find(path: &OsStr) -> Found {
        let mut too_old = None;
        for folder in std::env::split_paths(path).filter(|folder| folder.is_absolute()) {
            for name in NAMES {
                let Some(compiler) = Self::at(&folder.join(name)) else {
                    continue;
                };
                if compiler.is_too_old() {
                    too_old.get_or_insert(compiler);
                } else {
                    return Found::Compiler(compiler);
                }
            }
        }
        too_old.map_or(Found::Nothing, Found::TooOld)
    }

    /// Takes the compiler at a path. Returns nothing where no file is.
    pub fn at(path: &Path) -> Option<Self> {
        let real = path.canonicalize().ok()?;
        if !real.is_file() {
            return None;
        }
        let package = packages(path, &real).into_iter().find_map(|folder| {
            let package = Package::read(&folder)?;
            Some((folder, package))
        });
        let Some((folder, package)) = package else {
            return Some(Self {
                path: path.to_owned(),
                real,
                native: None,
                version: None,
            });
        };
        Some(Self {
            path: path.to_owned(),
            real,
            native: native(&folder),
            version: Version::parse(&package.version),
        })
    }

    /// Returns the path by which it was found or named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what is started.
    pub fn program(&self) -> &Path {
        self.native.as_deref().unwrap_or(&self.real)
    }

    /// Returns the version, where the package says one.
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// Says whether a script is started, which has to find its interpreter.
    pub fn is_script(&self) -> bool {
        self.native.is_none()
    }

    /// Says whether this is surely too old.
    pub fn is_too_old(&self) -> bool {
        self.version.is_some_and(|version| !version.is_usable())
    }
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Some(version) => write!(f, "TypeScript {version} at {}", self.path.display()),
            None => write!(f, "{} (version unknown until it is started)", self.path.display()),
        }
    }
}

impl Found {
    /// Describes the outcome for a person, with what to do where nothing can be used.
    pub fn describe(&self) -> String {
        match self {
            Self::Compiler(compiler) => compiler.to_string(),
            Self::TooOld(compiler) => format!("{compiler} is too old; {INSTALL}"),
            Self::Nothing => format!("no `tsc` on PATH; {INSTALL}"),
        }
    }

    /// Returns the compiler, if it can be used.
    pub fn usable(self) -> Option<Compiler> {
        match self {
            Self::Compiler(compiler) => Some(compiler),
            Self::TooOld(_) | Self::Nothing => None,
        }
    }
}

impl Version {
    /// Reads `7.0.2`, `7.1.0-dev.20260101`, or the same after `Version `.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix("Version ").unwrap_or(text);
        let mut numbers = text.split(['.', '-', '+', ' ', '\n']);
        let mut next = || numbers.next()?.parse().ok();
        Some(Self {
            major: next()?,
            minor: next()?,
            patch: next().unwrap_or(0),
        })
    }

    /// Says whether this version's compiler can be used.
    pub fn is_usable(self) -> bool {
        self >= FIRST_USABLE
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

const NAMES: &[&str] = if cfg!(windows) {
    &["tsc.exe", "tsc.cmd"]
} else {
    &["tsc"]
};

/// The part of a `package.json` that matters here.
#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
}

impl Package {
    /// Reads the package of a folder, if it is TypeScript's.
    fn read(folder: &Path) -> Option<Self> {
        let file = std::fs::File::open(folder.join("package.json")).ok()?;
        let mut text = String::new();
        file.take(MAX_PACKAGE_BYTES).read_to_string(&mut text).ok()?;
        let package: Self = serde_json::from_str(&text).ok()?;
        let known = package.name == "typescript" || package.name.starts_with("@typescript/");
        known.then_some(package)
    }
}

/// Returns the folders in which the package of a `tsc` may be: the package that the file itself is in, and the places
/// where package managers put it beside the script that starts it.
fn packages(path: &Path, real: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    folders.extend(real.parent().and_then(Path::parent).map(Path::to_owned));
    if let Some(folder) = path.parent() {
        folders.push(folder.join("../typescript"));
        folders.push(folder.join("node_modules/typescript"));
        folders.push(folder.join("../lib/node_modules/typescript"));
    }
    folders
}

/// Returns the native compiler of a package: in it, or in the package for this system that is installed with it.
fn native(package: &Path) -> Option<PathBuf> {
    let file = if cfg!(windows) { "lib/tsc.exe" } else { "lib/tsc" };
    let own = package.join(file);
    if own.is_file() && !package.join("bin").is_dir() {
        return own.canonicalize().ok();
    }
    let name = format!("@typescript/typescript-{}-{}", system(), architecture());
    let package = package.canonicalize().ok()?;
    let beside = package.parent()?.join(&name).join(file);
    let within = package.join("node_modules").join(&name).join(file);
    [beside, within]
        .into_iter()
        .find(|path| path.is_file())?
        .canonicalize()
        .ok()
}

/// Returns the name of this system as Node has it.
fn system() -> &'static str {
    match std::env::consts::OS {
        "windows" => "win32",
        "macos" => "darwin",
        other => other,
    }
}

/// Returns the name of this processor as Node has it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        "x86" => "ia32",
        "powerpc64" => "ppc64",
        "loongarch64" => "loong64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_packages_and_compilers_write_them() {
        let version = |major, minor, patch| Some(Version { major, minor, patch });
        let cases = [
            ("7.0.2", version(7, 0, 2), true),
            ("Version 7.1.0-dev.20260101\n", version(7, 1, 0), true),
            ("5.9", version(5, 9, 0), false),
            ("6.0.1-beta", version(6, 0, 1), false),
            ("", None, false),
            ("Version x", None, false),
            ("99999999999.0.0", None, false),
        ];
        for (text, expected, usable) in cases {
            let parsed = Version::parse(text);
            assert_eq!(parsed, expected, "{text}");
            assert_eq!(parsed.is_some_and(Version::is_usable), usable, "{text}");
        }
    }
}
