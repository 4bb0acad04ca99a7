//! What a run pays before its first instruction: a fork when nothing stands ready, and nearly nothing when something
//! does. The child answers one byte, so that its lockdown is part of the round trip.

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
}

#[cfg(target_os = "linux")]
#[expect(clippy::unwrap_used, reason = "a benchmark")]
mod linux {
    use divan::{Bencher, counter::ItemsCount};
    use std::{
        io::{Read, Write},
        sync::OnceLock,
        time::Duration,
    };
    use tokio::runtime::Runtime;
    use toolweave_sandbox::{Child, Requirement, WarmConfig, WarmParent, serve_warm};

    pub(super) fn main() {
        if std::env::args().nth(1).as_deref() == Some("worker") {
            // As large as a warm engine: pages that a fork has to copy the tables of.
            let _ = serve_warm(|| vec![1_u8; 2 << 20], answer);
        } else {
            divan::main();
        }
    }

    fn answer(_heap: Vec<u8>, mut start: toolweave_sandbox::ChildStart) -> u8 {
        let mut byte = [0];
        while start.socket.read(&mut byte).is_ok_and(|count| count == 1) {
            if start.socket.write_all(&byte).is_err() {
                break;
            }
        }
        0
    }

    fn runtime() -> &'static Runtime {
        static RUNTIME: OnceLock<Runtime> = OnceLock::new();
        RUNTIME.get_or_init(|| tokio::runtime::Builder::new_current_thread().build().unwrap())
    }

    fn pool(standbys: usize, requirement: Requirement) -> WarmParent {
        WarmParent::start(WarmConfig {
            standbys,
            requirement,
            ..WarmConfig::default()
        })
        .unwrap()
    }

    fn take(pool: &WarmParent) -> Child {
        runtime().block_on(pool.take()).unwrap()
    }

    fn round_trip(child: &Child) {
        let mut socket = child.socket();
        socket.set_nonblocking(false).unwrap();
        socket.write_all(&[7]).unwrap();
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
    }

    /// A fork on demand, until the host has the socket.
    #[divan::bench(sample_count = 500, args = [Requirement::Required, Requirement::Off])]
    fn fork(bencher: Bencher<'_, '_>, requirement: Requirement) {
        let pool = pool(0, requirement);
        bencher.bench_local(|| take(&pool));
    }

    /// A fork on demand, until the locked-down child has answered.
    #[divan::bench(sample_count = 500, args = [Requirement::Required, Requirement::Off])]
    fn fork_and_answer(bencher: Bencher<'_, '_>, requirement: Requirement) {
        let pool = pool(0, requirement);
        bencher.bench_local(|| {
            let child = take(&pool);
            round_trip(&child);
            child
        });
    }

    /// After a pause, as calls come from a model: until the host has a child. With 0 standbys it is forked then.
    #[divan::bench(sample_count = 500, args = [0, 4])]
    fn take_after_pause(bencher: Bencher<'_, '_>, standbys: usize) {
        let pool = pool(standbys, Requirement::Required);
        bencher.with_inputs(pause).bench_local_values(|()| take(&pool));
    }

    /// The same until the child has answered.
    #[divan::bench(sample_count = 500, args = [0, 4])]
    fn take_and_answer_after_pause(bencher: Bencher<'_, '_>, standbys: usize) {
        let pool = pool(standbys, Requirement::Required);
        bencher.with_inputs(pause).bench_local_values(|()| {
            let child = take(&pool);
            round_trip(&child);
            child
        });
    }

    fn pause() {
        std::thread::sleep(Duration::from_millis(2));
    }

    /// Children in a row as fast as they come, each of which answers and is killed.
    #[divan::bench(sample_count = 20, args = [0, 2, 8])]
    fn hundred_in_a_row(bencher: Bencher<'_, '_>, standbys: usize) {
        let pool = pool(standbys, Requirement::Required);
        bencher.counter(ItemsCount::new(100_usize)).bench_local(|| {
            for _ in 0..100 {
                round_trip(&take(&pool));
            }
        });
    }

    /// The CPU time of a child, as a watchdog reads it.
    #[divan::bench]
    fn cpu_time(bencher: Bencher<'_, '_>) {
        let pool = pool(0, Requirement::Required);
        let child = take(&pool);
        bencher.bench_local(|| child.cpu_time());
    }
}
