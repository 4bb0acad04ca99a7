//! Follows a worker over its socket until the run has its outcome.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _, future};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    Answered, Budgets, DriveContext, End, GuestCall, InFlight, cancelled, checked_answer, dispatch, failure,
    pending,
};
use crate::ledger::{Ledger, Overflow};
use crate::protocol::{Decoder, FromWorker, encode_answer, encode_start, protocol_failure};
use crate::{FailureKind, RunRequest, Settled};

/// The process behind the socket.
pub trait WorkerHandle: Send + Sync {
    /// Ends the process at once, whatever it is doing.
    fn kill(&self);

    /// Returns the CPU time it has used; `None` once it is gone.
    fn cpu_time(&self) -> Option<Duration>;

    /// Says how it ended, after its socket closed: `killed by signal 9`.
    fn describe_exit(&self) -> BoxFuture<'_, String>;
}

/// Most bytes of unanswered arguments and unread answers held for one worker. Beyond it the worker is not read until it drains.
const MAX_HELD_BYTES: usize = 256 * 1024 * 1024;
/// Most frames without meaning before a worker is given up.
const MAX_JUNK_FRAMES: u32 = 1000;
const READ_CHUNK: usize = 64 * 1024;
/// Most answers collected before the socket is looked at again.
const ANSWERS_AT_ONCE: usize = 256;
/// Frames below this length share a write.
const WRITE_CHUNK: usize = 64 * 1024;

/// Runs one program in a worker that has run none before. The worker is killed before this returns.
pub async fn drive(
    request: RunRequest,
    context: &DriveContext,
    stream: UnixStream,
    worker: &dyn WorkerHandle,
) -> Settled {
    let run_over = CancellationToken::new();
    let _over = run_over.clone().drop_guard();
    let budgets = Budgets::new(&context.limits, request.timeout);
    let mut run = Run {
        context,
        cpu_at_start: worker.cpu_time().unwrap_or_default(),
        worker,
        stream,
        ledger: Ledger::new(context.limits.max_output_bytes),
        decoder: Decoder::new(
            context
                .limits
                .max_frame_bytes
                .max(context.limits.max_output_bytes),
        ),
        calls: FuturesUnordered::new(),
        seen: HashSet::new(),
        held: 0,
        junk: 0,
        out: Outgoing::default(),
        run_over: run_over.clone(),
        budgets,
        request,
    };
    let end = run.follow().await;
    let compute = run.cpu_used();
    worker.kill();
    let Run { ledger, calls, .. } = run;
    let result = super::settle(context, ledger, end, &budgets, compute);
    Settled {
        result,
        pending: pending(calls),
    }
}

struct Run<'c> {
    context: &'c DriveContext,
    request: RunRequest,
    worker: &'c dyn WorkerHandle,
    /// What the worker had used before it was given a program.
    cpu_at_start: Duration,
    stream: UnixStream,
    ledger: Ledger,
    decoder: Decoder,
    calls: FuturesUnordered<InFlight>,
    /// Ids that were answered or will be: each is answered once.
    seen: HashSet<u32>,
    /// Bytes of arguments of unanswered calls.
    held: usize,
    junk: u32,
    out: Outgoing,
    run_over: CancellationToken,
    budgets: Budgets,
}

