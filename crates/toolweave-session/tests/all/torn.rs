//! What a crash leaves behind, and how a log goes on after it.

use std::fs;
use std::path::{Path, PathBuf};

use toolweave_session::*;

use crate::samples::events;

const TURN: &str = "{\"seq\":2,\"ts\":5,\"type\":\"turn/start\",\"turn\":1}\n";
const NEXT: &str = "{\"seq\":3,\"ts\":6,\"type\":\"turn/start\",\"turn\":2}";

fn log_with(dir: &Path, rest: &[u8]) -> PathBuf {
    let header = "{\"seq\":1,\"ts\":4,\"type\":\"session/header\",\"formatVersion\":1,\"productVersion\":\"0\",\"sessionId\":\"s\"}\n";
    let path = dir.join("s.jsonl");
    fs::write(&path, [header.as_bytes(), TURN.as_bytes(), rest].concat()).unwrap();
    path
}

#[test]
fn an_unfinished_last_line_is_reported_then_cut_off() {
    let zeros = [0_u8; 4096];
    let tails: [&[u8]; 5] = [
        b"{\"seq\":3,\"ts\":6,\"ty",
        b"{\"seq\":3,\"ts\":6}",
        b"\xff\xfe",
        &zeros,
        b"garbage\n",
    ];
    for tail in tails {
        let dir = tempfile::tempdir().unwrap();
        let path = log_with(dir.path(), tail);
        let good = fs::metadata(&path).unwrap().len() - tail.len() as u64;
        let torn = TornTail {
            line: 3,
            offset: good,
            bytes: tail.len() as u64,
        };

        let log = read_log(&path).unwrap();
        assert_eq!((log.records.len(), log.torn), (2, Some(torn)));

        let (recorder, repaired) = Recorder::open(&path).unwrap();
        assert_eq!(repaired, Some(torn));
        assert_eq!(recorder.append(TurnStart { turn: 9 }), 3);
        drop(recorder);

        let log = read_log(&path).unwrap();
        assert_eq!(log.torn, None);
        assert_eq!(
            events(log.records)[1..],
            [
                Event::from(TurnStart { turn: 1 }),
                Event::from(TurnStart { turn: 9 })
            ]
        );
    }
}

#[test]
fn a_last_line_that_lacks_only_its_line_break_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = log_with(dir.path(), NEXT.as_bytes());
    assert_eq!(read_log(&path).unwrap().records.len(), 3);
    let (recorder, torn) = Recorder::open(&path).unwrap();
    assert_eq!(torn, None);
    assert_eq!(recorder.append(TurnStart { turn: 3 }), 4);
    drop(recorder);
    let turns = [1, 2, 3].map(|turn| Event::from(TurnStart { turn }));
    assert_eq!(events(read_log(&path).unwrap().records)[1..], turns);
}

#[test]
fn damage_before_the_end_refuses_to_open_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = log_with(dir.path(), format!("{{\"torn\n{NEXT}\n").as_bytes());
    let before = fs::read(&path).unwrap();
    let message = Recorder::open(&path).unwrap_err().to_string();
    assert!(
        message.starts_with("line 3 of the session log is damaged: "),
        "{message}"
    );
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn time_goes_on_from_the_last_event_even_when_that_lies_ahead() {
    let dir = tempfile::tempdir().unwrap();
    let ahead = 32_503_680_000_000_i64; // the year 3000
    let line = format!("{{\"seq\":3,\"ts\":{ahead},\"type\":\"turn/start\",\"turn\":2}}\n");
    let path = log_with(dir.path(), line.as_bytes());
    let (recorder, _) = Recorder::open(&path).unwrap();
    recorder.append(TurnStart { turn: 3 });
    drop(recorder);
    assert_eq!(read_log(&path).unwrap().records[3].ts, ahead);
}
