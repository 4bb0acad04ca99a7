//! Every way out of the root that we know of, tried with every tool.

use std::fs;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Fixture, Tools};

/// A call of each tool on one path.
fn calls(path: &str) -> [(&'static str, Value); 5] {
    [
        ("read", json!({ "path": path })),
        ("write", json!({ "path": path, "content": "taken\n" })),
        ("edit", json!({ "path": path, "old": "secret", "new": "taken" })),
        ("glob", json!({ "path": path, "pattern": "**" })),
        ("grep", json!({ "path": path, "pattern": "secret" })),
    ]
}

fn fixture() -> Fixture {
    let fixture = Fixture::new(&[("in.txt", "inside\n"), ("sub/in.txt", "inside\n")]);
    fixture.link("file-out", "../outside/secret.txt");
    fixture.link("dir-out", "../outside");
    fixture.link("dir-up", "..");
    fixture.link("sub/far", "../../outside");
    fixture.link("absolute", fixture.base.join("outside"));
    fixture.link("absolute-in", fixture.base.join("root/sub"));
    fixture.link("magic", "/proc/self/root");
    fixture.link("chain", "sub/chain");
    fixture.link("sub/chain", "../dir-out/secret.txt");
    fixture.link("in-and-out", "sub/../../outside/secret.txt");
    fixture.link("dangling-out", "../outside/new.txt");
    fixture.link("loop", "loop");
    fixture
}

#[tokio::test]
async fn no_path_leads_out() {
    let fixture = fixture();
    let before = fixture.outside();
    let absolute = fixture.base.join("outside/secret.txt");
    let lexical = fixture.base.join("root/../outside/secret.txt");
    let beside = fixture.base.join("root-beside");
    fs::create_dir(&beside).unwrap();
    fs::write(beside.join("x"), "secret\n").unwrap();
    let outside = [
        "..",
        "../outside/secret.txt",
        "sub/../../outside/secret.txt",
        "./.././outside",
        "sub/../..",
        "/",
        "/etc/passwd",
        "/proc/self/root",
        "//etc/passwd",
        absolute.to_str().unwrap(),
        lexical.to_str().unwrap(),
        beside.to_str().unwrap(),
    ];
    let by_link = [
        "file-out",
        "dir-out",
        "dir-out/secret.txt",
        "dir-up",
        "dir-up/outside/secret.txt",
        "dir-up/root/in.txt",
        "sub/far/secret.txt",
        "absolute/secret.txt",
        "absolute-in/in.txt",
        "magic/etc/passwd",
        "chain",
        "in-and-out",
        "dangling-out",
        "dir-out/new/deep/file.txt",
    ];
    for tools in fixture.both() {
        for path in outside {
            for (name, arguments) in calls(path) {
                assert_eq!(
                    tools.error(name, arguments).await,
                    format!(
                        "TOOL_FAILED: `{path}` is outside the root folder: give a path relative to it, such as \
                         `src/main.rs`"
                    ),
                    "{name}"
                );
            }
        }
        for path in by_link {
            for (name, arguments) in calls(path) {
                assert_eq!(
                    tools.error(name, arguments).await,
                    format!(
                        "TOOL_FAILED: `{path}` goes through a symbolic link that is absolute or leads out of the \
                         root folder"
                    ),
                    "{name}"
                );
            }
        }
        for (name, arguments) in calls("loop") {
            assert_eq!(
                tools.error(name, arguments).await,
                "TOOL_FAILED: `loop` goes through too many symbolic links, or one that is not followed",
                "{name}"
            );
        }
    }
    fs::remove_dir_all(beside).unwrap();
    assert_eq!(fixture.outside(), before);
    assert!(
        fs::symlink_metadata(fixture.path("dangling-out"))
            .unwrap()
            .is_symlink()
    );
}

#[tokio::test]
async fn paths_that_no_file_can_have_are_refused() {
    let fixture = Fixture::new(&[]);
    let long = "x".repeat(5_000);
    let long_name = format!("a/{}", "n".repeat(300));
    let deep = "d/".repeat(200);
    let cases = [
        (
            "",
            "the path is empty: give a path relative to the root folder, `.` for the folder itself",
        ),
        ("a\0b", "`a␀b` contains a NUL character, which no file name has"),
        (&long, "the path is too long: 5000 bytes > 4095"),
    ];
    for tools in fixture.both() {
        for (path, message) in cases {
            for (name, arguments) in calls(path) {
                assert_eq!(
                    tools.error(name, arguments).await,
                    format!("TOOL_FAILED: {message}"),
                    "{name}"
                );
            }
        }
        for (name, arguments) in calls(&deep) {
            let shown = format!("{}…", &deep[..200]);
            assert_eq!(
                tools.error(name, arguments).await,
                format!(
                    "TOOL_FAILED: the path has a component that is too long, or more than 128 folders: `{shown}`"
                ),
                "{name}"
            );
        }
        let error = tools
            .error("write", json!({ "path": long_name, "content": "" }))
            .await;
        assert!(error.contains("a component that is too long"), "{error}");
    }
}

#[tokio::test]
async fn links_that_stay_inside_are_followed() {
    let fixture = Fixture::new(&[("sub/in.txt", "inside\n"), ("top.txt", "top\n")]);
    fixture.link("to-file", "sub/in.txt");
    fixture.link("to-dir", "sub");
    fixture.link("sub/up", "../top.txt");
    fixture.link("sub/self", "../to-dir/../sub/./up");
    for tools in fixture.both() {
        for (path, text) in [
            ("to-file", "inside\n"),
            ("to-dir/in.txt", "inside\n"),
            ("sub/up", "top\n"),
            ("to-dir/up", "top\n"),
            ("sub/self", "top\n"),
        ] {
            assert_eq!(
                tools.value("read", json!({ "path": path })).await["text"],
                text,
                "{path}"
            );
        }
        assert_eq!(
            tools
                .value("glob", json!({ "path": "to-dir", "pattern": "*" }))
                .await["paths"],
            json!(["to-dir/in.txt"])
        );
        let grep = tools
            .value("grep", json!({ "path": "to-dir", "pattern": "in" }))
            .await;
        assert_eq!(grep["matches"][0]["path"], "to-dir/in.txt");
    }
    // Writing goes to the file, and the link stays.
    let tools = fixture.tools();
    tools
        .value("write", json!({ "path": "sub/self", "content": "new\n" }))
        .await;
    tools
        .value("edit", json!({ "path": "to-file", "old": "in", "new": "out" }))
        .await;
    assert_eq!(fixture.text("top.txt"), "new\n");
    assert_eq!(fixture.text("sub/in.txt"), "outside\n");
    assert!(
        fs::symlink_metadata(fixture.path("to-file"))
            .unwrap()
            .is_symlink()
    );
}

#[tokio::test]
async fn a_path_inside_may_be_absolute() {
    let fixture = Fixture::new(&[("sub/in.txt", "inside\n")]);
    let path = fixture.path("sub/in.txt");
    let root = fixture.path("");
    for tools in fixture.both() {
        let value = tools.value("read", json!({ "path": path })).await;
        assert_eq!(
            (&value["path"], &value["text"]),
            (&json!("sub/in.txt"), &json!("inside\n"))
        );
        for path in [root.clone(), fixture.path("sub"), fixture.path("./sub/../sub")] {
            assert_eq!(
                tools
                    .value("glob", json!({ "path": path, "pattern": "**/*.txt" }))
                    .await["paths"],
                json!(["sub/in.txt"])
            );
        }
        let pattern = format!("{}/**/*.txt", root.to_str().unwrap().trim_end_matches('/'));
        assert_eq!(
            tools.value("glob", json!({ "pattern": pattern })).await["paths"],
            json!(["sub/in.txt"])
        );
        assert_eq!(
            tools.error("glob", json!({ "pattern": "/etc/*" })).await,
            "TOOL_FAILED: `/etc` is outside the root folder: give a path relative to it, such as `src/main.rs`"
        );
        assert_eq!(
            tools.error("glob", json!({ "pattern": "sub/../../*" })).await,
            "TOOL_FAILED: the pattern `sub/../../*` has a `..`: patterns find files below `path` only"
        );
        assert_eq!(
            tools.value("glob", json!({ "pattern": "{..,sub}/*" })).await["paths"],
            json!(["sub/in.txt"])
        );
    }
}

#[tokio::test]
async fn a_walk_follows_no_link() {
    let fixture = fixture();
    for tools in fixture.both() {
        assert_eq!(
            tools
                .value(
                    "glob",
                    json!({ "pattern": "**", "hidden": true, "ignored": true })
                )
                .await,
            json!({ "paths": ["in.txt", "sub/in.txt"], "total": 2, "truncated": false })
        );
        assert_eq!(
            tools.value("grep", json!({ "pattern": "secret|inside" })).await,
            json!({
                "matches": [
                    { "path": "in.txt", "line": 1, "column": 1, "text": "inside" },
                    { "path": "sub/in.txt", "line": 1, "column": 1, "text": "inside" },
                ],
                "total": 2, "truncated": false, "filesSearched": 2, "filesSkipped": 0,
            })
        );
    }
}

#[tokio::test]
async fn nothing_waits_for_a_pipe_or_touches_a_device() {
    let fixture = Fixture::new(&[]);
    let fifo = fixture.path("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    let _socket = UnixListener::bind(fixture.path("socket")).unwrap();
    let started = Instant::now();
    for tools in fixture.both() {
        for (name, arguments) in calls("fifo").into_iter().filter(|(name, _)| *name != "glob") {
            assert_eq!(
                tools.error(name, arguments).await,
                "TOOL_FAILED: `fifo` is a named pipe; only regular files can be used",
                "{name}"
            );
        }
        for (name, arguments) in calls("socket").into_iter().filter(|(name, _)| *name != "glob") {
            assert_eq!(
                tools.error(name, arguments).await,
                "TOOL_FAILED: `socket` is a socket, pipe or device; only regular files can be used",
                "{name}"
            );
        }
        assert_eq!(
            tools.value("glob", json!({ "pattern": "**" })).await["paths"],
            json!([])
        );
        assert_eq!(
            tools.value("grep", json!({ "pattern": "." })).await["filesSearched"],
            0
        );
    }
    // A device would be read for ever.
    let devices = Tools::new(toolweave_builtins::Root::open("/dev").unwrap());
    assert_eq!(
        devices.error("read", json!({ "path": "zero" })).await,
        "TOOL_FAILED: `zero` is a device; only regular files can be used"
    );
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn folders_are_not_files() {
    let fixture = Fixture::new(&[("sub/in.txt", "")]);
    fixture.link("here", ".");
    fixture.link("sub/back", "..");
    for tools in fixture.both() {
        for path in [".", "sub", "here", "sub/back"] {
            for (name, arguments) in calls(path).into_iter().take(3) {
                assert_eq!(
                    tools.error(name, arguments).await,
                    format!("TOOL_FAILED: `{path}` is a folder, not a file"),
                    "{name}"
                );
            }
        }
        for (name, arguments) in calls("sub/in.txt/x") {
            assert_eq!(
                tools.error(name, arguments).await,
                "TOOL_FAILED: `sub/in.txt/x` is not a folder, or a part of it that should be one is not",
                "{name}"
            );
        }
    }
}

/// A folder and a link to the outside take turns under one name while the tools use it. Whatever each call meets, it
/// never sees or changes anything outside.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_swapped_in_during_a_call_leads_nowhere() {
    let fixture = Fixture::new(&[
        ("turn/secret.txt", "inside\n"),
        ("turn/deep/secret.txt", "inside\n"),
    ]);
    fs::create_dir(fixture.base.join("outside/deep")).unwrap();
    fs::write(fixture.base.join("outside/deep/secret.txt"), "secret\n").unwrap();
    fixture.link("out", "../outside");
    let before = fixture.outside();
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = {
        let (stop, root) = (stop.clone(), fixture.path(""));
        std::thread::spawn(move || {
            let folder = fs::File::open(root).unwrap();
            let mut swaps = 0_u32;
            while !stop.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(&folder, "turn", &folder, "out", rustix::fs::RenameFlags::EXCHANGE)
                    .unwrap();
                swaps += 1;
            }
            swaps
        })
    };
    let (mut refused, mut served) = (0, 0);
    for round in 0..300 {
        for tools in fixture.both() {
            for path in ["turn/secret.txt", "turn/deep/secret.txt"] {
                match tools.call("read", json!({ "path": path })).await {
                    Ok(output) => {
                        assert_ne!(output.value["text"], "secret\n");
                        served += 1;
                    }
                    Err(_) => refused += 1,
                }
            }
            let new = format!("turn/deep/new-{round}/file.txt");
            let _ = tools.call("write", json!({ "path": new, "content": "x" })).await;
            let _ = tools
                .call(
                    "write",
                    json!({ "path": "turn/deep/secret.txt", "content": "inside\n" }),
                )
                .await;
            let _ = tools
                .call(
                    "edit",
                    json!({ "path": "turn/secret.txt", "old": "secret", "new": "bad" }),
                )
                .await;
            if round % 10 == 0 {
                let grep = tools
                    .call("grep", json!({ "pattern": "secret" }))
                    .await
                    .unwrap()
                    .value;
                assert_eq!(grep["matches"], json!([]));
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    let swaps = swapper.join().unwrap();
    eprintln!("{swaps} swaps, {served} served, {refused} refused");
    assert_eq!(fixture.outside(), before);
}

/// The root is a folder, not a name: what takes its name later is not it.
#[tokio::test]
async fn the_root_stays_the_same_folder() {
    let fixture = Fixture::new(&[("in.txt", "inside\n")]);
    for tools in fixture.both() {
        fs::rename(fixture.path(""), fixture.base.join("moved")).unwrap();
        fs::create_dir(fixture.path("")).unwrap();
        fixture.put("in.txt", "another\n");
        assert_eq!(
            tools.value("read", json!({ "path": "in.txt" })).await["text"],
            "inside\n"
        );
        fs::remove_dir_all(fixture.path("")).unwrap();
        fs::rename(fixture.base.join("moved"), fixture.path("")).unwrap();
    }
}

/// Nothing tells a hard link from the file itself, so one that leads out can be read; but replacing a file breaks the
/// link, and the outside stays as it was.
#[tokio::test]
async fn writing_breaks_a_hard_link() {
    let fixture = Fixture::new(&[]);
    fs::hard_link(fixture.base.join("outside/secret.txt"), fixture.path("hard")).unwrap();
    let before = fixture.outside();
    let tools = fixture.tools();
    tools
        .value("edit", json!({ "path": "hard", "old": "secret", "new": "taken" }))
        .await;
    assert_eq!(fixture.text("hard"), "taken\n");
    assert_eq!(fixture.outside(), before);
}
