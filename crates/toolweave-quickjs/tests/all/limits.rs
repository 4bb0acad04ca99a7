//! Every limit bites, cleanly, and the next run works.

use std::sync::Arc;
use std::time::{Duration, Instant};

use toolweave_runtime::{FailureKind, JsonMode, Limits, RunResult};

use crate::support::{NEED_NO_STACK, PLACEMENTS, Runtime, outcome, request, run_on, runtime};
use toolweave_runtime::CodeRuntime as _;

/// A generous ceiling against hangs; the limits themselves are a fraction of it.
const PATIENCE: Duration = Duration::from_secs(60);

fn kind(result: &RunResult) -> Option<FailureKind> {
    result.error.as_ref().map(|failure| failure.kind)
}

async fn expect_kind(runtime: &Runtime, placement: &str, program: &str, expected: FailureKind) -> RunResult {
    let begin = Instant::now();
    let result = run_on(runtime, program).await;
    assert_eq!(
        kind(&result),
        Some(expected),
        "{placement}: {program}: {}",
        outcome(&result)
    );
    assert!(begin.elapsed() < PATIENCE, "{placement}: {program}");
    assert_eq!(
        outcome(&run_on(runtime, "return 1").await),
        "1",
        "{placement}: after {program}"
    );
    result
}

#[tokio::test]
async fn compute_time_ends_loops_that_nothing_in_the_language_can_stop() {
    let limits = Limits {
        compute_ms: 150,
        max_wall_ms: 50_000,
        ..Limits::default()
    };
    for placement in PLACEMENTS {
        let runtime = runtime(placement, limits.clone(), JsonMode::Standard);
        for program in [
            "while (true) { try { while (true) {} } catch {} finally { for (;;) {} } }",
            "const hot = async () => { await 0; while (true) {} }; while (true) await hot().catch(() => {});",
            "const p = new Promise(async () => { while (true) {} }); await p.finally(() => { while (true) {} });",
            "while (true) await null",
            "tools.echo({}).then(() => { while (true) {} }); await tools.sleep(50000)",
            "await tools.echo({}); while (true) {}",
            "void tools.sleep(50000); for (;;) {}",
            "setInterval(() => { while (true) {} }, 1); await new Promise(() => {})",
            "return /^(a+)+$/.test('a'.repeat(40) + 'b')",
            "return { get x() { while (true) {} } }",
            "throw { get message() { return 1 }, toJSON() {}, [Symbol.toPrimitive]() { while (true) {} } } + ''",
            "function f() { try { f() } finally { f() } } f()",
        ] {
            let result = expect_kind(&runtime, placement, program, FailureKind::Timeout).await;
            let message = result.error.expect("a timeout").message;
            assert!(
                message.contains("computeMs is 150"),
                "{placement}: {program}: {message}"
            );
        }
    }
}

#[tokio::test]
async fn wall_time_ends_waiting_and_waiting_costs_no_compute_time() {
    let limits = Limits {
        compute_ms: 50_000,
        max_wall_ms: 150,
        ..Limits::default()
    };
    for placement in PLACEMENTS {
        let runtime = runtime(placement, limits.clone(), JsonMode::Standard);
        for program in [
            "await new Promise(() => {})",
            "await tools.sleep(50000)",
            "setInterval(() => {}, 1); await new Promise(() => {})",
        ] {
            let result = expect_kind(&runtime, placement, program, FailureKind::Timeout).await;
            let message = result.error.expect("a timeout").message;
            assert!(message.contains("maxWallMs is 150"), "{placement}: {message}");
        }
    }
    let limits = Limits {
        compute_ms: 100,
        max_wall_ms: 50_000,
        ..Limits::default()
    };
    for placement in PLACEMENTS {
        let runtime = runtime(placement, limits.clone(), JsonMode::Standard);
        assert_eq!(
            outcome(&run_on(&runtime, "return await tools.sleep(400)").await),
            "400",
            "{placement}"
        );
    }
}

