//! Values, logs, errors, order of events: what a program may rely on.

use std::sync::{Arc, Mutex};

use toolweave_runtime::{CodeRuntime as _, Frame, Position};

use crate::support::{Host, PLACEMENTS, check, comparable, outcome, request, run_on, shared};

#[tokio::test]
async fn a_program_is_the_strict_body_of_an_async_function() {
    check(&[
        ("", "nothing", &[]),
        ("return", "nothing", &[]),
        ("return undefined", "nothing", &[]),
        ("return null", "null", &[]),
        ("return ''", "\"\"", &[]),
        ("return false", "false", &[]),
        ("return 0", "0", &[]),
        ("return []", "[]", &[]),
        ("// only a comment", "nothing", &[]),
        ("return await Promise.resolve(1) + 1", "2", &[]),
        ("x = 1", "exception at 1:1: ReferenceError: x is not defined", &[]),
        ("return eval('1 + 1') + new Function('return 3')()", "5", &[]),
        (
            "return tools.echo(Promise.resolve(1).constructor.name)",
            "\"Promise\"",
            &[],
        ),
    ])
    .await;
}

#[tokio::test]
async fn logs_are_one_entry_a_call_in_the_style_of_node() {
    check(&[
        (
            "console.log('plain', 1, true, null, undefined); console.warn({x: 1, y: 'two'}); \
             console.error([1, 2, 3], 'tail'); console.info('multi\\nline'); console.debug()",
            "nothing",
            &["plain 1 true null undefined", "{ x: 1, y: 'two' }", "[ 1, 2, 3 ] tail", "multi\nline", ""],
        ),
        (
            "class Point { x = 1; #p = 2; y = 'two' } console.log(new Point(), [new Point()], new Map([['a', {b: 1}]]), \
             new Set([1]), -0, 10n, Symbol('q'), () => 1, class A {}, async function f() {}, new Date(0), /x/g)",
            "nothing",
            &["Point { x: 1, y: 'two' } [ Point { x: 1, y: 'two' } ] Map(1) { 'a' => { b: 1 } } Set(1) { 1 } -0 10n Symbol(q) \
               [Function (anonymous)] [Function: A] [AsyncFunction: f] 1970-01-01T00:00:00.000Z /x/g"],
        ),
        (
            "const a = {n: 1}; a.self = a; console.log(a, {a: {b: {c: {d: {e: {f: 1}}}}}}, [undefined, , 1], \
             {get x() { throw 1 }}, Object.create(null), Promise.resolve(4), new Uint8Array(2))",
            "nothing",
            &["<ref *1> { n: 1, self: [Circular *1] } { a: { b: { c: { d: { e: [Object] } } } } } \
               [ undefined, <1 empty item>, 1 ] { x: [Getter] } [Object: null prototype] {} Promise { 4 } \
               Uint8Array(2) [ 0, 0 ]"],
        ),
        (
            "console.log(new Error('boom', {cause: new TypeError('c')}), [new Error('in')], \
             Object.assign(new Error('p'), {code: 1}))",
            "nothing",
            &["Error: boom { [cause]: [TypeError: c] } [ [Error: in] ] Error: p { code: 1 }"],
        ),
        (
            "console.log('%s is %d%% of %o', 'a', 3, {x: 1}, 'rest'); console.log('100%', 5); console.group('g'); \
             console.log('in\\nner'); console.groupEnd(); console.count(); console.count(); console.assert(1); \
             console.assert(0, 'no'); console.table([{a: 1}, {a: 2}]); console.log('\\udc00')",
            "nothing",
            &[
                "a is 3% of { x: 1 } rest",
                "100% 5",
                "g",
                "  in\n  ner",
                "default: 1",
                "default: 2",
                "Assertion failed: no",
                "| (index) | a |\n| --- | --- |\n| 0 | 1 |\n| 1 | 2 |",
                "\\udc00",
            ],
        ),
    ])
    .await;
}

