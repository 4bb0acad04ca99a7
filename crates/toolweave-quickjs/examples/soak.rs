//! Very many runs, and death at random moments: prints what is left behind, how long runs take, and what was lost.
//!
//! `cargo run --release -p toolweave-quickjs --example soak -- [RUNS [AT_ONCE]]` (10 000 and 200 without arguments). It exits
//! with 1 where something was left behind or lost. `tests/all/reliability.rs` of `toolweave` checks a smaller dose on each change.

#![expect(clippy::print_stdout, reason = "an example that prints what it measured")]

mod host;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use host::{Held, Host, WORKER, children_of, processes, quantile, request, runtime};
use rustix::process::{Pid, Signal, kill_process};
use toolweave_quickjs::QuickJsRuntime;
use toolweave_runtime::{CodeRuntime as _, FailureKind, Settled};

/// The argument that makes this program a host to be killed.
const VICTIM: &str = "--victim";
/// Runs during which workers and warm parents are killed.
const CHAOS_RUNS: u64 = 200;
/// How often the whole host is killed.
const HOST_KILLS: u64 = 10;
/// Workers more than usual that may stand ready for a while after many were wanted at once.
const EXTRA_STANDBYS: usize = 6;
const PATIENCE: Duration = Duration::from_secs(60);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next();
    // Before anything starts a thread.
    if first.as_deref() == Some(WORKER) {
        toolweave_quickjs::worker_main();
    }
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a tokio runtime");
    if first.as_deref() == Some(VICTIM) {
        tokio.block_on(victim());
        return;
    }
    let number = |text: Option<String>, otherwise: usize| {
        text.map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let runs = number(first, 10_000);
    let at_once = number(arguments.next(), 200);
    let well = tokio.block_on(async {
        let mut well = true;
        for placement in ["worker", "thread"] {
            well &= many(placement, runs, at_once).await;
        }
        for whom in [Whom::Workers, Whom::WarmParent] {
            well &= chaos(whom).await;
        }
        well & host_kills().await
    });
    std::process::exit(i32::from(!well));
}

/// Many runs back to back and many at once. Says whether nothing was left behind.
async fn many(placement: &str, runs: usize, at_once: usize) -> bool {
    println!("== {placement}: {runs} runs back to back, then {at_once} at once");
    let runtime = runtime(placement);
    // Pools and the allocator grow to what is needed once.
    together(&runtime, at_once).await;
    for _ in 0..200 {
        finished(one(&runtime, "return 1 + 1").await);
    }
    let before = at_rest().await;
    println!("before        {}", shown(before));

    let begin = Instant::now();
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let start = Instant::now();
        finished(
            one(
                &runtime,
                "console.log('a line'); return await tools.echo({ a: 1 })",
            )
            .await,
        );
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    let took = begin.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    #[expect(clippy::cast_precision_loss, reason = "a count of runs")]
    let rate = runs as f64 / took;
    println!(
        "back to back  p50 {:.0} µs, p99 {:.0} µs, most {:.0} µs, {rate:.0} runs/s",
        quantile(&times, 0.5),
        quantile(&times, 0.99),
        quantile(&times, 1.0),
    );

    let start = Instant::now();
    let live = together(&runtime, at_once).await;
    println!(
        "at once       all {at_once} settled in {:.0} ms",
        start.elapsed().as_secs_f64() * 1e3
    );
    println!("while live    {}", shown(live));
    #[expect(clippy::cast_precision_loss, reason = "KiB of one machine")]
    if let (Some(during), Some(before)) = (live.proportional, before.proportional) {
        let each = during.saturating_sub(before) as f64 / at_once as f64 / 1024.0;
        println!("a live run    {each:.2} MiB of proportional set size");
    }

    let after = at_rest().await;
    println!("after         {}", shown(after));
    let standbys = after.children.saturating_sub(before.children);
    let clean = after.zombies == 0
        && standbys <= EXTRA_STANDBYS
        && after.descriptors <= before.descriptors + standbys
        && after.threads <= before.threads;
    runtime.dispose().await;
    let end = children_of(std::process::id());
    println!(
        "{}\n",
        if clean && end.is_empty() {
            "nothing left behind"
        } else {
            "LEFT BEHIND"
        }
    );
    clean && end.is_empty()
}

/// Runs so many programs at the same time, all alive together, and returns what was held then.
async fn together(runtime: &QuickJsRuntime, count: usize) -> Held {
    let host = Host::new();
    let runs = (0..count).map(|_| runtime.run(request("await tools.hold(); return 1", &host)));
    let look = async {
        while host.holding() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let held = Held::now();
        host.let_go();
        held
    };
    let (settled, held) = futures_util::future::join(join_all(runs), look).await;
    for settled in settled {
        finished(settled.expect("a good request"));
    }
    held
}

async fn one(runtime: &QuickJsRuntime, program: &str) -> Settled {
    runtime
        .run(request(program, &Host::new()))
        .await
        .expect("a good request")
}

fn finished(settled: Settled) {
    assert_eq!(settled.result.error, None);
}

/// Waits until two looks see the same.
async fn at_rest() -> Held {
    let begin = Instant::now();
    let mut last = Held::now();
    loop {
        tokio::time::sleep(Duration::from_millis(700)).await;
        let now = Held::now();
        let same =
            (now.descriptors, now.threads, now.children) == (last.descriptors, last.threads, last.children);
        if (same && now.zombies == 0) || begin.elapsed() > PATIENCE {
            return now;
        }
        last = now;
    }
}

