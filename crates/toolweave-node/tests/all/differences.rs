//! Where V8 and QuickJS answer the same program in different words.

/// The program as the suite has it, what V8 gives, and its logs.
pub(crate) const DIFFERENCES: &[(&str, &str, &[&str])] = &[
    (
        "await import('node:fs')",
        "exception at 1:1: TypeError: cannot import \"node:fs\": programs have no modules; call a tool on `tools`, or use the \
         built-in objects",
        &[],
    ),
    (
        "globalThis.ToolCallError = class {}",
        "exception at 1:26: TypeError: Cannot assign to read only property 'ToolCallError' of object '#<Object>'",
        &[],
    ),
    (
        "tools.echo = 1",
        "exception at 1:12: TypeError: Cannot assign to read only property 'echo' of object '[object Object]'",
        &[],
    ),
    (
        "tools.other = 1",
        "exception at 1:13: TypeError: Cannot define property other, object is not extensible",
        &[],
    ),
    (
        "tools = {}",
        "exception at 1:7: TypeError: Cannot assign to read only property 'tools' of object '#<Object>'",
        &[],
    ),
    (
        "const { x } = { x: null }; return x.text",
        "exception at 1:37: TypeError: Cannot read properties of null (reading 'text')",
        &[],
    ),
    (
        "let y = 1;\nlet x = (1 +;",
        "exception at 2:13: SyntaxError: Unexpected token ';'",
        &[],
    ),
    (
        "await Promise.any([Promise.reject(new Error('a')), Promise.reject('b')])",
        "exception: AggregateError: All promises were rejected\n  [0] Error: a\n  [1] b",
        &[],
    ),
];
