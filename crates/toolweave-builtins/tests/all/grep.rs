//! `grep`.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::Fixture;

fn fixture() -> Fixture {
    let fixture = Fixture::new(&[
        (".gitignore", "target\n"),
        (".hidden.rs", "needle\n"),
        ("a.rs", "one\ntwo needle\nthree\nfour\nneedle five needle\nsix\n"),
        ("crlf.txt", "x\r\nneedle\r\n"),
        ("src/lib.rs", "let a = (needle);\nNEEDLE"),
        ("src/web.ts", "héé needle\n"),
        ("target/out.rs", "needle\n"),
    ]);
    fixture.put("image.png", b"needle\n\0needle\n");
    fixture.put(
        "late.bin",
        [b"needle\n".repeat(20_000), b"\0\n".to_vec()].concat(),
    );
    fixture.put("latin1.txt", b"\xe9 needle \xe9\n");
    fixture
}

fn found(value: &Value) -> Vec<String> {
    let line = |m: &Value| {
        format!(
            "{}:{}:{}:{}",
            m["path"].as_str().unwrap(),
            m["line"],
            m["column"],
            m["text"].as_str().unwrap()
        )
    };
    value["matches"].as_array().unwrap().iter().map(line).collect()
}

#[tokio::test]
async fn lines_are_found() {
    let fixture = fixture();
    let cases: Vec<(Value, &[&str])> = vec![
        (
            json!({ "pattern": "needle" }),
            &[
                "a.rs:2:5:two needle",
                "a.rs:5:1:needle five needle",
                "crlf.txt:2:1:needle",
                "latin1.txt:1:3:\u{fffd} needle \u{fffd}",
                "src/lib.rs:1:10:let a = (needle);",
                "src/web.ts:1:5:héé needle",
            ],
        ),
        (
            json!({ "pattern": "NEEDLE$", "path": "src" }),
            &["src/lib.rs:2:1:NEEDLE"],
        ),
        (
            json!({ "pattern": "^needle$", "ignoreCase": true }),
            &["crlf.txt:2:1:needle", "src/lib.rs:2:1:NEEDLE"],
        ),
        (
            json!({ "pattern": "(needle", "literal": true }),
            &["src/lib.rs:1:9:let a = (needle);"],
        ),
        (
            json!({ "pattern": "needle", "glob": "*.rs", "path": "." }),
            &[
                "a.rs:2:5:two needle",
                "a.rs:5:1:needle five needle",
                "src/lib.rs:1:10:let a = (needle);",
            ],
        ),
        (
            json!({ "pattern": "needle", "glob": "src/*.ts" }),
            &["src/web.ts:1:5:héé needle"],
        ),
        (
            json!({ "pattern": "needle", "glob": "*.ts", "path": "src" }),
            &["src/web.ts:1:5:héé needle"],
        ),
        (
            json!({ "pattern": "needle", "path": "a.rs" }),
            &["a.rs:2:5:two needle", "a.rs:5:1:needle five needle"],
        ),
        (
            json!({ "pattern": "needle", "path": "a.rs", "glob": "*.ts" }),
            &[],
        ),
        (
            json!({ "pattern": "needle", "path": "target/out.rs" }),
            &["target/out.rs:1:1:needle"],
        ),
        (
            json!({ "pattern": "needle", "glob": ".*" }),
            &[".hidden.rs:1:1:needle"],
        ),
        (
            json!({ "pattern": "^needle", "glob": "*.rs", "hidden": true, "ignored": true }),
            &[
                ".hidden.rs:1:1:needle",
                "a.rs:5:1:needle five needle",
                "target/out.rs:1:1:needle",
            ],
        ),
        (json!({ "pattern": r"\d{3}" }), &[]),
        (json!({ "pattern": "é+" }), &["src/web.ts:1:2:héé needle"]),
    ];
    for tools in fixture.both() {
        for (arguments, expected) in &cases {
            let value = tools.value("grep", arguments.clone()).await;
            assert_eq!(found(&value), *expected, "{arguments}");
            assert_eq!(
                (&value["total"], &value["truncated"]),
                (&json!(expected.len()), &json!(false))
            );
        }
        let value = tools.value("grep", json!({ "pattern": "needle" })).await;
        assert_eq!(
            (&value["filesSearched"], &value["filesSkipped"]),
            (&json!(5), &json!(2))
        );
    }
}

