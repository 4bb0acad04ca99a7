//! Bugs that other systems of this kind had with program texts.

use toolweave_program::{ErrorKind, prepare};

fn js(text: &str) -> String {
    prepare(text)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .javascript
}

/// A type declaration between an expression and a parenthesis keeps them apart.
#[test]
fn erased_declarations_do_not_join_their_neighbours() {
    let text = "let calls = 0;\nlet ref: unknown\nref = tick\ninterface Gap { a: string }\n(0, calls);\nref = tick\ntype \
                Alias = { b: number }\n[1, 2].length;\nreturn [calls, typeof ref];";
    let lines: Vec<_> = js(text).lines().map(str::to_owned).collect();
    assert_eq!(lines[3], ";                          ");
    assert_eq!(lines[6], ";                         ");
    let joined = js("const a = 1\nimport type { X } from \"x\"\n(0, a)\nreturn a");
    assert_eq!(
        joined,
        "const a = 1\n;                         \n(0, a)\nreturn a"
    );
}

/// Syntax that cannot be erased in place is transformed; nothing is refused for style.
#[test]
fn syntax_with_a_meaning_is_transformed() {
    for (text, part) in [
        ("enum C { Red = \"r\" } return C.Red;", "C[\"Red\"] = \"r\""),
        ("const enum E { A = 5 } return E.A;", "return 5"),
        ("namespace N { export const a = 1 } return N.a;", "return N.a"),
        (
            "class P { constructor(private x: number) {} }\nreturn new P(3)",
            "this.x = x",
        ),
        ("const v = <string>\"s\"; return v;", "const v = \"s\""),
        (
            "namespace N { export const b = 4 }\nimport A = N.b;\nreturn A",
            "const A = N.b",
        ),
    ] {
        let prepared = prepare(text).expect(text);
        assert!(prepared.is_transformed(), "{text}");
        assert!(
            prepared.javascript.contains(part),
            "{text}: {}",
            prepared.javascript
        );
        assert!(
            !prepared.javascript.contains("=>{"),
            "{text}: {}",
            prepared.javascript
        );
    }
    let types = "declare const q: number; declare function g(): void; abstract class B { abstract m(): void } return typeof B;";
    let prepared = prepare(types).expect("only types");
    assert!(!prepared.is_transformed());
    assert!(
        prepared
            .javascript
            .trim_start_matches([';', ' '])
            .starts_with("class B {"),
        "{}",
        prepared.javascript
    );
}

/// Fences in every variant.
#[test]
fn fences_are_unwrapped() {
    let body = "const x: number = 2;\nreturn x * 21;\n";
    for (open, close) in [
        ("```ts\n", "```"),
        ("```javascript\n", "```\n"),
        ("```tsx\n", "```"),
        ("```\n", "```"),
        ("``` \n", "``` "),
        ("```ts \n", "```"),
        ("\n\n```ts\n", "```\n\n"),
        ("```ts\n", ""),
        ("~~~ts\n", "~~~"),
    ] {
        for ends in ["\n", "\r\n"] {
            let text = format!("{open}{body}{close}").replace('\n', ends);
            let javascript = js(&text);
            assert_eq!(
                javascript.trim(),
                "const x         = 2;\nreturn x * 21;",
                "{text:?}"
            );
        }
    }
}

/// Type-only imports vanish, others fail before anything runs and name the module and the tools.
#[test]
fn imports_are_erased_or_refused() {
    for text in [
        "import type { Row } from \"./types\"; return 1;",
        "import { type A, type B } from \"x\"; return 1;",
        "export type { Q } from \"q\"; return 1;",
        "export type * from \"q\"; return 1;",
        "import type X = require(\"x\"); return 1;",
    ] {
        let javascript = js(text);
        assert_eq!(javascript.trim_start_matches([';', ' ']), "return 1;", "{text}");
        assert_eq!(javascript.len(), text.len());
    }
    let error = prepare("import fs from \"node:fs\"; return 1").expect_err("no modules");
    assert_eq!(error.kind, ErrorKind::Import);
    assert!(error.message.contains("node:fs") && error.message.contains("modules are not available"));
    assert!(error.message.contains("tools"));
    // An ordinary error at run time, which the program may catch.
    assert_eq!(
        js("const cp = require(\"child_process\"); return 1;"),
        "const cp = require(\"child_process\"); return 1;"
    );
}

/// The place of a syntax error is that of the model's own text.
#[test]
fn syntax_errors_have_their_line() {
    let cases = [
        ("const a = 1;\nconst b = 2;\nconst c = = 3;", (3, 11)),
        ("type A = {\n  a: 1\n}\nconst c = = 3;", (4, 11)),
        ("```ts\nconst c = = 3;\n```", (2, 11)),
        ("Here:\n\n```ts\nconst c = = 3;\n```\n", (4, 11)),
        ("\u{feff}a;\r\nconst c = = 3;", (2, 11)),
        ("const 🦀 = 1", (1, 7)),
    ];
    for (text, place) in cases {
        let error = prepare(text).expect_err(text);
        assert_eq!(
            (error.kind, (error.line, error.column)),
            (ErrorKind::Syntax, place),
            "{text}: {error}"
        );
    }
}

/// Shell text and prose get an answer that says what the input is.
#[test]
fn shell_text_is_told_what_the_input_is() {
    for text in [
        "ls -la /tmp",
        "pwd",
        "cat <<EOF\nhi\nEOF",
        "npm install left-pad",
        "$ git status",
        "```bash\nls -la\n```",
        "Please list all the files in this directory.",
    ] {
        let error = prepare(text).expect_err(text);
        assert_eq!(error.kind, ErrorKind::NotAProgram, "{text}");
        assert!(
            error.message.contains("TypeScript") && error.message.contains("tools"),
            "{text}: {error}"
        );
    }
    for text in [
        "const ls = 1; ls",
        "const find = (x: number) => x;\nfind(1)",
        "return fs.readdirSync(\".\")",
        "",
        "// nothing",
    ] {
        assert!(prepare(text).is_ok(), "{text}");
    }
}

/// Contextual keywords are names where the language says so.
#[test]
fn contextual_keywords_are_names() {
    let text = "const type = \"a\", as = \"b\", declare = \"c\", namespace = \"d\", satisfies = \"e\", module = \"f\", abstract = \
                \"g\";\nconst parts = [\n  type\n  , as, declare, namespace, satisfies, module, abstract\n];\ntype\nparts.length;\n\
                const o = { type, as, async get() { return 1 }, of: 2 };\nreturn parts.join(\"\") + o.type + o.of;";
    assert_eq!(js(text), text);
    let bare = "const declare = 1;\ndeclare\nconst o = { declare };\nreturn o.declare;";
    assert_eq!(js(bare), bare);
    let of = prepare("const parts = []\nfor (const of of [1]) { parts.push(of) }\nreturn parts")
        .expect_err("not yet");
    assert_eq!((of.kind, of.line), (ErrorKind::Syntax, 2));
}
