//! The TypeScript that a model reads: the block of declarations for a set of tools, and one tool in one line or
//! in full.

use std::collections::HashSet;

use serde_json::Value;

use crate::convert::{Comments, Converted, Root, convert};
use crate::limits::{MAX_SIGNATURE_CHARS, MAX_TYPE_NAME_CHARS};
use crate::print::{Layout, Names, Printer, comment_line, indent};
use crate::text;
use crate::{Detail, Output, Rendered, ToolDecl};

const OBSERVED: &str = "observed, not guaranteed";

/// Member names that discovery takes when no tool has them.
const DISCOVERY: [&str; 3] = ["list", "search", "help"];

const JSON: &str = "\
type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;
type JsonObject = { [key: string]: JsonValue | undefined };
";

const TOOLS: &str = "\
type ToolName = keyof ToolArgsMap;
declare class ToolCallError extends Error { toolName: string }
interface Discovery {
  $list(): string[];
  $search(query: string, options?: { limit?: number }): Promise<Array<{ name: string; description: string; signature: string }>>;
  $help(name: string): Promise<string>;
  $call(name: string, args?: JsonObject): Promise<JsonValue>;
}
declare const tools: Discovery & {
  [K in ToolName]: (...args: {} extends ToolArgsMap[K] ? [args?: ToolArgsMap[K]] : [args: ToolArgsMap[K]]) => Promise<K extends keyof ToolOutputMap ? ToolOutputMap[K] : JsonValue>;
}";

pub(crate) fn declarations(tools: &[ToolDecl<'_>], detail: Detail) -> String {
    let tools = sorted(tools);
    let mut taken = HashSet::new();
    let mut named = String::new();
    let mut arguments = String::new();
    let mut outputs = String::new();
    for tool in &tools {
        let owner = owner(tool.name);
        let description = match detail {
            Detail::Full => Some(tool.description),
            Detail::Compact => None,
        };
        let input = convert(tool.input, Root::Arguments, detail.comments());
        let entry = Entry {
            name: tool.name,
            owner: &owner,
            fallback: "Args",
            description,
        };
        entry.write(&mut arguments, &mut named, &input, &mut taken, detail);
        if let Some((schema, mark)) = output_schema(tool) {
            let output = convert(schema, Root::Value, detail.comments());
            let entry = Entry {
                name: tool.name,
                owner: &owner,
                fallback: "Result",
                description: mark,
            };
            entry.write(&mut outputs, &mut named, &output, &mut taken, detail);
        }
    }
    let mut out =
        String::with_capacity(JSON.len() + TOOLS.len() + arguments.len() + outputs.len() + named.len());
    out.push_str(JSON);
    out.push_str("interface ToolArgsMap {\n");
    out.push_str(&arguments);
    out.push_str("}\ninterface ToolOutputMap {\n");
    out.push_str(&outputs);
    out.push_str("}\n");
    out.push_str(&named);
    out.push_str(TOOLS);
    let free: Vec<String> = DISCOVERY
        .iter()
        .filter(|name| tools.iter().all(|tool| tool.name != **name))
        .map(|name| format!("{name}: Discovery[\"${name}\"]"))
        .collect();
    if !free.is_empty() {
        out.push_str(&format!(" & {{ {} }}", free.join("; ")));
    }
    out.push_str(";\n");
    out
}

pub(crate) fn signature(tool: &ToolDecl<'_>) -> String {
    let input = convert(tool.input, Root::Arguments, Comments::Drop);
    let output = output_schema(tool).map(|(schema, _)| convert(schema, Root::Value, Comments::Drop));
    let name = text::shorten(&callable(tool.name), MAX_SIGNATURE_CHARS / 3);
    // From all of it to hardly more than the names; the last always fits.
    let steps = [(6, 12), (3, 8), (2, 5), (1, 4), (1, 2), (0, 1)];
    let mut shortest = String::new();
    for (depth, members) in steps {
        let layout = Layout::Brief { depth, members };
        let arguments = parameter(&input, layout);
        let result = match &output {
            Some(output) => brief(
                output,
                Layout::Brief {
                    depth: depth.min(3),
                    members,
                },
            ),
            None => "JsonValue".to_owned(),
        };
        let observed = if matches!(tool.output, Output::Observed(_)) {
            " // observed"
        } else {
            ""
        };
        shortest = format!("{name}({arguments}): Promise<{result}>{observed}");
        if shortest.chars().count() <= MAX_SIGNATURE_CHARS {
            return shortest;
        }
        let without_result = format!("{name}({arguments}): Promise<unknown>{observed}");
        if depth <= 1 && without_result.chars().count() <= MAX_SIGNATURE_CHARS {
            return without_result;
        }
    }
    shortest.clear();
    shortest.push_str(&format!("{name}(args: JsonObject): Promise<unknown>"));
    shortest
}

pub(crate) fn help(tool: &ToolDecl<'_>) -> String {
    let mut taken = HashSet::new();
    let owner = owner(tool.name);
    let input = convert(tool.input, Root::Arguments, Comments::Keep);
    let names = Names::choose(&input, &owner, "Args", &mut taken);
    let mut printer = Printer::new(&input, &names, Layout::Lines);
    let (doc, root) = input.arena.undocumented(input.root);
    let mut out = String::new();
    comment_line(
        &mut out,
        join(Some(tool.description), doc.as_deref()).as_deref(),
        0,
    );
    let head = format!("tools{}", access(tool.name));
    let optional = if printer.takes_nothing(root) { "?" } else { "" };
    let arguments = printer.text(root, 0, head.len() + 8);
    out.push_str(&format!("{head}(args{optional}: {arguments}): "));
    let mut declared = printer.declarations();
    match output_schema(tool) {
        None => out.push_str("Promise<JsonValue>;\n"),
        Some((schema, mark)) => {
            let output = convert(schema, Root::Value, Comments::Keep);
            let names = Names::choose(&output, &owner, "Result", &mut taken);
            let mut printer = Printer::new(&output, &names, Layout::Lines);
            let (doc, root) = output.arena.undocumented(output.root);
            if let Some(doc) = join(mark, doc.as_deref()) {
                out.push_str(&format!("/** {} */ ", text::comment(&doc)));
            }
            out.push_str(&format!("Promise<{}>;\n", printer.text(root, 0, 8)));
            declared.push_str(&printer.declarations());
        }
    }
    out.push_str(&declared);
    out
}

pub(crate) fn type_of(schema: &Value) -> Rendered {
    let converted = convert(schema, Root::Value, Comments::Keep);
    let names = Names::choose(&converted, "T", "Root", &mut HashSet::new());
    let mut printer = Printer::new(&converted, &names, Layout::Lines);
    Rendered {
        text: printer.text(converted.root, 0, 0),
        declarations: printer.declarations(),
    }
}

impl Detail {
    fn comments(self) -> Comments {
        match self {
            Self::Full => Comments::Keep,
            Self::Compact => Comments::Drop,
        }
    }

    fn layout(self) -> Layout {
        match self {
            Self::Full => Layout::Lines,
            Self::Compact => Layout::OneLine,
        }
    }
}

/// One member of the argument or output map.
struct Entry<'a> {
    name: &'a str,
    owner: &'a str,
    fallback: &'a str,
    description: Option<&'a str>,
}

