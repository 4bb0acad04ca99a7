//! Tells text that was never meant as TypeScript from TypeScript with a slip in it.

use swc_common::Spanned;
use swc_ecma_ast::{Expr, Module, ModuleItem, Stmt};

use crate::fence::is_script;
use crate::literal::peel;
use crate::parse::offset;
use crate::walk::Walk;

/// What to tell a model that sent a shell command.
pub(crate) const NOT_SHELL: &str = "this looks like a shell command, but the input is run as TypeScript; write a \
                                    program that calls a tool, for example `return await tools.NAME({ ... })`";

const NOT_PROSE: &str = "this looks like text and not like code, but the input is run as TypeScript; send only a \
                         program, for example `return await tools.NAME({ ... })`";

/// First words of shell commands. None of them is a global of a program.
const COMMANDS: [&str; 50] = [
    "ls", "pwd", "cd", "cat", "echo", "grep", "rg", "find", "git", "npm", "npx", "pnpm", "yarn", "node",
    "deno", "bun", "python", "python3", "pip", "pip3", "uv", "curl", "wget", "mkdir", "rm", "cp", "mv",
    "touch", "head", "tail", "sed", "awk", "wc", "bash", "sh", "zsh", "sudo", "docker", "kubectl", "cargo",
    "make", "which", "ps", "kill", "chmod", "apt", "brew", "tar", "jq", "ssh",
];

/// Returns the place of a shell command that happens to parse, like `ls -la /tmp` (a subtraction).
pub(crate) fn shell_command(module: &Module, walk: &Walk) -> Option<usize> {
    let ModuleItem::Stmt(Stmt::Expr(first)) = module.body.first()? else {
        return None;
    };
    let mut expr = peel(&first.expr);
    while let Expr::Bin(bin) = expr {
        expr = peel(&bin.left);
    }
    let Expr::Ident(ident) = expr else { return None };
    let command = COMMANDS.contains(&&*ident.sym) && !walk.bindings.contains_key(&*ident.sym);
    command.then(|| offset(first.span().lo))
}

/// Returns what to say about a text that does not parse and is no attempt at a program.
pub(crate) fn not_a_program(text: &str, language: Option<&str>) -> Option<String> {
    if let Some(language) = language.filter(|language| !is_script(language)) {
        let language: String = language.chars().take(40).collect();
        return Some(format!(
            "the fenced block is marked `{language}`, but the input is run as TypeScript; write the program in \
             TypeScript and reach everything else through `tools`"
        ));
    }
    let line = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !is_fence(line))?;
    let words: Vec<_> = line.split_whitespace().take(30).collect();
    let first = *words.first()?;
    let command = line.starts_with("$ ")
        || (COMMANDS.contains(&first)
            && words
                .get(1)
                .is_none_or(|next| !next.starts_with(['=', '(', '.', ':', '?'])));
    if command {
        return Some(NOT_SHELL.to_owned());
    }
    let plain = |word: &&&str| {
        let word = word.trim_matches(|c: char| ",.:;!?'\"()*_`".contains(c));
        !word.is_empty()
            && word
                .chars()
                .all(|c| c.is_alphabetic() || c == '\'' || c == '’' || c == '-')
    };
    let code_words = [
        "const", "let", "var", "function", "async", "await", "return", "class", "import", "export", "for",
        "if",
    ];
    let prose = words.len() >= 4
        && words.iter().filter(plain).count() * 4 >= words.len() * 3
        && !code_words.contains(&first)
        && !line.contains(['=', '{', '}', ';', '[']);
    prose.then(|| NOT_PROSE.to_owned())
}

fn is_fence(line: &str) -> bool {
    line.starts_with("```") || line.starts_with("~~~")
}
