//! Crates depend only downwards (ARCHITECTURE.md), and nothing is left out of the table.

use std::collections::BTreeMap;
use std::process::Command;

/// Every crate with what it may depend on besides itself. The order is the order of the levels.
const ARROWS: &[(&str, &[&str])] = &[
    ("toolweave-runtime", &[]),
    ("toolweave-sandbox", &[]),
    ("toolweave-program", &[]),
    ("toolweave-codegen", &[]),
    ("toolweave-session", &[]),
    ("toolweave-typecheck", &[]),
    ("toolweave-testkit", &[]),
    (
        "toolweave-tools",
        &[
            "toolweave-codegen",
            "toolweave-program",
            "toolweave-runtime",
            "toolweave-session",
            "toolweave-typecheck",
        ],
    ),
    ("toolweave-quickjs", &["toolweave-runtime", "toolweave-sandbox"]),
    ("toolweave-node", &["toolweave-runtime", "toolweave-sandbox"]),
    ("toolweave-mcp", &["toolweave-tools"]),
    ("toolweave-builtins", &["toolweave-sandbox", "toolweave-tools"]),
    (
        "toolweave",
        &[
            "toolweave-builtins",
            "toolweave-codegen",
            "toolweave-mcp",
            "toolweave-node",
            "toolweave-program",
            "toolweave-quickjs",
            "toolweave-runtime",
            "toolweave-sandbox",
            "toolweave-session",
            "toolweave-tools",
            "toolweave-typecheck",
        ],
    ),
];

#[test]
fn arrows_point_down() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let allowed: BTreeMap<_, _> = ARROWS.iter().copied().collect();
    let mut wrong = Vec::new();
    let mut seen = Vec::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        seen.push(name.to_owned());
        let Some(arrows) = allowed.get(name) else {
            wrong.push(format!("{name} is not in the table"));
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let to = dependency["name"].as_str().expect("a name");
            // Tests may look anywhere; what is shipped may not.
            let shipped = dependency["kind"].is_null();
            if shipped && to.starts_with("toolweave") && !arrows.contains(&to) {
                wrong.push(format!("{name} -> {to}"));
            }
        }
    }
    for (name, _) in ARROWS {
        if !seen.iter().any(|seen| seen == name) {
            wrong.push(format!("{name} is in the table and not in the workspace"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_table_itself_has_no_cycle() {
    let mut below: Vec<&str> = Vec::new();
    for (name, arrows) in ARROWS {
        for arrow in *arrows {
            assert!(below.contains(arrow), "{name} -> {arrow} does not point down");
        }
        below.push(name);
    }
}
