//! `toolweave.yml`: found, layered, and precise about what is wrong with it.

use serde_json::json;

use crate::support::Desk;

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let cases = [
        (
            "runtime: { computeMz: 5 }",
            "toolweave.yml:1",
            "unknown key `computeMz`, did you mean `computeMs`?",
        ),
        (
            "\nmode: coed\n",
            "toolweave.yml:2",
            "unknown value `coed`, did you mean `code`?",
        ),
        (
            "runtime: { computeMs: 0 }",
            "toolweave.yml:1",
            "`computeMs` is 0: it must be between 1 and 2147483647",
        ),
        ("runtime: { computeMs: -1 }", "toolweave.yml:1", "-1"),
        (
            "runtime: { maxWallMs: 99999999999 }",
            "toolweave.yml:1",
            "`maxWallMs` is 99999999999",
        ),
        (
            "runtime: { maxWallMs: 18446744073709551616 }",
            "toolweave.yml:1",
            "18446744073709551616",
        ),
        ("runtime: { computeMs: \"5s\" }", "toolweave.yml:1", "5s"),
        (
            "runtime: { maxOutputBytes: 3 }",
            "toolweave.yml:1",
            "`maxOutputBytes` is 3",
        ),
        (
            "mcpServers:\n  a: { args: [] }",
            "toolweave.yml:2",
            "server `a`: `command` is missing",
        ),
        (
            "mcpServers:\n  a: { command: x, arg: [] }",
            "toolweave.yml:2",
            "unknown key `arg`, did you mean `args`?",
        ),
        (
            "mcpServers:\n  a: { url: \"https://example.org/mcp\" }",
            "toolweave.yml:2",
            "remote servers",
        ),
        (
            "policy: []",
            "toolweave.yml:1",
            "unknown key `policy` (planned, not in this version)",
        ),
        ("mode: [", "toolweave.yml", ""),
        ("mode: code\nmode: both", "toolweave.yml:2", "mode"),
    ];
    for (text, place, message) in cases {
        let desk = Desk::new();
        desk.write("toolweave.yml", text);
        let ran = desk.run(&["exec", "-e", "return 1"]);
        assert_eq!(ran.code, Some(2), "{text}: {ran:?}");
        assert_eq!(ran.out, "", "{text}");
        assert!(
            ran.err.contains(place) && ran.err.contains(message),
            "{text}: {}",
            ran.err
        );
        assert!(ran.err.lines().count() <= 2, "{text}: {}", ran.err);
    }
}

#[test]
fn odd_but_right_files_load() {
    for text in [
        "",
        "# nothing\n\n",
        "\u{feff}mode: code\r\nsdk: compact\r\n",
        "runtime: {}\n",
        "mode: ptc\n",
        "mcpServers: {}\n",
    ] {
        let desk = Desk::new();
        desk.write("toolweave.yml", text);
        let ran = desk.run(&["exec", "-e", "return 1"]);
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (Some(0), "1\n"),
            "{text:?}: {ran:?}"
        );
    }
}

#[test]
fn show_names_the_origin_of_each_row() {
    let desk = Desk::new();
    std::fs::create_dir_all(desk.folder.path().join(".config/toolweave")).expect("a folder");
    std::fs::write(
        desk.folder.path().join(".config/toolweave/toolweave.yml"),
        "mode: both\nruntime: { computeMs: 1000, maxWallMs: 2000 }\nmcpServers:\n  home: { command: h, env: { KEY: \"${SECRET}\" } }\n",
    )
    .expect("a file");
    desk.write(
        "toolweave.yml",
        "runtime: { computeMs: 5 }\nmcpServers:\n  here: { command: x }\n",
    );
    desk.write("below/empty", "");
    let mut command = desk.command(&["config", "show", "--json"]);
    command
        .current_dir(desk.path().join("below"))
        .env("TOOLWEAVE_MODE", "native")
        .env("SECRET", "hunter2");
    let output = command.output().expect("the binary starts");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(!text.contains("hunter2"));
    let shown: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(shown["config"]["mode"], "native");
    assert_eq!(shown["origins"]["mode"], "environment variable TOOLWEAVE_MODE");
    // A layer replaces a row whole: the wall limit is the default again.
    assert_eq!(shown["config"]["runtime"]["computeMs"], 5);
    assert_eq!(shown["config"]["runtime"]["maxWallMs"], 600_000);
    assert!(
        shown["origins"]["runtime"]
            .as_str()
            .expect("text")
            .ends_with("work/toolweave.yml:1"),
        "{shown}"
    );
    assert!(
        shown["origins"]["mcpServers.home"]
            .as_str()
            .expect("text")
            .ends_with(".config/toolweave/toolweave.yml:4"),
        "{shown}"
    );
    assert_eq!(
        shown["config"]["mcpServers"]["home"]["env"],
        json!({"KEY": "${SECRET}"})
    );
    let ran = desk.run(&["config", "show"]);
    assert!(
        ran.out.contains("computeMs: 5") && ran.out.contains("toolweave.yml:1"),
        "{}",
        ran.out
    );
}

#[test]
fn a_mode_in_the_environment_must_be_one() {
    let desk = Desk::new();
    let mut command = desk.command(&["exec", "-e", "return 1"]);
    let output = command
        .env("TOOLWEAVE_MODE", "banana")
        .output()
        .expect("the binary starts");
    assert_eq!(output.status.code(), Some(2));
    let err = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(err.contains("TOOLWEAVE_MODE") && err.contains("banana"), "{err}");
}

#[test]
fn check_tries_every_server() {
    let desk = Desk::new();
    desk.write(
        "toolweave.yml",
        format!(
            "mcpServers:\n  good: {}\n  gone: {{ command: ./nothing }}\n  off: {{ disabled: true }}\n",
            crate::support::fixture_row(&[])
        ),
    );
    let ran = desk.run(&["config", "check"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.out.contains("server `good` answers: 16 tools"), "{ran:?}");
    assert!(ran.out.contains("server `off` is disabled"), "{ran:?}");
    assert!(ran.err.contains("server `gone`"), "{ran:?}");
    assert_eq!(desk.run(&["config", "check", "--offline"]).code, Some(0));
}
