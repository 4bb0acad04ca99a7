//! `edit`.

use insta::assert_snapshot;
use serde_json::json;

use crate::support::Fixture;

const TEXT: &str = "fn one() {\n    call(1);\n}\n\nfn two() {\n    call(2);\n}\n";

#[tokio::test]
async fn one_place_is_replaced() {
    let fixture = Fixture::new(&[("a.rs", TEXT)]);
    let tools = fixture.tools();
    let arguments = json!({ "path": "a.rs", "old": "call(2)", "new": "other(2)" });
    let output = tools.call("edit", arguments).await.unwrap();
    assert_snapshot!(output.value["diff"].as_str().unwrap(), @r"
    --- a/a.rs
    +++ b/a.rs
    @@ -3,5 +3,5 @@
     }
     
     fn two() {
    -    call(2);
    +    other(2);
     }
    ");
    let value = &output.value;
    assert_eq!(
        json!([
            value["path"],
            value["replacements"],
            value["bytesBefore"],
            value["bytesAfter"],
            value["diffTruncated"]
        ]),
        json!(["a.rs", 1, TEXT.len(), TEXT.len() + 1, false])
    );
    assert_eq!(fixture.text("a.rs"), TEXT.replace("call(2)", "other(2)"));
}

#[tokio::test]
async fn every_place_is_replaced_when_asked() {
    let fixture = Fixture::new(&[("a.rs", TEXT), ("aaa", "aaaaa")]);
    let tools = fixture.tools();
    let value = tools
        .value(
            "edit",
            json!({ "path": "a.rs", "old": "call", "new": "", "replaceAll": true }),
        )
        .await;
    assert_eq!(value["replacements"], 2);
    assert_eq!(fixture.text("a.rs"), TEXT.replace("call", ""));
    let value = tools
        .value(
            "edit",
            json!({ "path": "aaa", "old": "aa", "new": "b", "replaceAll": true }),
        )
        .await;
    assert_eq!(
        (&value["replacements"], fixture.text("aaa")),
        (&json!(2), "bba".to_owned())
    );
}

