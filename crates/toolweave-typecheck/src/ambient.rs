//! The globals that a program has besides those of the language, as declarations.

/// Declares what the sandbox adds to ECMAScript, and nothing else: no DOM and no Node. Parameters that the sandbox turns
/// into what it needs are `any`, so that nothing is called a mistake that works.
pub const AMBIENT: &str = include_str!("ambient.d.ts");

/// Returns the names of the globals that [`AMBIENT`] declares, in its order.
pub fn declared_globals() -> impl Iterator<Item = &'static str> {
    AMBIENT.lines().filter_map(|line| {
        let rest = line.strip_prefix("declare ")?;
        let rest = ["var ", "function ", "class "]
            .iter()
            .find_map(|kind| rest.strip_prefix(kind))?;
        let end = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        rest.get(..end)
    })
}
