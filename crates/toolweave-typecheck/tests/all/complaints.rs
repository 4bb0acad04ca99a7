//! Programs with what is said about them by a real compiler.

use toolweave_typecheck::{CheckPrograms as _, Complaint, Declarations, Unchecked, Verdict, limits};

use crate::support::{checker, declarations};

/// Each program with the codes of its mistakes and of its doubts.
const PROGRAMS: &[(&str, &[u32], &[u32])] = &[
    // What is right.
    (
        "return (await tools.read_doc({ id: 'a' })).title.length;",
        &[],
        &[],
    ),
    (
        "const { docs } = await tools.list_docs(); return docs.map((d) => d.title);",
        &[],
        &[],
    ),
    (
        "const o = await tools.open({ id: 'a', more: 1 }); return [o.id.length, o.anything.at.all];",
        &[],
        &[],
    ),
    // Arguments.
    ("await tools.read_doc({ id: 5 });", &[2322], &[]),
    ("await tools.read_doc({ id: 'a', mode: 'pdf' });", &[2322], &[]),
    (
        "await tools.read_doc({ id: 'a', page: { from: 'x' } });",
        &[2322],
        &[],
    ),
    (
        "await tools.read_doc({ id: 'a', page: { form: 1 } });",
        &[2353],
        &[],
    ),
    ("await tools.read_doc({ id: 'a', extra: 1 });", &[2353], &[]),
    ("await tools.read_doc({ limit: 1 });", &[2741], &[]),
    ("await tools.read_doc();", &[2554], &[]),
    ("await tools.read_doc('a');", &[2345], &[]),
    ("const a = { id: 5 }; await tools.read_doc(a);", &[2345], &[]),
    (
        "const { read_doc } = tools; await read_doc({ id: 1 });",
        &[2322],
        &[],
    ),
    (
        "return Promise.all(['a'].map((id) => tools.read_doc({ idd: id })));",
        &[2353],
        &[],
    ),
    ("await tools.read_doc({ id: tools.untyped() });", &[2322], &[]),
    ("await tools.put_docs({ docs: [], tags: 'a' });", &[2322], &[]),
    (
        "const { docs } = await tools.list_docs(); await tools.read_doc({ id: docs });",
        &[2322],
        &[],
    ),
    // Arguments that may fit after all.
    (
        "let mode = 'html'; await tools.read_doc({ id: 'a', mode });",
        &[],
        &[2322],
    ),
    (
        "const a = { id: 'a', mode: 'html' }; await tools.read_doc(a);",
        &[],
        &[2345],
    ),
    (
        "const id = Math.random() > 1 ? 'a' : 5; await tools.read_doc({ id });",
        &[],
        &[2322],
    ),
    (
        "const id: unknown = JSON.parse('1'); await tools.read_doc({ id });",
        &[],
        &[2322],
    ),
    ("await tools.read_doc({ id: new Date() });", &[], &[2322]),
    ("const a = {}; a.id = 'x'; await tools.read_doc(a);", &[], &[2741]),
    (
        "const a = { limit: 1 }; a.id = 'x'; await tools.read_doc(a);",
        &[],
        &[2741],
    ),
    ("await tools.read_doc({ id: 5 as any });", &[], &[]),
    (
        "const r = await tools.untyped(); await tools.read_doc({ id: r.some.id });",
        &[],
        &[],
    ),
    ("await tools.read_doc({ id: null, limit: undefined });", &[], &[]),
    // Members of results.
    (
        "return (await tools.read_doc({ id: 'a' })).body.length;",
        &[2339],
        &[],
    ),
    ("return (await tools.read_doc({ id: 'a' })).titel;", &[2551], &[]),
    (
        "return (await tools.list_docs()).entries.map((d) => d.title);",
        &[2339],
        &[],
    ),
    (
        "const r = await tools.list_docs(); for (const d of r.entries) console.log(d);",
        &[2339],
        &[],
    ),
    (
        "const r = await tools.list_docs();\nreturn r.entries\n  .map((d) => d.title);",
        &[2339],
        &[],
    ),
    (
        "return (await tools.list_docs()).docs.map((d) => d.names[0]);",
        &[2339],
        &[],
    ),
    ("return tools.list_docs().docs.length;", &[2339], &[]),
    (
        "for (const d of await tools.list_docs()) console.log(d);",
        &[2488],
        &[],
    ),
    // Members that may be there, or whose absence is no failure.
    ("return (await tools.read_doc({ id: 'a' })).body;", &[], &[2339]),
    (
        "const { docs, total } = await tools.list_docs(); return [docs, total];",
        &[],
        &[2339],
    ),
    ("return tools.list_docs().docs;", &[], &[2339]),
    (
        "const r = await tools.list_docs(); return r.items ?? r.docs;",
        &[],
        &[2339],
    ),
    (
        "const r = await tools.list_docs(); return r.items?.length;",
        &[],
        &[2339],
    ),
    (
        "const r = await tools.list_docs(); if (r.items) return r.items.length;",
        &[],
        &[2339],
    ),
    (
        "const r = await tools.list_docs(); return 'items' in r ? r.items.length : 0;",
        &[],
        &[],
    ),
    (
        "const { total = 0 } = await tools.list_docs(); return total;",
        &[],
        &[2339],
    ),
    (
        "const r = await tools.put_docs({ docs: [], tags: [] }); return r.count.toFixed();",
        &[],
        &[2339],
    ),
    (
        "const r = await tools.read_doc({ id: 'a' }); r.extra = 1; return r.extra.toFixed();",
        &[],
        &[],
    ),
    ("const r = await tools.untyped(); return r.a.b.c();", &[], &[]),
    (
        "const r: any = await tools.list_docs(); return r.whatever.else;",
        &[],
        &[],
    ),
    (
        "return (await tools.read_doc({ id: 'a' }) as any).body.length;",
        &[],
        &[],
    ),
    (
        "// @ts-ignore\nreturn (await tools.read_doc({ id: 'a' })).body.length;",
        &[],
        &[],
    ),
    // Comparisons.
    (
        "return (await tools.read_doc({ id: 'a' })).status === 'opne';",
        &[],
        &[2367],
    ),
    (
        "let done = false; [1].forEach(() => { done = true; }); if (done === true) return 1;",
        &[],
        &[],
    ),
    // Style, and what the program made itself.
    (
        "const counts = {}; counts.a = 1; for (const k of ['x']) counts[k] = (counts[k] || 0) + 1; return counts;",
        &[],
        &[],
    ),
    (
        "function f(a, b) { return a + b; } let unused; return f(1);",
        &[],
        &[],
    ),
    ("const x: number = 'a'; return x.foo;", &[], &[]),
    ("try { JSON.parse('') } catch (e) { return e.message; }", &[], &[]),
    (
        "return [1, 2].reduce((acc, n) => { acc.sum = (acc.sum || 0) + n; return acc; }, {});",
        &[],
        &[],
    ),
    ("const best = null; return best?.title;", &[], &[]),
    (
        "const r: Wrong = await tools.read_doc({ id: 'a' }); return process.env.HOME ?? r;",
        &[],
        &[],
    ),
    ("return new Date() - new Date(0);", &[], &[]),
    // Names of tools are found without a compiler.
    ("await tools.nope({}); return tools.list();", &[], &[]),
    // Syntax that is moved into a function.
    (
        "namespace N { export const a = 1; } await tools.read_doc({ id: 5 }); return N.a;",
        &[2322],
        &[],
    ),
    ("enum E { A } await tools.read_doc({ id: E.A });", &[], &[2322]),
];

