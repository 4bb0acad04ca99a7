//! `setTimeout` and `setInterval`.
//!
//! Timers fire in the order of their due time, then of their making, as in browsers and Node. A round fires the timers that
//! were due when it began; those made meanwhile wait until the host had its turn, so that a timer that renews itself cannot
//! keep answers out.
#![expect(unsafe_code, reason = "takes kept references back")]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::{Duration, Instant};

use crate::engine::State;
use crate::js::{Args, Ctx, ErrorKind, JsResult, Kept, Value};

/// Timers that may wait at one time.
const MAX_TIMERS: usize = 100_000;
/// The longest delay; beyond it browsers and Node fall back to 1 ms.
const MAX_DELAY_MS: f64 = 2_147_483_647.0;

/// The timers of a run.
#[derive(Default)]
pub(crate) struct Timers {
    waiting: HashMap<u32, Timer>,
    order: BinaryHeap<Reverse<(Instant, u64, u32)>>,
    made: u64,
    last_id: u32,
    /// Timers made from here on belong to the next round.
    round: Option<u64>,
}

struct Timer {
    callback: Kept,
    arguments: Vec<Kept>,
    every: Option<Duration>,
    /// Which entry of `order` is the current one.
    stamp: u64,
}

/// A timer whose time has come.
pub(crate) struct Due {
    id: u32,
}

impl Timers {
    /// Takes the next timer of this round, if one is due. Ends the round otherwise.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Due> {
        let round = *self.round.get_or_insert(self.made);
        while let Some(&Reverse((due, stamp, id))) = self.order.peek() {
            let current = self.waiting.get(&id).is_some_and(|timer| timer.stamp == stamp);
            if !current {
                self.order.pop();
            } else if due <= now && stamp < round {
                self.order.pop();
                return Some(Due { id });
            } else {
                break;
            }
        }
        None
    }

    /// Lets the timers made meanwhile take part.
    pub(crate) fn start_round(&mut self) {
        self.round = None;
    }

    /// Returns when the next timer is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.order.peek().map(|Reverse((due, ..))| *due)
    }

    /// Drops the entries of cleared timers when they outnumber the others.
    fn compact(&mut self) {
        if self.order.len() > 2 * self.waiting.len() + 1024 {
            let waiting = &self.waiting;
            self.order
                .retain(|Reverse((_, stamp, id))| waiting.get(id).is_some_and(|timer| timer.stamp == *stamp));
        }
    }

    /// Calls a timer's function.
    pub(crate) fn fire(ctx: Ctx<'_>, state: &State, due: Due) -> JsResult<()> {
        let (callback, arguments) = {
            let mut timers = state.timers.borrow_mut();
            let timers = &mut *timers;
            let Some(timer) = timers.waiting.get_mut(&due.id) else {
                return Ok(());
            };
            if let Some(every) = timer.every {
                timer.stamp = timers.made;
                timers
                    .order
                    .push(Reverse((Instant::now() + every, timers.made, due.id)));
                timers.made += 1;
                // SAFETY: kept in this context.
                unsafe {
                    (
                        timer.callback.get(ctx),
                        timer.arguments.iter().map(|value| value.get(ctx)).collect(),
                    )
                }
            } else if let Some(timer) = timers.waiting.remove(&due.id) {
                // SAFETY: kept in this context, and used no more.
                unsafe {
                    (
                        timer.callback.take(ctx),
                        timer.arguments.iter().map(|value| value.take(ctx)).collect(),
                    )
                }
            } else {
                return Ok(());
            }
        };
        let arguments: Vec<Value<'_>> = arguments;
        callback
            .call(&ctx.undefined(), &arguments.iter().collect::<Vec<_>>())
            .map(drop)
    }
}

pub(crate) fn set_timeout<'r>(ctx: Ctx<'r>, _: &Value<'r>, args: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    set(ctx, args, false)
}

pub(crate) fn set_interval<'r>(ctx: Ctx<'r>, _: &Value<'r>, args: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    set(ctx, args, true)
}

fn set<'r>(ctx: Ctx<'r>, args: &Args<'_, 'r>, repeat: bool) -> JsResult<Value<'r>> {
    let callback = args.get(0);
    if !callback.is_function() {
        return Err(ctx.throw(ErrorKind::Type, "a timer needs a function to call"));
    }
    let delay = args.get(1).to_number()?;
    // NaN and everything out of range become the shortest delay.
    let delay = if (1.0..=MAX_DELAY_MS).contains(&delay) {
        delay.trunc()
    } else {
        1.0
    };
    let delay = Duration::from_secs_f64(delay / 1000.0);
    let mut timers = State::of(ctx).timers.borrow_mut();
    if timers.waiting.len() >= MAX_TIMERS {
        return Err(ctx.throw(ErrorKind::Range, "too many timers are waiting"));
    }
    let id = timers.last_id.wrapping_add(1);
    let stamp = timers.made;
    timers.last_id = id;
    timers.made += 1;
    timers.order.push(Reverse((Instant::now() + delay, stamp, id)));
    let timer = Timer {
        callback: callback.keep(),
        arguments: args.iter().skip(2).map(Value::keep).collect(),
        every: repeat.then_some(delay),
        stamp,
    };
    timers.waiting.insert(id, timer);
    timers.compact();
    Ok(ctx.number(f64::from(id)))
}

pub(crate) fn clear<'r>(ctx: Ctx<'r>, _: &Value<'r>, args: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    let id = args.get(0).to_number()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "out of range means no timer"
    )]
    let timer = State::of(ctx).timers.borrow_mut().waiting.remove(&(id as u32));
    if let Some(timer) = timer {
        // SAFETY: kept in this context, and used no more.
        unsafe {
            drop(timer.callback.take(ctx));
            for argument in timer.arguments {
                drop(argument.take(ctx));
            }
        }
    }
    Ok(ctx.undefined())
}
