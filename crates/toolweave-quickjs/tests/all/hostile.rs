//! Programs that try to reach the host or to deceive it.

use crate::support::{PLACEMENTS, check, outcome, run_on, shared};

#[tokio::test]
async fn rewriting_the_language_changes_neither_checks_nor_errors() {
    let rewrite = "Array.prototype.push = () => { throw 1 }; Array.prototype.map = null; Object.keys = null; \
        Object.defineProperty = null; JSON.stringify = () => '{}'; JSON.parse = null; Reflect.ownKeys = null; Reflect.apply = null; \
        Function.prototype.toString = () => 'native'; Function.prototype.call = null; Set.prototype.has = () => true; \
        Object.prototype.evil = 1; String.prototype.toString = null; Error.captureStackTrace = null; \
        Promise.prototype.then = function () { throw new Error('then') }; Promise.resolve = null; \
        globalThis.Array = null; globalThis.Object = null; globalThis.Error = null; globalThis.Promise = null;";
    let programs = [
        ("return await tools.echo({ a: [1, 2] })", r#"{"a":[1,2]}"#),
        (
            "try { await tools.fail({}) } catch (e) { return [e instanceof ToolCallError, e.name, e.message, e.toolName] }",
            r#"[true,"ToolCallError","it failed","fail"]"#,
        ),
        (
            "return { m: new Map() }",
            "invalid-output: the result has no JSON form: `m` is a Map, which JSON cannot hold: use Object.fromEntries(map), or Array.from(map)",
        ),
        (
            "console.log({ a: [1] }, new Map([[1, 2]])); return 'x'.repeat(3)",
            "\"xxx\"",
        ),
    ];
    for placement in PLACEMENTS {
        for (program, expected) in programs {
            let result = run_on(shared(placement), &format!("{rewrite}\n{program}")).await;
            assert_eq!(outcome(&result), expected, "{placement}: {program}");
        }
    }
}

#[tokio::test]
async fn errors_keep_their_class_whatever_happens_to_it() {
    check(&[
        (
            "ToolCallError.prototype.__proto__ = Array.prototype; Object.setPrototypeOf(ToolCallError, Array); \
             try { await tools.fail({}) } catch (e) { return [e instanceof ToolCallError, e.message, e.toolName] }",
            r#"[true,"it failed","fail"]"#,
            &[],
        ),
        ("globalThis.ToolCallError = class {}", "exception at 1:1: TypeError: 'ToolCallError' is read-only", &[]),
        // A forged error is an exception like any other; no message makes it a timeout.
        (
            "throw Object.assign(new Error('compute limit exceeded'), {kind: 'timeout', name: 'Timeout'})",
            "exception at 1:25: Timeout: compute limit exceeded",
            &[],
        ),
        (
            "const e = new Error('m'); Object.defineProperty(e, 'message', { get() { throw 1 } }); throw e",
            "exception at 1:15: Error: Error",
            &[],
        ),
        (
            "throw new Proxy(new Error('p'), { get() { throw 1 }, getPrototypeOf() { throw 2 } })",
            "exception: the program threw Error: p",
            &[],
        ),
        ("Error.prepareStackTrace = () => 'forged'; Error.stackTraceLimit = 0; throw new Error('x')", "exception: Error: x", &[]),
    ])
    .await;
}

#[tokio::test]
async fn every_constructor_chain_ends_inside_the_sandbox() {
    let chains = [
        "this.constructor.constructor",
        "globalThis.constructor.constructor",
        "Object.constructor",
        "JSON.constructor.constructor",
        "Promise.constructor",
        "JSON.parse('{}').constructor.constructor",
        "(await tools.echo({})).constructor.constructor",
        "tools.echo.constructor",
        "[].constructor.constructor",
        "new String('').constructor.constructor",
        "console.log.constructor",
        "(await tools.fail({}).catch((e) => e)).constructor.constructor",
        "Object.getPrototypeOf(async () => {}).constructor",
    ];
    let probe = "typeof process + typeof require + typeof fetch + typeof Deno + typeof std + typeof module";
    for placement in PLACEMENTS {
        for chain in chains {
            let program = format!("return await ({chain})('return {probe}')()");
            let result = run_on(shared(placement), &program).await;
            assert_eq!(
                outcome(&result),
                format!("\"{}\"", "undefined".repeat(6)),
                "{placement}: {chain}"
            );
            let program = format!("return await ({chain})(\"return import('fs')\")()");
            let result = run_on(shared(placement), &program).await;
            assert!(
                outcome(&result).contains("cannot import"),
                "{placement}: {chain}: {}",
                outcome(&result)
            );
        }
    }
}

#[tokio::test]
async fn thenables_proxies_and_getters_are_only_values() {
    check(&[
        ("return { then(resolve) { resolve(5) } }", "5", &[]),
        ("return await { then(_, reject) { reject(new Error('no')) } }", "exception at 1:45: Error: no", &[]),
        ("await tools.echo({ then() {} })", "exception at 1:13: ToolCallError: the argument has no JSON form: `then` is a function: call it, or leave it out", &[]),
        (
            "const seen = []; const p = new Proxy({a: 1}, { get(t, k) { seen.push(String(k)); return t[k] } }); \
             await tools.echo(p); return seen",
            r#"["toJSON","a"]"#,
            &[],
        ),
        ("return Object.defineProperty([], 'length', {writable: false})", "[]", &[]),
        ("const a = [1, 2, 3]; return { get a() { a.length = 0; return a }, b: a }", r#"{"a":[],"b":[]}"#, &[]),
        ("const a = [{ get x() { a.length = 1; return 1 } }, 2, 3]; return a", "invalid-output: the result has no JSON form: `[1]` is a hole in the array: fill it, or use null", &[]),
        ("return new Proxy(function () {}, {})", "invalid-output: the result is a function: call it, or leave it out", &[]),
    ])
    .await;
}
