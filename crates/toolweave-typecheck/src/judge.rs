//! Which complaints of the compiler are certain to be mistakes in dealing with tools, which are worth a word, and which are
//! about style.
//!
//! A model writes TypeScript to get something done, not to please a compiler. So a complaint counts only where it is
//! about a type of a tool, and stops a program only where no reading of the program makes it work: a union of which one
//! member fits, a widened literal, or a member that the program itself adds are doubts at most.

use std::collections::HashSet;

use crate::Complaint;
use crate::limits::MAX_COMPLAINT_CHARS;
use crate::server::Raw;

/// The name of an optional member that every object type of a tool has in the declarations.
pub const MARK: &str = "~";
/// How the compiler writes that member.
const SHOWN_MARK: &str = "\"~\"?: never;";
/// What the names of a tool's types begin with.
const NAMED: char = '$';
/// The type of `tools`. Names of tools that do not exist are found without a compiler, and explained better.
const TOOLS: &str = "Tools";

/// How certain a complaint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// A mistake in dealing with a tool, whatever happens at run time.
    Mistake,
    /// Probably a mistake; the program may work all the same.
    Doubt,
}

/// The complaints that count, with the worst verdict that they get and why. All others are dropped: they are about
/// style (implicit `any`, unused names, values that may be `undefined`), about types that the program made itself and that
/// are gone when it runs, or about names, which the run reports better.
pub const CODES: &[(u32, Verdict, &str)] = &[
    (
        2322,
        Verdict::Mistake,
        "a part of a tool's argument has a type that the tool refuses",
    ),
    (
        2345,
        Verdict::Mistake,
        "a tool's argument has a type that the tool refuses",
    ),
    (2353, Verdict::Mistake, "a tool has no parameter of this name"),
    (
        2561,
        Verdict::Mistake,
        "a tool has no parameter of this name, but one like it",
    ),
    (
        2559,
        Verdict::Doubt,
        "a tool's argument has none of its parameters; all may be optional",
    ),
    (2739, Verdict::Mistake, "parameters that a tool needs are missing"),
    (2740, Verdict::Mistake, "parameters that a tool needs are missing"),
    (2741, Verdict::Mistake, "a parameter that a tool needs is missing"),
    (
        2820,
        Verdict::Mistake,
        "a part of a tool's argument has a value that the tool refuses, but knows one like it",
    ),
    (
        2554,
        Verdict::Mistake,
        "a tool that needs an argument is called without",
    ),
    (
        2339,
        Verdict::Mistake,
        "a result of a tool has no member of this name, and the program goes on from there; a doubt where it only reads it",
    ),
    (
        2551,
        Verdict::Mistake,
        "a result of a tool has no member of this name, but one like it",
    ),
    (2461, Verdict::Mistake, "a result of a tool is taken for an array"),
    (
        2488,
        Verdict::Mistake,
        "a result of a tool is iterated that is no list",
    ),
    (
        2495,
        Verdict::Mistake,
        "a result of a tool is iterated that is no list",
    ),
    (
        2549,
        Verdict::Mistake,
        "a result of a tool is iterated that is no list",
    ),
    (
        2367,
        Verdict::Doubt,
        "a comparison that is always false, as with a misspelt value of an `enum`",
    ),
];

/// Complaints about where something is written that say nothing about the types around it: a namespace or an `export` in
/// the function that a program becomes.
const HARMLESS_GRAMMAR: &[u32] = &[1108, 1184, 1233, 1234, 1235];

/// Judges what the compiler says about one program. What counts is sorted by place, each line of text once.
pub(crate) fn judge(raws: &[Raw], program: &str) -> Vec<Complaint> {
    // What the compiler reads otherwise than the engine's own parser, it does not understand.
    if raws
        .iter()
        .any(|raw| (1000..2000).contains(&raw.code) && !HARMLESS_GRAMMAR.contains(&raw.code))
    {
        return Vec::new();
    }
    let text = Text::new(program);
    let missing = raws.iter().filter(|raw| matches!(raw.code, 2339 | 2551));
    let named = |is: fn(&Text<'_>, &Raw) -> bool| -> HashSet<&str> {
        missing
            .clone()
            .filter(|raw| is(&text, raw))
            .filter_map(|raw| quoted(&raw.message))
            .collect()
    };
    let names = Names {
        added: named(|text, raw| text.is_written(raw)),
        probed: named(|text, raw| text.is_probed(raw)),
    };
    let mut complaints: Vec<_> = raws
        .iter()
        .filter_map(|raw| {
            Some(Complaint {
                line: raw.line,
                column: raw.column,
                code: raw.code,
                verdict: verdict(raw, &text, &names)?,
                message: readable(raw),
            })
        })
        .collect();
    complaints.sort_by_key(|complaint| (complaint.line, complaint.column, complaint.code));
    complaints.dedup_by(|later, first| later.line == first.line && later.message == first.message);
    complaints
}

