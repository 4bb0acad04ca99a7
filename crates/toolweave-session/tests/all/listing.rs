//! Session names and lists of sessions.

use std::fs;

use toolweave_session::*;

#[test]
fn ids_sort_by_time_and_are_safe_as_file_names() {
    let ids: Vec<SessionId> = (0..1000).map(|_| SessionId::generate()).collect();
    assert!(ids.is_sorted_by(|a, b| a < b));
    for good in ["a", "0195a6f0-7c1e-7000-8000-00000000002a", "A_b-9"] {
        assert_eq!(good.parse::<SessionId>().unwrap().to_string(), good);
    }
    for bad in ["", "..", "a/b", "a.b", "ä", "a b", &"x".repeat(65)] {
        assert!(bad.parse::<SessionId>().is_err(), "{bad}");
        assert!(serde_json::from_value::<SessionId>(bad.into()).is_err(), "{bad}");
    }
}

#[test]
fn a_folder_lists_its_sessions_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path().join("deep/sessions");
    assert_eq!(list_sessions(&logs).unwrap().len(), 0);

    let new = |id: &str| NewSession {
        product_version: "1".into(),
        id: Some(id.parse().unwrap()),
        cwd: Some(format!("work {id}")),
        origin: None,
    };
    drop(Recorder::create(&logs, new("b")).unwrap());
    drop(Recorder::create(&logs, new("a")).unwrap());
    fs::write(logs.join("broken.jsonl"), "{\"seq\":1}").unwrap();
    fs::write(logs.join("notes.txt"), "x").unwrap();
    fs::write(logs.join("not an id.jsonl"), "x").unwrap();

    let listed: Vec<_> = list_sessions(&logs)
        .unwrap()
        .into_iter()
        .map(|entry| {
            assert_eq!(entry.bytes, fs::metadata(&entry.path).unwrap().len());
            let header = entry
                .started
                .map(|(ts, header)| (ts > 0, header.cwd))
                .map_err(|e| e.to_string());
            (entry.id.to_string(), header)
        })
        .collect();
    assert_eq!(
        listed,
        [
            ("a".to_owned(), Ok((true, Some("work a".to_owned())))),
            ("b".to_owned(), Ok((true, Some("work b".to_owned())))),
            ("broken".to_owned(), Err("session log has no header".to_owned())),
        ]
    );
}
