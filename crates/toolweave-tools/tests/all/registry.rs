//! Who may register what, and who notices.

use std::sync::Arc;

use toolweave_tools::{Effect, Registry, RegistryError, Tool};

use crate::support::echo;

fn names(registry: &Registry) -> Vec<String> {
    registry
        .tools()
        .iter()
        .map(|tool| tool.spec().name.clone())
        .collect()
}

fn tools(names: &[&str]) -> Vec<Arc<dyn Tool>> {
    names.iter().map(|name| echo(name, Effect::Read)).collect()
}

#[test]
fn tools_live_as_long_as_their_registration() {
    let registry = Registry::new();
    let first = registry.register(tools(&["b", "a"])).unwrap();
    let second = registry.register(tools(&["c"])).unwrap();
    assert_eq!(names(&registry), ["a", "b", "c"]);
    drop(first);
    assert_eq!(names(&registry), ["c"]);
    assert!(registry.get("a").is_none());
    drop(second);
    assert_eq!(names(&registry), [""; 0]);
}

#[test]
fn a_refused_registration_changes_nothing() {
    let registry = Registry::new();
    let _kept = registry.register(tools(&["a"])).unwrap();
    for (wanted, error) in [
        (vec!["b", "run_code"], RegistryError::Reserved),
        (vec!["b", "a"], RegistryError::Duplicate("a".to_owned())),
        (vec!["b", "b"], RegistryError::Duplicate("b".to_owned())),
        (vec!["b", ""], RegistryError::Nameless),
    ] {
        assert_eq!(registry.register(tools(&wanted)).err(), Some(error), "{wanted:?}");
        assert_eq!(names(&registry), ["a"]);
    }
}

#[test]
fn names_are_ordered_as_javascript_compares_them() {
    let registry = Registry::new();
    // U+FF5A comes after the surrogates of U+1F980 in UTF-16, and before it in code points.
    let _kept = registry
        .register(tools(&["\u{ff5a}", "🦀", "z", "Z", "é"]))
        .unwrap();
    assert_eq!(names(&registry), ["Z", "z", "é", "🦀", "\u{ff5a}"]);
    for name in names(&registry) {
        assert!(registry.get(&name).is_some(), "{name}");
    }
}

#[test]
fn a_registration_replaces_its_own_tools_in_one_step() {
    let registry = Registry::new();
    let mut mine = registry.register(tools(&["a", "b"])).unwrap();
    let _other = registry.register(tools(&["x"])).unwrap();
    assert_eq!(
        mine.replace(tools(&["b", "x"])),
        Err(RegistryError::Duplicate("x".to_owned()))
    );
    assert_eq!(names(&registry), ["a", "b", "x"]);
    mine.replace(tools(&["b", "c"])).unwrap();
    assert_eq!(names(&registry), ["b", "c", "x"]);
    drop(mine);
    assert_eq!(names(&registry), ["x"]);
}

#[test]
fn every_change_is_seen() {
    let registry = Registry::new();
    let mut changes = registry.changes();
    assert!(!changes.has_changed().unwrap());
    let kept = registry.register(tools(&["a"])).unwrap();
    assert!(changes.has_changed().unwrap());
    assert_eq!(*changes.borrow_and_update(), registry.generation());
    let _ = registry.register(tools(&["a"])).err();
    assert!(
        !changes.has_changed().unwrap(),
        "a refused registration is no change"
    );
    drop(kept);
    assert!(changes.has_changed().unwrap());
}