/// Members that types do not have and that the program knows about.
struct Names<'r> {
    /// It puts something there itself.
    added: HashSet<&'r str>,
    /// It asks whether they are there.
    probed: HashSet<&'r str>,
}

fn verdict(raw: &Raw, text: &Text<'_>, names: &Names<'_>) -> Option<Verdict> {
    let &(_, worst, _) = CODES.iter().find(|(code, ..)| *code == raw.code)?;
    let lines: Vec<&str> = raw.message.lines().map(str::trim).collect();
    let first = lines.first()?;
    let found = match raw.code {
        2322 | 2820 => raw.about_tools.then(|| certainty(&lines)),
        2345 => {
            let (_, parameter) = two_types(first)?;
            is_of_a_tool(parameter).then(|| certainty(&lines))
        }
        2353 | 2561 => {
            let target = last_type(first)?;
            is_of_a_tool(target).then(|| doubt_if(is_union(target)))
        }
        2739..=2741 => {
            let target = last_type(first)?;
            let missing_later = first
                .split('\'')
                .skip(1)
                .step_by(2)
                .any(|name| names.added.contains(name));
            is_of_a_tool(target).then(|| doubt_if(missing_later || certainty(&lines) == Verdict::Doubt))
        }
        2559 => is_of_a_tool(last_type(first)?).then_some(Verdict::Doubt),
        2554 => raw.about_tools.then_some(Verdict::Mistake),
        2339 | 2551 => {
            let owner = type_after(first, "on type '")?;
            let name = quoted(first)?;
            let own = names.added.contains(name) || owner == TOOLS;
            let doubtful = || {
                // What is not there is `undefined`, which is no failure by itself; a misspelt name is none of a tool's.
                let harmless = raw.code == 2339 && !text.is_gone_on_from(raw);
                harmless || is_union(awaited(owner)) || names.probed.contains(name)
            };
            (is_of_a_tool(awaited(owner)) && !own).then(|| doubt_if(doubtful()))
        }
        2461 | 2488 | 2495 | 2549 => {
            let iterated = type_after(first, "Type '")?;
            is_of_a_tool(awaited(iterated)).then(|| doubt_if(is_union(awaited(iterated))))
        }
        2367 => {
            let (left, right) = two_types(first)?;
            // The compiler does not see that a callback changes a flag.
            let flag = |side: &str| matches!(side, "true" | "false" | "boolean");
            (!flag(left) && !flag(right)).then_some(Verdict::Doubt)
        }
        _ => None,
    }?;
    Some(found.max(worst))
}

fn doubt_if(doubtful: bool) -> Verdict {
    if doubtful {
        Verdict::Doubt
    } else {
        Verdict::Mistake
    }
}

/// Says whether a value that the compiler refuses is refused by a tool whatever it turns out to be. Looks at every line of
/// the explanation, the last of which gives the reason.
fn certainty(lines: &[&str]) -> Verdict {
    let mut reason = Verdict::Doubt;
    for line in lines {
        if line.starts_with("Types of property ") || line.starts_with("The types of '") {
            continue;
        }
        if line.contains(" is missing in type '") || line.contains(" is missing the following properties") {
            let source = type_after(line, "in type '").or_else(|| type_after(line, "Type '"));
            reason = match source {
                // The program may add to an empty object what the compiler does not follow.
                Some(source) => {
                    doubt_if(source == "{}" || is_union(source) || Kind::of(source) == Kind::Unclear)
                }
                None => Verdict::Doubt,
            };
            continue;
        }
        let Some((source, target)) = two_types(line) else {
            return Verdict::Doubt;
        };
        if is_union(source) {
            return Verdict::Doubt;
        }
        reason = doubt_if(!never_fits(source, target));
    }
    reason
}

