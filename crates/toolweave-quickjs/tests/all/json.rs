//! The JSON boundary: one written rule for each kind of value, the same for arguments and results.

use toolweave_runtime::{JsonMode, Limits};

use crate::support::{PLACEMENTS, check, outcome, run_on, runtime, shared};

/// An expression, and what becomes of `{v: expression}` in standard and in strict mode. A text that does not start with `{` is
/// the end of the refusal.
const RULES: &[(&str, &str, &str)] = &[
    ("undefined", "{}", "`v` is undefined: leave the property out"),
    ("null", r#"{"v":null}"#, r#"{"v":null}"#),
    (
        "() => 1",
        "`v` is a function: call it, or leave it out",
        "`v` is a function: call it, or leave it out",
    ),
    (
        "Symbol('s')",
        "`v` is a symbol: use a string",
        "`v` is a symbol: use a string",
    ),
    (
        "10n",
        "`v` is a BigInt: use String(value), or Number(value) if it is small enough",
        "`v` is a BigInt: use String(value), or Number(value) if it is small enough",
    ),
    (
        "NaN",
        "`v` is NaN: check the arithmetic, or use null",
        "`v` is NaN: check the arithmetic, or use null",
    ),
    (
        "-1 / 0",
        "`v` is -Infinity: check the arithmetic, or use null",
        "`v` is -Infinity: check the arithmetic, or use null",
    ),
    ("-0", r#"{"v":0}"#, "`v` is -0: use 0"),
    (
        "[0.1, 1e21, 5e-324, 2 ** 53, 123e20]",
        r#"{"v":[0.1,1e+21,5e-324,9007199254740992,1.23e+22]}"#,
        r#"{"v":[0.1,1e+21,5e-324,9007199254740992,1.23e+22]}"#,
    ),
    (
        "new Date(0)",
        r#"{"v":"1970-01-01T00:00:00.000Z"}"#,
        "`v` is a Date, which JSON cannot hold: use date.toISOString()",
    ),
    (
        "new Date(NaN)",
        "`v` is an invalid Date",
        "`v` is a Date, which JSON cannot hold: use date.toISOString()",
    ),
    (
        "new URL('http://x/')",
        r#"{"v":"http://x/"}"#,
        "`v` is a class instance, not plain data",
    ),
    (
        "{ toJSON(key) { return [key] } }",
        r#"{"v":["v"]}"#,
        "`v.toJSON` is a function: call it, or leave it out",
    ),
    (
        "{ toJSON() { throw new Error('tj') } }",
        "`v` has a toJSON that threw: Error: tj",
        "`v.toJSON` is a function: call it, or leave it out",
    ),
    (
        "new Map([[1, 2]])",
        "`v` is a Map, which JSON cannot hold: use Object.fromEntries(map), or Array.from(map)",
        "`v` is a Map, which JSON cannot hold: use Object.fromEntries(map), or Array.from(map)",
    ),
    (
        "[new Set([1])]",
        "`v[0]` is a Set, which JSON cannot hold: use Array.from(set)",
        "`v[0]` is a Set, which JSON cannot hold: use Array.from(set)",
    ),
    (
        "/x/g",
        "`v` is a RegExp, which JSON cannot hold: use its source, or String(regexp)",
        "`v` is a RegExp, which JSON cannot hold: use its source, or String(regexp)",
    ),
    (
        "new TypeError('e')",
        r#"{"v":{"name":"TypeError","message":"e"}}"#,
        "`v` is an Error, which JSON cannot hold: use its name and message",
    ),
    (
        "Object.assign(new Error('m', {cause: new Error('c')}), {code: 5})",
        r#"{"v":{"name":"Error","message":"m","cause":{"name":"Error","message":"c"},"code":5}}"#,
        "`v` is an Error, which JSON cannot hold: use its name and message",
    ),
    (
        "[1, , 3]",
        "`v[1]` is a hole in the array: fill it, or use null",
        "`v[1]` is a hole in the array: fill it, or use null",
    ),
    ("[undefined]", r#"{"v":[null]}"#, "`v[0]` is undefined: use null"),
    (
        "{ a: undefined, b: 1 }",
        r#"{"v":{"b":1}}"#,
        "`v.a` is undefined: leave the property out",
    ),
    (
        "Promise.resolve(1)",
        "`v` is a promise: an await is missing",
        "`v` is a promise: an await is missing",
    ),
    (
        "new (class P { x = 1; #p = 2 })()",
        r#"{"v":{"x":1}}"#,
        "`v` is a class instance, not plain data",
    ),
    (
        "Object.assign(Object.create(null), {a: 1})",
        r#"{"v":{"a":1}}"#,
        r#"{"v":{"a":1}}"#,
    ),
    (
        "[new Number(1), new String('s'), new Boolean(false)]",
        r#"{"v":[1,"s",false]}"#,
        "`v[0]` is a Number, which JSON cannot hold: use the primitive, value.valueOf()",
    ),
    (
        "new Uint8Array([1, 2])",
        "`v` is a Uint8Array, which JSON cannot hold: use Array.from(array) for the numbers, or send text",
        "`v` is a Uint8Array, which JSON cannot hold: use Array.from(array) for the numbers, or send text",
    ),
    (
        "new ArrayBuffer(2)",
        "`v` is an ArrayBuffer, which JSON cannot hold: send text, or Array.from(new Uint8Array(buffer)) for the numbers",
        "`v` is an ArrayBuffer, which JSON cannot hold: send text, or Array.from(new Uint8Array(buffer)) for the numbers",
    ),
    (
        "new Map().keys()",
        "`v` is a Map Iterator, which JSON cannot hold: use Array.from(iterator)",
        "`v` is a Map Iterator, which JSON cannot hold: use Array.from(iterator)",
    ),
    (
        "new WeakMap()",
        "`v` is a WeakMap, which JSON cannot hold: it cannot be listed",
        "`v` is a WeakMap, which JSON cannot hold: it cannot be listed",
    ),
    (
        "new URLSearchParams('a=1')",
        "`v` is an object of URLSearchParams, which JSON cannot hold: use Object.fromEntries(params), or String(params)",
        "`v` is a class instance, not plain data",
    ),
    (
        "tools",
        "`v` is the object that holds the tools, not data",
        "`v` is an Object, which JSON cannot hold: turn it into plain data first",
    ),
    (
        "(() => { const a = {}; a.b = [a]; return a })()",
        "`v.b[0]` is a circular reference to an object that contains it",
        "`v.b[0]` is a circular reference to an object that contains it",
    ),
    (
        "(() => { const a = {q: 1}; return [a, a] })()",
        r#"{"v":[{"q":1},{"q":1}]}"#,
        r#"{"v":[{"q":1},{"q":1}]}"#,
    ),
    (
        "'🦀'.slice(0, 1)",
        "`v` is a string with an unpaired surrogate: cut strings between characters, for example with Array.from(text), or call text.toWellFormed()",
        "`v` is a string with an unpaired surrogate: cut strings between characters, for example with Array.from(text), or call text.toWellFormed()",
    ),
    (
        "{ ['\\ud800']: 1 }",
        r#"`v["\\ud800"]` is a key with an unpaired surrogate"#,
        r#"`v["\\ud800"]` is a key with an unpaired surrogate"#,
    ),
    (
        "{ get x() { throw new Error('boom') } }",
        "`v.x` could not be read: Error: boom",
        "`v.x` could not be read: Error: boom",
    ),
    ("new Proxy({a: 1}, {})", r#"{"v":{"a":1}}"#, "`v` is a Proxy"),
    ("new Proxy([1], {})", r#"{"v":[1]}"#, "`v` is a Proxy"),
    (
        "new Proxy({}, { ownKeys() { throw new Error('trap') } })",
        "`v` could not be read: Error: trap",
        "`v` is a Proxy",
    ),
    (
        "{ [Symbol('k')]: 1, a: 2 }",
        r#"{"v":{"a":2}}"#,
        "`v` has a symbol as a key",
    ),
    (
        "Object.assign([1], {extra: 1})",
        r#"{"v":[1]}"#,
        "`v` is an array with extra properties",
    ),
    (
        "Object.defineProperty({a: 1}, 'h', {value: 1})",
        r#"{"v":{"a":1}}"#,
        "`v` has the hidden property h",
    ),
    (
        "{ __proto__: { constructor: Object } }",
        r#"{"v":{}}"#,
        "`v` is a class instance, not plain data",
    ),
    (
        r#"'\u0000\u001f"\\/\u2028'"#,
        "{\"v\":\"\\u0000\\u001f\\\"\\\\/\u{2028}\"}",
        "{\"v\":\"\\u0000\\u001f\\\"\\\\/\u{2028}\"}",
    ),
];

#[tokio::test]
async fn every_kind_of_value_has_its_rule() {
    for placement in PLACEMENTS {
        for mode in [JsonMode::Standard, JsonMode::Strict] {
            let runtime = runtime(placement, Limits::default(), mode);
            for (expression, standard, strict) in RULES {
                let expected = if mode == JsonMode::Standard {
                    standard
                } else {
                    strict
                };
                let refusal = |what: &str| format!("{what} has no JSON form: {expected}");
                let result = run_on(&runtime, &format!("return {{ v: {expression} }}")).await;
                let (as_result, as_argument) = if expected.starts_with('{') {
                    ((*expected).to_owned(), (*expected).to_owned())
                } else {
                    (
                        format!("invalid-output: {}", refusal("the result")),
                        format!(
                            "\"{}\"",
                            refusal("the argument").replace('\\', "\\\\").replace('"', "\\\"")
                        ),
                    )
                };
                assert_eq!(outcome(&result), as_result, "{placement} {mode:?}: {expression}");
                let program = format!(
                    "try {{ return await tools.echo({{ v: {expression} }}) }} \
                     catch (e) {{ if (!(e instanceof ToolCallError) || e.toolName !== 'echo') throw e; return e.message }}"
                );
                let result = run_on(&runtime, &program).await;
                assert_eq!(
                    outcome(&result),
                    as_argument,
                    "{placement} {mode:?}: argument {expression}"
                );
            }
        }
    }
}

#[tokio::test]
async fn roots_are_named_as_such() {
    check(&[
        ("return new Set()", "invalid-output: the result is a Set, which JSON cannot hold: use Array.from(set)", &[]),
        ("return { summary: { tags: [NaN] } }", "invalid-output: the result has no JSON form: `summary.tags[0]` is NaN: check the arithmetic, or use null", &[]),
        ("await tools.echo(1, {x: 1n})", "exception at 1:13: ToolCallError: the argument has no JSON form: `arguments[1].x` is a BigInt: use String(value), or Number(value) if it is small enough", &[]),
        ("const a = []; a[3] = 1; return a", "invalid-output: the result has no JSON form: `[0]` is a hole in the array: fill it, or use null", &[]),
    ])
    .await;
}

#[tokio::test]
async fn depth_and_size_are_a_matter_of_the_limits() {
    for placement in PLACEMENTS {
        let runtime = shared(placement);
        let result = run_on(runtime, "let d = 0; for (let i = 0; i < 9990; i++) d = i % 2 ? [d] : {d}; \
             const e = await tools.echo(d); let n = 0, x = e; while (x) { x = Array.isArray(x) ? x[0] : x.d; n++ } return n").await;
        assert_eq!(outcome(&result), "9990", "{placement}");
        let result = run_on(
            runtime,
            "let d = 0; for (let i = 0; i < 3000; i++) d = [d]; return d",
        )
        .await;
        assert_eq!(
            outcome(&result),
            "[".repeat(3000) + "0" + &"]".repeat(3000),
            "{placement}"
        );
        let result = run_on(
            runtime,
            "let d = 0; for (let i = 0; i < 10001; i++) d = [d]; return d",
        )
        .await;
        assert!(
            outcome(&result).ends_with("is nested deeper than 10000 levels"),
            "{placement}"
        );
        let result = run_on(runtime, "return (await tools.big()).length").await;
        assert_eq!(outcome(&result), "10000000", "{placement}");
        let result = run_on(runtime, "return Array.from({length: 1000000}, (_, i) => i)").await;
        assert_eq!(outcome(&result).len(), 6_888_891, "{placement}");
    }
}