#[tokio::test]
async fn lines_around_a_match() {
    let text: String = (1..=12)
        .map(|n| format!("{n}{}\n", if n % 4 == 1 { " hit" } else { "" }))
        .collect();
    let fixture = Fixture::new(&[("a", &text)]);
    let tools = fixture.tools();
    let around = |value: Value| -> Vec<Value> {
        let matches = value["matches"].as_array().unwrap().clone();
        matches
            .into_iter()
            .map(|m| json!([m["before"], m["line"], m["after"]]))
            .collect()
    };
    assert_eq!(
        around(
            tools
                .value(
                    "grep",
                    json!({ "pattern": "hit", "path": "a", "before": 2, "after": 1 })
                )
                .await
        ),
        [
            json!([[], 1, ["2"]]),
            json!([["3", "4"], 5, ["6"]]),
            json!([["7", "8"], 9, ["10"]])
        ]
    );
    assert_eq!(
        around(tools.value("grep", json!({ "pattern": "hit", "after": 5 })).await),
        [
            json!([null, 1, ["2", "3", "4", "5 hit", "6"]]),
            json!([null, 5, ["6", "7", "8", "9 hit", "10"]]),
            json!([null, 9, ["10", "11", "12"]]),
        ]
    );
    assert_eq!(
        around(
            tools
                .value("grep", json!({ "pattern": "hit", "before": 5, "limit": 2 }))
                .await
        ),
        [json!([[], 1, null]), json!([["1 hit", "2", "3", "4"], 5, null])]
    );
    // The last match that is returned has its lines after it, whatever they match.
    assert_eq!(
        around(
            tools
                .value("grep", json!({ "pattern": "hit", "after": 5, "limit": 1 }))
                .await
        ),
        [json!([null, 1, ["2", "3", "4", "5 hit", "6"]])]
    );
    let shown = tools
        .shown("grep", json!({ "pattern": "hit", "before": 1, "after": 1 }))
        .await;
    assert_snapshot!(shown, @r"
    a
    1: 1 hit
    2- 2
    4- 4
    5: 5 hit
    6- 6
    8- 8
    9: 9 hit
    10- 10
    (3 matching lines, 1 files searched)
    ");
}

#[tokio::test]
async fn more_than_the_limit_is_counted() {
    let fixture = fixture();
    let tools = fixture.tools();
    let value = tools
        .value("grep", json!({ "pattern": "needle", "limit": 1 }))
        .await;
    assert_eq!(found(&value), ["a.rs:2:5:two needle"]);
    assert_eq!((&value["total"], &value["truncated"]), (&json!(6), &json!(true)));
    assert_eq!(
        tools
            .shown("grep", json!({ "pattern": "needle", "limit": 1 }))
            .await,
        "a.rs\n2: two needle\n(1 of 6 matching lines; narrow the search)"
    );
    assert_eq!(
        tools.shown("grep", json!({ "pattern": "absent" })).await,
        "no match (5 files searched)"
    );
}

#[tokio::test]
async fn long_lines_are_cut_around_the_match() {
    let pad = "é".repeat(5_000);
    let fixture = Fixture::new(&[
        ("a", &format!("{pad}needle{pad}\n")),
        ("b", &format!("needle{pad}")),
    ]);
    fixture.put(
        "c",
        [vec![b'x'; 17 * 1024 * 1024], b"\nneedle\n".to_vec()].concat(),
    );
    let tools = fixture.tools();
    let value = tools
        .value("grep", json!({ "pattern": "needle", "maxLineLength": 40 }))
        .await;
    assert_eq!(
        found(&value),
        [
            format!("a:1:5001:…{}needle{}…", "é".repeat(5), "é".repeat(29)),
            format!("b:1:1:needle{}…", "é".repeat(34)),
        ]
    );
    assert_eq!(value["filesSkipped"], 1);
    let value = tools
        .value(
            "grep",
            json!({ "pattern": "needle", "maxLineLength": 10_000, "path": "b" }),
        )
        .await;
    assert_eq!(value["matches"][0]["text"], format!("needle{pad}"));
}

#[tokio::test]
async fn text_has_a_limit_in_all() {
    let fixture = Fixture::new(&[("a", &format!("{}\n", "x".repeat(9_000)).repeat(5_000))]);
    let value = fixture
        .tools()
        .value(
            "grep",
            json!({ "pattern": "x", "limit": 10_000, "maxLineLength": 10_000 }),
        )
        .await;
    let count = value["matches"].as_array().unwrap().len();
    assert_eq!(
        (&value["total"], &value["truncated"]),
        (&json!(5_000), &json!(true))
    );
    assert_eq!(count, (8 * 1024 * 1024_usize).div_ceil(9_001));
}

#[tokio::test]
async fn bad_patterns_show_where() {
    let fixture = fixture();
    let tools = fixture.tools();
    let mut errors = String::new();
    for pattern in [
        "",
        "a(b",
        "x{5,2}",
        "(?=look)",
        r"a\nb",
        r"(\w{1000}){1000}",
        "[z-a]",
    ] {
        errors.push_str(&tools.error("grep", json!({ "pattern": pattern })).await);
        errors.push_str("\n---\n");
    }
    assert_snapshot!(errors, @r"
    INVALID_ARGS: the pattern is empty
    ---
    INVALID_ARGS: cannot use the pattern as a regular expression (set `literal` to search for plain text): unclosed group, at character 2: `(`
    ---
    INVALID_ARGS: cannot use the pattern as a regular expression (set `literal` to search for plain text): invalid repetition count range, the start must be <= the end, at character 2: `{5,2}`
    ---
    INVALID_ARGS: cannot use the pattern as a regular expression (set `literal` to search for plain text): look-around, including look-ahead and look-behind, is not supported, at character 1: `(?=`
    ---
    INVALID_ARGS: the pattern has a line end in it, but matches are within one line: search for one of the lines and use `before` and `after`
    ---
    INVALID_ARGS: cannot use the pattern as a regular expression (set `literal` to search for plain text): compiled regex exceeds size limit of 10485760
    ---
    INVALID_ARGS: cannot use the pattern as a regular expression (set `literal` to search for plain text): invalid character class range, the start must be <= the end, at character 2: `z-a`
    ---
    ");
    let long = "a".repeat(10_001);
    assert_eq!(
        tools.error("grep", json!({ "pattern": long })).await,
        "INVALID_ARGS: the pattern is too long: 10001 bytes > 10000"
    );
    let nested = format!("{}{}", "(".repeat(4_000), ")".repeat(4_000));
    assert!(
        tools
            .error("grep", json!({ "pattern": nested }))
            .await
            .starts_with("INVALID_ARGS")
    );
}

/// The engine takes time in proportion to the text, whatever the pattern.
#[tokio::test]
async fn no_pattern_is_a_trap() {
    let fixture = Fixture::new(&[("a", &"a".repeat(100_000))]);
    let started = std::time::Instant::now();
    let value = fixture
        .tools()
        .value("grep", json!({ "pattern": "(a*)*b" }))
        .await;
    assert_eq!(value["total"], 0);
    assert!(started.elapsed() < std::time::Duration::from_secs(30));
}