#[tokio::test]
async fn failures_carry_name_message_and_place_in_the_programs_own_text() {
    check(&[
        (
            "const a = 1;\n\n  throw new RangeError('no');",
            "exception at 3:13: RangeError: no",
            &[],
        ),
        (
            "const { x } = { x: null }; return x.text",
            "exception at 1:35: TypeError: cannot read property 'text' of null",
            &[],
        ),
        (
            "const o = {};\no.run(1)",
            "exception at 2:3: TypeError: o.run is not a function",
            &[],
        ),
        (
            "return [1].map((x) => tools.echo.nope(x))",
            "exception at 1:39: TypeError: tools.echo.nope is not a function",
            &[],
        ),
        (
            "let y = 1;\nlet x = (1 +;",
            "exception at 2:13: SyntaxError: unexpected token in expression: ';'",
            &[],
        ),
        (
            "/* é🦀 */ throw new Error('x')",
            "exception at 1:21: Error: x",
            &[],
        ),
        (
            "return await tools.fail({})",
            "exception at 1:20: ToolCallError: it failed",
            &[],
        ),
        (
            "await null;\nconst f = async () => {\n  await tools.fail({});\n};\nawait f()",
            "exception at 3:15: ToolCallError: it failed",
            &[],
        ),
        (
            "class MyError extends Error { name = 'MyError' }\nthrow new MyError('hi')",
            "exception at 2:11: MyError: hi",
            &[],
        ),
        (
            "throw new Error('outer', {cause: new TypeError('inner')})",
            "exception at 1:38: Error: outer\n  caused by TypeError: inner",
            &[],
        ),
        (
            "await Promise.any([Promise.reject(new Error('a')), Promise.reject('b')])",
            "exception at 1:60: AggregateError: AggregateError\n  [0] Error: a\n  [1] b",
            &[],
        ),
        ("throw 'text'", "exception: text", &[]),
        (
            "throw {code: 'E_QUOTA'}",
            "exception: the program threw { code: 'E_QUOTA' }",
            &[],
        ),
        ("throw 7", "exception: the program threw 7", &[]),
        ("throw null", "exception: the program threw null", &[]),
        ("throw undefined", "exception: the program threw undefined", &[]),
        ("throw ''", "exception: the program threw an empty string", &[]),
        (
            "setTimeout(() => { throw new Error('late') }, 1); await new Promise(() => {})",
            "exception at 1:30: Error: late",
            &[],
        ),
        (
            "queueMicrotask(() => { throw new Error('soon') }); await new Promise(() => {})",
            "exception at 1:34: Error: soon",
            &[],
        ),
        (
            "tools.fail({}); await tools.sleep(1); return 1",
            "1",
            &["Unhandled rejection: ToolCallError: it failed"],
        ),
        (
            "const p = tools.fail({}); await tools.sleep(1); try { await p } catch { return 'caught late' }",
            "\"caught late\"",
            &[],
        ),
    ])
    .await;
}

#[tokio::test]
async fn stacks_show_the_programs_frames_only() {
    let program = "function inner() { throw new Error('x') }\nconst outer = () => inner();\n[1].forEach(() => outer());";
    let at = |line, column| Position { line, column };
    for placement in PLACEMENTS {
        let failure = run_on(shared(placement), program).await.error.expect("it throws");
        let frames = [
            ("inner", at(1, 30)),
            ("outer", at(2, 21)),
            ("", at(3, 19)),
            ("", at(3, 5)),
        ];
        let frames: Vec<Frame> = frames
            .into_iter()
            .map(|(function, position)| Frame {
                function: function.to_owned(),
                position,
            })
            .collect();
        assert_eq!(comparable(failure.stack), comparable(frames), "{placement}");
    }
}

