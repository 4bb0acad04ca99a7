//! When each sub-call of a run may start, and in which order what happened is told.
//!
//! There is no task behind this. Calls take a ticket in submission order; their futures meet at one lock. A call that finds
//! its way free goes through without waiting, so that a sequential call of a synchronous tool is ready on its first poll.
//!
//! * Starts are strictly in submission order, and one at a time up to the end of pre-execute (the *lane*).
//! * Safe calls then overlap up to the limit; an exclusive call waits until nothing runs, and lets nothing start.
//! * What happened is told in submission order, however the bodies finish.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::Concurrency;

/// Bytes of finished calls that may wait for an earlier one to be told. Later calls start when there is room again.
const MAX_UNTOLD_BYTES: usize = 64 * 1024 * 1024;

/// The order of one run. `T` is what is told about a settled call.
pub(crate) struct Schedule<T> {
    limit: usize,
    state: Mutex<State<T>>,
}

/// The run is over; the call never started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abandoned;

struct State<T> {
    next: u64,
    /// Submitted and not started, in order.
    waiting: BTreeMap<u64, Option<Waker>>,
    lane: bool,
    safe: usize,
    exclusive: bool,
    closed: bool,
    /// Started and not told, in order; what is to be told once it is known.
    untold: VecDeque<(u64, Option<(T, usize)>)>,
    untold_bytes: usize,
    /// Those that wait to be first among the untold.
    post: BTreeMap<u64, Waker>,
    /// Somebody is telling. Whoever finds this set leaves the telling to them, so that the order holds without telling
    /// under the lock.
    telling: bool,
}

/// A place in the queue. Dropping it before the start gives the place up.
pub(crate) struct Ticket<T> {
    schedule: Arc<Schedule<T>>,
    number: u64,
    waiting: bool,
}

/// A started call. It must be settled or withdrawn; dropping it frees the way for later ones.
pub(crate) struct Slot<T> {
    schedule: Arc<Schedule<T>>,
    number: u64,
    class: Concurrency,
    lane: bool,
    running: bool,
}

impl<T> Schedule<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            state: Mutex::new(State {
                next: 1,
                waiting: BTreeMap::new(),
                lane: false,
                safe: 0,
                exclusive: false,
                closed: false,
                untold: VecDeque::new(),
                untold_bytes: 0,
                post: BTreeMap::new(),
                telling: false,
            }),
        }
    }

    /// Takes the next place in the queue.
    pub(crate) fn submit(self: &Arc<Self>) -> Ticket<T> {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.waiting.insert(number, None);
        Ticket {
            schedule: Arc::clone(self),
            number,
            waiting: true,
        }
    }

    /// Ends the run: nothing starts any more, and those that wait learn it.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let wakers: Vec<_> = state.waiting.values_mut().filter_map(Option::take).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    /// Returns the waker of the call that is next, if it could do something now.
    fn next_waker(&mut self) -> Option<Waker> {
        if self.lane || self.exclusive {
            return None;
        }
        self.waiting.first_entry()?.get_mut().take()
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl<T> Ticket<T> {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Waits for the start. `classify` is asked each time that this call is next.
    ///
    /// # Errors
    /// [`Abandoned`] when the run is over, by the schedule or by `over`.
    pub(crate) async fn turn(
        mut self,
        over: impl Fn() -> bool,
        classify: impl Fn() -> Concurrency,
    ) -> Result<Slot<T>, Abandoned> {
        let schedule = Arc::clone(&self.schedule);
        let number = self.number;
        let class = poll_fn(|context| {
            let mut state = schedule.lock();
            if state.closed || over() {
                return Poll::Ready(Err(Abandoned));
            }
            if state.waiting.first_key_value().map(|(&first, _)| first) != Some(number) || state.lane {
                state.waiting.insert(number, Some(context.waker().clone()));
                return Poll::Pending;
            }
            // The classifier is a tool's own code: not under the lock. Only the first in the queue can start, and this call
            // stays first meanwhile.
            drop(state);
            let class = classify();
            let mut state = schedule.lock();
            let free = match class {
                Concurrency::Safe => {
                    !state.exclusive && state.safe < schedule.limit && state.untold_bytes <= MAX_UNTOLD_BYTES
                }
                Concurrency::Exclusive => !state.exclusive && state.safe == 0 && state.untold.is_empty(),
            };
            if state.closed {
                return Poll::Ready(Err(Abandoned));
            }
            if state.lane || !free {
                state.waiting.insert(number, Some(context.waker().clone()));
                return Poll::Pending;
            }
            state.waiting.remove(&number);
            state.lane = true;
            match class {
                Concurrency::Safe => state.safe += 1,
                Concurrency::Exclusive => state.exclusive = true,
            }
            state.untold.push_back((number, None));
            Poll::Ready(Ok(class))
        })
        .await?;
        self.waiting = false;
        Ok(Slot {
            schedule,
            number,
            class,
            lane: true,
            running: true,
        })
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        if !self.waiting {
            return;
        }
        let mut state = self.schedule.lock();
        state.waiting.remove(&self.number);
        let waker = state.next_waker();
        drop(state);
        wake(waker);
    }
}

impl<T> Slot<T> {
    /// Lets the next call start, if it may overlap this one.
    pub(crate) fn leave_lane(&mut self) {
        if !std::mem::take(&mut self.lane) {
            return;
        }
        let mut state = self.schedule.lock();
        state.lane = false;
        let waker = state.next_waker();
        drop(state);
        wake(waker);
    }

    /// Takes the start back, before the lane was left: there will be nothing to tell.
    pub(crate) fn withdraw(self) {
        let mut state = self.schedule.lock();
        if state.untold.back().is_some_and(|&(last, _)| last == self.number) {
            state.untold.pop_back();
        }
    }

    /// Waits until everything about earlier calls has been told.
    pub(crate) async fn earlier_told(&self) {
        poll_fn(|context| {
            let mut state = self.schedule.lock();
            if state
                .untold
                .front()
                .is_none_or(|&(first, _)| first == self.number)
            {
                return Poll::Ready(());
            }
            state.post.insert(self.number, context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Hands over what is to be told, and tells whatever is due. `bytes` is what it weighs in memory while it waits.
    pub(crate) fn settle(&self, outcome: T, bytes: usize, mut tell: impl FnMut(T)) {
        let mut state = self.schedule.lock();
        let Ok(at) = state
            .untold
            .binary_search_by_key(&self.number, |&(number, _)| number)
        else {
            return;
        };
        state.untold[at].1 = Some((outcome, bytes));
        state.untold_bytes += bytes;
        if state.telling {
            return;
        }
        state.telling = true;
        while let Some((outcome, bytes)) = state.untold.front_mut().and_then(|(_, outcome)| outcome.take()) {
            drop(state);
            tell(outcome);
            state = self.schedule.lock();
            state.untold.pop_front();
            state.untold_bytes -= bytes;
        }
        state.telling = false;
        let first = state.untold.front().map(|&(number, _)| number);
        let post = first.and_then(|number| state.post.remove(&number));
        let next = state.next_waker();
        drop(state);
        wake(post);
        wake(next);
    }

    /// Frees the way for later calls. Done by dropping as well.
    fn release(&mut self) {
        self.leave_lane();
        if !std::mem::take(&mut self.running) {
            return;
        }
        let mut state = self.schedule.lock();
        match self.class {
            Concurrency::Safe => state.safe -= 1,
            Concurrency::Exclusive => state.exclusive = false,
        }
        let waker = state.next_waker();
        drop(state);
        wake(waker);
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        self.release();
    }
}