impl Entry<'_> {
    fn write(
        &self,
        out: &mut String,
        named: &mut String,
        converted: &Converted<'_>,
        taken: &mut HashSet<String>,
        detail: Detail,
    ) {
        let names = Names::choose(converted, self.owner, self.fallback, taken);
        let mut printer = Printer::new(converted, &names, detail.layout());
        let (doc, root) = converted.arena.undocumented(converted.root);
        comment_line(out, join(self.description, doc.as_deref()).as_deref(), 1);
        let member = text::member(self.name);
        indent(out, 1);
        out.push_str(&member);
        out.push_str(": ");
        out.push_str(&printer.text(root, 1, member.len() + 4));
        out.push_str(";\n");
        named.push_str(&printer.declarations());
    }
}

/// Sorts by UTF-16 units, as JavaScript's own sort does, so that this order is the one `tools.list()` shows. Of tools
/// with one name the first is kept.
fn sorted<'t, 'a>(tools: &'t [ToolDecl<'a>]) -> Vec<&'t ToolDecl<'a>> {
    let mut sorted: Vec<&ToolDecl<'_>> = tools.iter().collect();
    sorted.sort_by(|a, b| a.name.encode_utf16().cmp(b.name.encode_utf16()));
    sorted.dedup_by(|later, first| later.name == first.name);
    sorted
}

/// Returns the tool's part of its named types' names.
fn owner(name: &str) -> String {
    let name = text::pascal(name, MAX_TYPE_NAME_CHARS);
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        name
    } else {
        format!("T{name}")
    }
}

fn output_schema<'a>(tool: &ToolDecl<'a>) -> Option<(&'a Value, Option<&'static str>)> {
    match tool.output {
        Output::Declared(schema) if schema.is_object() || schema.is_boolean() => Some((schema, None)),
        Output::Observed(schema) => Some((schema, Some(OBSERVED))),
        Output::Declared(_) | Output::Unknown => None,
    }
}

/// Returns one description out of two, each once.
fn join(first: Option<&str>, second: Option<&str>) -> Option<String> {
    match (
        first.map(str::trim).filter(|text| !text.is_empty()),
        second.map(str::trim),
    ) {
        (Some(first), Some(second)) if first.contains(second) => Some(first.to_owned()),
        (Some(first), Some(second)) => Some(format!("{first} {second}")),
        (first, second) => first.or(second).map(str::to_owned),
    }
}

/// Returns the name as the head of a method: `name` or `["my-tool.x"]`.
fn callable(name: &str) -> String {
    if text::is_identifier(name) {
        name.to_owned()
    } else {
        format!("[{}]", text::quote(name))
    }
}

fn access(name: &str) -> String {
    if text::is_identifier(name) {
        format!(".{name}")
    } else {
        format!("[{}]", text::quote(name))
    }
}

fn parameter(input: &Converted<'_>, layout: Layout) -> String {
    let names = Names::none(input);
    let printer = Printer::new(input, &names, layout);
    let optional = printer.takes_nothing(input.root);
    let text = brief(input, layout);
    match text.as_str() {
        "JsonObject" | "Record<string, never>" => String::new(),
        _ => format!("args{}: {text}", if optional { "?" } else { "" }),
    }
}

fn brief(converted: &Converted<'_>, layout: Layout) -> String {
    let names = Names::none(converted);
    Printer::new(converted, &names, layout)
        .within(MAX_SIGNATURE_CHARS * 4)
        .text(converted.root, 0, 0)
}
