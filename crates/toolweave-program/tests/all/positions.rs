//! Positions lead back to the model's own text, and nothing panics on the way.

use proptest::prelude::*;
use toolweave_program::{Prepared, prepare};

/// Returns line and column of a part of a text.
fn place(text: &str, part: &str) -> (u32, u32) {
    let at = text
        .find(part)
        .unwrap_or_else(|| panic!("{part} is not in {text}"));
    let line = text[..at].matches('\n').count() + 1;
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    (
        u32::try_from(line).expect("small"),
        u32::try_from(text[start..at].encode_utf16().count() + 1).expect("small"),
    )
}

fn check(text: &str, parts: &[&str]) -> Prepared {
    let prepared = prepare(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    for part in parts {
        let (line, column) = place(&prepared.javascript, part);
        let original = text.replace("\r\n", "\n");
        assert_eq!(
            prepared.original_position(line, column),
            Some(place(&original, part)),
            "{part} in {text}"
        );
    }
    prepared
}

#[test]
fn positions_lead_back_in_every_form() {
    check(
        "const é: string = '😀'; throw new Error('x')",
        &["throw", "Error", "'x'"],
    );
    check("  a.b.c // é", &["a.b", "c //", "// é"]);
    check("async () => { oops() }", &["async", "oops", "}"]);
    check("```ts\nconst a = 1;\n  oops(a)\n```", &["const", "oops", "a)"]);
    check("See:\r\n\r\n```ts\r\noops(1)\r\n```\r\n", &["oops", "1)"]);
    check("export default async () => {\n  oops()\n}", &["async", "oops"]);
    check(
        "/* a */ export const é = oops(1); return é",
        &["/*", "const", "oops", "1)", "return"],
    );
    check("async function () { oops() }", &["async", "oops"]);
    check("{ a: oops() }", &["a:", "oops"]);
    check("void oops(1)", &["void", "oops", "1)"]);
    check("export default\n\n    oops(1)", &["oops", "1)"]);
    check(
        "function main() { oops() } // end",
        &["function", "oops", "// end"],
    );
}

#[test]
fn positions_lead_back_through_a_transform() {
    let text = "enum Größe { A = 1 }\nconst s: string = '😀'; throw new Error(s);\nreturn Größe.A";
    let prepared = check(text, &["throw", "Error"]);
    assert!(prepared.is_transformed());
    let text = "```ts\nenum A { B }\nasync () => {\n  const x = <any>1;\n  oops(x);\n}\n```";
    check(text, &["oops", "async"]);
    check("namespace N { export const a = 1 } oops(N)", &["oops"]);
}

#[test]
fn places_that_do_not_exist_have_no_original() {
    let prepared = prepare("return 1").expect("a program");
    assert_eq!(prepared.original_position(0, 1), None);
    assert_eq!(prepared.original_position(1, 0), None);
    assert_eq!(prepared.original_position(2, 1), None);
    assert_eq!(prepared.original_position(1, 8), Some((1, 8)));
    assert_eq!(prepared.excerpt(1, 8), "1 | return 1\n  |        ^");
}

/// Pieces of programs; put together at random they are mostly broken, and always hostile.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "const a = ",
        "1",
        "'é'",
        "`x ${",
        "}`",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        "=>",
        "async ",
        "await ",
        "tools.x",
        "(1)",
        "\n",
        "\r\n",
        ";",
        ",",
        ": string",
        "<T>",
        "<",
        ">",
        "enum A { B }",
        "namespace N {",
        "type A = 1\n",
        "interface I {}",
        "export default ",
        "export ",
        "import ",
        "import type { A } from 'a'\n",
        "return ",
        "function f",
        "() {",
        "class C ",
        "if (",
        ") else ",
        "/",
        "//",
        "/* ",
        "*/",
        "```ts\n",
        "```",
        "\u{feff}",
        "\u{2028}",
        "😀",
        "\\u{61}",
        "@d ",
        "a",
        ".b",
        "?.",
        " ? ",
        " : ",
        "+",
        "-",
        "!",
        "=",
        "#x",
        "\0",
        "\"",
        "'",
        "as any",
        "satisfies A",
        "declare ",
        "abstract ",
        "private x",
        "static ",
        "for (const x of ",
        "try {",
        "} catch {",
        "new ",
        "void ",
        "yield ",
        "import(",
        "import.meta",
        "<!--",
        "-->",
        "#!",
        "$default",
        "f()\n",
        "f\n",
        "while(1)\n",
        "l:",
        "x = {} /'/",
    ]);
    prop::collection::vec(
        (
            piece,
            prop::sample::select(vec![1usize, 1, 1, 1, 1, 1, 2, 40, 700]),
        ),
        0..14,
    )
    .prop_map(|parts| {
        parts
            .into_iter()
            .map(|(part, times)| part.repeat(times))
            .collect()
    })
}

fn answers(text: &str) {
    match prepare(text) {
        Ok(prepared) => {
            if !prepared.is_transformed() {
                let fenced = text.contains("```") || text.contains("~~~");
                let normal = text
                    .trim_start_matches('\u{feff}')
                    .replace("\r\n", "\n")
                    .replace('\r', "\n");
                let lines = |text: &str| text.matches('\n').count();
                assert!(
                    fenced || lines(&prepared.javascript) == lines(&normal),
                    "{text:?} became {:?}",
                    prepared.javascript
                );
            }
            for (line, content) in (1..).zip(prepared.javascript.split('\n')) {
                for column in [1, 2, u32::try_from(content.len()).unwrap_or(1)] {
                    let _ = prepared.original_position(line, column);
                }
            }
            for call in &prepared.calls {
                assert!(call.line >= 1 && call.column >= 1);
            }
        }
        Err(error) => assert!(
            error.line >= 1 && error.column >= 1 && !error.message.is_empty(),
            "{error:?}"
        ),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_gets_an_answer(text in any::<String>()) {
        answers(&text);
    }

    #[test]
    fn pieces_of_programs_get_an_answer(text in pieces()) {
        answers(&text);
    }
}
