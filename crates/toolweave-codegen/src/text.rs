//! Turning foreign text into inert TypeScript: comments, string literals, names. It knows nothing about schemas.

/// Returns `text` as the inside of a one-line comment: whitespace collapsed, invisible characters removed, and
/// nothing left that could end the comment, steer the compiler or look like a template marker.
pub(crate) fn comment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut ticks = 0usize;
    let mut space = false;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        // Most text is runs of characters that need no thought.
        let run = rest.bytes().position(|byte| !is_tame(byte)).unwrap_or(rest.len());
        if run > 0 {
            if space && !out.is_empty() {
                out.push(' ');
            }
            (space, ticks) = (false, 0);
            out.push_str(&rest[..run]);
            rest = &rest[run..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        if c.is_whitespace() || c.is_control() {
            space = true;
            continue;
        }
        if is_invisible(c) {
            continue;
        }
        if space {
            ticks = 0;
            if !out.is_empty() {
                out.push(' ');
            }
        }
        space = false;
        ticks = if c == '`' { ticks + 1 } else { 0 };
        match c {
            // A run of three or more would open or close a Markdown fence; one says the same.
            '`' if ticks == 3 => {
                out.pop();
            }
            '`' if ticks > 3 => {}
            '/' if out.ends_with('*') => out.push_str("\\/"),
            '{' if out.ends_with('{') => out.push_str(" {"),
            '-' if out.ends_with("@ts") => {
                out.truncate(out.len() - 2);
                out.push_str(" ts-");
            }
            _ => out.push(c),
        }
    }
    out
}

/// Tells the characters that mean nothing to a comment wherever they stand.
fn is_tame(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'.' | b',' | b':' | b';' | b'(' | b')' | b'\'' | b'"' | b'_' | b'='
        )
}

/// Returns `text` as a TypeScript string literal in double quotes. Everything invisible or line-breaking is escaped.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if c.is_control() || is_invisible(c) || matches!(c, '\u{2028}' | '\u{2029}') => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Returns `name` as a member name: bare when it is an ASCII identifier, quoted otherwise.
pub(crate) fn member(name: &str) -> String {
    if is_identifier(name) && name != "__proto__" {
        name.to_owned()
    } else {
        quote(name)
    }
}

/// Returns true for an ASCII identifier. Reserved words count: they are legal as member names.
pub(crate) fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_' || c == '$')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$')
}

/// Returns the ASCII letters and digits of `name` in PascalCase, at most `max` of them.
pub(crate) fn pascal(name: &str, max: usize) -> String {
    let mut out = String::new();
    let mut upper = true;
    for c in name.chars() {
        if out.len() >= max {
            break;
        }
        if !c.is_ascii_alphanumeric() {
            upper = true;
        } else if upper {
            out.push(c.to_ascii_uppercase());
            upper = false;
        } else {
            out.push(c);
        }
    }
    out
}

/// Returns the first `max` characters of `text`, with an ellipsis if that cut it.
pub(crate) fn shorten(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Tells the characters that show nothing but change how text reads: direction marks, zero-width characters
/// (without the joiners that scripts and emoji need), tags and interlinear marks.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}
