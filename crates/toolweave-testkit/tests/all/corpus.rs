//! Sidecars and their comparison.

use serde_json::{Value, json};
use toolweave_testkit::{Class, Expect, corpus_dir, load_programs, sidecar_matches};

use crate::CORPUS_HERE;

fn expect(value: Value) -> Expect {
    serde_json::from_value(value).unwrap()
}

/// Expectations with an outcome that fits, and outcomes that do not with what is said about each.
#[test]
fn every_field_of_a_sidecar_is_checked() {
    let done = |result: Value| json!({"ok": true, "result": result, "logs": [], "calls": []});
    let empty = json!({"ok": true, "logs": [], "calls": []});
    let failed = |kind: &str, message: &str, line: Value| {
        json!({"ok": false, "logs": ["a", "b"], "calls": [],
               "error": {"kind": kind, "message": message, "line": line}})
    };
    let call = |name: &str| json!({"id": "c:code:1", "name": name, "ok": true, "ms": 1, "effect": "read"});
    let unreached =
        json!({"id": "c:code:2", "name": "third", "ok": false, "ms": 0, "effect": "read", "reached": false});
    let called = |calls: Value| json!({"ok": true, "logs": [], "calls": calls});

    let cases = [
        (
            json!({"ok": true, "result": {"b": 1, "a": [2.5]}}),
            done(json!({"a": [2.5], "b": 1.0})),
            vec![
                (
                    done(json!({"a": [2.5]})),
                    r#"result: expected {"b":1,"a":[2.5]}, found {"a":[2.5]}"#,
                ),
                (
                    empty.clone(),
                    r#"result: expected {"b":1,"a":[2.5]}, found "nothing""#,
                ),
                (
                    done(json!({"a": [2.5], "b": "1"})),
                    r#"result: expected {"b":1,"a":[2.5]}, found {"a":[2.5],"b":"1"}"#,
                ),
            ],
        ),
        (
            json!({"ok": true, "result": null}),
            done(Value::Null),
            vec![(empty.clone(), r#"result: expected null, found "nothing""#)],
        ),
        (
            json!({"ok": true}),
            empty,
            vec![
                (done(Value::Null), "result: expected none, found null"),
                (json!({"ok": false}), "ok: expected true, found false"),
            ],
        ),
        (
            json!({"ok": true, "result_json_bytes": 5}),
            done(json!("é1")),
            vec![(done(json!("é")), "size of the result: expected 5, found 4")],
        ),
        (
            json!({"ok": false, "logs": ["a", "b"], "error_kind": ["timeout", "abort"], "message_contains": "BUSY time", "line": 3}),
            failed("abort", "Busy Time is up", json!(3)),
            vec![(
                failed("exception", "wall time is up", Value::Null),
                "kind of the error: expected [\"timeout\", \"abort\"], found {\"kind\":\"exception\",\"message\":\"wall time is up\",\"line\":null}\n\
                 message: expected any of [\"BUSY time\"], found {\"kind\":\"exception\",\"message\":\"wall time is up\",\"line\":null}\n\
                 line of the error: expected 3, found {\"kind\":\"exception\",\"message\":\"wall time is up\",\"line\":null}",
            )],
        ),
        (
            json!({"ok": false, "message_contains": ["one", "other"], "logs_start": ["a"]}),
            failed("exception", "an Other thing", Value::Null),
            vec![(
                json!({"ok": false, "logs": [], "error": {"message": "no"}}),
                "start of the logs: expected [\"a\"], found []\n\
                 message: expected any of [\"one\", \"other\"], found {\"message\":\"no\"}",
            )],
        ),
        (
            json!({"ok": false, "logs": ["a", "b"]}),
            failed("exception", "", Value::Null),
            vec![
                (
                    json!({"ok": false, "logs": ["b", "a"]}),
                    r#"logs: expected ["a", "b"], found ["b","a"]"#,
                ),
                (
                    json!({"ok": false, "logs": ["a", 1]}),
                    r#"logs: expected ["a", "b"], found ["a",1]"#,
                ),
            ],
        ),
        (
            json!({"ok": true, "calls": ["first", "second"]}),
            called(json!([call("first"), unreached, call("second")])),
            vec![
                (
                    called(json!([{"name": "second"}, {"name": "first"}])),
                    r#"calls: expected ["first", "second"], found [{"name":"second"},{"name":"first"}]"#,
                ),
                (
                    json!({"ok": true}),
                    r#"calls: expected ["first", "second"], found null"#,
                ),
            ],
        ),
        (
            json!({"ok": true, "calls": []}),
            called(json!([unreached])),
            vec![(
                called(json!([{"name": "x"}])),
                r#"calls: expected [], found [{"name":"x"}]"#,
            )],
        ),
    ];
    for (expected, fits, others) in cases {
        let expected = expect(expected);
        assert_eq!(
            sidecar_matches(&expected, &fits.to_string()),
            Ok(()),
            "{expected:?}"
        );
        for (other, difference) in others {
            assert_eq!(
                sidecar_matches(&expected, &other.to_string()),
                Err(difference.to_owned()),
                "{expected:?}"
            );
        }
    }
    assert!(
        sidecar_matches(&Expect::default(), "{")
            .unwrap_err()
            .starts_with("the outcome is not readable JSON: ")
    );
}

#[test]
fn unknown_fields_of_a_sidecar_are_refused() {
    assert!(serde_json::from_value::<Expect>(json!({"ok": true, "reslt": 1})).is_err());
    assert!(serde_json::from_value::<Expect>(json!({"result": 1})).is_err());
}

#[test]
fn the_shared_corpus_loads() {
    let Some(dir) = corpus_dir(CORPUS_HERE) else {
        return;
    };
    let programs = load_programs(&dir).unwrap();
    assert_eq!(programs.len(), 128);
    assert!(programs.is_sorted_by(|a, b| a.name < b.name));
    assert_eq!(programs[0].name, "001-bare-statements-return");
    assert!(programs.iter().all(|program| program.sidecar.tools == "std"));
    let crlf = programs
        .iter()
        .find(|program| program.name == "115-crlf-bom")
        .unwrap();
    assert!(crlf.text.starts_with('\u{feff}') && crlf.text.contains("\r\n"));
    assert_eq!(crlf.sidecar.class, Class::Settled);
    let limited = programs
        .iter()
        .filter(|program| program.sidecar.limits != Default::default())
        .count();
    assert_eq!(limited, 10);
    // Each expectation fits an outcome that is made from it.
    for program in &programs {
        let e = &program.sidecar.expect;
        let calls: Vec<Value> = e
            .calls
            .iter()
            .flatten()
            .map(|name| json!({"name": name}))
            .collect();
        let first =
            |texts: &Option<toolweave_testkit::OneOrMany>| texts.as_ref().map(|t| t.as_slice()[0].clone());
        let mut outcome = json!({
            "ok": e.ok, "logs": e.logs.as_ref().or(e.logs_start.as_ref()), "calls": calls,
            "error": {"kind": first(&e.error_kind), "message": first(&e.message_contains), "line": e.line},
        });
        if let Some(result) = &e.result {
            outcome["result"] = result.clone();
        }
        if let Some(bytes) = e.result_json_bytes {
            outcome["result"] = "x".repeat(bytes - 2).into();
        }
        assert_eq!(
            sidecar_matches(e, &outcome.to_string()),
            Ok(()),
            "{}",
            program.name
        );
    }
}
