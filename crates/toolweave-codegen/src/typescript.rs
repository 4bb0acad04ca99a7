//! The TypeScript that a model reads: the block of declarations for a set of tools, and one tool in one line or
//! in full.

use serde_json::Value;

use crate::convert::{Comments, Root, convert};
use crate::ir::TyId;
use crate::limits::MAX_SIGNATURE_CHARS;
use crate::pool::Pool;
use crate::print::{Brief, Layout, Printer, comment, comment_line, indent};
use crate::text;
use crate::{Detail, Output, Rendered, ToolDecl};

const OBSERVED: &str = "observed, not guaranteed";

/// What the whole arguments or result of several tools are called.
const ARGUMENTS: &str = "Args";
const RESULT: &str = "Result";

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
    let mut pool = Pool::new();
    let mut entries = Vec::new();
    for tool in &tools {
        let input = pool.add(&convert(tool.input, Root::Arguments, detail.comments()));
        let output = output_schema(tool)
            .map(|(schema, mark)| (pool.add(&convert(schema, Root::Value, detail.comments())), mark));
        entries.push((tool, input, output));
    }
    let mut roots = Vec::new();
    for &(_, input, output) in &entries {
        roots.push((pool.undocumented(input).1, ARGUMENTS));
        roots.extend(output.map(|(output, _)| (pool.undocumented(output).1, RESULT)));
    }
    let plan = pool.plan(&roots);
    let mut printer = Printer::new(&pool, &plan, detail.layout());
    let mut arguments = String::new();
    let mut outputs = String::new();
    for (tool, input, output) in entries {
        let description = match detail {
            Detail::Full => Some(tool.description),
            Detail::Compact => None,
        };
        write_entry(&mut arguments, &pool, &mut printer, tool.name, description, input);
        if let Some((output, mark)) = output {
            write_entry(&mut outputs, &pool, &mut printer, tool.name, mark, output);
        }
    }
    let named = printer.declarations();
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

/// What a compiler is told instead of [`JSON`] and the head of [`TOOLS`].
const CHECKED: &str = "\
type JsonValue = any;
type JsonObject = { [key: string]: any };
type ToolName = keyof ToolArgsMap;
declare class ToolCallError extends Error { toolName: string }
";

/// The functions of discovery, with and without the `$`.
const CHECKED_DISCOVERY: [(&str, &str); 4] = [
    ("list", "(): string[]"),
    (
        "search",
        "(query: any, options?: { limit?: number }): Promise<Array<{ name: string; description: string; signature: string }>>",
    ),
    ("help", "(name: any): Promise<string>"),
    ("call", "(name: string, args?: any): Promise<any>"),
];

