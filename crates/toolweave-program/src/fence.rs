//! Finds the program in what a model sent: Markdown fences and prose around it.
//!
//! Only proposes readings, in order of preference; which of them is TypeScript is for the parser to say. Every
//! reading keeps its line numbers: what stands before the program becomes empty lines.

/// One way to read a text: the program alone, at the lines where it stood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) source: String,
    /// The language that the fence names, as written.
    pub(crate) language: Option<String>,
}

/// A line that can open or close a fenced block.
#[derive(Clone, Copy, Debug)]
struct Fence<'a> {
    line: usize,
    /// Byte offsets of the line itself and of the one after it.
    start: usize,
    next: usize,
    marker: u8,
    length: usize,
    info: &'a str,
}

/// Returns the readings of a text whose first line that is not blank opens a fence, best first.
pub(crate) fn leading(text: &str) -> Vec<Reading> {
    let fences = fences(text);
    match fences.first() {
        Some(first) if text[..first.start].trim().is_empty() => readings(text, *first, &fences),
        _ => Vec::new(),
    }
}

/// Returns the readings of a text that is no program as a whole but may be prose around one fenced block.
pub(crate) fn within_prose(text: &str) -> Vec<Reading> {
    let fences = fences(text);
    match fences.first() {
        Some(first) if is_prose(&text[..first.start]) => readings(text, *first, &fences),
        _ => Vec::new(),
    }
}

/// Counts the fenced blocks of a text, as Markdown pairs them.
pub(crate) fn blocks(text: &str) -> usize {
    let mut open: Option<Fence<'_>> = None;
    let mut count = 0;
    for fence in fences(text) {
        match open {
            Some(opening) if closes(fence, opening) => open = None,
            Some(_) => {}
            None => {
                count += 1;
                open = Some(fence);
            }
        }
    }
    count
}

fn readings(text: &str, opening: Fence<'_>, fences: &[Fence<'_>]) -> Vec<Reading> {
    let language = opening.info.split([' ', '\t', '{']).next().unwrap_or_default();
    let language = (!language.is_empty()).then(|| language.to_owned());
    let reading = |end: usize| Reading {
        source: "\n".repeat(opening.line + 1) + text.get(opening.next..end).unwrap_or_default(),
        language: language.clone(),
    };
    // A program may hold fences of its own, so the block ends at the last line that can close it, and a
    // block without an end goes to the end of the text.
    let closing = fences.iter().rev().find(|fence| closes(**fence, opening));
    let mut out: Vec<_> = closing.map(|fence| reading(fence.start)).into_iter().collect();
    out.push(reading(text.len()));
    out
}

fn closes(fence: Fence<'_>, opening: Fence<'_>) -> bool {
    fence.line > opening.line
        && fence.marker == opening.marker
        && fence.length >= opening.length
        && fence.info.is_empty()
}

fn fences(text: &str) -> Vec<Fence<'_>> {
    if !text.contains("```") && !text.contains("~~~") {
        return Vec::new();
    }
    let mut out = Vec::new();
    let mut start = 0;
    for (line, content) in text.split('\n').enumerate() {
        let next = (start + content.len() + 1).min(text.len());
        let trimmed = content.trim();
        let marker = trimmed.bytes().next().unwrap_or(0);
        if matches!(marker, b'`' | b'~') {
            let length = trimmed.bytes().take_while(|&byte| byte == marker).count();
            let info = trimmed[length..].trim();
            if length >= 3 && !info.contains(marker as char) {
                out.push(Fence {
                    line,
                    start,
                    next,
                    marker,
                    length,
                    info,
                });
            }
        }
        start += content.len() + 1;
    }
    out
}

/// Says whether the text before a fence can be talk. A program that is broken and holds a fence in a template
/// or a comment must not have that fence run instead of itself.
fn is_prose(before: &str) -> bool {
    let balanced = before.matches('`').count().is_multiple_of(2) && !before.contains("/*");
    balanced
        && before.lines().map(str::trim).all(|line| {
            let ends_like_code = line.ends_with([';', '{', '}', '(', '[', '=', ',', '>']);
            let starts_like_code = [
                "const ",
                "let ",
                "var ",
                "import ",
                "export ",
                "function ",
                "async ",
                "await ",
                "//",
            ]
            .iter()
            .any(|word| line.starts_with(word));
            // A comma or a quotation mark can end a line of prose, a list of names in code is what it is not.
            let comma = line.ends_with(',') && line.contains(' ') && !line.contains(['=', '(', '"']);
            !starts_like_code && (!ends_like_code || comma || line.starts_with('>'))
        })
}

/// Says whether the language that a fence names is one that runs here.
pub(crate) fn is_script(language: &str) -> bool {
    const KNOWN: [&str; 15] = [
        "ts",
        "typescript",
        "js",
        "javascript",
        "tsx",
        "jsx",
        "mjs",
        "cjs",
        "mts",
        "cts",
        "node",
        "ecmascript",
        "deno",
        "code",
        "run_code",
    ];
    KNOWN.contains(&language.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(text: &str) -> Vec<String> {
        let mut out = leading(text);
        out.extend(within_prose(text));
        out.dedup();
        out.into_iter().map(|reading| reading.source).collect()
    }

    #[test]
    fn fenced_programs_keep_their_lines() {
        assert_eq!(sources("```ts\na\n```")[0], "\na\n");
        assert_eq!(sources("\n\n``` \na\n```  \n\nbye")[0], "\n\n\na\n");
        assert_eq!(sources("~~~ts\n```\n~~~")[0], "\n```\n");
        assert_eq!(sources("```ts\na"), ["\na", "\na"][..1]);
        assert_eq!(
            sources("```ts\n\"```x\",\n```\nb\n```")[0],
            "\n\"```x\",\n```\nb\n"
        );
        assert_eq!(sources("Here it is:\n\n```js\na\n```\nDone.")[0], "\n\n\na\n");
        assert_eq!(
            sources("const a = `\n~~~\nevil()\n~~~\n`; ="),
            Vec::<String>::new()
        );
        assert_eq!(sources("a = ;\n~~~ts\nevil()\n~~~"), Vec::<String>::new());
        assert_eq!(sources("return 1"), Vec::<String>::new());
    }

    #[test]
    fn blocks_are_counted_as_markdown_pairs_them() {
        assert_eq!(blocks("```ts\na\n```\nthen\n```ts\nb\n```"), 2);
        assert_eq!(blocks("```ts\na\n```"), 1);
        assert_eq!(blocks("a"), 0);
    }
}