#[tokio::test]
async fn what_was_said_before_a_kill_is_kept() {
    let limits = Limits {
        compute_ms: 100,
        ..Limits::default()
    };
    for placement in PLACEMENTS {
        let runtime = runtime(placement, limits.clone(), JsonMode::Standard);
        let program = "console.log('before'); await tools.echo({}); console.log('after'); while (true) {}";
        let result = expect_kind(&runtime, placement, program, FailureKind::Timeout).await;
        assert_eq!(result.logs, ["before", "after"], "{placement}");
        // A long built-in function cannot be interrupted in a thread; the run settles all the same.
        let program = "console.log('x'); const n = 10n ** 100000n; while (true) String(n)";
        let result = expect_kind(&runtime, placement, program, FailureKind::Timeout).await;
        assert_eq!(result.logs, ["x"], "{placement}");
    }
}

#[tokio::test]
async fn a_narrower_deadline_counts_for_its_run_alone() {
    for placement in PLACEMENTS {
        let runtime = runtime(placement, Limits::default(), JsonMode::Standard);
        let mut request = request("await new Promise(() => {})", Arc::default());
        request.timeout = Some(Duration::from_millis(50));
        let result = runtime.run(request).await.expect("a good request").result;
        assert_eq!(
            outcome(&result),
            "timeout: deadline exceeded: timeoutMs is 50",
            "{placement}"
        );
    }
}

#[tokio::test]
async fn memory_has_a_cap_in_whatever_shape_it_is_taken() {
    let limits = Limits {
        max_memory_mb: 32,
        ..Limits::default()
    };
    for placement in PLACEMENTS {
        let runtime = runtime(placement, limits.clone(), JsonMode::Standard);
        for program in [
            "const a = []; while (true) a.push(new Array(1000).fill(1.5))",
            "const a = []; while (true) a.push(1)",
            "const a = []; let i = 0; while (true) a.push('s'.repeat(10000) + i++)",
            "const m = new Map(); let i = 0; while (true) m.set({ i: i++ }, new Uint8Array(4096))",
            "const a = []; while (true) { try { a.push(new Array(1000).fill(1.5)) } catch {} }",
            "const a = []; const grow = async () => { while (true) a.push({ x: [1, 2, 3] }) }; while (true) await grow().catch(() => {})",
            "let o = {}; while (true) o = { o, p: tools.a.b.c.d }",
            "const a = []; while (true) { a.push(setTimeout(() => {}, 1e9)); if (a.length > 9e4) { clearTimeout(a.pop()); a.push(new Array(1e3).fill(0)) } }",
        ] {
            let result = expect_kind(&runtime, placement, program, FailureKind::WorkerExit).await;
            let failure = result.error.expect("a failure");
            assert_eq!(
                failure.message, "memory limit exceeded: 32 MiB",
                "{placement}: {program}"
            );
            let peak = result.usage.peak_memory_bytes.expect("counted");
            assert!(peak <= 33 << 20, "{placement}: {program}: {peak}");
        }
        // One absurd request is an error of the language, and a program may go on after it.
        let program = "try { new ArrayBuffer(2 ** 33) } catch (e) { console.log(e.name) } \
             try { new Uint8Array(2 ** 30) } catch (e) { console.log('refused') } \
             for (let i = 0; i < 1e6; i++); await tools.sleep(1); return 'went on'";
        let result = run_on(&runtime, program).await;
        assert_eq!(outcome(&result), "\"went on\"", "{placement}");
        assert_eq!(result.logs, ["RangeError", "refused"], "{placement}");
    }
}

