//! Text that is made to break the parser: a clean answer in bounded time, whatever it is.

use std::time::{Duration, Instant};

use toolweave_program::{ErrorKind, MAX_PROGRAM_BYTES, ProgramError, prepare};

/// Guards against hangs; the slowest of these takes a fraction of it.
const CEILING: Duration = Duration::from_secs(20);

fn kind(text: &str) -> Result<(), ErrorKind> {
    let start = Instant::now();
    let result = prepare(text)
        .map(|_| ())
        .map_err(|error: ProgramError| error.kind);
    let head: String = text.chars().take(30).collect();
    assert!(start.elapsed() < CEILING, "{head}: {:?}", start.elapsed());
    result
}

fn nested(open: &str, middle: &str, close: &str, n: usize) -> String {
    [&open.repeat(n), middle, &close.repeat(n)].concat()
}

const PATTERNS: [(&str, &str, &str); 62] = [
    ("(", "1", ")"),
    ("[", "", "]"),
    ("{", "", "}"),
    ("({a:", "1", "})"),
    ("!", "a", ""),
    ("- ", "a", ""),
    ("a=>", "a", ""),
    ("(a)=>{", "", "}"),
    ("async(a)=>", "a", ""),
    ("if(1)", ";", ""),
    ("if(1);else ", ";", ""),
    ("if(1){}else ", ";", ""),
    ("if(1)\nx\nelse ", ";", ""),
    ("for(;;)", ";", ""),
    ("while(1)\nl:", ";", ""),
    ("do ", "x", " while(1);"),
    ("a+", "a", ""),
    ("a\n+", "a", ""),
    ("a**", "a", ""),
    ("a=", "a", ""),
    ("a,", "a", ""),
    ("a?b:", "c", ""),
    ("a?", "b", ":c"),
    ("a?(", "b", "):c"),
    ("a?(b):c=>", "d", ""),
    ("`${", "1", "}`"),
    ("new ", "a", ""),
    ("await ", "a", ""),
    ("typeof ", "a", ""),
    ("a(", "", ")"),
    ("a<b>(", "c", ")"),
    ("a<", "b", ""),
    ("a<(", "b", ")"),
    ("<T>(", "a", ")"),
    ("<T>", "a", ""),
    ("<T,>(a=", "1", ")=>1"),
    ("async<T>(a=", "1", ")=>1"),
    ("(function(){", "", "})"),
    ("(class{a=", "1", "})"),
    ("class A{static{", "", "}}"),
    ("try{", "", "}finally{}"),
    ("switch(a){case 1:", "", "}"),
    ("namespace a{", "", "}"),
    ("(a=", "1", ")=>1"),
    ("f`${", "1", "}`"),
    ("x!", "", ""),
    ("return(", "1", ")"),
    ("label", ":", ";"),
    ("yield ", "1", ""),
    ("...", "a", ""),
    ("@a(", "", ")"),
    ("/*", "", "*/"),
    ("\"", "", ""),
    ("`", "", ""),
    ("/", "", "/"),
    ("/[", "", "]/"),
    ("<!--", "", "-->"),
    ("\\u{61}", "", ""),
    ("\u{2028}", "", ""),
    ("```", "\n", ""),
    ("```ts\n", "a", "\n```"),
    ("import(", "1", ")"),
];

#[test]
fn nesting_is_answered_at_every_depth() {
    for (open, middle, close) in PATTERNS {
        for depth in [10, 45, 300, 990, 5_000, 100_000] {
            let text = nested(open, middle, close, depth);
            // Any answer is right; what matters is that there is one.
            let _ = kind(&text);
            let _ = kind(&format!("```ts\n{text}\n```"));
            if depth < 50_000 {
                let _ = kind(&format!("const f = async () => {{ {text} }}\n"));
            }
        }
    }
}

