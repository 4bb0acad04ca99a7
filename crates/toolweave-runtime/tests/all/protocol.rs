//! Frames survive the journey, and hostile ones do no harm.

use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use toolweave_runtime::guest::{
    Event, GuestEnd, GuestNamespace, GuestOutcome, GuestPort, OutgoingCall, Start,
};
use toolweave_runtime::protocol::{Decoder, FromWorker, SocketPort, encode_answer, encode_start};
use toolweave_runtime::{Failure, FailureKind, JsonMode};

fn start() -> Start {
    Start {
        program: "return 'ü'".to_owned(),
        namespaces: vec![GuestNamespace {
            global: "tools".to_owned(),
            aliases: vec!["sdk".to_owned()],
            members: std::sync::Arc::default(),
            error_class: Some(("ToolCallError".to_owned(), "toolName".to_owned())),
            reject_unknown: true,
        }],
        json: JsonMode::Strict,
        max_memory_bytes: 1,
        max_stack_bytes: 2,
        max_frame_bytes: 3,
        max_output_bytes: 4,
        max_json_depth: 5,
    }
}

/// Reads frames off a socket until it closes.
fn read_all(socket: &mut UnixStream) -> Vec<FromWorker> {
    use std::io::Read as _;
    let mut decoder = Decoder::new(1024 * 1024 * 1024);
    let mut frames = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let read = socket.read(&mut chunk).expect("a local socket");
        if read == 0 {
            return frames;
        }
        decoder.buffer().extend_from_slice(&chunk[..read]);
        while let Some(frame) = decoder.next_frame().expect("short frames") {
            frames.extend(frame);
        }
    }
}

#[test]
fn both_directions_round_trip() {
    let (mut host, guest) = UnixStream::pair().expect("a pair");
    let failure = Failure {
        kind: FailureKind::Exception,
        name: Some("TypeError".to_owned()),
        message: "x is not a function".to_owned(),
        position: Some(toolweave_runtime::Position { line: 3, column: 7 }),
        stack: vec![],
    };
    let outcome = GuestOutcome {
        end: GuestEnd::Failed(failure),
        peak_memory_bytes: 77,
    };
    let sent = outcome.clone();
    let worker = thread::spawn(move || {
        let mut port = SocketPort::new(guest);
        let started = port.start().expect("a start frame");
        port.log("a line").expect("the host listens");
        let call = OutgoingCall {
            id: 9,
            namespace: 0,
            name: "路径",
            known: true,
            arguments: "[{\"a\":1}]",
        };
        port.call(call).expect("the host listens");
        let answer = port.wait(None);
        let due = port.wait(Some(Instant::now() + Duration::from_millis(1)));
        port.done(&sent).expect("the host listens");
        (started, answer, due)
    });
    use std::io::Write as _;
    host.write_all(&encode_start(&start()).expect("small"))
        .expect("the worker reads");
    host.write_all(&encode_answer(9, Ok("[1]")).expect("small"))
        .expect("the worker reads");
    let (started, answer, due) = worker.join().expect("no panic");
    assert_eq!(started, start());
    assert!(matches!(answer, Event::Answer { id: 9, outcome: Ok(text) } if text == "[1]"));
    assert!(matches!(due, Event::Due));
    let call = FromWorker::Call {
        id: 9,
        namespace: 0,
        known: true,
        name: "路径".to_owned(),
        arguments: "[{\"a\":1}]".to_owned(),
    };
    assert_eq!(
        read_all(&mut host),
        [
            FromWorker::Log("a line".to_owned()),
            call,
            FromWorker::Done(outcome)
        ]
    );
}

#[test]
fn two_full_sockets_do_not_wait_for_each_other() {
    use std::io::Write as _;
    let (mut host, guest) = UnixStream::pair().expect("a pair");
    let big = format!("\"{}\"", "x".repeat(4 * 1024 * 1024));
    let arguments = big.clone();
    let worker = thread::spawn(move || {
        let mut port = SocketPort::new(guest);
        let call = OutgoingCall {
            id: 1,
            namespace: 0,
            name: "echo",
            known: true,
            arguments: &arguments,
        };
        port.call(call).expect("the host listens at last");
        let answer = port.wait(None);
        port.done(&GuestOutcome {
            end: GuestEnd::Nothing,
            peak_memory_bytes: 0,
        })
        .expect("the host listens");
        answer
    });
    // The host sends first and reads only afterwards.
    host.write_all(&encode_answer(1, Ok(&big)).expect("below 4 GiB"))
        .expect("the worker reads while it sends");
    assert_eq!(read_all(&mut host).len(), 2);
    let answer = worker.join().expect("no panic");
    assert!(matches!(answer, Event::Answer { id: 1, outcome: Ok(text) } if text == big));
}

#[test]
fn a_host_that_went_away_is_noticed() {
    let (host, guest) = UnixStream::pair().expect("a pair");
    drop(host);
    let mut port = SocketPort::new(guest);
    assert!(port.log("nobody hears this").is_err());
    assert!(matches!(port.wait(None), Event::Gone));
}

#[test]
fn a_frame_beyond_the_limit_is_refused_before_it_is_read() {
    let mut decoder = Decoder::new(1024);
    decoder.buffer().extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 18]);
    let error = decoder.next_frame().expect_err("4 GiB");
    assert_eq!(error.length, u64::from(u32::MAX));
}

proptest! {
    #[test]
    fn no_bytes_from_a_worker_do_harm(chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..64), 0..32)) {
        let mut decoder = Decoder::new(4096);
        'all: for chunk in chunks {
            decoder.buffer().extend_from_slice(&chunk);
            loop {
                match decoder.next_frame() {
                    Ok(None) => break,
                    Ok(Some(_)) => {}
                    Err(_) => break 'all,
                }
            }
        }
    }
}
