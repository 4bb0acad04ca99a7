//! Every program of the shared corpus prepares, or is refused as its sidecar says.

use std::path::{Path, PathBuf};

use serde_json::Value;
use toolweave_program::{ErrorKind, prepare};

#[expect(clippy::print_stderr, reason = "says that nothing was tested")]
fn corpus() -> Option<Vec<PathBuf>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/programs");
    let Ok(entries) = std::fs::read_dir(&dir) else {
        eprintln!("skipped: ../shared is not here");
        return None;
    };
    let paths = entries.map(|entry| entry.expect("readable").path());
    let mut paths: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|ext| ext == "ts"))
        .collect();
    paths.sort();
    Some(paths)
}

#[test]
fn programs_are_prepared_or_refused_as_expected() {
    let Some(paths) = corpus() else { return };
    let mut refused = Vec::new();
    for path in paths {
        let text = String::from_utf8(std::fs::read(&path).expect("readable")).expect("UTF-8");
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let sidecar = std::fs::read_to_string(path.with_extension("json")).expect("a sidecar");
        let expect = serde_json::from_str::<Value>(&sidecar).expect("JSON")["expect"].clone();
        match prepare(&text) {
            Ok(prepared) => {
                if !prepared.is_transformed() {
                    let lines = |text: &str| text.lines().count();
                    let trimmed = text.trim_end_matches(|c| c != '\n');
                    assert!(lines(&prepared.javascript) <= lines(&text), "{name}");
                    assert!(lines(&prepared.javascript) + 6 >= lines(trimmed), "{name}");
                }
            }
            Err(error) => {
                assert_eq!(expect["ok"], false, "{name}: {error}");
                if let Some(line) = expect["line"].as_u64() {
                    assert_eq!(u64::from(error.line), line, "{name}: {error}");
                }
                let message = error.to_string().to_lowercase();
                let wanted = match &expect["message_contains"] {
                    Value::String(one) => vec![one.to_lowercase()],
                    Value::Array(many) => many
                        .iter()
                        .filter_map(Value::as_str)
                        .map(str::to_lowercase)
                        .collect(),
                    _ => Vec::new(),
                };
                assert!(
                    wanted.is_empty() || wanted.iter().any(|part| message.contains(part)),
                    "{name}: {error}"
                );
                refused.push((name, error.kind, error.line));
            }
        }
    }
    let expected = [
        ("034-decorator", ErrorKind::Decorator, 9),
        ("059-syntax-error", ErrorKind::Syntax, 2),
        ("100-import-node-module", ErrorKind::Import, 1),
        ("104-dynamic-import", ErrorKind::Import, 1),
        ("150-import-tool-namespace", ErrorKind::Import, 1),
    ];
    assert_eq!(
        refused,
        expected.map(|(name, kind, line)| (name.to_owned(), kind, line))
    );
}