fn shown(held: Held) -> String {
    let Held {
        descriptors,
        threads,
        children,
        zombies,
        resident,
        proportional,
    } = held;
    let proportional = proportional.map_or("not readable".to_owned(), |kib| format!("{kib} KiB"));
    format!(
        "descriptors {descriptors}, threads {threads}, children {children} (zombies {zombies}), resident {resident} KiB, \
         proportional with children {proportional}"
    )
}

#[derive(Clone, Copy, Debug)]
enum Whom {
    Workers,
    WarmParent,
}

/// Kills processes below this one while many runs are under way. Says whether no other run was lost.
async fn chaos(whom: Whom) -> bool {
    println!("== {CHAOS_RUNS} runs while {whom:?} are killed at random moments");
    let runtime = Arc::new(runtime("worker"));
    let runs: Vec<_> = (0..CHAOS_RUNS)
        .map(|number| {
            let runtime = Arc::clone(&runtime);
            tokio::spawn(async move {
                // Spread over time, so that a kill meets runs of every age.
                tokio::time::sleep(Duration::from_millis(number * 10)).await;
                let wait = 20 + number % 13 * 20;
                let program =
                    format!("await new Promise((done) => setTimeout(done, {wait})); return {number}");
                (number, one(&runtime, &program).await)
            })
        })
        .collect();
    let mut dice = Dice::new();
    let mut dead = BTreeSet::new();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(CHAOS_RUNS * 10) {
        let pause = match whom {
            Whom::Workers => 20 + dice.below(40),
            // A successor needs a moment. More deaths in a row than it has attempts are reported, not hidden.
            Whom::WarmParent => 200 + dice.below(200),
        };
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let children = children_of(std::process::id());
        let candidates: Vec<u32> = children
            .iter()
            .filter(|child| child.state != 'Z')
            .filter(|child| (child.session == child.pid) == matches!(whom, Whom::WarmParent))
            .map(|child| child.pid)
            .collect();
        let Some(victim) = usize::try_from(dice.below(candidates.len().max(1) as u64))
            .ok()
            .and_then(|at| candidates.get(at))
        else {
            continue;
        };
        if kill(*victim) {
            dead.insert(*victim);
        }
    }
    let mut arrived = 0;
    let mut hit = 0;
    let mut wrong = Vec::new();
    for run in runs {
        let (number, settled) = run.await.expect("no panic");
        let result = settled.result;
        match (&result.value, &result.error) {
            (Some(value), None) if value.as_str() == number.to_string() => arrived += 1,
            (None, Some(failure)) if failure.kind == FailureKind::WorkerExit => hit += 1,
            other => wrong.push(format!("{number}: {other:?}")),
        }
    }
    runtime.dispose().await;
    let left = children_of(std::process::id()).len();
    println!(
        "{} kills, {arrived} results, {hit} runs hit, {} wrong, {left} processes left",
        dead.len(),
        wrong.len()
    );
    for wrong in &wrong {
        println!("  {wrong}");
    }
    println!();
    let expected = match whom {
        Whom::Workers => hit <= dead.len(),
        Whom::WarmParent => hit == 0,
    };
    expected && wrong.is_empty() && left == 0
}

/// Runs programs until it is killed.
async fn victim() {
    let runtime = runtime("worker");
    println!("ready");
    loop {
        let waiting = (0..10).map(|_| one(&runtime, "await new Promise((done) => setTimeout(done, 30))"));
        let busy = (0..3).map(|_| {
            one(
                &runtime,
                "for (const end = Date.now() + 20; Date.now() < end;) {}",
            )
        });
        futures_util::future::join(join_all(waiting), join_all(busy)).await;
    }
}

/// Kills whole hosts in the middle of their work. Says whether no worker outlived one.
async fn host_kills() -> bool {
    println!("== {HOST_KILLS} hosts killed at random moments");
    let mut dice = Dice::new();
    let mut orphans = 0;
    let mut slowest = Duration::ZERO;
    for _ in 0..HOST_KILLS {
        let mut host = start_victim().expect("this program starts");
        tokio::time::sleep(Duration::from_millis(50 + dice.below(150))).await;
        let sessions: BTreeSet<u32> = children_of(host.id())
            .iter()
            .filter(|child| child.session == child.pid)
            .map(|child| child.pid)
            .collect();
        let begin = Instant::now();
        host.kill().expect("it runs");
        host.wait().expect("it is ours");
        // Whoever adopts them may leave a zombie; that runs nothing.
        let left = || {
            processes()
                .iter()
                .filter(|process| sessions.contains(&process.session) && !matches!(process.state, 'Z' | 'X'))
                .count()
        };
        while left() > 0 && begin.elapsed() < Duration::from_secs(10) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        slowest = slowest.max(begin.elapsed());
        orphans += left();
    }
    println!(
        "{orphans} orphans; the last worker was gone {:.0} ms after its host at the latest",
        slowest.as_secs_f64() * 1e3
    );
    orphans == 0
}

#[expect(clippy::disallowed_methods, reason = "an example that kills what it started")]
fn start_victim() -> std::io::Result<std::process::Child> {
    use std::io::BufRead as _;
    let mut child = std::process::Command::new("/proc/self/exe")
        .arg(VICTIM)
        .stdout(std::process::Stdio::piped())
        .spawn()?;
    if let Some(output) = &mut child.stdout {
        std::io::BufReader::new(output).read_line(&mut String::new())?;
    }
    Ok(child)
}

fn kill(pid: u32) -> bool {
    Pid::from_raw(pid.cast_signed()).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
}

/// Numbers that nobody can foresee, from the clock.
struct Dice(u64);

impl Dice {
    fn new() -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self(now.map_or(1, |now| u64::from(now.subsec_nanos())) | 1)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
