//! `read`.

use std::fs;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{Fixture, is_root_user};

fn numbered(lines: std::ops::RangeInclusive<usize>) -> String {
    lines.map(|n| format!("line {n}\n")).collect()
}

#[tokio::test]
async fn windows_of_lines() {
    let five = numbered(1..=5);
    let fixture = Fixture::new(&[
        ("five", &five),
        ("open", "a\nb"),
        ("empty", ""),
        ("one-end", "\n"),
        ("crlf", "a\r\nb\r\n"),
        ("bom", "\u{feff}{}\n"),
    ]);
    let value = |text: &str, offset: u64, count: u64, total: u64, truncated: bool, bytes: usize| {
        json!({
            "text": text, "offset": offset, "lineCount": count, "totalLines": total, "truncated": truncated,
            "bytes": bytes,
        })
    };
    let cases = [
        (json!({ "path": "five" }), value(&five, 1, 5, 5, false, 35)),
        (
            json!({ "file_path": "five", "limit": 2 }),
            value("line 1\nline 2\n", 1, 2, 5, true, 35),
        ),
        (
            json!({ "path": "five", "offset": 4 }),
            value("line 4\nline 5\n", 4, 2, 5, false, 35),
        ),
        (
            json!({ "path": "five", "offset": 2, "limit": 2.0 }),
            value("line 2\nline 3\n", 2, 2, 5, true, 35),
        ),
        (
            json!({ "path": "five", "offset": 5, "limit": 9 }),
            value("line 5\n", 5, 1, 5, false, 35),
        ),
        (
            json!({ "path": "five", "offset": 6 }),
            value("", 6, 0, 5, false, 35),
        ),
        (
            json!({ "path": "five", "offset": u64::MAX, "limit": u64::MAX }),
            value("", u64::MAX, 0, 5, false, 35),
        ),
        (json!({ "path": "open" }), value("a\nb", 1, 2, 2, false, 3)),
        (
            json!({ "path": "open", "offset": 2 }),
            value("b", 2, 1, 2, false, 3),
        ),
        (json!({ "path": "empty" }), value("", 1, 0, 0, false, 0)),
        (json!({ "path": "one-end" }), value("\n", 1, 1, 1, false, 1)),
        (
            json!({ "path": "crlf", "limit": 1 }),
            value("a\r\n", 1, 1, 2, true, 6),
        ),
        (json!({ "path": "bom" }), value("{}\n", 1, 1, 1, false, 6)),
    ];
    for tools in fixture.both() {
        for (arguments, mut expected) in cases.clone() {
            let path = arguments
                .get("path")
                .or(arguments.get("file_path"))
                .unwrap()
                .clone();
            expected["path"] = path;
            assert_eq!(
                tools.value("read", arguments.clone()).await,
                expected,
                "{arguments}"
            );
        }
    }
}

#[tokio::test]
async fn a_model_sees_numbered_lines() {
    let long = format!("{}\nend\n", "x".repeat(3_000));
    let many = numbered(1..=3_000);
    let fixture = Fixture::new(&[
        ("three", "a\r\n\tb\nc"),
        ("empty", ""),
        ("long", &long),
        ("many", &many),
    ]);
    let tools = fixture.tools();
    let cases = [
        (
            json!({ "path": "three" }),
            "     1\ta\n     2\t\tb\n     3\tc".to_owned(),
        ),
        (
            json!({ "path": "three", "offset": 2, "limit": 1 }),
            "     2\t\tb\n(lines 2-2 of 3; continue with offset 3)".to_owned(),
        ),
        (
            json!({ "path": "three", "offset": 9 }),
            "nothing at line 9: `three` has 3 lines".to_owned(),
        ),
        (json!({ "path": "empty" }), "`empty` is empty".to_owned()),
        (
            json!({ "path": "long" }),
            format!("     1\t{}… [+1000 bytes]\n     2\tend", "x".repeat(2_000)),
        ),
    ];
    for (arguments, expected) in cases {
        assert_eq!(tools.shown("read", arguments).await, expected);
    }
    let shown = tools.shown("read", json!({ "path": "many" })).await;
    assert_eq!(
        shown.lines().last().unwrap(),
        "(lines 1-2000 of 3000; continue with offset 2001)"
    );
    assert_eq!(shown.lines().count(), 2_001);
}

