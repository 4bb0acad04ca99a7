//! The forms that models send, and the JavaScript that each becomes.

use toolweave_program::{ErrorKind, Form, prepare};

fn function(name: &str) -> Form {
    Form::Function {
        name: name.to_owned(),
    }
}

#[test]
fn every_form_becomes_a_body() {
    use Form::{Body, DefaultExport, Empty, FunctionExpression, TrailingExpression};
    let cases = [
        ("", "", Empty),
        ("// only a comment\n", "// only a comment\n", Empty),
        ("type A = 1", ";         ", Empty),
        ("\"use strict\"", "\"use strict\"", Empty),
        ("return 7", "return 7", Body),
        ("const x = 1\nreturn x", "const x = 1\nreturn x", Body),
        (
            "export const x = 1; return 7",
            ";      const x = 1; return 7",
            Body,
        ),
        ("7", "return 7", TrailingExpression),
        ("'text'", "return 'text'", TrailingExpression),
        (
            "const x = 5\nx * 2",
            "const x = 5\nreturn x * 2",
            TrailingExpression,
        ),
        ("({ a: 1 })", "return ({ a: 1 })", TrailingExpression),
        ("let y = 1; y = 3", "let y = 1; return y = 3", TrailingExpression),
        ("f(); // done", "return f(); // done", TrailingExpression),
        (
            "a\n  ? b\n  : c\n",
            "return a\n  ? b\n  : c\n",
            TrailingExpression,
        ),
        ("f();\nfunction f() {}", "f();\nfunction f() {}", Body),
        (
            "{ a: 7, b: 1 }",
            ";const $default=({ a: 7, b: 1 });;return $default;",
            TrailingExpression,
        ),
        (
            "void main()\nasync function main() {}",
            "void main()\nasync function main() {}",
            Body,
        ),
        (
            "async function main() {}\nvoid main()",
            "async function main() {}\nreturn void await main()",
            TrailingExpression,
        ),
        (
            "async () => { return 7 }",
            "return (async () => { return 7 })()",
            FunctionExpression,
        ),
        (
            "async () => 7;\n// end",
            "return (async () => 7)();\n// end",
            FunctionExpression,
        ),
        ("(() => 7)", "return ((() => 7))()", FunctionExpression),
        (
            "async (tools) => tools.x()",
            "return (async (tools) => tools.x())(tools)",
            FunctionExpression,
        ),
        (
            "({ tools }) => tools.x()",
            "return (({ tools }) => tools.x())({tools})",
            FunctionExpression,
        ),
        (
            "(async () => 7)()",
            "return (async () => 7)()",
            TrailingExpression,
        ),
        (
            "async function () { return 7 }",
            ";const $default=async function () { return 7 };;return $default();",
            FunctionExpression,
        ),
        (
            "function main() { return 7 }",
            "function main() { return 7 };return main();",
            function("main"),
        ),
        (
            "const run = async (t: any) => 7;",
            "const run = async (t     ) => 7;;return run(tools);",
            function("run"),
        ),
        (
            "export async function go() { return 7 } // x",
            ";      async function go() { return 7 };return go(); // x",
            function("go"),
        ),
        (
            "const n = 2;\nfunction f() { return n }",
            "const n = 2;\nfunction f() { return n };return f();",
            function("f"),
        ),
        (
            "function a() { return b() }\nfunction b() {}\n",
            "function a() { return b() }\nfunction b() {};return a();\n",
            function("a"),
        ),
        (
            "function f() { return f }",
            "function f() { return f };return f();",
            function("f"),
        ),
        (
            "export default async () => 7",
            ";const $default=(async () => 7);;return $default();",
            DefaultExport,
        ),
        (
            "export default\n  () => 7;",
            ";const $default=(\n  () => 7);;;return $default();",
            DefaultExport,
        ),
        (
            "export default 7;\n",
            ";const $default=(7);;;return $default;\n",
            DefaultExport,
        ),
        (
            "export default function go() { return 7 }",
            ";              function go() { return 7 };return go();",
            DefaultExport,
        ),
        (
            "export default function () { return 7 }",
            ";const $default=function () { return 7 };;return $default();",
            DefaultExport,
        ),
        (
            "const main = () => 7\nexport default main",
            "const main = () => 7\n;const $default=(main);;return $default();",
            DefaultExport,
        ),
        (
            "const go = () => 7\nexport { go as default }",
            "const go = () => 7\n;                       ;return go();",
            DefaultExport,
        ),
        ("```ts\nreturn 42\n```", "\nreturn 42\n", Body),
        ("```javascript \r\nreturn 42;\r\n```\r\n", "\nreturn 42;\n", Body),
        ("\n\n```\n42\n```  \n", "\n\n\nreturn 42\n", TrailingExpression),
        ("~~~tsx\nreturn 42\n", "\nreturn 42\n", Body),
        (
            "Let me see.\n\n```ts\nreturn 42\n```\nDone!",
            "\n\n\nreturn 42\n",
            Body,
        ),
        ("\u{feff}return 1\r\n", "return 1\n", Body),
        (
            "#!/usr/bin/env node\nreturn 1",
            "                   \nreturn 1",
            Body,
        ),
    ];
    for (text, javascript, form) in cases {
        let prepared = prepare(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(
            (prepared.javascript.as_str(), prepared.form),
            (javascript, form),
            "{text}"
        );
    }
}

#[test]
fn what_cannot_be_run_says_what_to_do() {
    let cases = [
        (
            "function a() {} function b() {}",
            ErrorKind::OnlyDefinitions,
            "the program only defines functions (`a`, `b`) and calls none of them; call the one to run at the end, for example `return await a()`, or name it `main` (line 1, column 1)",
        ),
        (
            "function add(a: number, b: number) { return a + b }",
            ErrorKind::OnlyDefinitions,
            "the program only defines `add`, which takes 2 parameters and so cannot be called for you; call it and return its value: `return await add(...)` (line 1, column 1)",
        ),
        (
            "class A {}",
            ErrorKind::OnlyDefinitions,
            "the program only defines things and runs nothing; end it with the call to make and `return` its value (line 1, column 1)",
        ),
        (
            "function main() {}\nreturn main;",
            ErrorKind::OnlyDefinitions,
            "the value of the program is the function `main` itself; call it: `return await main()` (line 2, column 1)",
        ),
        (
            "const main = () => 1;\nmain",
            ErrorKind::OnlyDefinitions,
            "the value of the program is the function `main` itself; call it: `return await main()` (line 2, column 1)",
        ),
        (
            "return () => 1",
            ErrorKind::OnlyDefinitions,
            "the program returns a function instead of a value; call it: `return await (...)()` (line 1, column 1)",
        ),
        (
            "(a, b) => a + b",
            ErrorKind::OnlyDefinitions,
            "the program is a function that takes 2 parameters and so cannot be called for you; call it yourself and `return` its value (line 1, column 1)",
        ),
        (
            "export default class {}",
            ErrorKind::OnlyDefinitions,
            "the default export is a class, which nothing calls; export a function, or use the class and `return` a value (line 1, column 1)",
        ),
        (
            "const x = 1;\nexport * from 'm'",
            ErrorKind::Import,
            "the program re-exports \"m\", but modules are not available (no import, no require); everything outside of the language is reached through `tools`: `await tools.NAME({ ... })` (line 2, column 1)",
        ),
        (
            "import { read_doc, find as f } from 'docs'",
            ErrorKind::Import,
            "the program imports \"docs\", but modules are not available; remove the import, and if these are a tool, call `tools.read_doc(...)`, `tools.find(...)` instead (use `import type` for types) (line 1, column 1)",
        ),
        (
            "const x = await import('fs')",
            ErrorKind::Import,
            "`import(\"fs\")` cannot work: modules are not available; everything outside of the language is reached through `tools`: `await tools.NAME({ ... })` (line 1, column 17)",
        ),
        (
            "class A {\n  @log.it(1) x() {}\n}\nreturn 1",
            ErrorKind::Decorator,
            "decorators are not supported; remove `@log.it` and call the function around the method instead (line 2, column 3)",
        ),
        (
            "return import.meta.url",
            ErrorKind::HostApi,
            "`import.meta` is not available: the program is not a module and has no file (line 1, column 8)",
        ),
        (
            "[1].map(x => { await x })",
            ErrorKind::Syntax,
            "syntax error: `await` in a function that is not async; write `async` before the function (line 1, column 16)",
        ),
        (
            "class A { static { return 1 } }",
            ErrorKind::Syntax,
            "syntax error: `return` is not possible here (line 1, column 20)",
        ),
        (
            "```ts\n1\n```\nor\n```ts\n2 3\n```",
            ErrorKind::NotAProgram,
            "the text has 2 fenced blocks; send one program, and no text around it (line 5, column 4)",
        ),
        (
            "```python\ndef f(): pass\n```",
            ErrorKind::NotAProgram,
            "the fenced block is marked `python`, but the input is run as TypeScript; write the program in TypeScript and reach everything else through `tools` (line 2, column 5)",
        ),
    ];
    for (text, kind, message) in cases {
        let error = prepare(text).expect_err(text);
        assert_eq!(
            (error.kind, error.to_string().as_str()),
            (kind, message),
            "{text}"
        );
    }
}

#[test]
fn an_error_shows_its_line() {
    let error = prepare("const items = [1];\n\tconst 日本 = items.map((x) => x;\n").expect_err("broken");
    insta::assert_snapshot!(error.report(), @"
    syntax error: expected ',', got ';' (line 2, column 31)
    2 | 	const 日本 = items.map((x) => x;
      | 	                               ^
    ");
}