/// Says whether no value of one type is one of another. The compiler has said that not every value is.
fn never_fits(source: &str, target: &str) -> bool {
    let targets = union_members(target);
    let any = |kind: Kind| targets.iter().any(|target| Kind::of(target) == kind);
    match Kind::of(source) {
        Kind::Unclear => false,
        Kind::Literal(_) => !any(Kind::Unclear),
        // `let mode = "a"` is a string to the compiler; what it holds may fit.
        Kind::Primitive(name) => !any(Kind::Unclear) && !any(Kind::Literal(name)),
        kind @ (Kind::Array | Kind::Object) => !any(Kind::Unclear) && !any(kind),
        Kind::Promise => !any(Kind::Promise) && !any(Kind::Unclear),
        Kind::Function => !any(Kind::Function) && !any(Kind::Unclear),
    }
}

/// What a type is, as far as its text tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Primitive(&'static str),
    /// With the primitive type that it is a value of.
    Literal(&'static str),
    Array,
    Object,
    Promise,
    Function,
    /// A name, `any`, `unknown`, or more than one of the above.
    Unclear,
}

impl Kind {
    fn of(text: &str) -> Self {
        let text = text.trim();
        let parts = split(text, '&');
        if parts.len() > 1 {
            let all_objects = parts.iter().all(|part| Self::of(part) == Self::Object);
            return if all_objects { Self::Object } else { Self::Unclear };
        }
        if is_union(text) {
            return Self::Unclear;
        }
        match text {
            // The name that declarations of tools have for any object.
            "JsonObject" => return Self::Object,
            "string" => return Self::Primitive("string"),
            "number" => return Self::Primitive("number"),
            "boolean" => return Self::Primitive("boolean"),
            "true" | "false" => return Self::Literal("boolean"),
            _ => {}
        }
        match text.chars().next() {
            Some('(') if text.ends_with("[]") => Self::Array,
            Some('(') if text.contains("=>") => Self::Function,
            Some('"') if text.ends_with('"') => Self::Literal("string"),
            Some('0'..='9' | '-') => Self::Literal("number"),
            Some('[') => Self::Array,
            _ if text.starts_with("Promise<") => Self::Promise,
            _ if text.ends_with("[]") => Self::Array,
            Some('{') => Self::Object,
            _ => Self::Unclear,
        }
    }
}

/// Says whether a type is one from the declarations of tools: it begins with the mark or has a name that they give.
fn is_of_a_tool(text: &str) -> bool {
    let text = text.trim_start_matches('(');
    text.starts_with(NAMED)
        || text
            .strip_prefix("{ ")
            .is_some_and(|rest| rest.starts_with(SHOWN_MARK))
}

/// Returns what a promise is of, or the type itself.
fn awaited(text: &str) -> &str {
    text.strip_prefix("Promise<")
        .and_then(|inner| inner.strip_suffix('>'))
        .unwrap_or(text)
}

fn is_union(text: &str) -> bool {
    union_members(text).len() > 1
}

/// Splits a union into its members.
fn union_members(text: &str) -> Vec<&str> {
    split(text, '|')
}

