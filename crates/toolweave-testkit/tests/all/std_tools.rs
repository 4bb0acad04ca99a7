//! The tools of the set `std`, on this crate's own data.

use serde_json::{Value, json};
use toolweave_testkit::{Answer, Outcome, StdSet, ToolSet as _, corpus_dir};

use crate::{CORPUS_HERE, failure, fixture, value};

/// Tools that only look, each with arguments and value.
#[test]
fn tools_answer_from_the_data() {
    let mut client = fixture(&["--set", "std"]);
    let leek = json!({"id": "recipes/soup.md", "line": 1, "text": "# Leek soup"});
    let cut = json!({"id": "recipes/soup.md", "line": 2, "text": "Cut two leeks."});
    let bed = json!({"id": "garden/plan.csv", "line": 2, "text": "1,leek,12"});
    let cases = [
        (
            "echo",
            json!({"value": [null, {"a": -0.5}]}),
            json!({"value": [null, {"a": -0.5}]}),
        ),
        ("add", json!({"a": 0.1, "b": 0.2}), json!({"sum": 0.1 + 0.2})),
        ("add", json!({"a": 2.5, "b": 0.5}), json!({"sum": 3})),
        ("add", json!({"a": 1e21, "b": 0}), json!({"sum": 1e21})),
        (
            "now",
            json!({}),
            json!({"iso": "2026-05-01T12:00:00.000Z", "epochMs": 1_777_636_800_000_u64}),
        ),
        ("sleep", json!({"ms": 1}), json!({"sleptMs": 1, "label": null})),
        (
            "sleep",
            json!({"ms": 0, "label": "x"}),
            json!({"sleptMs": 0, "label": "x"}),
        ),
        (
            "search_docs",
            json!({"query": "LEEK"}),
            json!({"hits": [bed, leek, cut], "total": 3}),
        ),
        (
            "search_docs",
            json!({"query": "leek", "limit": 1}),
            json!({"hits": [bed], "total": 3}),
        ),
        (
            "search_docs",
            json!({"query": "GRÜSSE"}),
            json!({"hits": [], "total": 0}),
        ),
        (
            "search_docs",
            json!({"query": "GRÜßE"}),
            json!({"hits": [{"id": "letters/größe.md", "line": 1, "text": "Schöne Grüße 🦀"}], "total": 1}),
        ),
        (
            "read_doc",
            json!({"id": "garden/empty.md"}),
            json!({"id": "garden/empty.md", "title": "Nothing yet", "tags": [],
                   "updatedAt": "2026-03-21T12:00:00Z", "text": ""}),
        ),
        (
            "doc-stats",
            json!({"id": "garden/empty.md"}),
            json!({"id": "garden/empty.md", "lines": 0, "words": 0, "chars": 0}),
        ),
        (
            "doc-stats",
            json!({"id": "letters/größe.md"}),
            json!({"id": "letters/größe.md", "lines": 4, "words": 5, "chars": 33}),
        ),
        (
            "kv_list",
            json!({}),
            json!({"keys": ["beds", "nothing", "place"]}),
        ),
        (
            "kv_get",
            json!({"key": "place"}),
            json!({"found": true, "value": "by the lake"}),
        ),
        (
            "kv_get",
            json!({"key": "nothing"}),
            json!({"found": true, "value": null}),
        ),
        (
            "kv_get",
            json!({"key": "absent"}),
            json!({"found": false, "value": null}),
        ),
        (
            "big_text",
            json!({"chars": 28}),
            json!({"text": "abcdefghijklmnopqrstuvwxyzab"}),
        ),
        ("big_text", json!({"chars": 0}), json!({"text": ""})),
        (
            "mcp__tickets__get_ticket",
            json!({"id": "TICKET-2"}),
            json!({"id": "TICKET-2", "title": "Mend the fence", "status": "open", "assignee": "mira",
                   "priority": 2, "estimate": 3.5, "labels": ["garden"]}),
        ),
    ];
    for (tool, arguments, expected) in cases {
        assert_eq!(
            value(&mut client, tool, arguments.clone()),
            expected,
            "{tool} {arguments}"
        );
    }
}

