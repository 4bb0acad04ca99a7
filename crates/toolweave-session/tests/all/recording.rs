//! Recorders: order, durability, privacy, redaction.

use std::sync::Arc;
use std::thread;

use toolweave_session::*;

use crate::samples::{events, json};

#[test]
fn threads_share_one_numbering() {
    let dir = tempfile::tempdir().unwrap();
    let recorder = Recorder::create(dir.path(), NewSession::default()).unwrap();
    let writers: Vec<_> = (0..8_u64)
        .map(|writer| {
            let recorder = recorder.clone();
            thread::spawn(move || {
                (0..1000)
                    .map(|n| {
                        recorder.append(TurnStart {
                            turn: writer * 1000 + n,
                        })
                    })
                    .collect()
            })
        })
        .collect();
    let mut taken: Vec<(u64, u64)> = Vec::new();
    for (writer, thread) in (0..).zip(writers) {
        let seqs: Vec<u64> = thread.join().unwrap();
        assert!(seqs.is_sorted_by(|a, b| a < b));
        taken.extend(seqs.into_iter().zip(writer * 1000..));
    }
    taken.sort_unstable();
    assert_eq!(recorder.flush().unwrap(), 8001);

    let log = read_log(recorder.path().unwrap()).unwrap();
    let read: Vec<(u64, u64)> = log.records[1..]
        .iter()
        .map(|record| match &record.event {
            Event::TurnStart(start) => (record.seq, start.turn),
            other => panic!("unexpected {other:?}"),
        })
        .collect();
    assert_eq!(read, taken);
    assert!(log.records.is_sorted_by_key(|record| record.ts));
    let status = Status {
        last_seq: 8001,
        durable_seq: 8001,
        ..Status::default()
    };
    assert_eq!(recorder.status(), status);
}

#[test]
fn what_was_appended_is_there_when_the_recorder_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let recorder = Recorder::create(dir.path(), NewSession::default()).unwrap();
    let path = recorder.path().unwrap().to_owned();
    for turn in 0..100 {
        recorder.append(TurnStart { turn });
    }
    drop(recorder);
    assert_eq!(read_log(&path).unwrap().records.len(), 101);
}

#[test]
fn a_log_is_opened_by_one_recorder_at_a_time_and_never_made_twice() {
    let dir = tempfile::tempdir().unwrap();
    let named = || NewSession {
        id: Some("one".parse().unwrap()),
        ..NewSession::default()
    };
    let recorder = Recorder::create(dir.path(), named()).unwrap();
    recorder.flush().unwrap();
    let path = dir.path().join("one.jsonl");
    if cfg!(unix) {
        assert!(matches!(Recorder::open(&path), Err(Error::Busy(busy)) if busy == path));
    }
    assert!(matches!(
        Recorder::create(dir.path(), named()),
        Err(Error::Io { action: "create", .. })
    ));
    drop(recorder);
    let (again, torn) = Recorder::open(&path).unwrap();
    assert_eq!((again.session_id().unwrap().as_str(), torn), ("one", None));
    assert_eq!(
        again.append(SessionResume {
            product_version: "2".into(),
            cut_bytes: 0
        }),
        2
    );
}

#[cfg(unix)]
#[test]
fn logs_are_the_users_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path().join("home/sessions");
    let recorder = Recorder::create(&logs, NewSession::default()).unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&logs), mode(recorder.path().unwrap())), (0o700, 0o600));
}

#[test]
fn nothing_is_kept_by_none() {
    let recorder = Recorder::none();
    assert_eq!(recorder.append(TurnStart { turn: 1 }), 0);
    assert_eq!(recorder.flush().unwrap(), 0);
    assert_eq!(recorder.status(), Status::default());
    assert_eq!((recorder.session_id(), recorder.path()), (None, None));
    assert_eq!(recorder.records().unwrap(), []);
}

#[test]
fn arguments_are_redacted_wherever_they_are_logged() {
    let hide: Redaction = Arc::new(|tool, arguments| match tool {
        "login" => Some(arguments.replace("hunter2", "***")),
        "plain" => Some("not JSON".to_owned()),
        "panics" => panic!("no"),
        _ => None,
    });
    let recorder = Recorder::memory().with_redaction(hide);
    let secret = json(r#"{"password":"hunter2"}"#);
    let start = |name: &str, arguments: &Json| -> Event {
        CodeDispatchStart {
            root_call_id: "r".into(),
            name: name.into(),
            arguments: arguments.clone(),
            ..Default::default()
        }
        .into()
    };
    let clone = recorder.clone();
    clone.append(ToolCall {
        call_id: "c".into(),
        name: "login".into(),
        arguments: secret.get().into(),
    });
    for name in ["login", "plain", "panics", "other"] {
        clone.append(start(name, &secret));
    }
    clone.append(CodeDispatch {
        root_call_id: "r".into(),
        name: "login".into(),
        arguments: secret.clone(),
        ..Default::default()
    });
    clone.append(ApprovalAsked {
        name: "login".into(),
        arguments: secret.clone(),
        ..Default::default()
    });

    let starred = json(r#"{"password":"***"}"#);
    assert_eq!(
        events(recorder.records().unwrap())[1..],
        [
            ToolCall {
                call_id: "c".into(),
                name: "login".into(),
                arguments: starred.get().into()
            }
            .into(),
            start("login", &starred),
            start("plain", &json(r#""not JSON""#)),
            start("panics", &json(r#""[not recorded: redaction failed]""#)),
            start("other", &secret),
            CodeDispatch {
                root_call_id: "r".into(),
                name: "login".into(),
                arguments: starred.clone(),
                ..Default::default()
            }
            .into(),
            ApprovalAsked {
                name: "login".into(),
                arguments: starred,
                ..Default::default()
            }
            .into(),
        ]
    );
}

#[test]
fn a_line_that_would_be_too_long_says_what_it_leaves_out() {
    let recorder = Recorder::memory();
    let content = Json::string(&"x".repeat(MAX_LINE_BYTES));
    let settle = CodeDispatch {
        root_call_id: "r".into(),
        sub_call_id: "r:code:1".into(),
        ..Default::default()
    };
    recorder.append(CodeDispatch {
        content,
        summary: Some("xxx…".into()),
        ..settle.clone()
    });
    let note = r#""[not recorded: 67108866 bytes, more than a line of the log may hold]""#;
    let kept = CodeDispatch {
        content: json(note),
        summary: Some("xxx…".into()),
        ..settle
    };
    assert_eq!(events(recorder.records().unwrap())[1..], [kept.into()]);
    assert_eq!(recorder.status().shortened, 1);
}