#[tokio::test]
async fn programs_get_the_complaints_that_they_deserve() {
    let Some(checker) = checker() else { return };
    let declarations = declarations();
    let mut wrong = Vec::new();
    for (program, mistakes, doubts) in PROGRAMS {
        let complaints = checker.check(&declarations, program).await.unwrap();
        let codes = |verdict| -> Vec<u32> {
            complaints
                .iter()
                .filter(|complaint| complaint.verdict == verdict)
                .map(|complaint| complaint.code)
                .collect()
        };
        if codes(Verdict::Mistake) != *mistakes || codes(Verdict::Doubt) != *doubts {
            wrong.push(format!("{program}\n{complaints:#?}"));
        }
    }
    assert_eq!(wrong, [""; 0], "{}", wrong.join("\n\n"));
}

#[tokio::test]
async fn a_complaint_has_its_place_and_readable_words() {
    let Some(checker) = checker() else { return };
    let program = "// é😀\n/* 😀 */ await tools.read_doc({ id: 1 });\nconst r = await tools.read_doc({ id: 'a' });\nr.body.a; r.body.b;";
    let complaint = |line, column, code, message: &str| Complaint {
        line,
        column,
        code,
        message: message.to_owned(),
        verdict: Verdict::Mistake,
    };
    assert_eq!(
        checker.check(&declarations(), program).await,
        Ok(vec![
            complaint(2, 33, 2322, "Type 'number' is not assignable to type 'string'"),
            complaint(4, 3, 2339, "Property 'body' does not exist on type '$Doc'"),
        ])
    );
    let Ok(complaints) = checker.check(&declarations(), "tools.list_docs().docs.at").await else {
        panic!("it was checked before");
    };
    assert_eq!(
        complaints[0].message,
        "Property 'docs' does not exist on type 'Promise<{ docs: $Doc[]; next: string; }>'. Did you forget `await`?"
    );
}