#[tokio::test]
async fn a_failed_edit_explains_itself_and_changes_nothing() {
    let fixture = Fixture::new(&[("a.rs", TEXT), ("many", &"x\n".repeat(30))]);
    fixture.put("binary", b"a\0b");
    fixture.put("latin1", b"plain text here \xe9");
    let tools = fixture.tools();
    let mut errors = String::new();
    for (path, old, new) in [
        ("a.rs", "call", "x"),
        ("many", "x", "y"),
        ("a.rs", "fn two() {\n  call(2);\n}", "x"),
        ("a.rs", "\tcall(2);\n", "x"),
        ("a.rs", "fn two() {\n    call(3);\n}", "x"),
        ("a.rs", "fn three() {}", "x"),
        ("a.rs", "\n\n\n", "x"),
        ("a.rs", "", "x"),
        ("a.rs", "same", "same"),
        ("a.sr", "old", "new"),
        ("binary", "a", "b"),
        ("latin1", "a", "b"),
    ] {
        let error = tools
            .error("edit", json!({ "path": path, "old": old, "new": new }))
            .await;
        errors.push_str(&error);
        errors.push_str("\n---\n");
    }
    assert_snapshot!(errors, @r"
    TOOL_FAILED: `old` occurs 2 times in `a.rs`, in lines 2, 6: add lines around it until it is unique, or set `replaceAll`
    ---
    TOOL_FAILED: `old` occurs 30 times in `many`, in lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …: add lines around it until it is unique, or set `replaceAll`
    ---
    TOOL_FAILED: `old` is not in `a.rs`; what differs from it in white space only, at lines 5-7:
    fn two() {
        call(2);
    }
    ---
    TOOL_FAILED: `old` is not in `a.rs`; what differs from it in white space only, at line 6:
        call(2);
    ---
    TOOL_FAILED: `old` is not in `a.rs`: it differs from line 2 of its 3 on; the file has, at lines 5-7:
    fn two() {
        call(2);
    }
    ---
    TOOL_FAILED: `old` is not in `a.rs`, nor anything that differs in white space only: read the file again
    ---
    TOOL_FAILED: `old` is not in `a.rs`, nor anything that differs in white space only: read the file again
    ---
    TOOL_FAILED: `old` is empty: give the text to replace, or use `write` for the whole file
    ---
    TOOL_FAILED: `old` and `new` are the same: there is nothing to change
    ---
    TOOL_FAILED: `a.sr` does not exist; the nearest name is `a.rs`
    ---
    TOOL_FAILED: `binary` is not UTF-8 text: binary data
    ---
    TOOL_FAILED: `latin1` is not UTF-8 text and cannot be edited
    ---
    ");
    assert_eq!(fixture.text("a.rs"), TEXT);
}

#[tokio::test]
async fn line_ends_and_byte_order_marks_stay() {
    let fixture = Fixture::new(&[("crlf", "\u{feff}a\r\nb\r\nc\r\n"), ("mixed", "a\r\nb\nc\n")]);
    let tools = fixture.tools();
    tools
        .value(
            "edit",
            json!({ "path": "crlf", "old": "a\nb\n", "new": "x\ny\r\nz\n" }),
        )
        .await;
    assert_eq!(fixture.text("crlf"), "\u{feff}x\r\ny\r\nz\r\nc\r\n");
    tools
        .value("edit", json!({ "path": "mixed", "old": "b\nc", "new": "x\ny" }))
        .await;
    assert_eq!(fixture.text("mixed"), "a\r\nx\ny\n");
}

#[tokio::test]
async fn sizes_are_bounded_before_they_are_needed() {
    let fixture = Fixture::new(&[]);
    fixture.put("many", "x".repeat(1024 * 1024));
    fixture.put("large", "x".repeat(10 * 1024 * 1024 + 1));
    let tools = fixture.tools();
    let new = "y".repeat(1024 * 1024);
    assert_eq!(
        tools
            .error(
                "edit",
                json!({ "path": "many", "old": "x", "new": new, "replaceAll": true })
            )
            .await,
        "TOOL_FAILED: `many` would become too large: 1.0 TiB > 10.0 MiB"
    );
    assert_eq!(
        tools
            .error("edit", json!({ "path": "large", "old": "x", "new": "y" }))
            .await,
        "TOOL_FAILED: `large` is too large to edit: 10.0 MiB > 10.0 MiB"
    );
}

/// Explaining a text that is not there takes no time that grows with the square of the file.
#[tokio::test]
async fn a_repetitive_file_is_no_trap() {
    let fixture = Fixture::new(&[]);
    fixture.put("same", "a\n".repeat(2_000_000));
    let old = format!("{}b\n", "a \n".repeat(500_000));
    let started = std::time::Instant::now();
    let error = fixture
        .tools()
        .error("edit", json!({ "path": "same", "old": old, "new": "" }))
        .await;
    assert!(
        error.starts_with("TOOL_FAILED: `old` is not in `same`: it differs from line "),
        "{error}"
    );
    assert!(error.len() < 4_000);
    assert!(started.elapsed() < std::time::Duration::from_secs(30));
}

/// Edits of one file that overlap in time all take effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlapping_edits_lose_nothing() {
    let text: String = (0..40).map(|n| format!("<{n}>\n")).collect();
    let fixture = Fixture::new(&[("file", &text)]);
    let tools = fixture.tools();
    let edits = (0..40).map(|n| {
        let tools = tools.clone();
        tokio::spawn(async move {
            let arguments = json!({ "path": "file", "old": format!("<{n}>"), "new": format!("[{n}]") });
            tools.value("edit", arguments).await
        })
    });
    for edit in edits.collect::<Vec<_>>() {
        edit.await.unwrap();
    }
    assert_eq!(fixture.text("file"), text.replace('<', "[").replace('>', "]"));
}