#[test]
fn tools_fail_with_their_own_words() {
    let mut client = fixture(&[]);
    let cases = [
        ("fail", json!({"message": "on purpose"}), "on purpose"),
        ("read_doc", json!({"id": "nope"}), "document not found: nope"),
        ("doc-stats", json!({"id": "nope"}), "document not found: nope"),
        (
            "mcp__tickets__get_ticket",
            json!({"id": "TICKET-9"}),
            "no such ticket: TICKET-9",
        ),
        ("list_docs", json!({"cursor": "5"}), "unknown cursor: 5"),
        ("list_docs", json!({"cursor": "p"}), "unknown cursor: p"),
        ("list_docs", json!({"cursor": "p+1"}), "unknown cursor: p+1"),
        (
            "list_docs",
            json!({"cursor": "p99999999999999999999999"}),
            "unknown cursor: p99999999999999999999999",
        ),
        ("add", json!({"a": 1}), "missing argument `b`"),
        (
            "add",
            json!({"a": 1e308, "b": 1e308}),
            "the sum is not a finite number",
        ),
        ("echo", json!({}), "missing argument `value`"),
        ("sleep", json!({"ms": 60_001}), "bad argument `ms`: 60001 > 60000"),
        (
            "big_text",
            json!({"chars": 20_000_001}),
            "bad argument `chars`: 20000001 > 20000000",
        ),
    ];
    for (tool, arguments, expected) in cases {
        assert_eq!(
            failure(&mut client, tool, arguments.clone()),
            expected,
            "{tool} {arguments}"
        );
    }
    assert!(
        failure(&mut client, "read_doc", json!({"id": 5})).starts_with("bad argument `id`: invalid type")
    );
    assert!(failure(&mut client, "read_doc", json!([])).starts_with("arguments are not an object"));
}