#[tokio::test]
async fn events_come_in_the_order_of_browsers_and_node() {
    check(&[
        (
            "setTimeout(() => console.log('t1'), 1); setTimeout(() => console.log('t0'), 0); \
             queueMicrotask(() => console.log('q')); Promise.resolve().then(() => console.log('p')); console.log('s'); \
             await new Promise((resolve) => setTimeout(resolve, 5));",
            "nothing",
            &["s", "q", "p", "t1", "t0"],
        ),
        (
            "let n = 0; const i = setInterval(() => { console.log('i'); if (++n === 2) clearInterval(i) }, 1); \
             const t = setTimeout(() => console.log('never'), 1); clearTimeout(t); \
             await new Promise((resolve) => setTimeout(resolve, 20, 'x'));",
            "nothing",
            &["i", "i"],
        ),
        // A timer that renews itself lets answers through, and answers let timers through.
        (
            "let on = true; const again = () => { if (on) setTimeout(again, 0) }; again(); await tools.sleep(5); on = false; \
             let off = false; setTimeout(() => { off = true }, 2); while (!off) await tools.echo(1); return 'fair'",
            "\"fair\"",
            &[],
        ),
        // What is left behind does not keep a run alive.
        ("setInterval(() => {}, 1); setTimeout(() => {}, 60000); tools.sleep(60000); return 'over'", "\"over\"", &[]),
        (
            "async function* g() { while (true) { await tools.sleep(1); yield 1 } } const it = g(); await it.next(); \
             it.next(); return 'left open'",
            "\"left open\"",
            &[],
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_namespace_is_a_frozen_object_of_its_functions() {
    check(&[
        (
            "return [typeof tools, Object.keys(tools), Reflect.ownKeys(tools).length, 'echo' in tools, 'nope' in tools, \
             'then' in tools, Symbol.iterator in tools, Object.hasOwn(tools, 'hidden'), tools.hasOwnProperty('ask'), \
             sdk === tools, tools.echo === tools.echo, tools.echo.name, String(tools)]",
            r#"["object",["echo","fail","sleep","big","doc-stats","__proto__","constructor"],9,true,false,false,false,true,true,true,true,"echo","[object Object]"]"#,
            &[],
        ),
        ("const { echo, ...rest } = tools; return [await echo(1), Object.keys(rest).length, typeof {...tools}.fail]", r#"[1,6,"function"]"#, &[]),
        ("return [await tools['doc-stats']({id: 1}), await tools.__proto__(2), await tools.constructor(3), await tools.hidden(4)]", r#"[{"id":1},2,3,4]"#, &[]),
        ("const t = await tools; return [t === tools, typeof tools.then, tools.toString === Object.prototype.toString]", r#"[true,"undefined",true]"#, &[]),
        ("tools.echo = 1", "exception at 1:1: TypeError: cannot change `echo`: `tools` is read-only", &[]),
        ("tools.other = 1", "exception at 1:1: TypeError: cannot change `other`: `tools` is read-only", &[]),
        ("tools = {}", "exception at 1:1: TypeError: 'tools' is read-only", &[]),
        (
            "Object.freeze(tools); return [Object.isFrozen(tools), Reflect.set(tools, 'echo', 1), Reflect.set(tools, 'x', 1), \
             Reflect.defineProperty(tools, 'y', {value: 1}), Reflect.deleteProperty(tools, 'echo'), await tools.echo(5)]",
            "[true,false,false,false,false,5]",
            &[],
        ),
        ("return tools.ask({deep: [await tools.echo(1)]})", r#"{"deep":[1]}"#, &[]),
        ("const [a, b] = [tools.sleep(5), tools.echo(2)]; const c = tools.ask(3); return [await a, await b, c]", "[5,2,3]", &[]),
    ])
    .await;
}

#[tokio::test]
async fn a_failed_call_is_an_error_of_the_namespaces_class() {
    check(&[
        (
            "try { await tools.fail({}) } catch (e) { return [e instanceof ToolCallError, e instanceof Error, e.name, \
             e.toolName, e.message, 'code' in e, Object.keys(e), typeof e.stack, String(e)] }",
            r#"[true,true,"ToolCallError","fail","it failed",false,["toolName"],"string","ToolCallError: it failed"]"#,
            &[],
        ),
        ("return [ToolCallError.name, new ToolCallError('m', 't').toolName, ToolCallError.prototype instanceof Error]", r#"["ToolCallError","t",true]"#, &[]),
        ("await tools.tickets.list({})", "exception at 1:21: ToolCallError: no tool `tickets.list`; the nearest is `echo`", &[]),
        ("try { await tools.ech() } catch (e) { return [e.name, e.toolName] }", r#"["ToolCallError","ech"]"#, &[]),
        ("return `${tools.missing}`", "exception at 1:11: ToolCallError: `tools.missing` does not exist", &[]),
        ("return tools.a.b + 1", "exception at 1:20: ToolCallError: `tools.a.b` does not exist", &[]),
        ("return [typeof tools.missing, JSON.stringify(tools.missing) ?? 'none', await tools.missing === undefined]", r#"["function","none",false]"#, &[]),
    ])
    .await;
}

#[tokio::test]
async fn arguments_and_results_reach_the_other_side_whole() {
    let program = "await tools.echo({z: 1, a: [true, null, 'é🦀\\n\"'], __proto__x: 1, ['__proto__']: {k: 2}}); \
                   await tools.echo('a', undefined, 3, undefined).catch(() => {}); await tools.echo(); \
                   await tools.echo(undefined)";
    for placement in PLACEMENTS {
        let host = Arc::new(Host::default());
        let settled = shared(placement)
            .run(request(program, Arc::clone(&host)))
            .await
            .expect("a good request");
        assert_eq!(outcome(&settled.result), "nothing", "{placement}");
        let calls = host.calls.lock().expect("unpoisoned").clone();
        let expected = [
            r#"echo[{"z":1,"a":[true,null,"é🦀\n\""],"__proto__x":1,"__proto__":{"k":2}}]"#,
            r#"echo["a",null,3]"#,
            "echo[]",
            "echo[]",
        ];
        assert_eq!(calls, expected, "{placement}");
    }
}

#[tokio::test]
async fn logs_arrive_while_the_program_runs() {
    for placement in PLACEMENTS {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut request = request(
            "console.log('early'); await tools.sleep(20); console.log('late')",
            Arc::default(),
        );
        let sink = Arc::clone(&seen);
        request.on_log = Some(Arc::new(move |entry: &str| {
            sink.lock().expect("unpoisoned").push(entry.to_owned());
        }));
        shared(placement).run(request).await.expect("a good request");
        assert_eq!(
            *seen.lock().expect("unpoisoned"),
            ["early", "late"],
            "{placement}"
        );
    }
}

#[tokio::test]
async fn runs_share_nothing() {
    for placement in PLACEMENTS {
        let runtime = shared(placement);
        run_on(
            runtime,
            "globalThis.secret = 42; Array.prototype.evil = 1; console.log = () => {}; Math.random = () => 4; \
             Object.prototype.toJSON = () => 'fake'; return 1",
        )
        .await;
        let result = run_on(
            runtime,
            "console.log('hello'); return [typeof secret, 'evil' in [], Math.random() < 1, await tools.echo({v: 1})]",
        )
        .await;
        assert_eq!(
            outcome(&result),
            r#"["undefined",false,true,{"v":1}]"#,
            "{placement}"
        );
        assert_eq!(result.logs, ["hello"], "{placement}");

        let numbers: Vec<_> = (0..4).map(|_| run_on(runtime, "return Math.random()")).collect();
        let mut seen: Vec<String> = futures_util::future::join_all(numbers)
            .await
            .iter()
            .map(outcome)
            .collect();
        seen.sort();
        seen.dedup();
        assert_eq!(
            seen.len(),
            4,
            "{placement}: every run has random numbers of its own"
        );

        let programs: Vec<String> = (0..20)
            .map(|n| {
                format!(
                    "for (let i = 0; i < 20; i++) {{ console.log({n}); await tools.sleep(1) }} return {n}"
                )
            })
            .collect();
        let results =
            futures_util::future::join_all(programs.iter().map(|program| run_on(runtime, program))).await;
        for (n, result) in results.iter().enumerate() {
            assert_eq!(outcome(result), n.to_string(), "{placement}");
            assert_eq!(result.logs, vec![n.to_string(); 20], "{placement}");
        }
    }
}