#[tokio::test]
async fn the_stack_has_an_end() {
    for placement in PLACEMENTS {
        for max_stack_kb in [256, 4096] {
            let limits = Limits {
                max_stack_kb,
                ..Limits::default()
            };
            let runtime = runtime(placement, limits, JsonMode::Standard);
            for program in [
                "const f = (n) => f(n + 1) + 1; return f(0)",
                "async function f(n) { await f(n + 1) } await f(0)",
                "return eval('['.repeat(100000))",
                "return eval('('.repeat(100000) + ')'.repeat(100000))",
                "return JSON.parse('['.repeat(200000))",
                "let a = []; for (let i = 0; i < 100000; i++) a = [a]; return JSON.stringify(a).length",
                "let a = []; for (let i = 0; i < 100000; i++) a = [a]; return String(a)",
                "const o = {}; o.toString = () => `${o}`; return String(o)",
                "const p = new Proxy({}, { get: (t, k, r) => r[k] }); return p.x",
                "let a = []; for (let i = 0; i < 50000; i++) a = [a]; return structuredClone(a).length",
            ] {
                if NEED_NO_STACK.contains(&program) {
                    continue;
                }
                let result = expect_kind(&runtime, placement, program, FailureKind::Exception).await;
                let message = result.error.expect("a failure").message;
                assert!(
                    message.contains("stack"),
                    "{placement} {max_stack_kb}: {program}: {message}"
                );
            }
            for program in [
                "return /^(?:a|b)*?c/.test('ab'.repeat(1e6))",
                "try { return new RegExp('('.repeat(50000)).test('') } catch (e) { return false }",
            ] {
                let result = run_on(&runtime, program).await;
                assert!(
                    matches!(outcome(&result).as_str(), "true" | "false")
                        || kind(&result) == Some(FailureKind::Exception),
                    "{}",
                    outcome(&result)
                );
            }
        }
    }
}

#[tokio::test]
async fn output_has_one_exact_budget() {
    for placement in PLACEMENTS {
        let run = |cap, program: &'static str| async move {
            let limits = Limits {
                max_output_bytes: cap,
                ..Limits::default()
            };
            run_on(&runtime(placement, limits, JsonMode::Standard), program).await
        };
        assert_eq!(outcome(&run(7, "return '€'").await), "\"€\"", "{placement}");
        assert_eq!(
            kind(&run(6, "return '€'").await),
            Some(FailureKind::OutputLimit),
            "{placement}"
        );
        assert_eq!(
            outcome(&run(11, "console.log('abc'); return 'xy'").await),
            "\"xy\"",
            "{placement}"
        );
        assert_eq!(
            kind(&run(10, "console.log('abc'); return 'xy'").await),
            Some(FailureKind::OutputLimit),
            "{placement}"
        );
        let result = run(64, "throw new Error('x'.repeat(1e6))").await;
        assert_eq!(kind(&result), Some(FailureKind::OutputLimit), "{placement}");
        let result = run(20_000, "for (let i = 0; ; i++) console.log(`row ${i}`)").await;
        assert_eq!(kind(&result), Some(FailureKind::OutputLimit), "{placement}");
        assert_eq!(result.logs[..2], ["row 0", "row 1"], "{placement}");
        let result = run(1000, "while (true) console.log('x'.repeat(1e6))").await;
        assert_eq!(kind(&result), Some(FailureKind::OutputLimit), "{placement}");
        assert!(
            result.logs.iter().map(String::len).sum::<usize>() <= 1000,
            "{placement}"
        );
    }
}

#[tokio::test]
async fn calls_frames_and_depth_have_caps() {
    let limits = Limits {
        max_sub_calls: 10,
        max_frame_bytes: 1024,
        max_json_depth: 16,
        ..Limits::default()
    };
    for placement in PLACEMENTS {
        let runtime = runtime(placement, limits.clone(), JsonMode::Standard);
        let program = "let n = 0; try { while (true) { await tools.echo(1); n++ } } catch (e) { return [n, e.name, e.message] }";
        assert_eq!(
            outcome(&run_on(&runtime, program).await),
            r#"[10,"ToolCallError","sub-call limit exceeded: maxSubCalls is 10"]"#,
            "{placement}"
        );
        let program = "try { await tools.echo('x'.repeat(2000)) } catch (e) { return e.message }";
        assert_eq!(
            outcome(&run_on(&runtime, program).await),
            "\"the argument is more than 1024 bytes of JSON\"",
            "{placement}"
        );
        let program = "try { await tools.big() } catch (e) { return e.message.includes('maxFrameBytes') }";
        assert_eq!(outcome(&run_on(&runtime, program).await), "true", "{placement}");
        let program = "let d = 1; for (let i = 0; i < 17; i++) d = [d]; try { await tools.echo(d) } catch (e) { return e.message.slice(-33) }";
        assert_eq!(
            outcome(&run_on(&runtime, program).await),
            "\"` is nested deeper than 16 levels\"",
            "{placement}"
        );
    }
}
