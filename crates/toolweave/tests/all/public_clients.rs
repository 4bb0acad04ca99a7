//! Clients and servers that we did not write: official npm servers behind the gateway, public clients in front of it.
//!
//! They are installed once into the target folder, by name and pinned version. Without Node, npm or a registry the tests say
//! so and pass.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::support::Desk;

const FILES: &[&str] = &[
    "package.json",
    "package-lock.json",
    "client_v1.mjs",
    "client_v2.mjs",
];

/// A program that needs both upstreams.
const PROGRAM: &str = r#"
const listed = await tools.mcp__files__list_directory({ path: "." });
const text = (await tools.mcp__files__read_text_file({ path: "note.txt" })) as any;
const sum = await tools["mcp__everything__get-sum"]({ a: 20, b: 22 });
console.log(typeof listed);
return { note: JSON.stringify(text).includes("hello from a file"), sum: JSON.stringify(sum).includes("42") };
"#;

/// Returns the folder with the installed packages, or says why there is none.
fn npm_folder() -> Option<&'static Path> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match FOLDER.get_or_init(install) {
        Ok(folder) => Some(folder),
        Err(reason) => {
            #[expect(
                clippy::print_stderr,
                reason = "the reason of a skipped test belongs into its output"
            )]
            {
                eprintln!("skipped: {reason}");
            }
            None
        }
    }
}

fn install() -> Result<PathBuf, String> {
    for program in ["node", "npm"] {
        let found = Command::new(program).arg("--version").output();
        if !found.is_ok_and(|output| output.status.success()) {
            return Err(format!("`{program}` is not installed"));
        }
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("npm");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    // Test runners start several processes; one of them installs.
    let lock = std::fs::File::create(folder.join(".lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/npm");
    let wanted =
        std::fs::read_to_string(source.join("package-lock.json")).map_err(|error| error.to_string())?;
    for file in FILES {
        std::fs::copy(source.join(file), folder.join(file)).map_err(|error| format!("{file}: {error}"))?;
    }
    let stamp = folder.join("installed");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(folder);
    }
    let output = Command::new("npm")
        .args(["ci", "--no-audit", "--no-fund", "--loglevel", "error"])
        .current_dir(&folder)
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!(
            "npm cannot install the packages: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    std::fs::write(stamp, wanted).map_err(|error| error.to_string())?;
    Ok(folder)
}

/// Returns the newer Node that the packages bring along.
fn node(folder: &Path) -> PathBuf {
    folder.join("node_modules/.bin/node")
}

fn desk_with_both_servers(folder: &Path) -> Desk {
    let desk = Desk::new();
    desk.write("docs/note.txt", "hello from a file\n");
    let server = |package: &str| {
        folder
            .join("node_modules/@modelcontextprotocol")
            .join(package)
            .join("dist/index.js")
    };
    let row = |arguments: Vec<Value>| json!({"command": node(folder), "args": arguments, "cwd": "docs"});
    let config = json!({"mcpServers": {
        "files": row(vec![json!(server("server-filesystem")), json!(".")]),
        "everything": row(vec![json!(server("server-everything")), json!("stdio")]),
    }});
    desk.write("toolweave.yml", config.to_string());
    desk
}

fn printed(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let from = text.find('{').unwrap_or_else(|| panic!("no JSON: {output:?}"));
    serde_json::from_str(&text[from..]).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn check_tools(tools: &Value) {
    let tools = tools.as_array().expect("a list");
    assert_eq!(tools.len(), 1, "run_code only");
    let tool = &tools[0];
    assert_eq!(tool["name"], "run_code");
    assert!(tool["description"].as_str().expect("text").chars().count() <= 1024);
    let code = tool["inputSchema"]["properties"]["code"]["description"]
        .as_str()
        .expect("text");
    for name in ["mcp__files__read_text_file", "mcp__everything__get-sum"] {
        assert!(code.contains(name), "`{name}` is not in the SDK");
    }
}

fn check_result(result: &Value) {
    assert_ne!(result["isError"], true, "{result}");
    let expected = json!({"logs": ["string"], "result": {"note": true, "sum": true}});
    let mut structured = result["structuredContent"].clone();
    // Which of the two forms the server gives its listing in is its own business.
    structured["logs"] = expected["logs"].clone();
    assert_eq!(structured, expected, "{result}");
}

#[test]
fn both_generations_of_the_sdk_drive_the_gateway() {
    let Some(folder) = npm_folder() else { return };
    for script in ["client_v1.mjs", "client_v2.mjs"] {
        let desk = desk_with_both_servers(folder);
        let output = Command::new(node(folder))
            .arg(folder.join(script))
            .args([env!("CARGO_BIN_EXE_toolweave"), "serve"])
            .current_dir(desk.path())
            .env("HOME", desk.folder.path())
            .env("PROGRAM", PROGRAM)
            .output()
            .expect("node starts");
        assert!(output.status.success(), "{script}: {output:?}");
        let printed = printed(&output);
        check_tools(&printed["tools"]);
        check_result(&printed["result"]);
    }
}

#[test]
fn the_inspector_lists_and_calls() {
    let Some(folder) = npm_folder() else { return };
    let desk = desk_with_both_servers(folder);
    let config = desk.path().join("toolweave.yml");
    let inspect = |arguments: &[&str]| {
        Command::new(node(folder))
            .arg(folder.join("node_modules/.bin/mcp-inspector"))
            .arg("--cli")
            .args(arguments)
            .args([
                "--format",
                "json",
                "-q",
                "--",
                env!("CARGO_BIN_EXE_toolweave"),
                "serve",
                "--config",
            ])
            .arg(&config)
            .current_dir(desk.path())
            .env("HOME", desk.folder.path())
            .output()
            .expect("node starts")
    };
    for strict in [&[][..], &["--strict"]] {
        let arguments = [&["--method", "tools/list"], strict].concat();
        let output = inspect(&arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        check_tools(&printed(&output)["tools"]);
    }
    let arguments = json!({"description": "Use both servers", "code": PROGRAM}).to_string();
    let output = inspect(&[
        "--method",
        "tools/call",
        "--tool-name",
        "run_code",
        "--tool-args-json",
        &arguments,
    ]);
    assert!(output.status.success(), "{output:?}");
    check_result(&printed(&output));
    let arguments = json!({"description": "Fail", "code": "throw new Error('on purpose')"}).to_string();
    let output = inspect(&[
        "--method",
        "tools/call",
        "--tool-name",
        "run_code",
        "--tool-args-json",
        &arguments,
    ]);
    assert_eq!(
        output.status.code(),
        Some(5),
        "an error of the tool is the inspector's exit code 5: {output:?}"
    );
}
