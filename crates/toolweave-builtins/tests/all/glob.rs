//! `glob`.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use serde_json::json;

use crate::support::Fixture;

fn fixture() -> Fixture {
    let fixture = Fixture::new(&[
        (".gitignore", "target/\n*.log\n!keep.log\n"),
        (".github/workflows/ci.yml", ""),
        (".env", ""),
        ("Cargo.toml", ""),
        ("a-b/x.rs", ""),
        ("a.rs", ""),
        ("a/x.rs", ""),
        ("a0/x.rs", ""),
        ("keep.log", ""),
        ("src/main.rs", ""),
        ("src/deep/er/lib.rs", ""),
        ("src/deep/.gitignore", "/local.rs\n"),
        ("src/deep/local.rs", ""),
        ("src/deep/er/local.rs", ""),
        ("src/noise.log", ""),
        ("src/web.ts", ""),
        ("src/web.tsx", ""),
        ("target/debug/out.rs", ""),
    ]);
    fixture.put(".git/config", "");
    fixture.put(".git/info/exclude", "a0\n");
    fixture
}

#[tokio::test]
async fn patterns() {
    let fixture = fixture();
    let cases = [
        (json!({ "pattern": "*.rs" }), json!(["a.rs"])),
        (
            json!({ "pattern": "**/*.rs" }),
            json!([
                "a-b/x.rs",
                "a.rs",
                "a/x.rs",
                "src/deep/er/lib.rs",
                "src/deep/er/local.rs",
                "src/main.rs"
            ]),
        ),
        (
            json!({ "pattern": "./src/**/*.{ts,tsx}" }),
            json!(["src/web.ts", "src/web.tsx"]),
        ),
        (json!({ "pattern": "*.ts", "path": "src" }), json!(["src/web.ts"])),
        (
            json!({ "pattern": "*.ts", "path": "src/" }),
            json!(["src/web.ts"]),
        ),
        (json!({ "pattern": "src/main.rs" }), json!(["src/main.rs"])),
        (
            json!({ "pattern": "src/deep/" }),
            json!(["src/deep/er/lib.rs", "src/deep/er/local.rs"]),
        ),
        (json!({ "pattern": "**/*.log" }), json!(["keep.log"])),
        (json!({ "pattern": "{a,a0}/?.rs" }), json!(["a/x.rs"])),
        (json!({ "pattern": "[ab]*.rs" }), json!(["a.rs"])),
        (
            json!({ "pattern": "*" }),
            json!(["Cargo.toml", "a.rs", "keep.log"]),
        ),
        // Hidden names: by option, or because the pattern says so. `.git` never.
        (
            json!({ "pattern": "*", "hidden": true }),
            json!([".env", ".gitignore", "Cargo.toml", "a.rs", "keep.log"]),
        ),
        (json!({ "pattern": "**/*.yml" }), json!([])),
        (
            json!({ "pattern": ".github/**/*.yml" }),
            json!([".github/workflows/ci.yml"]),
        ),
        (json!({ "pattern": "**/.env" }), json!([".env"])),
        (
            json!({ "pattern": "**/config", "hidden": true, "ignored": true }),
            json!([]),
        ),
        // Ignored names: by option, or because the pattern begins with the folder.
        (
            json!({ "pattern": "**/*.rs", "ignored": true, "path": "src" }),
            json!([
                "src/deep/er/lib.rs",
                "src/deep/er/local.rs",
                "src/deep/local.rs",
                "src/main.rs"
            ]),
        ),
        (
            json!({ "pattern": "target/**/*.rs" }),
            json!(["target/debug/out.rs"]),
        ),
        (json!({ "pattern": "*.rs", "path": "src/deep" }), json!([])),
        (json!({ "pattern": "nowhere/**" }), json!([])),
        (json!({ "pattern": "a.rs/**" }), json!([])),
    ];
    for tools in fixture.both() {
        for (arguments, expected) in &cases {
            let total = expected.as_array().unwrap().len();
            assert_eq!(
                tools.value("glob", arguments.clone()).await,
                json!({ "paths": expected, "total": total, "truncated": false }),
                "{arguments}"
            );
        }
    }
}

