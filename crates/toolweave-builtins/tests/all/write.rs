//! `write`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use insta::assert_snapshot;
use serde_json::json;

use crate::support::{Fixture, is_root_user};

#[tokio::test]
async fn a_new_file_and_its_folders() {
    let fixture = Fixture::new(&[]);
    for (at, tools) in fixture.both().into_iter().enumerate() {
        let path = format!("new-{at}/deep/file.txt");
        assert_eq!(
            tools
                .value("write", json!({ "file_path": path, "content": "héllo\n" }))
                .await,
            json!({
                "path": path, "operation": "created", "bytesBefore": null, "bytesAfter": 7, "diff": null,
                "diffTruncated": false,
            })
        );
        assert_eq!(fixture.text(&path), "héllo\n");
        assert_eq!(
            fs::read_dir(fixture.path(&format!("new-{at}/deep")))
                .unwrap()
                .count(),
            1
        );
    }
}

#[tokio::test]
async fn an_old_file_is_replaced() {
    let fixture = Fixture::new(&[("a.txt", "one\ntwo\nthree\n")]);
    let tools = fixture.tools();
    let value = tools
        .value("write", json!({ "path": "./a.txt", "content": "one\n2\nthree" }))
        .await;
    assert_snapshot!(value["diff"].as_str().unwrap(), @r"
    --- a/a.txt
    +++ b/a.txt
    @@ -1,3 +1,3 @@
     one
    -two
    -three
    +2
    +three
    \ No newline at end of file
    ");
    assert_eq!(
        json!([
            value["path"],
            value["operation"],
            value["bytesBefore"],
            value["bytesAfter"]
        ]),
        json!(["a.txt", "replaced", 14, 11])
    );
    assert_eq!(fixture.text("a.txt"), "one\n2\nthree");
    assert_eq!(
        tools
            .shown("write", json!({ "path": "a.txt", "content": "one\n2\nthree" }))
            .await,
        "replaced `a.txt` (11 bytes): the content is the same as before"
    );
}

#[tokio::test]
async fn permissions_are_kept() {
    let fixture = Fixture::new(&[("run.sh", "#!/bin/sh\n")]);
    fs::set_permissions(fixture.path("run.sh"), fs::Permissions::from_mode(0o754)).unwrap();
    let tools = fixture.tools();
    tools
        .value(
            "write",
            json!({ "path": "run.sh", "content": "#!/bin/sh\necho\n" }),
        )
        .await;
    tools
        .value("edit", json!({ "path": "run.sh", "old": "echo", "new": "true" }))
        .await;
    assert_eq!(
        fs::metadata(fixture.path("run.sh")).unwrap().permissions().mode() & 0o7777,
        0o754
    );
}

#[tokio::test]
async fn diffs_are_bounded() {
    let before: String = (0..5_000).map(|n| format!("before {n}\n")).collect();
    let after: String = (0..5_000).map(|n| format!("after {n}\n")).collect();
    let fixture = Fixture::new(&[("many", &before)]);
    fixture.put("binary", b"\xff\x00");
    fixture.put("large", vec![b'\n'; 10 * 1024 * 1024 + 1]);
    let tools = fixture.tools();
    let value = tools
        .value("write", json!({ "path": "many", "content": after }))
        .await;
    let diff = value["diff"].as_str().unwrap();
    assert!(diff.len() <= 16 * 1024 && diff.ends_with('\n'), "{}", diff.len());
    assert_eq!(value["diffTruncated"], true);
    for path in ["binary", "large"] {
        let value = tools
            .value("write", json!({ "path": path, "content": "text" }))
            .await;
        assert_eq!(
            json!([value["operation"], value["diff"]]),
            json!(["replaced", null]),
            "{path}"
        );
    }
}

#[tokio::test]
async fn content_has_a_limit() {
    let fixture = Fixture::new(&[("a.txt", "old")]);
    let content = "x".repeat(10 * 1024 * 1024 + 1);
    assert_eq!(
        fixture
            .tools()
            .error("write", json!({ "path": "a.txt", "content": content }))
            .await,
        "TOOL_FAILED: the content for `a.txt` is too large: 10.0 MiB > 10.0 MiB"
    );
    assert_eq!(fixture.text("a.txt"), "old");
}

#[tokio::test]
async fn a_slash_at_the_end_names_a_folder() {
    let fixture = Fixture::new(&[]);
    assert_eq!(
        fixture
            .tools()
            .error("write", json!({ "path": "new/", "content": "" }))
            .await,
        "TOOL_FAILED: `new/` ends in a slash, and so names a folder: folders are made with the files in them"
    );
    assert!(!fixture.path("new").exists());
}

#[tokio::test]
async fn nothing_is_lost_when_writing_fails() {
    if is_root_user() {
        eprintln!("skipped: permissions do not bind this user");
        return;
    }
    let fixture = Fixture::new(&[("closed/a.txt", "old")]);
    fs::set_permissions(fixture.path("closed"), fs::Permissions::from_mode(0o555)).unwrap();
    let tools = fixture.tools();
    assert_eq!(
        tools
            .error("write", json!({ "path": "closed/a.txt", "content": "new" }))
            .await,
        "TOOL_FAILED: permission denied: `closed/a.txt`"
    );
    assert_eq!(fixture.text("closed/a.txt"), "old");
    fs::set_permissions(fixture.path("closed"), fs::Permissions::from_mode(0o755)).unwrap();
}

/// A reader meets the old content or the new one, never a part of either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_never_sees_half_a_file() {
    let fixture = Fixture::new(&[]);
    let contents = ["a".repeat(200_000), "b".repeat(300_000)];
    fixture.put("file", &contents[0]);
    let tools = fixture.tools();
    let writer = {
        let (tools, contents) = (tools.clone(), contents.clone());
        tokio::spawn(async move {
            for round in 0..50 {
                tools
                    .value("write", json!({ "path": "file", "content": contents[round % 2] }))
                    .await;
            }
        })
    };
    while !writer.is_finished() {
        let text = tools.value("read", json!({ "path": "file" })).await["text"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(contents.contains(&text), "{} bytes", text.len());
    }
    writer.await.unwrap();
    assert_eq!(fs::read_dir(fixture.path("")).unwrap().count(), 1);
}
