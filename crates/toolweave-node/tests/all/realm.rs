//! Ways from the program's realm into Node's own that are particular to V8: call sites, argument lists of proxied
//! functions, errors of a full stack, promises of `import()`.

use crate::support::{PLACEMENTS, outcome, run_on, shared};

#[tokio::test]
async fn no_object_of_nodes_own_realm_is_ever_seen() {
    let cases = [
        // The text of a stack is made over there; neither call sites nor a list of them come over.
        (
            "const seen = []; Error.prepareStackTrace = (e, sites) => { seen.push(sites); return 'x' }; \
             globalThis.Error = { prepareStackTrace(e, sites) { seen.push(sites); return sites } }; \
             try { null.x } catch (e) { seen.push(typeof e.stack, e.stack.includes('program.ts')) } return seen",
            r#"["string",true]"#,
        ),
        (
            "const own = Object.getOwnPropertyDescriptor(new Error('x'), 'stack'); \
             return own.get === undefined || own.get.constructor === Function",
            "true",
        ),
        // An argument list is an array of the realm that calls.
        (
            "const probe = new Proxy(function () {}, { apply(_, __, values) { \
               return values.constructor === Array ? values.constructor.constructor('return typeof process')() : 'another realm' } }); \
             const seen = []; await tools.echo({ toJSON: probe }).then((v) => seen.push(v)); \
             seen.push((await tools.echo(Object.defineProperty({}, 'x', { get: probe, enumerable: true }))).x); \
             class Odd extends Error { get name() { return probe() } get message() { return probe() } } \
             try { throw new Odd() } catch (e) { seen.push(e.stack.split('\\n')[0]) } \
             setTimeout((...values) => seen.push(probe(...values)), 0, 1); queueMicrotask(() => seen.push(probe())); \
             await tools.sleep(10); return seen",
            r#"["undefined","undefined","undefined: undefined","undefined","undefined"]"#,
        ),
        // A full stack overflows on either side.
        (
            "const wrong = []; let caught = 0; const note = (e) => { caught++; \
               if (e.constructor !== RangeError && e.constructor !== SyntaxError) wrong.push(String(e)); \
               else if (e.constructor.constructor !== Function) wrong.push('another realm') }; \
             const visit = [() => performance.now(), () => new URL('http://x/'), () => console.log({ a: [1] }), \
               () => setTimeout(() => {}, 1e6), () => new TextEncoder().encode('é'), () => structuredClone({ a: 1 })]; \
             for (const call of visit) { let tries = 0; const f = () => { try { f() } catch (e) { note(e) } \
               if (tries++ < 200) try { call() } catch (e) { note(e) } }; try { f() } catch (e) { note(e) } } \
             return [wrong, caught > 0]",
            "[[],true]",
        ),
        (
            "const p = import('fs'); const e = await p.catch((e) => e); \
             return [p.constructor === Promise, e.constructor === TypeError, e.constructor.constructor === Function]",
            "[true,true,true]",
        ),
        // A program that ends its own wrapper is still only a program.
        (
            "})(); globalThis.x = 1; (async () => { return typeof process + typeof x",
            "\"undefinednumber\"",
        ),
    ];
    for placement in PLACEMENTS {
        for (program, expected) in cases {
            assert_eq!(
                outcome(&run_on(shared(placement), program).await),
                expected,
                "{program}"
            );
        }
    }
}

#[tokio::test]
async fn descriptors_and_lists_are_not_read_through_prototypes() {
    let cases = [
        (
            "Object.prototype.get = undefined; Object.prototype.value = 5; Object.prototype.writable = false; \
             try { await tools.fail({}) } catch (e) { return [e.message, e.toolName, e instanceof ToolCallError] }",
            r#"["it failed","fail",true]"#,
        ),
        (
            "Object.defineProperty(Array.prototype, '0', { set() { throw new Error('hijacked') }, configurable: true }); \
             Object.prototype.toJSON = undefined; console.log([1, [2]], { a: 1 }); return await tools.echo([1, { a: [2] }])",
            r#"[1,{"a":[2]}]"#,
        ),
    ];
    for placement in PLACEMENTS {
        for (program, expected) in cases {
            assert_eq!(
                outcome(&run_on(shared(placement), program).await),
                expected,
                "{program}"
            );
        }
    }
}