#[tokio::test]
async fn what_is_not_text_is_named() {
    let fixture = Fixture::new(&[("MZ.txt", "MZ is how it begins\n")]);
    fixture.put("image.png", b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR");
    fixture.put("nul", b"abc\0def");
    fixture.put("utf16", b"\xff\xfea\0b\0");
    fixture.put("latin1", b"one\ntwo \xe9t\xe9\n");
    fixture.put("late", [vec![b'x'; 300_000], b"\nbad \xff\n".to_vec()].concat());
    let cases = [
        (
            "image.png",
            "`image.png` is not UTF-8 text: a PNG image, 16 bytes",
        ),
        ("nul", "`nul` is not UTF-8 text: binary data, 7 bytes"),
        ("utf16", "`utf16` is not UTF-8 text: UTF-16 text, 6 bytes"),
        ("latin1", "`latin1` is not UTF-8 text: byte 0xe9 in line 2"),
        ("late", "`late` is not UTF-8 text: byte 0xff in line 2"),
    ];
    let tools = fixture.tools();
    for (path, message) in cases {
        assert_eq!(
            tools.error("read", json!({ "path": path })).await,
            format!("TOOL_FAILED: {message}")
        );
    }
    assert_eq!(
        tools.value("read", json!({ "path": "MZ.txt" })).await["lineCount"],
        1
    );
    // A window that does not reach the bad byte is fine.
    assert_eq!(
        tools.value("read", json!({ "path": "latin1", "limit": 1 })).await["text"],
        "one\n"
    );
}

#[tokio::test]
async fn a_missing_file_has_a_near_name() {
    let fixture = Fixture::new(&[("src/Main.rs", ""), ("src/other.rs", ""), ("README.md", "")]);
    let cases = [
        (
            "src/main.rs",
            "`src/main.rs` does not exist; the nearest name is `src/Main.rs`",
        ),
        (
            "scr/Main.rs",
            "`scr/Main.rs` does not exist; the nearest name is `src`",
        ),
        (
            "readme.md",
            "`readme.md` does not exist; the nearest name is `README.md`",
        ),
        ("zzz", "`zzz` does not exist"),
    ];
    for tools in fixture.both() {
        for (path, message) in cases {
            assert_eq!(
                tools.error("read", json!({ "path": path })).await,
                format!("TOOL_FAILED: {message}")
            );
        }
    }
}

#[tokio::test]
async fn bad_arguments_say_which() {
    let fixture = Fixture::new(&[]);
    let tools = fixture.tools();
    let cases = [
        (json!({}), "missing field `path`"),
        (json!({ "path": "a", "file_path": "b" }), "duplicate field `path`"),
        (
            json!({ "path": 1 }),
            "invalid type: integer `1`, expected a string",
        ),
        (
            json!({ "path": "a", "limit": 1.5 }),
            "invalid value: floating point `1.5`, expected a whole number that is not negative",
        ),
        (
            json!({ "path": "a", "ofset": 1 }),
            "unknown field `ofset`, expected one of `file_path`, `path`, `offset`, `limit`",
        ),
    ];
    for (arguments, message) in cases {
        assert_eq!(
            tools.error("read", arguments).await,
            format!("INVALID_ARGS: invalid arguments: {message}")
        );
    }
}

#[tokio::test]
async fn large_files_come_in_windows() {
    let fixture = Fixture::new(&[]);
    let line = format!("{}\n", "0123456789".repeat(10));
    let lines = 200_000_usize;
    fixture.put("large", line.repeat(lines));
    fixture.put("single", vec![b'x'; 11 * 1024 * 1024]);
    fixture.put("wide", "é".repeat(6 * 1024 * 1024));
    let tools = fixture.tools();

    let whole = tools.value("read", json!({ "path": "large" })).await;
    let fit = 10 * 1024 * 1024 / line.len();
    let summary = |value: &Value| {
        json!([
            value["offset"],
            value["lineCount"],
            value["totalLines"],
            value["truncated"]
        ])
    };
    assert_eq!(summary(&whole), json!([1, fit, lines, true]));
    assert_eq!(whole["text"].as_str().unwrap().len(), fit * line.len());

    let rest = tools
        .value("read", json!({ "path": "large", "offset": fit + 1 }))
        .await;
    assert_eq!(summary(&rest), json!([fit + 1, lines - fit, lines, false]));
    let middle = tools
        .value("read", json!({ "path": "large", "offset": 150_000, "limit": 3 }))
        .await;
    assert_eq!(summary(&middle), json!([150_000, 3, lines, true]));
    assert_eq!(middle["text"], line.repeat(3));

    let single = tools.value("read", json!({ "path": "single" })).await;
    assert_eq!(summary(&single), json!([1, 1, 1, true]));
    assert_eq!(single["text"].as_str().unwrap().len(), 10 * 1024 * 1024);
    let wide = tools.value("read", json!({ "path": "wide" })).await;
    assert_eq!(wide["text"].as_str().unwrap().chars().count(), 5 * 1024 * 1024);
}

#[tokio::test]
async fn a_file_that_is_too_large_is_not_looked_through() {
    let fixture = Fixture::new(&[]);
    let file = fs::File::create(fixture.path("huge")).unwrap();
    file.set_len(1024 * 1024 * 1024 + 1).unwrap();
    assert_eq!(
        fixture
            .tools()
            .error("read", json!({ "path": "huge", "limit": 1 }))
            .await,
        "TOOL_FAILED: `huge` is too large to read: 1.0 GiB > 1.0 GiB; use `grep` to find lines in it"
    );
}

#[tokio::test]
async fn names_may_have_any_character() {
    let fixture = Fixture::new(&[]);
    let tools = fixture.tools();
    for name in [
        "naïve/Ünïcødé 文件.txt",
        "with space",
        "new\nline",
        "quote\"'`",
        "-dash",
        "a\\b",
        "emoji 🦀",
    ] {
        let written = tools
            .value("write", json!({ "path": name, "content": "ok" }))
            .await;
        assert_eq!(written["path"], name);
        assert_eq!(
            tools.value("read", json!({ "path": name })).await["text"],
            "ok",
            "{name}"
        );
        assert_eq!(fixture.text(name), "ok");
    }
}

#[tokio::test]
async fn permissions_bind() {
    if is_root_user() {
        eprintln!("skipped: permissions do not bind this user");
        return;
    }
    let fixture = Fixture::new(&[("closed", "x")]);
    let mut permissions = fs::metadata(fixture.path("closed")).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0);
    fs::set_permissions(fixture.path("closed"), permissions).unwrap();
    for tools in fixture.both() {
        for (name, arguments) in [
            ("read", json!({ "path": "closed" })),
            ("write", json!({ "path": "closed", "content": "" })),
            ("edit", json!({ "path": "closed", "old": "x", "new": "y" })),
        ] {
            assert_eq!(
                tools.error(name, arguments).await,
                "TOOL_FAILED: permission denied: `closed`"
            );
        }
    }
}

