//! The global object, name by name.

use crate::support::{PLACEMENTS, check, globals, run_on, shared};

#[tokio::test]
async fn the_global_object_has_the_listed_names_and_no_others() {
    for placement in PLACEMENTS {
        let result = run_on(
            shared(placement),
            "return Object.getOwnPropertyNames(globalThis).sort()",
        )
        .await;
        let names: Vec<String> = serde_json::from_str(result.value.expect("a list").as_str()).expect("names");
        let ours: Vec<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|name| !["tools", "sdk", "ToolCallError"].contains(name))
            .collect();
        assert_eq!(ours, globals(), "{placement}");
    }
}

#[tokio::test]
async fn what_hosts_usually_offer_is_there() {
    check(&[
        (
            "const u = new URL('../x?q=1', 'https://user:pw@ex.com:8080/a/b/'); u.hash = 'h'; u.port = '443'; \
             u.searchParams.set('q', 'a b&c'); return [u, u.origin, u.pathname, [...u.searchParams], URL.canParse('no')]",
            r##"["https://user:pw@ex.com/a/x?q=a+b%26c#h","https://ex.com","/a/x",[["q","a b&c"]],false]"##,
            &[],
        ),
        (
            "const p = new URLSearchParams({a: '1', b: '2'}); p.append('a', '3'); p.delete('b'); p.sort(); \
             return [String(p), p.getAll('a'), p.has('b'), p.size, Object.fromEntries(p)]",
            r#"["a=1&a=3",["1","3"],false,2,{"a":"3"}]"#,
            &[],
        ),
        ("new URL('nope')", "exception at 1:5: TypeError: Invalid URL: nope", &[]),
        (
            "const d = new TextDecoder(); return d.decode(new Uint8Array([0xe2, 0x82]), {stream: true}) \
             + d.decode(new Uint8Array([0xac])) + [...new TextEncoder().encode('é\\ud800')]",
            r#""€195,169,239,191,189""#,
            &[],
        ),
        (
            "const c = structuredClone({d: new Date(0), m: new Map([[1, new Set([2])]]), e: new RangeError('x'), \
             b: new Uint8Array([1, 2])}); c.self = c; const t = structuredClone(c); \
             return [t.self === t, t.d, [...t.m.get(1)], t.e instanceof RangeError, t.e.message, [...t.b]]",
            r#"[true,"1970-01-01T00:00:00.000Z",[2],true,"x",[1,2]]"#,
            &[],
        ),
        (
            "structuredClone(() => 1)",
            "exception at 1:1: DataCloneError: The function (anonymous) could not be cloned.",
            &[],
        ),
        (
            "const a = new AbortController(); const s = AbortSignal.any([a.signal, AbortSignal.timeout(5)]); \
             await new Promise((resolve) => s.addEventListener('abort', resolve)); \
             return [s.aborted, s.reason.name, s.reason instanceof DOMException, a.signal.aborted]",
            r#"[true,"TimeoutError",true,false]"#,
            &[],
        ),
        ("AbortSignal.abort('why').throwIfAborted()", "exception: why", &[]),
        ("return [atob('aGk='), btoa('hi'), typeof performance.now()]", r#"["hi","aGk=","number"]"#, &[]),
        (
            "return [typeof process, typeof require, typeof fetch, typeof SharedArrayBuffer, typeof Atomics, typeof std, \
             typeof os, typeof navigator, typeof module]",
            r#"["undefined","undefined","undefined","undefined","undefined","undefined","undefined","undefined","undefined"]"#,
            &[],
        ),
    ])
    .await;
}

#[tokio::test]
async fn missing_globals_say_what_to_do_instead() {
    check(&[
        (
            "return fetch('http://x')",
            "exception at 1:8: ReferenceError: fetch is not defined: programs have no network of their own; call a tool on \
             `tools`",
            &[],
        ),
        ("final_answer(1)", "exception at 1:1: ReferenceError: final_answer is not defined: return the value", &[]),
        ("try { process.env } catch (e) { return [e.name, e instanceof ReferenceError] }", r#"["ReferenceError",true]"#, &[]),
        (
            "await import('node:fs')",
            "exception: TypeError: cannot import \"node:fs\": programs have no modules; call a tool on `tools`, or use the \
             built-in objects",
            &[],
        ),
        ("return nothingKnown", "exception at 1:8: ReferenceError: nothingKnown is not defined", &[]),
    ])
    .await;
}