impl Run<'_> {
    async fn follow(&mut self) -> End {
        match encode_start(&super::start_of(&self.request, self.context)) {
            Ok(frame) => self.out.push(frame),
            Err(error) => return End::Host(protocol_failure(format!("the program cannot be sent: {error}"))),
        }
        self.flush();
        let look = tokio::time::sleep_until(Instant::from_std(self.budgets.next_look(Duration::ZERO)));
        tokio::pin!(look);
        let cancel = self.request.cancel.clone();
        loop {
            let reads = self.held + self.out.bytes < MAX_HELD_BYTES;
            let interest = match (reads, self.out.is_empty()) {
                (true, true) => Some(Interest::READABLE),
                (true, false) => Some(Interest::READABLE | Interest::WRITABLE),
                (false, false) => Some(Interest::WRITABLE),
                (false, true) => None,
            };
            let stream = &self.stream;
            let socket = async {
                match interest {
                    Some(interest) => stream.ready(interest).await,
                    None => future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = cancel.cancelled() => return End::Host(cancelled()),
                () = &mut look => {
                    let used = self.cpu_used();
                    if let Some(failure) = self.budgets.spent(used) {
                        return End::Host(failure);
                    }
                    look.as_mut().reset(Instant::from_std(self.budgets.next_look(used)));
                }
                Some(answered) = self.calls.next(), if !self.calls.is_empty() => {
                    self.answer(answered);
                    self.answer_what_is_ready();
                }
                ready = socket => {
                    let outcome = match ready {
                        Ok(ready) if ready.is_readable() => self.read(),
                        Ok(_) => Ok(None),
                        Err(error) => Err(error),
                    };
                    match outcome {
                        Ok(None) => {}
                        Ok(Some(end)) => return end,
                        Err(error) => return self.lost(&error).await,
                    }
                }
            }
            self.flush();
        }
    }

    /// Collects further answers that need no waiting, so that many of them go out in one write.
    fn answer_what_is_ready(&mut self) {
        for _ in 0..ANSWERS_AT_ONCE {
            match self.calls.next().now_or_never() {
                Some(Some(answered)) => self.answer(answered),
                _ => return,
            }
        }
    }

    /// Writes what the worker takes. One that takes no more may have said its last word already: reading finds out.
    fn flush(&mut self) {
        if let Err(error) = self.out.flush(&self.stream) {
            tracing::debug!(%error, "a worker takes no more");
            self.out = Outgoing::closed();
        }
    }

    /// Reads what there is and acts on it.
    fn read(&mut self) -> io::Result<Option<End>> {
        loop {
            let buffer = self.decoder.buffer();
            buffer.reserve(READ_CHUNK);
            let read = match self.stream.try_read_buf(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            };
            loop {
                match self.decoder.next_frame() {
                    Ok(None) => break,
                    Ok(Some(frame)) => {
                        if let Some(end) = self.act(frame) {
                            return Ok(Some(end));
                        }
                    }
                    Err(error) => return Ok(Some(End::Host(protocol_failure(error.to_string())))),
                }
            }
            if read < READ_CHUNK || self.held + self.out.bytes >= MAX_HELD_BYTES {
                return Ok(None);
            }
        }
    }

    fn act(&mut self, frame: Option<FromWorker>) -> Option<End> {
        match frame {
            Some(FromWorker::Call {
                id,
                namespace,
                known,
                name,
                arguments,
            }) => {
                self.call(
                    id,
                    GuestCall {
                        namespace,
                        known,
                        name: &name,
                        arguments,
                    },
                );
                None
            }
            Some(FromWorker::Log(entry)) => match self.ledger.log(&entry) {
                Ok(()) => {
                    if let Some(on_log) = &self.request.on_log {
                        on_log(&entry);
                    }
                    None
                }
                Err(Overflow) => Some(End::Overflow),
            },
            Some(FromWorker::Done(outcome)) => Some(End::Guest(outcome)),
            None => {
                self.junk += 1;
                (self.junk > MAX_JUNK_FRAMES).then(|| {
                    End::Host(protocol_failure(
                        "the worker sent frames that mean nothing".to_owned(),
                    ))
                })
            }
        }
    }

    fn call(&mut self, id: u32, call: GuestCall<'_>) {
        let limits = &self.context.limits;
        let cap = usize::try_from(limits.max_sub_calls)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        // Beyond the cap every call is refused alike, so its id need not be remembered.
        if self.seen.len() < cap && !self.seen.insert(id) {
            return;
        }
        let bytes = call.arguments.len();
        let count = u32::try_from(self.seen.len()).unwrap_or(u32::MAX);
        match dispatch(&self.request, limits, count, &self.run_over, call) {
            Ok(future) => {
                self.held += bytes;
                self.calls.push(InFlight { id, bytes, future });
            }
            Err(error) => self.answer(Answered {
                id,
                bytes: 0,
                outcome: Err(error),
            }),
        }
    }

    fn answer(&mut self, Answered { id, bytes, outcome }: Answered) {
        self.held -= bytes;
        let outcome = checked_answer(&self.context.limits, outcome);
        let frame = encode_answer(
            id,
            outcome
                .as_ref()
                .map(|value| value.as_str())
                .map_err(String::as_str),
        );
        match frame {
            Ok(frame) => self.out.push(frame),
            Err(error) => tracing::error!(%error, "an answer could not be encoded"),
        }
    }

    fn cpu_used(&self) -> Duration {
        self.worker
            .cpu_time()
            .unwrap_or_default()
            .saturating_sub(self.cpu_at_start)
    }

    /// Words the end of a run whose worker went away unasked.
    async fn lost(&mut self, error: &io::Error) -> End {
        let used = self.cpu_used();
        if let Some(failure) = self.budgets.spent(used) {
            return End::Host(failure);
        }
        tracing::debug!(%error, "a worker was lost");
        let how = self.worker.describe_exit().await;
        End::Host(failure(
            FailureKind::WorkerExit,
            format!("the worker ended before the program did: {how}"),
        ))
    }
}

/// Frames that wait for the worker to read.
#[derive(Default)]
struct Outgoing {
    frames: VecDeque<Vec<u8>>,
    /// How much of the first frame is sent.
    sent: usize,
    bytes: usize,
    /// Nobody reads them any more.
    closed: bool,
}

impl Outgoing {
    fn closed() -> Self {
        Self {
            closed: true,
            ..Self::default()
        }
    }

    fn push(&mut self, frame: Vec<u8>) {
        if self.closed {
            return;
        }
        self.bytes += frame.len();
        match self.frames.back_mut() {
            Some(last) if last.len() + frame.len() <= WRITE_CHUNK => last.extend_from_slice(&frame),
            _ => self.frames.push_back(frame),
        }
    }

    fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Writes what the socket takes without waiting.
    fn flush(&mut self, stream: &UnixStream) -> io::Result<()> {
        while let Some(frame) = self.frames.front() {
            match stream.try_write(&frame[self.sent..]) {
                Ok(written) => {
                    self.sent += written;
                    self.bytes -= written;
                    if self.sent == frame.len() {
                        self.frames.pop_front();
                        self.sent = 0;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
