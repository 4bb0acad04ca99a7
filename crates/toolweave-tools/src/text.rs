//! Small things about text: cutting it, and finding the name that was meant.

/// Returns text of at most `chars` characters, with `…` in the place of what was cut.
pub(crate) fn clip(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some(_) => {
            let end = text
                .char_indices()
                .nth(chars.saturating_sub(1))
                .map_or(0, |(at, _)| at);
            format!("{}…", &text[..end])
        }
    }
}

/// Returns text on one line, white space collapsed, of at most `chars` characters.
pub(crate) fn one_line(text: &str, chars: usize) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > chars * 4 {
            break;
        }
    }
    clip(&line, chars)
}

/// Names longer than this are compared by their start only; a name can be as long as its maker likes.
const COMPARED_CHARS: usize = 128;

/// Returns the names closest to the one that was written, best first, at most `most`.
///
/// Both spelling and parts count: `tickets.list_tickets` finds `mcp__tickets__list_tickets`.
pub(crate) fn nearest<'n>(
    wanted: &str,
    names: impl IntoIterator<Item = &'n str>,
    most: usize,
) -> Vec<&'n str> {
    let wanted = Shape::of(wanted);
    let mut scored: Vec<(f64, &'n str)> = names
        .into_iter()
        .filter_map(|name| {
            let score = wanted.likeness(&Shape::of(name));
            (score >= 0.6).then_some((score, name))
        })
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    let best = scored.first().map_or(0.0, |&(score, _)| score);
    scored
        .into_iter()
        .take(most)
        .filter(|&(score, _)| score + 0.25 >= best)
        .map(|(_, name)| name)
        .collect()
}

/// A name in the forms that are compared.
struct Shape {
    /// Letters and digits, lower case.
    flat: String,
    /// The words of the name.
    parts: Vec<String>,
}

impl Shape {
    fn of(name: &str) -> Self {
        let parts = words(
            name.get(..name.floor_char_boundary(COMPARED_CHARS))
                .unwrap_or(name),
        );
        Self {
            flat: parts.concat(),
            parts,
        }
    }

    /// Returns how alike two names are, from 0 to 1.
    fn likeness(&self, other: &Self) -> f64 {
        if self.flat.is_empty() || other.flat.is_empty() {
            return 0.0;
        }
        if self.flat == other.flat {
            return 1.0;
        }
        let spelling = strsim::normalized_damerau_levenshtein(&self.flat, &other.flat);
        let (short, long) = if self.flat.len() <= other.flat.len() {
            (self, other)
        } else {
            (other, self)
        };
        // A whole name inside the other, at its end above all: `list_tickets` in `mcp__tickets__list_tickets`.
        let inside = if short.flat.len() >= 4 && long.flat.ends_with(&short.flat) {
            0.95
        } else if short.flat.len() >= 4 && long.flat.contains(&short.flat) {
            0.8
        } else {
            0.0
        };
        let shared = short
            .parts
            .iter()
            .filter(|part| long.parts.contains(part))
            .count();
        let parts = if short.parts.len() >= 2 {
            0.9 * shared as f64 / short.parts.len() as f64
        } else {
            0.0
        };
        spelling.max(inside).max(parts)
    }
}

/// Splits a name into lower-case words at separators, between `aB`, and between letters and digits of `ABc`.
pub(crate) fn words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut before: Option<char> = None;
    let mut chars = name.chars().peekable();
    while let Some(c) = chars.next() {
        if !c.is_alphanumeric() {
            push(&mut words, &mut word);
            before = None;
            continue;
        }
        let after_lower = before.is_some_and(|b| b.is_lowercase() || b.is_numeric()) && c.is_uppercase();
        let end_of_acronym = before.is_some_and(char::is_uppercase)
            && c.is_uppercase()
            && chars.peek().is_some_and(|next| next.is_lowercase());
        if after_lower || end_of_acronym {
            push(&mut words, &mut word);
        }
        word.extend(c.to_lowercase());
        before = Some(c);
    }
    push(&mut words, &mut word);
    words
}

fn push(words: &mut Vec<String>, word: &mut String) {
    if !word.is_empty() {
        words.push(std::mem::take(word));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_like_people_read_them() {
        for (name, parts) in [
            (
                "mcp__tickets__list_tickets",
                vec!["mcp", "tickets", "list", "tickets"],
            ),
            ("getHTTPResponse2Body", vec!["get", "http", "response2", "body"]),
            ("doc-stats", vec!["doc", "stats"]),
            ("路径_list", vec!["路径", "list"]),
            ("", vec![]),
        ] {
            assert_eq!(words(name), parts, "{name}");
        }
    }

    #[test]
    fn the_name_that_was_meant_comes_first() {
        let names = [
            "read_doc",
            "list_docs",
            "search_docs",
            "mcp__tickets__list_tickets",
            "mcp__tickets__get_ticket",
            "kv_put",
        ];
        for (wanted, first) in [
            ("read_docs", Some("read_doc")),
            ("readDoc", Some("read_doc")),
            ("tickets.list_tickets", Some("mcp__tickets__list_tickets")),
            ("list_tickets", Some("mcp__tickets__list_tickets")),
            ("kvPut", Some("kv_put")),
            ("zzz", None),
            ("", None),
        ] {
            assert_eq!(nearest(wanted, names, 3).first().copied(), first, "{wanted}");
        }
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(clip("abc", 3), "abc");
        assert_eq!(clip("äöüß", 3), "äö…");
        assert_eq!(one_line(" a\n\n b\tc ", 10), "a b c");
    }
}
