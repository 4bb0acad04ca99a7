//! The format on disk: round trips, old names, unknown events, hostile lines.

use std::path::Path;

use proptest::prelude::*;
use toolweave_session::*;

use crate::samples::{events, every_event, json};

const HEADER: &str = r#"{"seq":1,"ts":0,"time":"1970-01-01T00:00:00.000Z","type":"session/header","formatVersion":1,"productVersion":"0","sessionId":"s"}"#;

fn read(lines: &[&str]) -> Result<Vec<Record>, Error> {
    let text = [&[HEADER], lines].concat().join("\n") + "\n";
    Reader::new(text.as_bytes())?.collect()
}

fn only(line: &str) -> Event {
    read(&[line]).unwrap().pop().unwrap().event
}

fn failure(lines: &[&str]) -> String {
    read(lines).unwrap_err().to_string()
}

#[test]
fn every_event_comes_back_as_it_was_written() {
    let written = every_event();
    let mut kinds: Vec<&str> = written
        .iter()
        .map(Event::kind)
        .filter(|kind| !kind.starts_with("x/"))
        .collect();
    kinds.push("session/header");
    for name in Event::NAMES {
        assert!(kinds.contains(name), "{name} has no sample");
    }

    let recorder = Recorder::memory();
    for (event, seq) in written.iter().cloned().zip(2..) {
        assert_eq!(recorder.append(event), seq);
    }
    let records = recorder.records().unwrap();
    assert_eq!(
        records.iter().map(|r| r.seq).collect::<Vec<_>>(),
        (1..=written.len() as u64 + 1).collect::<Vec<_>>()
    );
    assert!(records.is_sorted_by_key(|r| r.ts));
    assert_eq!(events(records)[1..], written);
}

/// The file was written by version 1 and must be readable for ever. Never regenerate it: add a file per version.
#[test]
fn version_1_is_readable() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1.jsonl");
    let log = read_log(&path).unwrap();
    let header = SessionHeader {
        format_version: 1,
        product_version: "0.1.0".into(),
        session_id: "0195a6f0-7c1e-7000-8000-00000000002a".parse().unwrap(),
        cwd: Some("~/project".into()),
        origin: Some(Origin {
            session_id: "parent_1".parse().unwrap(),
            seq: 17,
        }),
    };
    assert_eq!(log.header, header);
    assert_eq!(log.torn, None);
    assert_eq!(
        log.records[0],
        Record {
            seq: 1,
            ts: 1_771_234_567_000,
            event: header.into()
        }
    );
    assert_eq!(log.records[1].ts, 1_771_234_567_001);
    assert_eq!(events(log.records)[1..], every_event());
}

#[test]
fn a_line_has_its_place_and_time_first() {
    let dir = tempfile::tempdir().unwrap();
    let recorder = Recorder::create(dir.path(), NewSession::default()).unwrap();
    recorder.append(ToolCall {
        call_id: "c".into(),
        name: "n".into(),
        arguments: "{".into(),
    });
    recorder.flush().unwrap();
    let text = std::fs::read_to_string(recorder.path().unwrap()).unwrap();
    let line = text.lines().nth(1).unwrap();
    let ts = recorder_ts(line);
    let time = jiff::Timestamp::from_millisecond(ts).unwrap();
    let expected = format!(
        r#"{{"seq":2,"ts":{ts},"time":"{time:.3}","type":"tool/call","callId":"c","name":"n","arguments":"{{"}}"#
    );
    assert_eq!(line, expected);
}

fn recorder_ts(line: &str) -> i64 {
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    value["ts"].as_i64().unwrap()
}

