//! Where a compiler is found.

#![cfg(unix)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use toolweave_typecheck::{Compiler, Found};

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a usable path")).expect("a usable path");
    std::fs::write(path, text).expect("a usable path");
}

/// Lays out a package as npm does; returns the folder that goes on `PATH`.
fn install(root: &Path, version: &str) -> PathBuf {
    let modules = root.join("lib/node_modules");
    write(
        &modules.join("typescript/package.json"),
        &format!(r#"{{"name":"typescript","version":"{version}"}}"#),
    );
    write(&modules.join("typescript/bin/tsc"), "#!/usr/bin/env node\n");
    let system = if cfg!(target_os = "macos") {
        "darwin"
    } else {
        "linux"
    };
    let processor = if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "x64"
    };
    write(
        &modules.join(format!("@typescript/typescript-{system}-{processor}/lib/tsc")),
        "native",
    );
    let folder = root.join("bin");
    std::fs::create_dir_all(&folder).expect("a usable path");
    std::os::unix::fs::symlink("../lib/node_modules/typescript/bin/tsc", folder.join("tsc"))
        .expect("a usable path");
    folder
}

fn path(folders: &[&Path]) -> OsString {
    std::env::join_paths(folders).expect("a usable path")
}

#[test]
fn the_native_program_is_found_behind_the_script() {
    let root = tempfile::tempdir().expect("a usable path");
    let folder = install(root.path(), "7.0.2");
    let Found::Compiler(compiler) = Compiler::find(&path(&[&folder])) else {
        panic!("it is there");
    };
    assert_eq!(compiler.path(), folder.join("tsc"));
    assert_eq!(
        std::fs::read_to_string(compiler.program()).expect("a usable path"),
        "native"
    );
    assert_eq!(
        compiler.version().map(|version| version.to_string()).as_deref(),
        Some("7.0.2")
    );
}

#[test]
fn a_version_that_is_too_old_is_passed_over_and_told() {
    let (old, new, empty) = (
        tempfile::tempdir().expect("a usable path"),
        tempfile::tempdir().expect("a usable path"),
        tempfile::tempdir().expect("a usable path"),
    );
    let (old, new) = (install(old.path(), "5.9.3"), install(new.path(), "7.1.0-dev"));
    let found = Compiler::find(&path(&[empty.path(), &old, &new]));
    assert_eq!(
        found.usable().map(|compiler| compiler.path().to_owned()),
        Some(new.join("tsc"))
    );
    let found = Compiler::find(&path(&[&old]));
    assert!(found.describe().contains("5.9.3"), "{}", found.describe());
    assert!(
        found.describe().contains("is too old; install TypeScript 7"),
        "{}",
        found.describe()
    );
    assert_eq!(found.usable(), None);
    let found = Compiler::find(&path(&[empty.path(), Path::new("relative"), Path::new("")]));
    assert_eq!(found, Found::Nothing);
    assert!(found.describe().starts_with("no `tsc` on PATH; install"));
}

#[test]
fn a_file_without_a_package_is_taken_as_it_is() {
    let root = tempfile::tempdir().expect("a usable path");
    assert_eq!(Compiler::at(&root.path().join("tsc")), None);
    write(&root.path().join("deep/down/tsc"), "#!/bin/sh\n");
    let compiler = Compiler::at(&root.path().join("deep/down/tsc")).expect("a usable path");
    assert_eq!(compiler.version(), None);
    assert!(!compiler.is_too_old());
}