pub(crate) fn checked(tools: &[ToolDecl<'_>]) -> String {
    let tools = sorted(tools);
    let mut pool = Pool::new();
    let mut entries = Vec::new();
    for tool in &tools {
        let input = pool.add(&convert(tool.input, Root::Arguments, Comments::Drop));
        let declared = match tool.output {
            Output::Declared(_) => output_schema(tool).map(|(schema, _)| schema),
            Output::Observed(_) | Output::Unknown => None,
        };
        let output = declared.map(|schema| pool.add(&convert(schema, Root::Value, Comments::Drop)));
        entries.push((tool.name, input, output));
    }
    let mut roots = Vec::new();
    for &(_, input, output) in &entries {
        roots.push((pool.undocumented(input).1, ARGUMENTS));
        roots.extend(output.map(|output| (pool.undocumented(output).1, RESULT)));
    }
    let plan = pool.plan(&roots);
    let mut printer = Printer::new(&pool, &plan, Layout::Marked);
    let (mut members, mut arguments, mut outputs) = (String::new(), String::new(), String::new());
    for (name, input, output) in entries {
        write_entry(&mut arguments, &pool, &mut printer, name, None, input);
        if let Some(output) = output {
            write_entry(&mut outputs, &pool, &mut printer, name, None, output);
        }
        let optional = if printer.takes_nothing(input) { "?" } else { "" };
        let key = text::quote(name);
        let result = match output {
            Some(_) => format!("ToolOutputMap[{key}]"),
            None => "any".to_owned(),
        };
        members.push_str(&format!(
            "  {}: (args{optional}: ToolArgsMap[{key}]) => Promise<{result}>;\n",
            text::member(name)
        ));
    }
    for (name, rest) in CHECKED_DISCOVERY {
        for name in [format!("${name}"), name.to_owned()] {
            if name != "call" && tools.iter().all(|tool| tool.name != name) {
                members.push_str(&format!("  {name}{rest};\n"));
            }
        }
    }
    format!(
        "{CHECKED}interface ToolArgsMap {{\n{arguments}}}\ninterface ToolOutputMap {{\n{outputs}}}\n{}interface Tools \
         {{\n{members}}}\ndeclare const tools: Tools;\ndeclare const sdk: Tools;\n",
        printer.declarations()
    )
}

pub(crate) fn signature(tool: &ToolDecl<'_>) -> String {
    let mut pool = Pool::new();
    let input = pool.add(&convert(tool.input, Root::Arguments, Comments::Drop));
    let output =
        output_schema(tool).map(|(schema, _)| pool.add(&convert(schema, Root::Value, Comments::Drop)));
    let plan = pool.plain_plan();
    let write = |root: TyId, brief: Brief| {
        Printer::new(&pool, &plan, Layout::Brief(brief))
            .within(MAX_SIGNATURE_CHARS * 4)
            .text(root, 0, 0)
    };
    let optional = Printer::new(&pool, &plan, Layout::OneLine).takes_nothing(input);
    let name = if text::is_identifier(tool.name) {
        tool.name.to_owned()
    } else {
        format!("[{}]", text::quote(tool.name))
    };
    let name = text::shorten(&name, MAX_SIGNATURE_CHARS / 2);
    let observed = if matches!(tool.output, Output::Observed(_)) {
        " // observed"
    } else {
        ""
    };
    let line = |arguments: &str, result: &str| format!("{name}({arguments}): Promise<{result}>{observed}");
    let fits = |line: &String| line.chars().count() <= MAX_SIGNATURE_CHARS;
    // From everything to hardly more than the names of the first parameters.
    let all = usize::MAX;
    let steps = [
        (6, 12, all),
        (3, 8, all),
        (2, 5, all),
        (1, 4, all),
        (1, 2, all),
        (1, 2, 24),
        (1, 2, 12),
        (1, 1, 6),
        (1, 1, 3),
    ];
    for (depth, members, properties) in steps {
        let brief = Brief {
            depth,
            members,
            properties,
        };
        let arguments = match write(input, brief).as_str() {
            "JsonObject" | "Record<string, never>" => String::new(),
            arguments => format!("args{}: {arguments}", if optional { "?" } else { "" }),
        };
        let result = match output {
            Some(output) => write(
                output,
                Brief {
                    depth: depth.min(3),
                    ..brief
                },
            ),
            None => "JsonValue".to_owned(),
        };
        if let Some(line) = [line(&arguments, &result), line(&arguments, "unknown")]
            .into_iter()
            .find(fits)
        {
            return line;
        }
    }
    line("args: JsonObject", "unknown")
}

pub(crate) fn help(tool: &ToolDecl<'_>) -> String {
    let mut pool = Pool::new();
    let input = pool.add(&convert(tool.input, Root::Arguments, Comments::Keep));
    let output = output_schema(tool)
        .map(|(schema, mark)| (pool.add(&convert(schema, Root::Value, Comments::Keep)), mark));
    let (input_doc, input) = pool.undocumented(input);
    let output = output.map(|(root, mark)| (pool.undocumented(root), mark));
    let mut roots = vec![(input, ARGUMENTS)];
    roots.extend(output.as_ref().map(|((_, root), _)| (*root, RESULT)));
    let plan = pool.plan(&roots);
    let mut printer = Printer::new(&pool, &plan, Layout::Lines);
    let mut out = String::new();
    comment_line(
        &mut out,
        join(Some(tool.description), input_doc.as_deref()).as_deref(),
        0,
    );
    let access = if text::is_identifier(tool.name) {
        format!("tools.{}", tool.name)
    } else {
        format!("tools[{}]", text::quote(tool.name))
    };
    let optional = if printer.takes_nothing(input) { "?" } else { "" };
    let head = format!("{access}(args{optional}: ");
    out.push_str(&head);
    out.push_str(&printer.text(input, 0, head.len()));
    out.push_str("): ");
    match output {
        None => out.push_str("Promise<JsonValue>;\n"),
        Some(((doc, root), mark)) => {
            comment(&mut out, join(mark, doc.as_deref()).as_deref());
            out.push_str(&format!("Promise<{}>;\n", printer.text(root, 0, 8)));
        }
    }
    out.push_str(&printer.declarations());
    out
}

pub(crate) fn type_of(schema: &Value) -> Rendered {
    let mut pool = Pool::new();
    let root = pool.add(&convert(schema, Root::Value, Comments::Keep));
    let plan = pool.plan(&[(root, "")]);
    let mut printer = Printer::new(&pool, &plan, Layout::Lines);
    Rendered {
        text: printer.text(root, 0, 0),
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

/// Writes one member of the argument or output map.
fn write_entry(
    out: &mut String,
    pool: &Pool,
    printer: &mut Printer<'_>,
    name: &str,
    description: Option<&str>,
    root: TyId,
) {
    let (doc, root) = pool.undocumented(root);
    comment_line(out, join(description, doc.as_deref()).as_deref(), 1);
    let member = text::member(name);
    indent(out, 1);
    out.push_str(&member);
    out.push_str(": ");
    out.push_str(&printer.text(root, 1, member.len() + 4));
    out.push_str(";\n");
}

/// Sorts by UTF-16 units, as JavaScript's own sort does, so that this order is the one `tools.list()` shows. Of tools
/// with one name the first is kept.
fn sorted<'t, 'a>(tools: &'t [ToolDecl<'a>]) -> Vec<&'t ToolDecl<'a>> {
    let mut sorted: Vec<&ToolDecl<'_>> = tools.iter().collect();
    sorted.sort_by(|a, b| a.name.encode_utf16().cmp(b.name.encode_utf16()));
    sorted.dedup_by(|later, first| later.name == first.name);
    sorted
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