#[tokio::test]
async fn more_than_the_limit_is_counted() {
    let fixture = fixture();
    let tools = fixture.tools();
    assert_eq!(
        tools
            .value("glob", json!({ "pattern": "**/*.rs", "limit": 2 }))
            .await,
        json!({ "paths": ["a-b/x.rs", "a.rs"], "total": 6, "truncated": true })
    );
    assert_eq!(
        tools
            .shown("glob", json!({ "pattern": "**/*.rs", "limit": 2 }))
            .await,
        "a-b/x.rs\na.rs\n(2 of 6 files; narrow the pattern)"
    );
    assert_eq!(
        tools.shown("glob", json!({ "pattern": "src/*.ts" })).await,
        "src/web.ts"
    );
    assert_eq!(
        tools.shown("glob", json!({ "pattern": "*.py" })).await,
        "no file matches `*.py`"
    );
}

#[tokio::test]
async fn bad_patterns_and_folders() {
    let fixture = fixture();
    let tools = fixture.tools();
    let long = "a".repeat(1_001);
    let nested = format!("{}a{}", "{a,".repeat(240), "}".repeat(240));
    let cases = [
        (json!({ "pattern": "" }), "INVALID_ARGS: the pattern is empty"),
        (
            json!({ "pattern": long }),
            "INVALID_ARGS: the pattern is too long: 1001 bytes > 1000",
        ),
        (
            json!({ "pattern": "a\0" }),
            "INVALID_ARGS: the pattern contains a NUL character",
        ),
        (
            json!({ "pattern": "src/[a" }),
            "INVALID_ARGS: the pattern `[a` is not a glob: unclosed character class; missing ']'",
        ),
        (
            json!({ "pattern": "*", "path": "scr" }),
            "TOOL_FAILED: `scr` does not exist; the nearest name is `src`",
        ),
        (
            json!({ "pattern": "*", "path": "a.rs" }),
            "TOOL_FAILED: `a.rs` is not a folder, or a part of it that should be one is not",
        ),
        (
            json!({ "pattern": "x/**", "path": "scr" }),
            "TOOL_FAILED: `scr` does not exist; the nearest name is `src`",
        ),
    ];
    for (arguments, expected) in cases {
        assert_eq!(tools.error("glob", arguments).await, expected);
    }
    assert!(
        tools
            .error("glob", json!({ "pattern": nested }))
            .await
            .contains("not a glob")
    );
}

#[tokio::test]
async fn strange_names_do_not_stop_a_walk() {
    let fixture = Fixture::new(&[("a", ""), ("z", "")]);
    fs::write(fixture.path("").join(std::ffi::OsStr::from_bytes(b"bad\xff")), "").unwrap();
    fixture.put(".gitignore", b"\xff\xfe[\n{{{\n");
    let deep = "d/".repeat(150);
    fs::create_dir_all(fixture.path(&deep)).unwrap();
    fs::write(fixture.path(&deep).join("f"), "").unwrap();
    for tools in fixture.both() {
        assert_eq!(
            tools.value("glob", json!({ "pattern": "**" })).await,
            json!({ "paths": ["a", "z"], "total": 2, "truncated": false })
        );
        let skipped = tools.value("grep", json!({ "pattern": "x" })).await["filesSkipped"].clone();
        assert_eq!(skipped, 2);
    }
}

/// The order is that of the whole path's bytes, wherever the walk happens to be.
#[tokio::test]
async fn paths_are_sorted_as_text() {
    let fixture = Fixture::new(&[
        ("b", ""),
        ("a/b", ""),
        ("a.x", ""),
        ("a-x/y", ""),
        ("a0", ""),
        ("é", ""),
        ("Z", ""),
    ]);
    let paths = fixture.tools().value("glob", json!({ "pattern": "**" })).await["paths"].clone();
    let paths: Vec<String> = serde_json::from_value(paths).unwrap();
    let mut sorted = paths.clone();
    sorted.sort();
    assert_eq!((paths.len(), paths), (7, sorted));
}
