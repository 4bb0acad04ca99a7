//! The tool set `rig`: tools whose calls a test wants to watch, more than their results.

use std::time::Duration;

use serde_json::{Value, json};

use crate::raw::{self, Fields};
use crate::server::{Answer, Outcome, ToolSet};

/// A PNG of one pixel.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// How long a slow tool takes where a call does not say.
const SLOW_MS: u64 = 300;

/// The longest that a call may ask a slow tool to take.
const MOST_MS: u64 = 600_000;

/// The deepest value that `deep` makes, and the longest text that `big` makes.
const MOST_DEPTH: usize = 1_000_000;
const MOST_CHARS: usize = 50_000_000;

/// Slow, failing, large, deep and pictorial tools, and any number of further ones.
#[derive(Debug, Clone, Copy, Default)]
pub struct RigSet {
    /// How many tools `dummy_1`, `dummy_2`, ... there are.
    pub dummies: usize,
}

impl ToolSet for RigSet {
    fn tools(&self) -> Vec<Value> {
        let wait = json!({"ms": {"type": "integer", "minimum": 0, "maximum": MOST_MS}, "id": {}});
        let open = |properties: Value| json!({"type": "object", "properties": properties});
        let tool = |name: &str, description: &str, read_only: bool, input: Value| {
            json!({"name": name, "description": description, "inputSchema": input,
                   "annotations": {"readOnlyHint": read_only}})
        };
        let mut tools = vec![
            tool("slow_read", "Reads something, slowly.", true, open(wait.clone())),
            tool(
                "slow_write",
                "Writes something, slowly.",
                false,
                open(wait.clone()),
            ),
            tool("sleep", "Waits.", true, open(wait)),
            tool(
                "fail",
                "Fails with the message, or `nope`.",
                true,
                open(json!({"message": {"type": "string"}})),
            ),
            tool(
                "big",
                "Makes a text of y's.",
                true,
                open(json!({"chars": {"type": "integer", "minimum": 0}})),
            ),
            tool(
                "deep",
                "Tells how deep its value is; makes a value of the given depth.",
                true,
                open(json!({"value": {}, "depth": {"type": "integer", "minimum": 0}})),
            ),
            tool("echo", "Returns what it got.", true, json!({"type": "object"})),
            tool("img", "Returns a picture.", true, open(json!({}))),
            tool("mark", "Notes a number.", false, open(json!({"n": {}}))),
        ];
        tools.extend((1..=self.dummies).map(|n| {
            let input = json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": format!("Where tool {n} looks.")},
                    "limit": {"type": "integer", "minimum": 1, "description": "How much it returns at most."},
                    "mode": {"enum": ["fast", "thorough"]},
                },
                "required": ["path"],
            });
            tool(
                &format!("dummy_{n}"),
                &format!("Does nothing of interest, variant {n}."),
                true,
                input,
            )
        }));
        tools
    }

    fn call(&self, name: &str, arguments: &str) -> Option<Answer> {
        let outcome = Fields::parse(arguments).and_then(|args| self.answer(name, &args, arguments));
        match outcome {
            Ok(answer) => answer,
            Err(message) => Some(Answer::Now(Outcome::Failed(message))),
        }
    }
}

impl RigSet {
    fn answer(&self, name: &str, args: &Fields, arguments: &str) -> Result<Option<Answer>, String> {
        let outcome = match name {
            "slow_read" | "slow_write" | "sleep" => {
                let ms = args.optional::<u64>("ms")?.unwrap_or(SLOW_MS).min(MOST_MS);
                let id = args.raw("id").unwrap_or("null");
                let value = if name == "sleep" {
                    format!("{{\"slept\":{ms}}}")
                } else {
                    format!("{{\"id\":{id},\"ms\":{ms}}}")
                };
                return Ok(Some(Answer::After(
                    Duration::from_millis(ms),
                    Outcome::Value(value),
                )));
            }
            "fail" => Outcome::Failed(args.optional("message")?.unwrap_or_else(|| "nope".to_owned())),
            "big" => {
                let chars = args.optional::<usize>("chars")?.unwrap_or(60_000).min(MOST_CHARS);
                Outcome::Value(format!("{{\"text\":\"{}\"}}", "y".repeat(chars)))
            }
            "deep" => {
                let received = args.raw("value").map_or(0, raw::depth);
                let levels = args.optional::<usize>("depth")?.unwrap_or(0).min(MOST_DEPTH);
                let value = if levels > 0 {
                    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
                } else {
                    args.raw("value").unwrap_or("null").to_owned()
                };
                Outcome::Value(format!("{{\"depth\":{received},\"value\":{value}}}"))
            }
            "echo" => Outcome::Value(format!("{{\"got\":{arguments}}}")),
            "img" => Outcome::Content(vec![
                json!({"type": "text", "text": "a picture of one pixel"}),
                json!({"type": "image", "data": PIXEL, "mimeType": "image/png"}),
            ]),
            "mark" => Outcome::Value(format!("{{\"marked\":{}}}", args.raw("n").unwrap_or("null"))),
            _ => match name.strip_prefix("dummy_").and_then(|n| n.parse::<usize>().ok()) {
                Some(n) if (1..=self.dummies).contains(&n) => {
                    Outcome::Value(format!("{{\"dummy\":{n},\"got\":{arguments}}}"))
                }
                _ => return Ok(None),
            },
        };
        Ok(Some(Answer::Now(outcome)))
    }
}
