//! Whatever a path says, nothing outside the root is seen or touched.

use proptest::prelude::*;
use serde_json::json;

use crate::support::Fixture;

fn component() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just("..".to_owned()),
        2 => Just(".".to_owned()),
        1 => Just(String::new()),
        3 => prop::sample::select(vec!["sub", "out", "up", "abs", "in.txt", "outside", "root", "secret.txt"])
            .prop_map(str::to_owned),
        1 => "\\PC{0,6}",
        1 => Just("\0".to_owned()),
    ]
}

fn path() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => (any::<bool>(), prop::collection::vec(component(), 0..8)).prop_map(|(absolute, names)| {
            format!("{}{}", if absolute { "/" } else { "" }, names.join("/"))
        }),
        1 => "\\PC{0,40}",
        1 => prop::collection::vec(component(), 0..6).prop_map(|names| format!("BASE/root/{}", names.join("/"))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_text_is_a_way_out(path in path(), pattern in path()) {
        let fixture = Fixture::new(&[("in.txt", "inside\n"), ("sub/in.txt", "inside\n")]);
        fixture.link("out", "../outside");
        fixture.link("up", "sub/../..");
        fixture.link("abs", &fixture.base);
        let before = fixture.outside();
        let path = path.replace("BASE", fixture.base.to_str().unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for tools in fixture.both() {
            let calls = [
                ("read", json!({ "path": path })),
                ("glob", json!({ "path": path, "pattern": "**" })),
                ("glob", json!({ "pattern": pattern })),
                ("grep", json!({ "path": path, "pattern": "secret" })),
                ("edit", json!({ "path": path, "old": "secret", "new": "taken" })),
                ("write", json!({ "path": path, "content": "taken" })),
            ];
            for (name, arguments) in calls {
                if let Ok(output) = runtime.block_on(tools.call(name, arguments)) {
                    let value = output.value.to_string();
                    prop_assert!(!value.contains("secret\\n"), "{name} {path:?}: {value}");
                    prop_assert!(!value.contains("\"secret\""), "{name} {path:?}: {value}");
                }
            }
        }
        prop_assert_eq!(fixture.outside(), before);
    }
}
