//! An MCP server whose answers are files, so that a test can change them while it runs.
//!
//! A shell script: it knows nothing of JSON but where the id and the name stand.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use toolweave_mcp::{StdioCommand, UpstreamConfig};

/// `tools/list` answers with `list.json` (an error if there is none), a call of `t` with `t.json`. A call of `notify`
/// also announces a changed list. Everything received is appended to `log`.
const SCRIPT: &str = r#"
cd "$1" || exit 9
env > env
echo $$ > pid
[ -f start.sh ] && . ./start.sh
while IFS= read -r line; do
  printf '%s\n' "$line" >> log
  id=$(printf '%s' "$line" | sed -n 's/^{"jsonrpc":"2.0","id":\([0-9]*\).*/\1/p')
  [ -n "$id" ] || continue
  case "$line" in
    *'"method":"initialize"'*)
      printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"scripted","version":"7"},"instructions":"Be kind."}}\n' "$id" ;;
    *'"method":"tools/list"'*)
      if [ -f list.json ]
      then printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$(cat list.json)"
      else printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"no list today"}}\n' "$id"
      fi ;;
    *'"method":"tools/call"'*)
      name=$(printf '%s' "$line" | sed -n 's/.*"params":{"name":"\([A-Za-z0-9_]*\)".*/\1/p')
      [ "$name" = notify ] && printf '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
      if [ -f "$name.json" ]
      then printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$(cat "$name.json")"
      else printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Unknown tool: %s"}}\n' "$id" "$name"
      fi ;;
  esac
done
"#;

pub(crate) struct Scripted {
    dir: TempDir,
}

impl Scripted {
    pub(crate) fn new(tools: &[Value]) -> Self {
        let scripted = Self {
            dir: toolweave_testkit::temp_dir().expect("a folder"),
        };
        scripted.write("server.sh", SCRIPT);
        scripted.write("notify.json", &text("noted").to_string());
        scripted.set_tools(tools);
        scripted
    }

    pub(crate) fn config(&self, name: &str) -> UpstreamConfig {
        UpstreamConfig::stdio(
            name,
            StdioCommand {
                command: "/bin/sh".to_owned(),
                args: vec![
                    self.path("server.sh").display().to_string(),
                    self.dir.path().display().to_string(),
                ],
                ..StdioCommand::default()
            },
        )
    }

    pub(crate) fn set_tools(&self, tools: &[Value]) {
        self.write("list.json", &json!({"tools": tools}).to_string());
    }

    pub(crate) fn answer(&self, tool: &str, result: &str) {
        self.write(&format!("{tool}.json"), result);
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        // In one step: the script must not see half a file.
        let fresh = self.path(&format!("{name}.new"));
        std::fs::write(&fresh, text).expect("written");
        std::fs::rename(fresh, self.path(name)).expect("renamed");
    }

    pub(crate) fn remove(&self, name: &str) {
        std::fs::remove_file(self.path(name)).expect("removed");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        Path::new(self.dir.path()).join(name)
    }

    /// Returns the parameters of the calls so far.
    pub(crate) fn calls(&self) -> Vec<Value> {
        self.read("log")
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|message| message["method"] == "tools/call")
            .map(|mut message| {
                let mut params = message["params"].take();
                params.as_object_mut().expect("parameters").remove("_meta");
                params
            })
            .collect()
    }
}

/// A result with one text block.
pub(crate) fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

/// A declaration with the given extra members.
pub(crate) fn tool(name: &str, extra: Value) -> Value {
    let mut tool =
        json!({"name": name, "description": format!("Does {name}."), "inputSchema": {"type": "object"}});
    if let (Some(tool), Value::Object(extra)) = (tool.as_object_mut(), extra) {
        tool.extend(extra);
    }
    tool
}