#[tokio::test]
async fn a_cancelled_call_says_so() {
    let fixture = Fixture::new(&[("a.txt", "a\n")]);
    fixture.put("large", "line\n".repeat(1_000_000));
    let tools = fixture.tools();
    let cancel = CancellationToken::new();
    cancel.cancel();
    for (name, arguments) in [
        ("read", json!({ "path": "a.txt" })),
        ("read", json!({ "path": "large" })),
        ("write", json!({ "path": "a.txt", "content": "b" })),
        ("edit", json!({ "path": "a.txt", "old": "a", "new": "b" })),
        ("glob", json!({ "pattern": "**" })),
        ("grep", json!({ "pattern": "line" })),
    ] {
        let error = tools.call_with(&cancel, name, arguments).await.unwrap_err();
        assert_eq!(error.to_string(), "cancelled", "{name}");
        assert_eq!(error.code.to_string(), "ABORTED");
    }
    assert_eq!(fixture.text("a.txt"), "a\n");
}

/// A file that takes a while, cancelled when the call has begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_can_be_cancelled_while_it_runs() {
    let fixture = Fixture::new(&[("huge", &"text\n".repeat(2_000))]);
    let file = fs::OpenOptions::new()
        .write(true)
        .open(fixture.path("huge"))
        .unwrap();
    file.set_len(1024 * 1024 * 1024).unwrap();
    let cancel = CancellationToken::new();
    let call = {
        let (tools, cancel) = (fixture.tools(), cancel.clone());
        tokio::spawn(async move {
            let arguments = json!({ "path": "huge", "limit": 1 });
            tools.call_with(&cancel, "read", arguments).await
        })
    };
    tokio::task::yield_now().await;
    cancel.cancel();
    assert_eq!(call.await.unwrap().unwrap_err().to_string(), "cancelled");
}

/// Safe calls overlap, on one root, and each gives what it would give alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_overlap() {
    let fixture = Fixture::new(&[]);
    for n in 0..100 {
        fixture.put(
            &format!("d{}/f{n}.txt", n % 7),
            format!("needle {n}\n").repeat(50),
        );
    }
    let tools = fixture.tools();
    let calls = [
        ("grep", json!({ "pattern": "needle 5\\d", "limit": 10 })),
        ("glob", json!({ "pattern": "**/*.txt" })),
        ("read", json!({ "path": "d1/f1.txt" })),
    ];
    let mut alone = Vec::new();
    for (name, arguments) in &calls {
        alone.push(tools.value(name, arguments.clone()).await);
    }
    let running: Vec<_> = (0..60)
        .map(|n| {
            let (tools, (name, arguments)) = (tools.clone(), calls[n % 3].clone());
            tokio::spawn(async move { tools.value(name, arguments).await })
        })
        .collect();
    for (n, call) in running.into_iter().enumerate() {
        assert_eq!(call.await.unwrap(), alone[n % 3]);
    }
}

#[test]
fn no_tokio_is_needed() {
    let fixture = Fixture::new(&[("a.txt", "a\n")]);
    fixture.put("large", "line\n".repeat(100_000));
    let tools = fixture.tools();
    let value = futures_executor(tools.value("read", json!({ "path": "large", "limit": 1 })));
    assert_eq!(value["totalLines"], 100_000);
    let value = futures_executor(tools.value("glob", json!({ "pattern": "*" })));
    assert_eq!(value["paths"], json!(["a.txt", "large"]));
}

/// Drives a future that is ready at once.
fn futures_executor<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("the call waits for something"),
    }
}