#[test]
fn documents_come_in_pages_by_the_bytes_of_their_ids() {
    let mut client = fixture(&[]);
    let mut page = |arguments: Value| {
        let page = value(&mut client, "list_docs", arguments);
        let ids: Vec<String> = page["docs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|doc| doc["id"].as_str().unwrap().to_owned())
            .collect();
        (ids.join(" "), page["nextCursor"].clone())
    };
    let first = "Zebra.md garden/empty.md garden/plan.csv letters/größe.md recipes/bread.md";
    assert_eq!(page(json!({})), (first.into(), json!("p5")));
    assert_eq!(
        page(json!({"cursor": "p5"})),
        ("recipes/soup.md".into(), Value::Null)
    );
    assert_eq!(page(json!({"cursor": "p6"})), (String::new(), Value::Null));
    assert_eq!(page(json!({"limit": 6})).1, Value::Null);
    assert_eq!(
        page(json!({"prefix": "garden/", "limit": 1})),
        ("garden/empty.md".into(), json!("p1"))
    );
    assert_eq!(
        page(json!({"prefix": "garden/", "limit": 1, "cursor": "p1"})),
        ("garden/plan.csv".into(), Value::Null)
    );
    assert_eq!(page(json!({"prefix": "none"})), (String::new(), Value::Null));
    let listed = value(&mut client, "list_docs", json!({"prefix": "letters/"}));
    assert_eq!(
        listed["docs"],
        json!([{"id": "letters/größe.md", "title": "Größe", "tags": ["letters", "unicode"], "chars": 33}])
    );
}

#[test]
fn tickets_are_picked_by_status_and_person() {
    let mut client = fixture(&[]);
    let mut ids = |arguments: Value| {
        let found = value(&mut client, "mcp__tickets__list_tickets", arguments);
        found["tickets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| t["id"].as_str().unwrap()[7..].to_owned())
            .collect::<String>()
    };
    assert_eq!(ids(json!({})), "2134");
    assert_eq!(ids(json!({"status": "open"})), "24");
    assert_eq!(ids(json!({"assignee": "jon"})), "14");
    assert_eq!(ids(json!({"status": "open", "assignee": "jon"})), "4");
    assert_eq!(ids(json!({"assignee": "nobody"})), "");
    let blocked = value(
        &mut client,
        "mcp__tickets__list_tickets",
        json!({"status": "blocked"}),
    );
    assert_eq!(
        blocked,
        json!({"tickets": [{"id": "TICKET-3", "title": "Sharpen the knives", "status": "blocked",
                            "assignee": null, "priority": 4}]})
    );
}

#[test]
fn state_lasts_as_long_as_the_process() {
    for _ in 0..2 {
        let mut client = fixture(&[]);
        assert_eq!(
            value(&mut client, "kv_put", json!({"key": "new", "value": {"n": 1}})),
            json!({"previous": null})
        );
        assert_eq!(
            value(&mut client, "kv_put", json!({"key": "new", "value": 2})),
            json!({"previous": {"n": 1}})
        );
        assert_eq!(
            value(&mut client, "kv_list", json!({})),
            json!({"keys": ["beds", "new", "nothing", "place"]})
        );
        let flaky = json!({"key": "k", "failures": 2});
        assert_eq!(
            failure(&mut client, "flaky", flaky.clone()),
            "temporarily unavailable: attempt 1"
        );
        assert_eq!(
            value(&mut client, "flaky", json!({"key": "other", "failures": 0})),
            json!({"attempts": 1})
        );
        assert_eq!(
            failure(&mut client, "flaky", flaky.clone()),
            "temporarily unavailable: attempt 2"
        );
        assert_eq!(value(&mut client, "flaky", flaky), json!({"attempts": 3}));
    }
}

#[test]
fn values_pass_through_unread() {
    let set = StdSet::bundled().unwrap();
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    for value in [
        deep.as_str(),
        "9007199254740993",
        "1.0",
        r#""\ud800""#,
        r#"{"__proto__":1,"b":2,"a":3}"#,
    ] {
        let answer = set.call("echo", &format!("{{\"value\":{value}}}"));
        assert_eq!(
            answer,
            Some(Answer::Now(Outcome::Value(format!("{{\"value\":{value}}}"))))
        );
    }
}

#[test]
fn the_corpus_data_serve_as_well() {
    let Some(dir) = corpus_dir(CORPUS_HERE) else {
        return;
    };
    let data = dir.join("std-tools.json");
    let mut client = fixture(&["--data", data.to_str().unwrap()]);
    let listed = client.request("tools/list", json!({})).unwrap();
    let forms = |tools: &Value| -> Vec<Value> {
        let mut tools = tools.as_array().unwrap().clone();
        for tool in &mut tools {
            tool.as_object_mut().unwrap().remove("description");
        }
        tools
    };
    let own = fixture(&[]).request("tools/list", json!({})).unwrap();
    assert_eq!(forms(&listed["result"]["tools"]), forms(&own["result"]["tools"]));
    // What programs of the corpus expect to find.
    assert_eq!(
        value(&mut client, "doc-stats", json!({"id": "guides/tuning.md"})),
        json!({"id": "guides/tuning.md", "lines": 4, "words": 22, "chars": 108})
    );
    let needle = value(&mut client, "search_docs", json!({"query": "needle"}));
    assert_eq!(
        (&needle["hits"][0]["line"], &needle["hits"][1]["line"]),
        (&json!(57), &json!(311))
    );
    assert_eq!(
        value(&mut client, "kv_get", json!({"key": "visits"})),
        json!({"found": true, "value": 41})
    );
    let unicode = value(&mut client, "read_doc", json!({"id": "text/unicode.md"}));
    assert_eq!(unicode["text"].as_str().unwrap().encode_utf16().count(), 64);
}
