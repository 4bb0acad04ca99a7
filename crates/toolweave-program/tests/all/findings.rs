//! Slips that are reported and calls that are found, without false alarms.

use toolweave_program::{Awaited, Literal, StaticCall, prepare};

fn findings(text: &str) -> Vec<String> {
    let prepared = prepare(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    prepared
        .findings
        .iter()
        .map(|found| format!("{}:{} {}", found.line, found.column, found.message))
        .collect()
}

fn calls(text: &str) -> Vec<StaticCall> {
    prepare(text)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .calls
}

#[test]
fn promises_that_nobody_waits_for_are_reported() {
    let cases = [
        (
            "tools.put({});\nreturn 1",
            "1:1 the promise of `tools.put(...)` is dropped: the program may end before the call does, and its error is lost; write `await tools.put(...)`",
        ),
        (
            "const r = tools.add({});\nreturn r.sum",
            "1:11 `r` is the promise of `tools.add(...)` and is never awaited, so that its properties are undefined; write `const r = await tools.add(...)`",
        ),
        (
            "const r = tools.add({});\nreturn 1",
            "1:11 `r` is the promise of `tools.add(...)` and is never awaited; write `const r = await tools.add(...)`",
        ),
        (
            "return tools.add({}).sum",
            "1:8 `.sum` is read from the promise of `tools.add(...)` and is undefined; write `(await tools.add(...)).sum`",
        ),
        (
            "const { sum } = tools.add({});\nreturn sum",
            "1:17 the promise of `tools.add(...)` is taken apart instead of its value; write `await tools.add(...)`",
        ),
        (
            "return `a ${tools[\"doc-stats\"]({})}`",
            "1:13 the promise of `tools[\"doc-stats\"](...)` is put into a string instead of its value; write `await tools[\"doc-stats\"](...)`",
        ),
        (
            "if (tools.ok({})) return 1\nreturn 2",
            "1:5 the promise of `tools.ok(...)` is tested instead of its value; write `await tools.ok(...)`",
        ),
        (
            "for (const x of tools.list({})) console.log(x)",
            "1:17 the promise of `tools.list(...)` is iterated over instead of its value; write `await tools.list(...)`",
        ),
        (
            "console.log(tools.now({}))",
            "1:13 the promise of `tools.now(...)` is printed instead of its value; write `await tools.now(...)`",
        ),
        (
            "return { a: [tools.now({})] }",
            "1:14 the promise of `tools.now(...)` is part of the result instead of its value; write `await tools.now(...)`",
        ),
        (
            "return await tools.a({ b: tools.c() })",
            "1:27 the promise of `tools.c(...)` is passed to a tool instead of its value; write `await tools.c(...)`",
        ),
        (
            "const { put } = tools;\nput({});\nreturn 1",
            "2:1 the promise of `put(...)` is dropped: the program may end before the call does, and its error is lost; write `await put(...)`",
        ),
        (
            "function f() { tools.put({}) }\nf();\nreturn 1",
            "1:16 the promise of `tools.put(...)` is dropped: the program may end before the call does, and its error is lost; write `await tools.put(...)` and make the function around it `async`",
        ),
        (
            "async function f() { await tools.put({}) }\nf();\nreturn 1",
            "2:1 the promise of `f(...)` is dropped: the program may end before it does, and its error is lost; write `await f(...)`",
        ),
        (
            "(async () => { await tools.put({}) })();\nreturn 1",
            "1:1 the promise of this async function is dropped: the program may end before it does; write `await` before it",
        ),
        (
            "[1].forEach(async (x) => { await tools.put({ x }) });\nreturn 1",
            "1:1 `forEach` does not wait for an async callback; use `for (const x of list) { await ... }` or `await Promise.all(list.map(async (x) => ...))`",
        ),
        (
            "const x = await tools.a({});\nconst total = x.n",
            "2:1 the program ends with the declaration of `total` and returns nothing; add `return total`",
        ),
        (
            "for (const x of [1]) await tools.a({ x })",
            "1:1 the program prints nothing and returns nothing; end it with `return` and the value to report",
        ),
        (
            "async () => { await tools.a({}) }",
            "1:1 the program prints nothing and returns nothing; end it with `return` and the value to report",
        ),
        (
            "const a = 1; { result: a }",
            "1:14 the program returns nothing: `{ ... }` at the start of a statement is a block and not an object; write `return { ... }`",
        ),
        (
            "async function main() { return 1 }\nconsole.log(\"start\")",
            "1:1 `main` is defined and never called; call it: `await main()`",
        ),
        (
            "try { await import(\"fs\") } catch { return 1 }\nreturn 2",
            "1:13 `import(\"fs\")` cannot work: modules are not available; everything outside of the language is reached through `tools`: `await tools.NAME({ ... })`",
        ),
        (
            "```ts\n\ttools.put({});\nreturn 1\n```",
            "2:2 the promise of `tools.put(...)` is dropped: the program may end before the call does, and its error is lost; write `await tools.put(...)`",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(findings(text), [expected], "{text}");
    }
}

#[test]
fn promises_that_somebody_may_wait_for_are_not_reported() {
    for text in [
        "return await Promise.all([tools.a({}), tools.b({})])",
        "return Promise.all([...tools.a({})])",
        "const ps = [1, 2].map(x => tools.a({ x }));\nreturn await Promise.all(ps)",
        "const p = tools.a({});\nconst q = await p;\nreturn q.x",
        "const p = tools.a({});\nreturn p",
        "const p = tools.a({});\nreturn p.then((r) => r.x)",
        "let p = tools.a({});\np = await p;\nreturn p.x",
        "tools.a({}).then(console.log);\nreturn 1",
        "tools.a({}).catch(() => {});\nreturn 1",
        "void tools.a({});\nreturn 1",
        "const jobs = [];\njobs.push(tools.a({}));\nreturn await Promise.all(jobs)",
        "return Promise.race([tools.a({}), later(tools.b({}))])",
        "const one = () => tools.a({});\nreturn (await one()).x",
        "const o = { p: tools.a({}) };\nreturn (await o.p).x",
        "function get() { return { p: tools.a({}) } }\nreturn (await get().p).x",
        "return (await tools.a({})).x",
        "return tools.a({})",
        "tools.a({})",
        "const tools = { a: () => 1 };\ntools.a();\nreturn tools.a().x",
        "for await (const x of tools.a({})) console.log(x)",
        "return tools.a({}) instanceof Promise",
        "async function main() { console.log(1) }\nmain()",
        "await tools.a({});\nthrow new Error(\"x\")",
    ] {
        assert_eq!(findings(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn calls_are_found_through_names_and_brackets() {
    let text = "const { add, read_doc: read } = tools;\nconst t = await tools;\nawait add({ a: 1, b: -2.5, c: [\"x\", null, true], d: `e`, u: undefined });\n\
                await read({ id: other, ...more });\nawait t[\"doc-stats\"]();\nawait (tools as any).github.search(...args);\n\
                await sdk.x(1, 2);\ntools?.maybe({});\nawait tools[name]({});\nreturn 1";
    let found: Vec<_> = calls(text)
        .into_iter()
        .map(|call| {
            let json = call.argument.as_ref().and_then(Literal::to_json);
            (
                [call.root, call.path.join("/")].join(":"),
                (call.line, call.column),
                call.certain,
                json,
                call.argument_count,
            )
        })
        .collect();
    let json = "{\"a\":1,\"b\":-2.5,\"c\":[\"x\",null,true],\"d\":\"e\"}".to_owned();
    let expected = [
        ("tools:add", (3, 7), true, Some(json), Some(1)),
        ("tools:read_doc", (4, 7), true, None, Some(1)),
        ("tools:doc-stats", (5, 7), true, None, Some(0)),
        ("tools:github/search", (6, 7), true, None, None),
        ("sdk:x", (7, 7), true, Some("1".to_owned()), Some(2)),
        ("tools:maybe", (8, 1), false, Some("{}".to_owned()), Some(1)),
    ];
    assert_eq!(
        found,
        expected.map(|(path, place, certain, json, count)| (path.to_owned(), place, certain, json, count))
    );
}

#[test]
fn arguments_keep_what_is_known() {
    let text = "return await tools.x({ a: 1, \"b-c\": other, d: { e: [f(), \"g\"] } })";
    let object = |entries: &[(&str, Literal)]| Literal::Object {
        entries: entries
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()))
            .collect(),
        complete: true,
    };
    let list = Literal::Array {
        items: vec![Literal::Unknown, Literal::String("g".to_owned())],
        complete: true,
    };
    let expected = object(&[
        ("a", Literal::Number(1.0)),
        ("b-c", Literal::Unknown),
        ("d", object(&[("e", list)])),
    ]);
    assert_eq!(calls(text)[0].argument, Some(expected));
}

#[test]
fn only_calls_that_are_surely_reached_are_certain() {
    let certain = [
        "await tools.x()",
        "const a = 1;\nreturn await tools.x({ a })",
        "async () => { return await tools.x() }",
        "async (tools) => tools.x()",
        "async function main() { const r = await tools.x(); return r.y }",
        "export default async function () { return await tools.x() }",
        "await (async () => { await tools.x() })()",
        "const [a, b] = await Promise.all([tools.x(), 1]);\nreturn a",
    ];
    for text in certain {
        assert!(calls(text)[0].fails_the_run(), "{text}");
    }
    let not = [
        "if (a) await tools.x();\nreturn 1",
        "a && await tools.x()",
        "return a ? await tools.x() : 1",
        "for (const a of b) await tools.x();\nreturn 1",
        "try { await tools.x() } catch { return 1 }",
        "if (a) return 1;\nreturn await tools.x()",
        "const f = async () => await tools.x();\nreturn await f()",
        "return await tools?.x()",
        "return await tools.x().catch(() => 1)",
        "return await Promise.allSettled([tools.x()])",
        "tools.x();\nreturn 1",
        "return 1;\nawait tools.x()",
        "l: { if (a) break l; await tools.x() }\nreturn 1",
        "await (async () => { if (a) return; await tools.x() })();\nreturn 1",
        "return await tools.x.call(null)",
    ];
    for text in not {
        assert!(!calls(text)[0].fails_the_run(), "{text}");
    }
    assert_eq!(calls("tools.x();\nreturn 1")[0].awaited, Awaited::Discarded);
    assert_eq!(
        calls("const p = tools.x();\nreturn await p")[0].awaited,
        Awaited::Later
    );
}
