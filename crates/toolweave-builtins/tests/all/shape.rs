//! Declarations: what they say is what the tools do.

use jsonschema::Validator;
use serde_json::json;
use toolweave_builtins::{Access, Root, RootError, tools};
use toolweave_tools::{Concurrency, Effect, Registry};

use crate::support::Fixture;

#[test]
fn access_decides_which_tools_there_are() {
    let fixture = Fixture::new(&[]);
    let root = Root::open(fixture.path("")).unwrap();
    let names = |access| -> Vec<_> {
        tools(root.clone(), access)
            .iter()
            .map(|tool| {
                (
                    tool.spec().name.clone(),
                    tool.spec().effect,
                    tool.concurrency(&json!({})),
                )
            })
            .collect()
    };
    let read = |name: &str| (name.to_owned(), Effect::Read, Concurrency::Safe);
    let write = |name: &str| (name.to_owned(), Effect::Write, Concurrency::Exclusive);
    assert_eq!(
        names(Access::ReadOnly),
        [read("glob"), read("grep"), read("read")]
    );
    assert_eq!(
        names(Access::ReadWrite),
        [
            write("edit"),
            read("glob"),
            read("grep"),
            read("read"),
            write("write")
        ]
    );
    let registry = Registry::new();
    let _registration = registry.register(tools(root, Access::ReadWrite)).unwrap();
    assert_eq!(registry.tools().len(), 5);
}

#[test]
fn a_root_is_a_folder() {
    let fixture = Fixture::new(&[("file", "")]);
    assert_eq!(
        Root::open(fixture.path("")).unwrap().path(),
        fixture.base.join("root")
    );
    for path in ["file", "missing"] {
        let error = Root::open(fixture.path(path)).unwrap_err();
        assert!(matches!(error, RootError::Open { .. }), "{error:?}");
        let path = fixture.path(path);
        assert_eq!(
            error.to_string(),
            format!("cannot open `{}` as a root folder", path.display())
        );
    }
}

#[tokio::test]
async fn arguments_and_results_satisfy_their_schemas() {
    let fixture = Fixture::new(&[("a.txt", "one\ntwo\n"), ("empty", ""), (".hidden", "x")]);
    fixture.put("binary", b"\0\xff");
    let cases = [
        ("read", json!({ "path": "a.txt" })),
        ("read", json!({ "file_path": "a.txt", "offset": 2, "limit": 1 })),
        ("read", json!({ "path": "empty", "offset": 7 })),
        ("write", json!({ "path": "new/file", "content": "" })),
        ("write", json!({ "path": "binary", "content": "text\n" })),
        ("write", json!({ "file_path": "a.txt", "content": "one\n2\n" })),
        ("edit", json!({ "path": "a.txt", "old": "2", "new": "two" })),
        (
            "edit",
            json!({ "file_path": "a.txt", "old": "o", "new": "0", "replaceAll": true }),
        ),
        ("glob", json!({ "pattern": "**" })),
        (
            "glob",
            json!({ "pattern": "*", "path": "new", "hidden": true, "ignored": true, "limit": 1 }),
        ),
        ("grep", json!({ "pattern": "n" })),
        (
            "grep",
            json!({
                "pattern": "n", "path": ".", "glob": "*.txt", "literal": true, "ignoreCase": true, "before": 1,
                "after": 1, "hidden": true, "ignored": true, "limit": 5, "maxLineLength": 80,
            }),
        ),
    ];
    let tools = fixture.tools();
    for (name, arguments) in cases {
        let spec = tools.get(name).spec().clone();
        let input = jsonschema::validator_for(&spec.input_schema).unwrap();
        let output = jsonschema::validator_for(spec.output_schema.as_ref().unwrap()).unwrap();
        check(&input, &arguments);
        check(&output, &tools.value(name, arguments).await);
    }
}

#[test]
fn what_a_schema_forbids() {
    let fixture = Fixture::new(&[]);
    let tools = fixture.tools();
    let cases = [
        ("read", json!({ "path": "a", "offset": 0 })),
        ("read", json!({ "path": "a", "lines": 3 })),
        ("write", json!({ "path": "a" })),
        ("edit", json!({ "path": "a", "old": "", "new": "x" })),
        ("edit", json!({ "path": "a", "old": "x" })),
        ("glob", json!({ "pattern": "*", "limit": 100_001 })),
        ("grep", json!({ "pattern": "" })),
        ("grep", json!({ "pattern": "x", "before": 101 })),
    ];
    for (name, arguments) in cases {
        let input = jsonschema::validator_for(&tools.get(name).spec().input_schema).unwrap();
        assert!(!input.is_valid(&arguments), "{name} {arguments}");
    }
}

/// Some clients cut a description; every model API takes 1,024 characters.
#[test]
fn descriptions_are_short() {
    let fixture = Fixture::new(&[]);
    for tool in fixture.tools().iter() {
        let spec = tool.spec();
        assert!((40..=400).contains(&spec.description.len()), "{}", spec.name);
        for (name, schema) in spec.input_schema["properties"].as_object().unwrap() {
            let described = schema.get("description").is_some() || name == "ignoreCase";
            assert!(described, "{} {name}", spec.name);
        }
        assert!(spec.input_schema.get("anyOf").is_none());
    }
}

fn check(schema: &Validator, value: &serde_json::Value) {
    let errors: Vec<String> = schema.iter_errors(value).map(|error| error.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new(), "{value}");
}