#[test]
fn nesting_in_types_is_answered_at_every_depth() {
    let patterns = [
        ("let a:", "A<", "b", ">"),
        ("let a:", "(", "b", ")"),
        ("let a:", "(a:", "b", ")=>c"),
        ("let a:", "{a:", "b", "}"),
        ("let a:", "[", "b", "]"),
        ("let a:", "keyof ", "b", ""),
        ("let a:b", "[]", "", ""),
        ("type a=", "a extends b ? c : ", "d", ""),
        ("type a=", "a extends b ? ", "d", ":c"),
        ("type a=", "b extends infer c extends (", "b", ")?d:e"),
        ("let a:", "`${", "b", "}`"),
        ("let ", "[", "a", "]=b"),
        ("let ", "{a:", "a", "}=b"),
        ("a", " as b", "", ""),
        ("a", ".a", "", ""),
        ("a", "?.a", "", ""),
        ("a", "()", "", ""),
        ("a", "[0]", "", ""),
        ("a", "`b`", "", ""),
        ("a;", "a.b;", "", ""),
    ];
    for (head, open, middle, close) in patterns {
        for depth in [45, 990, 5_000, 100_000] {
            let _ = kind(&format!("{head}{}", nested(open, middle, close, depth)));
        }
    }
}

#[test]
fn the_usual_suspects_get_a_clean_error() {
    for (open, middle, close) in [
        ("(", "1", ")"),
        ("[", "", "]"),
        ("{", "", "}"),
        ("!", "a", ""),
        ("- ", "a", ""),
    ] {
        assert_eq!(
            kind(&nested(open, middle, close, 100_000)),
            Err(ErrorKind::TooDeep),
            "{open}"
        );
    }
    assert_eq!(kind(&nested("a+", "a", "", 50_000)), Err(ErrorKind::TooDeep));
    assert_eq!(kind(&nested("<T>(", "a", ")", 40)), Err(ErrorKind::TooDeep));
    // What a fence hides from a look at the whole text.
    assert_eq!(
        kind(&format!("```ts\n{}", "await (class{a=<T>".repeat(40))),
        Err(ErrorKind::TooDeep)
    );
    assert_eq!(kind(&"a".repeat(MAX_PROGRAM_BYTES + 1)), Err(ErrorKind::TooLarge));
    assert_eq!(kind(&"x".repeat(MAX_PROGRAM_BYTES)), Ok(()));
}

#[test]
fn large_programs_that_are_flat_pass() {
    let lines = [
        "const a = await tools.read({ id: [1, 2, { b: \"c\" }] });\n",
        "if (a.b) { console.log(a.c, `x ${a.d}`) } else { f() }\n",
        "x.y(z)\n",
        "x = { a: 1, b: [2, 3] };\n",
        "function f(a: Map<string, number[]>): void { return g(a) }\n",
        "// it's a comment (with \"everything\" `in it\n",
        "const s = 'a(((((' + /[((/]/.source;\n",
    ];
    for line in lines {
        let line = line.replace("const a", "var a").replace("const s", "var s");
        for size in [20_000, 300_000] {
            let text =
                format!("{}const end = 1;\n", line.repeat(20)).repeat(size / line.len() / 20) + "return 1";
            assert_eq!(kind(&text), Ok(()), "{size} {line}");
        }
    }
    let array = format!(
        "return [{}]",
        "{ id: 1, name: \"x\", tags: [\"a\", \"b\"] },\n".repeat(20_000)
    );
    assert_eq!(kind(&array), Ok(()));
    let text = format!("return {:?}", "(\"[`{".repeat(50_000));
    assert_eq!(kind(&text), Ok(()));
}

#[test]
fn a_program_cannot_close_the_function_around_it() {
    let attempts = [
        "}); evil(); (async()=>{",
        "})\nevil()\n;(async()=>{",
        "}}); evil(); ({a:async()=>{{",
        "*/}); evil(); (async()=>{/*",
        "`}); evil(); (async()=>{`}",
        "a <!-- b[`\n}); evil(); (async()=>{//`]",
        "x\n--> }); evil(); (async()=>{",
        "```ts\n}); evil(); (async()=>{\n```",
        "return 1 }); evil(); (async()=>{",
        "enum A { B } }); evil(); (async()=>{",
    ];
    for text in attempts {
        let error = prepare(text).expect_err(text);
        assert_eq!(error.kind, ErrorKind::Syntax, "{text}: {error}");
    }
}