/// Splits a type at its own operators, not at those inside brackets or texts.
fn split(text: &str, operator: char) -> Vec<&str> {
    let (mut members, mut start, mut depth, mut quoted, mut escaped) = (Vec::new(), 0, 0i32, false, false);
    for (at, c) in text.char_indices() {
        if quoted {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => quoted = false,
                _ => {}
            }
            continue;
        }
        match c {
            '"' => quoted = true,
            '(' | '[' | '{' | '<' => depth += 1,
            // Not the end of an arrow.
            '>' if text[..at].ends_with('=') => {}
            ')' | ']' | '}' | '>' => depth -= 1,
            _ if c == operator && depth == 0 => {
                members.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    members.push(text[start..].trim());
    members
}

/// Returns the two types of `... 'A' ... 'B'.`: the first begins at the first mark of quotation, the second ends at the last.
fn two_types(line: &str) -> Option<(&str, &str)> {
    const BETWEEN: [&str; 3] = [
        "' is not assignable to type '",
        "' is not assignable to parameter of type '",
        "' and '",
    ];
    let line = before_suggestion(line);
    let (start, end) = (line.find('\'')? + 1, line.rfind('\'')?);
    let inner = line.get(start..end)?;
    BETWEEN.iter().find_map(|between| inner.split_once(between))
}

/// Returns the last type of a line.
fn last_type(line: &str) -> Option<&str> {
    let line = before_suggestion(line);
    ["in type '", "from type '", "with type '"]
        .iter()
        .filter_map(|before| line.rfind(before).map(|at| at + before.len()))
        .max()
        .and_then(|start| line.get(start..)?.rsplit_once('\'').map(|(text, _)| text))
}

/// Returns the type behind some words.
fn type_after<'a>(line: &'a str, before: &str) -> Option<&'a str> {
    const ENDS: [&str; 4] = [
        "' but required in type '",
        "' is missing ",
        "' must have ",
        "' is not an array type",
    ];
    let line = before_suggestion(line);
    let rest = line.get(line.find(before)? + before.len()..)?;
    let end = ENDS
        .iter()
        .find_map(|end| rest.find(end))
        .or_else(|| rest.rfind('\''))?;
    rest.get(..end)
}

fn before_suggestion(line: &str) -> &str {
    line.find("'. Did you mean ").map_or(line, |at| &line[..=at])
}

/// Returns what stands in the first marks of quotation.
fn quoted(message: &str) -> Option<&str> {
    message.split('\'').nth(1)
}

/// Puts a complaint on one line, without the mark.
fn readable(raw: &Raw) -> String {
    let mut text = raw
        .message
        .lines()
        .map(str::trim)
        .collect::<Vec<_>>()
        .join(" ")
        .replace(&format!("{{ {SHOWN_MARK} }}"), "{}")
        .replace(&format!("{SHOWN_MARK} "), "");
    if raw.wants_await {
        text.push_str(" Did you forget `await`?");
    }
    let shown = text.strip_suffix('.').unwrap_or(&text);
    if shown.chars().count() <= MAX_COMPLAINT_CHARS {
        return shown.to_owned();
    }
    let mut cut: String = shown.chars().take(MAX_COMPLAINT_CHARS - 1).collect();
    cut.push('…');
    cut
}

/// The text of a program, to look at what stands around a complaint.
struct Text<'p> {
    lines: Vec<&'p str>,
}

impl<'p> Text<'p> {
    fn new(program: &'p str) -> Self {
        Self {
            lines: program.split('\n').collect(),
        }
    }

    /// Says whether a value is put into the member that the complaint is about.
    fn is_written(&self, raw: &Raw) -> bool {
        let after = self.after(raw);
        let assigned = after.starts_with('=') && !after.starts_with("==") && !after.starts_with("=>");
        let changed = ["+=", "-=", "*=", "/=", "%=", "??=", "||=", "&&=", "++", "--"]
            .iter()
            .any(|operator| after.starts_with(operator));
        (assigned || changed) && self.before(raw).ends_with('.')
    }

    /// Says whether the program asks if the member is there, or has something in its place.
    fn is_probed(&self, raw: &Raw) -> bool {
        const PROBES: [&str; 6] = ["??", "||", "?.", "===", "!==", "&&"];
        let after = self.after(raw);
        if PROBES.iter().any(|probe| after.starts_with(probe)) {
            return true;
        }
        let before = self.before(raw);
        // `{ total = 0 } = result`, `result.total ? ... : ...`, `if (result.total)`
        let has_default = !before.ends_with('.') && after.starts_with('=') && !after.starts_with("=>");
        let asks = after.starts_with('?');
        let statement = before
            .rsplit([';', '{', '}'])
            .next()
            .unwrap_or_default()
            .trim_start();
        let statement = statement.strip_prefix("else ").unwrap_or(statement);
        let conditional = statement.starts_with("if") || statement.starts_with("while");
        has_default || asks || (conditional && after.starts_with(')')) || statement.contains("typeof ")
    }

