//! What a tool of an upstream is called in the registry (contract K14).

/// The prefix when none is configured.
pub(crate) const DEFAULT_PREFIX: &str = "mcp__{server}__";
/// Longest name that model interfaces accept.
const MAX_NAME: usize = 64;
/// `_` and eight digits.
const SUFFIX: usize = 9;

/// Returns the name of a tool: its own, behind the prefix, in `[A-Za-z0-9_-]` and at most 64 characters. A name that had
/// to be changed for that ends in a hash of the original, so that two originals do not become one name.
pub(crate) fn tool_name(prefix: &str, server: &str, tool: &str) -> String {
    let full = format!("{}{tool}", prefix.replace("{server}", server));
    let normal = normalized(&full);
    if normal == full && normal.len() <= MAX_NAME && !normal.is_empty() {
        normal
    } else {
        with_hash(&normal, &full)
    }
}

/// Returns what the names of a server's tools start with.
pub(crate) fn name_prefix(prefix: &str, server: &str) -> String {
    normalized(&prefix.replace("{server}", server))
}

/// Returns another name for a tool whose name is taken.
pub(crate) fn distinct_name(name: &str, server: &str, tool: &str) -> String {
    with_hash(name, &format!("{server}\0{tool}"))
}

fn normalized(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
                c
            } else {
                '_'
            }
        })
        .collect()
}

fn with_hash(name: &str, original: &str) -> String {
    let kept = name.len().min(MAX_NAME - SUFFIX);
    // ASCII by now.
    let hash = fnv1a(original.as_bytes());
    let hash = (hash >> 32) ^ (hash & 0xffff_ffff);
    format!("{}_{hash:08x}", &name[..kept])
}

/// Hashes in a way that stays the same across versions: names are part of what users write down.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_people_expect_or_carry_a_hash() {
        for (prefix, server, tool, expected) in [
            (DEFAULT_PREFIX, "files", "read_file", "mcp__files__read_file"),
            (DEFAULT_PREFIX, "files", "read-file", "mcp__files__read-file"),
            ("", "files", "read_file", "read_file"),
            ("{server}_", "gh", "list", "gh_list"),
            (DEFAULT_PREFIX, "my files", "a.b", "mcp__my_files__a_b_ebd51f53"),
            (DEFAULT_PREFIX, "files", "größe", "mcp__files__gr__e_3d60b4b8"),
            ("", "s", "", "_4fd0bfc1"),
        ] {
            assert_eq!(tool_name(prefix, server, tool), expected);
        }
        let long = tool_name(DEFAULT_PREFIX, "s", &"x".repeat(100));
        assert_eq!(long.len(), MAX_NAME);
        assert!(long.starts_with("mcp__s__xxx"));
        assert_ne!(long, tool_name(DEFAULT_PREFIX, "s", &"x".repeat(101)));
        assert_ne!(
            tool_name(DEFAULT_PREFIX, "a.b", "t"),
            tool_name(DEFAULT_PREFIX, "a b", "t")
        );
    }

    #[test]
    fn a_taken_name_gets_a_stable_other_one() {
        let other = distinct_name("read", "second", "read");
        assert!(other.starts_with("read_") && other.len() == 13, "{other}");
        assert_eq!(other, distinct_name("read", "second", "read"));
        assert_ne!(other, distinct_name("read", "third", "read"));
    }
}
