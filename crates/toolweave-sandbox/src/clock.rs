//! CPU time of one thread, readable from another: what a run in a thread of the host has really used.

use std::time::Duration;

/// A clock that runs only while the thread that made it does.
///
/// Sleeping, waiting for a lock and waiting for the CPU cost nothing.
#[derive(Clone, Copy, Debug)]
pub struct ThreadClock {
    #[cfg(target_os = "linux")]
    id: libc::clockid_t,
}

#[cfg(target_os = "linux")]
impl ThreadClock {
    /// Returns the clock of the calling thread, to be read from any thread of this process.
    ///
    /// Returns `None` on systems that offer no such clock.
    pub fn current() -> Option<Self> {
        crate::linux::sys::this_thread_clock().map(|id| Self { id })
    }

    /// Returns the CPU time that the thread has used so far, or `None` once it has ended.
    pub fn elapsed(&self) -> Option<Duration> {
        crate::linux::sys::read_clock(self.id)
    }
}

#[cfg(not(target_os = "linux"))]
impl ThreadClock {
    /// Returns `None`: this system offers no clock of another thread.
    pub fn current() -> Option<Self> {
        None
    }

    /// Returns `None`.
    pub fn elapsed(&self) -> Option<Duration> {
        None
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::{
        sync::mpsc,
        time::{Duration, Instant},
    };

    #[test]
    fn another_threads_work_counts_and_its_sleep_does_not() {
        let (clocks, clock) = mpsc::channel();
        let (done, wait) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let clock = ThreadClock::current().unwrap();
            let begin = Instant::now();
            while clock.elapsed().unwrap() < Duration::from_millis(20) {
                assert!(
                    begin.elapsed() < Duration::from_secs(60),
                    "the clock stands still"
                );
            }
            clocks.send(clock).unwrap();
            wait.recv().unwrap();
        });
        let clock = clock.recv().unwrap();
        let before = clock.elapsed().unwrap();
        assert!(before >= Duration::from_millis(20));
        std::thread::sleep(Duration::from_millis(50));
        assert!(
            clock.elapsed().unwrap() - before < Duration::from_millis(40),
            "a sleep was charged"
        );
        done.send(()).unwrap();
        thread.join().unwrap();
    }
}