#[tokio::test]
async fn other_declarations_are_looked_at_when_they_come() {
    let Some(checker) = checker() else { return };
    let program = "return (await tools.one()).a;";
    let other = |result: &str| {
        let text = format!("interface Tools {{ one(): Promise<{result}> }} declare const tools: Tools;");
        Declarations::new(text)
    };
    for _ in 0..2 {
        let right = checker
            .check(&other(r#"{ "~"?: never; a: string }"#), program)
            .await
            .unwrap();
        assert_eq!(right, []);
        let wrong = checker
            .check(&other(r#"{ "~"?: never; b: string }"#), program)
            .await
            .unwrap();
        assert_eq!(wrong.len(), 1);
    }
}

#[tokio::test]
async fn texts_that_lead_outside_lead_nowhere() {
    let Some(checker) = checker() else { return };
    let programs = [
        "/// <reference path=\"/etc/passwd\" />\nreturn 1;",
        "/// <reference types=\"node\" />\nreturn 1;",
        "type A = import('/etc/passwd').A; const a: A = 1; return a;",
        "type A = typeof import('typescript'); return 1;",
        "// @ts-nocheck\nreturn (await tools.read_doc({ id: 'a' })).body;",
    ];
    for program in programs {
        let complaints = checker.check(&declarations(), program).await.unwrap();
        let expected = usize::from(program.contains("body"));
        assert_eq!(complaints.len(), expected, "{program}: {complaints:#?}");
    }
}

#[tokio::test]
async fn sizes_are_capped_before_anything_is_sent() {
    let Some(checker) = checker() else { return };
    let program = " ".repeat(limits::MAX_PROGRAM_BYTES + 1);
    assert_eq!(
        checker.check(&declarations(), &program).await,
        Err(Unchecked::TooLarge {
            what: "programs",
            bytes: program.len(),
            most: limits::MAX_PROGRAM_BYTES,
        })
    );
}

/// Types that cost a compiler much: it gives up or is given up, and the next program is checked all the same.
#[tokio::test]
async fn types_that_explode_cost_no_more_than_the_cap() {
    let Some(checker) = checker() else { return };
    let explosion = "type D = '0'|'1'|'2'|'3'|'4'|'5'|'6'|'7'|'8'|'9';\n\
        type T = `${D}${D}${D}${D}`; type U<A, B> = A extends `${infer X}${infer Y}` ? [X, U<Y, B>] : B;\n\
        const t: U<T, U<T, T>> = 1 as any; const u: U<U<T, T>, T> = t; return u;";
    let recursion =
        "type N<T> = { a: N<{ b: T }>, c: N<[T]> }; declare const n: N<1>; const m: N<2> = n; return m;";
    let deep = format!("return {}1{};", "[".repeat(900), "]".repeat(900));
    let many = "tools.read_doc({ id: 1 });\n".repeat(5_000);
    for program in [explosion, recursion, &deep, &many] {
        let started = std::time::Instant::now();
        // Whatever is said, it is said in time.
        let _ = checker.check(&declarations(), program).await;
        assert!(started.elapsed() < std::time::Duration::from_secs(120));
    }
    let after = checker
        .check(&declarations(), "await tools.read_doc({ id: 5 });")
        .await;
    assert_eq!(after.map(|complaints| complaints.len()), Ok(1));
}