#[test]
fn older_names_are_read() {
    let settle = |root: &str| CodeDispatch {
        root_call_id: root.into(),
        parent_call_id: "p".into(),
        sub_call_id: "p:code:1".into(),
        name: "read".into(),
        arguments: json(r#"{"a":1}"#),
        is_error: false,
        content: json("null"),
        summary: Some("text".into()),
    };
    let fields =
        r#""parentCallId":"p","subCallId":"p:code:1","name":"read","arguments":{"a":1},"isError":false"#;
    assert_eq!(
        only(&format!(
            r#"{{"seq":2,"ts":1,"type":"code/dispatch",{fields},"summary":"text"}}"#
        )),
        settle("p").into()
    );
    assert_eq!(
        only(&format!(
            r#"{{"seq":2,"ts":1,"type":"tool/code-dispatch",{fields},"resultSummary":"text"}}"#
        )),
        settle("p").into()
    );
    assert_eq!(
        only(&format!(
            r#"{{"seq":2,"ts":1,"type":"tool/ptc-dispatch","rootCallId":"r",{fields},"content":"whole"}}"#
        )),
        CodeDispatch {
            content: json(r#""whole""#),
            summary: None,
            ..settle("r")
        }
        .into()
    );
    assert_eq!(
        only(
            r#"{"seq":2,"ts":1,"type":"tool/ptc-dispatch-start","rootCallId":"r","parentCallId":"p","subCallId":"p:ptc:1","name":"read"}"#
        ),
        CodeDispatchStart {
            root_call_id: "r".into(),
            parent_call_id: "p".into(),
            sub_call_id: "p:ptc:1".into(),
            name: "read".into(),
            arguments: json("null"),
        }
        .into()
    );
}

#[test]
fn unknown_events_are_kept_unless_they_are_required() {
    assert_eq!(
        only(r#"{"z":{"deep":[1e400]},"seq":2,"ts":1,"type":"x/new","required":false}"#),
        Event::Unknown(UnknownEvent {
            kind: "x/new".into(),
            payload: json(r#"{"z":{"deep":[1e400]},"required":false}"#)
        })
    );
    assert_eq!(
        failure(&[r#"{"seq":2,"ts":1,"type":"x/new","required":true}"#]),
        "line 2 of the session log needs a newer program: unknown event `x/new` is marked as required"
    );
}

#[test]
fn a_header_must_come_first_and_be_of_a_known_version() {
    let open = |text: &str| Reader::new(text.as_bytes()).map(|_| ()).unwrap_err().to_string();
    assert_eq!(open(""), "session log has no header");
    assert_eq!(open("{\"seq\":1"), "session log has no header");
    assert_eq!(
        open("{\"seq\":1,\"ts\":1,\"type\":\"session/header\",\"formatVersion\":\"1\"}\n"),
        "line 1 of the session log is damaged: the header has no usable `formatVersion`"
    );
    assert_eq!(
        open("{\"seq\":1,\"ts\":1,\"type\":\"turn/start\",\"turn\":1}\n"),
        "session log starts with `turn/start` instead of `session/header`"
    );
    assert_eq!(
        open("{\"seq\":1,\"ts\":1,\"type\":\"session/header\",\"formatVersion\":2,\"anything\":[]}\n"),
        "session log has format version 2; this program reads versions 1 to 1"
    );
}

#[test]
fn damage_names_its_line() {
    let good = r#"{"seq":2,"ts":1,"type":"turn/start","turn":1}"#;
    let next = r#"{"seq":3,"ts":1,"type":"turn/start","turn":2}"#;
    assert_eq!(
        failure(&[good, "{\"seq\":3,\"ts\"", next]),
        "line 3 of the session log is damaged: EOF while parsing an object (column 13)"
    );
    assert_eq!(
        failure(&[next]),
        "line 2 of the session log has seq 3 where 2 is due"
    );
    assert_eq!(
        failure(&[good, good]),
        "line 3 of the session log has seq 2 where 3 is due"
    );
    let bare = r#"{"seq":2,"ts":1}"#;
    assert_eq!(
        failure(&[bare]),
        "line 2 of the session log is damaged: missing field `type` (column 16)"
    );
    let bad_field = failure(&[r#"{"seq":2,"ts":1,"type":"turn/start","turn":-1}"#, next]);
    assert!(
        bad_field.starts_with("line 2 of the session log is damaged: invalid value: integer `-1`"),
        "{bad_field}"
    );
}

#[test]
fn depth_is_nobodys_concern() {
    const LEVELS: usize = 100_000;
    let deep = format!("{}1{}", "[".repeat(LEVELS), "]".repeat(LEVELS));
    let nested = json(&format!("{{\"v\":{deep}}}"));
    let start = CodeDispatchStart {
        parent_call_id: "p".into(),
        arguments: nested,
        ..Default::default()
    };
    let unknown = UnknownEvent {
        kind: "x/deep".into(),
        payload: json(&format!("{{\"v\":{deep}}}")),
    };

    let recorder = Recorder::memory();
    recorder.append(CodeDispatchStart {
        root_call_id: "p".into(),
        ..start.clone()
    });
    recorder.append(Event::Unknown(unknown.clone()));
    let back = events(recorder.records().unwrap());
    assert_eq!(
        back[1],
        CodeDispatchStart {
            root_call_id: "p".into(),
            ..start
        }
        .into()
    );
    assert_eq!(back[2], Event::Unknown(unknown));

    // Where a plain field is due, and in a field that nobody knows.
    let misplaced = format!(r#"{{"seq":2,"ts":1,"type":"turn/start","turn":{deep}}}"#);
    assert!(failure(&[&misplaced, "{}"]).starts_with("line 2 of the session log is damaged"));
    let extra = format!(r#"{{"seq":2,"ts":1,"type":"turn/start","turn":1,"extra":{deep}}}"#);
    assert_eq!(only(&extra), TurnStart { turn: 1 }.into());
}

#[test]
fn json_stays_on_one_line_and_keeps_its_text() {
    let pretty = json("{\r\n  \"a\": \"x\\ny\",\n  \"n\": 1.0\n}");
    assert_eq!(pretty.get(), "{    \"a\": \"x\\ny\",   \"n\": 1.0 }");
    assert!(Json::parse("{").is_err());
    assert!(Json::parse("1 2").is_err());
    assert_eq!(
        Json::encode(&serde_json::json!({"b": 1, "a": [null]}))
            .unwrap()
            .get(),
        r#"{"b":1,"a":[null]}"#
    );
    assert_eq!(Json::string("é\"\n").get(), r#""é\"\n""#);
    assert_eq!(Json::default().get(), "null");
}

#[test]
fn summaries_are_short() {
    let long = "x".repeat(500);
    let cut = format!("{}…", "x".repeat(199));
    let cases = [
        ("", ""),
        ("  one line \n", "one line"),
        ("first\nsecond", "first…"),
        (&"y".repeat(200), &"y".repeat(200)),
        (&long, &cut),
    ];
    for (text, summary) in cases {
        assert_eq!(summarize(text), summary);
    }
}

proptest! {
    #[test]
    fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), lines in 0_usize..3) {
        let mut text = format!("{HEADER}\n").into_bytes();
        for n in 0..lines {
            text.extend(format!("{{\"seq\":{},\"ts\":1,\"type\":\"turn/start\",\"turn\":1}}\n", n + 2).bytes());
        }
        text.extend(&bytes);
        let mut reader = Reader::new(text.as_slice()).unwrap();
        let good = reader.by_ref().filter(Result::is_ok).count();
        prop_assert_eq!(good, lines + 1);
        let _ = Reader::new(bytes.as_slice()).map(|reader| reader.count());
    }

    #[test]
    fn cut_logs_give_their_whole_lines(cut in 0_usize..1000) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1.jsonl");
        let whole = std::fs::read(path).unwrap();
        let first_line = whole.iter().position(|b| *b == b'\n').unwrap();
        let cut = (first_line + cut * whole.len() / 1000).min(whole.len());
        let part = &whole[..cut];
        // A line that lacks nothing but its line break is whole.
        let complete = part.iter().filter(|b| **b == b'\n').count()
            + usize::from(part.last() != Some(&b'\n') && whole.get(cut) == Some(&b'\n'));
        let read = Reader::new(part).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
        prop_assert_eq!(read.len(), complete);
    }

    #[test]
    fn any_text_survives(name in ".*", arguments in "\\PC*|[\\x00-\\x1f\u{2028}\u{1f980}\"\\\\]*") {
        let call = ToolCall { call_id: "c".into(), name, arguments };
        let recorder = Recorder::memory();
        recorder.append(call.clone());
        prop_assert_eq!(&events(recorder.records().unwrap())[1], &Event::ToolCall(call));
    }
}