    /// Says whether the program reads a member of what it finds, calls it or goes through it: of `undefined` that fails.
    fn is_gone_on_from(&self, raw: &Raw) -> bool {
        let after = self.after(raw);
        let before = self.before(raw);
        let statement = before.rsplit([';', '{', '}']).next().unwrap_or_default();
        let iterated =
            statement.trim_start().starts_with("for") && statement.contains(" of ") && after.starts_with(')');
        before.ends_with('.') && (after.starts_with(['.', '(', '[']) || iterated)
    }

    fn before(&self, raw: &Raw) -> &'p str {
        let Some(line) = self.line(raw.line) else {
            return "";
        };
        line.get(..byte(line, raw.column)).unwrap_or_default().trim_end()
    }

    fn after(&self, raw: &Raw) -> &'p str {
        let (at, column) = raw.end;
        let Some(line) = self.line(at) else {
            return "";
        };
        let rest = line.get(byte(line, column)..).unwrap_or_default().trim_start();
        if !rest.is_empty() {
            return rest;
        }
        self.line(at.saturating_add(1)).unwrap_or_default().trim_start()
    }

    fn line(&self, number: u32) -> Option<&'p str> {
        self.lines.get((number as usize).checked_sub(1)?).copied()
    }
}

/// Returns the byte offset of a column in UTF-16 units from 1.
fn byte(line: &str, column: u32) -> usize {
    let mut units = 1;
    for (at, c) in line.char_indices() {
        if units >= column as usize {
            return at;
        }
        units += c.len_utf16();
    }
    line.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_are_listed_once() {
        let codes: HashSet<u32> = CODES.iter().map(|(code, ..)| *code).collect();
        assert_eq!(codes.len(), CODES.len());
    }

    #[test]
    fn types_are_told_apart_by_their_text() {
        let cases = [
            ("string", Kind::Primitive("string")),
            ("\"a | b\"", Kind::Literal("string")),
            ("-1", Kind::Literal("number")),
            ("(string | number)[]", Kind::Array),
            ("{ a: string | number; }", Kind::Object),
            ("Promise<{ a: string; }>", Kind::Promise),
            ("(a: string) => void", Kind::Function),
            ("string | number", Kind::Unclear),
            ("Date", Kind::Unclear),
            ("any", Kind::Unclear),
            ("$Doc & { a: string; }", Kind::Unclear),
            ("{ a: $A & $B; } & JsonObject", Kind::Object),
            ("{ a: string; } | { b: string; } & JsonObject", Kind::Unclear),
        ];
        for (text, expected) in cases {
            assert_eq!(Kind::of(text), expected, "{text}");
        }
    }

    #[test]
    fn a_value_never_fits_where_no_reading_of_it_does() {
        let cases = [
            ("number", "string", true),
            ("string", "\"a\" | \"b\"", false),
            ("number", "\"a\" | \"b\"", true),
            ("\"c\"", "\"a\" | \"b\"", true),
            ("boolean", "true", false),
            ("string", "string[]", true),
            ("string[]", "string", true),
            ("string[]", "[string, string]", false),
            ("Promise<any>", "string", true),
            ("unknown", "string", false),
            ("Date", "string", false),
            ("{ a: string; }", "{ b: string; }", false),
            ("{ a: string; }", "string | number", true),
            ("string", "number | Date", false),
        ];
        for (source, target, expected) in cases {
            assert_eq!(never_fits(source, target), expected, "{source} for {target}");
        }
    }

    #[test]
    fn types_are_found_in_messages() {
        assert_eq!(
            two_types("Type '\"c\"' is not assignable to type '\"a\" | \"b\"'."),
            Some(("\"c\"", "\"a\" | \"b\""))
        );
        assert_eq!(
            last_type(
                "Object literal may only specify known properties, but 'a' does not exist in type '{ b: \"'\"; }'. Did you mean to write 'b'?"
            ),
            Some("{ b: \"'\"; }")
        );
        assert_eq!(
            type_after(
                "Property 'a' does not exist on type '$Doc[]'. Did you mean 'b'?",
                "on type '"
            ),
            Some("$Doc[]")
        );
        assert_eq!(
            type_after(
                "Type 'X' must have a '[Symbol.iterator]()' method that returns an iterator.",
                "Type '"
            ),
            Some("X")
        );
    }
}
