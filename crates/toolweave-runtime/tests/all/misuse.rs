//! Contract C4, C8–C11: what cannot be run at all.

use std::sync::Arc;

use toolweave_runtime::{Binding, ErrorClass, FunctionKind, FunctionTable, Misuse, Namespace};

use crate::support::{Host, namespace, request};

fn check(change: impl FnOnce(&mut Namespace)) -> Result<(), Misuse> {
    let host = Arc::new(Host::default());
    let mut request = request(&host);
    change(&mut request.namespaces[0]);
    request.check()
}

#[test]
fn names_must_be_portable() {
    for bad in [
        "", "1a", "a-b", "a$", "ñ", "lambda", "None", "match", "await", "eval", "yield", "class",
    ] {
        let outcome = check(|namespace| namespace.global = bad.to_owned());
        assert_eq!(outcome, Err(Misuse::NotAnIdentifier(bad.to_owned())), "{bad}");
    }
    for reserved in ["console", "__dsh_main__", "__builtins__", "__name__", "__debug__"] {
        let outcome = check(|namespace| namespace.aliases = vec![reserved.to_owned()]);
        assert_eq!(outcome, Err(Misuse::ReservedGlobal(reserved.to_owned())));
    }
    assert_eq!(check(|namespace| namespace.global = "_tools2".to_owned()), Ok(()));
}

#[test]
fn a_name_stands_for_one_thing() {
    let duplicate = |name: &str| Err(Misuse::DuplicateGlobal(name.to_owned()));
    assert_eq!(
        check(|namespace| namespace.aliases.push("tools".to_owned())),
        duplicate("tools")
    );
    let class = ErrorClass {
        name: "sdk".to_owned(),
        member_property: "toolName".to_owned(),
    };
    assert_eq!(
        check(|namespace| namespace.error_class = Some(class)),
        duplicate("sdk")
    );
    let host = Arc::new(Host::default());
    let mut twice = request(&host);
    twice.namespaces.push(Namespace {
        global: "other".to_owned(),
        aliases: vec![],
        ..namespace(&host)
    });
    assert_eq!(twice.check(), duplicate("ToolCallError"));
    let binding = || Binding {
        name: Arc::from("__proto__"),
        kind: FunctionKind::Async,
        enumerable: true,
    };
    let outcome =
        check(|namespace| namespace.functions = Arc::new(FunctionTable::new([binding(), binding()])));
    let expected = Misuse::DuplicateFunction {
        global: "tools".to_owned(),
        function: "__proto__".to_owned(),
    };
    assert_eq!(outcome, Err(expected));
}

#[test]
fn the_member_property_hides_nothing_of_an_error() {
    let with = |property: &str| {
        let class = ErrorClass {
            name: "E".to_owned(),
            member_property: property.to_owned(),
        };
        check(|namespace| namespace.error_class = Some(class))
    };
    for bad in [
        "",
        "name",
        "message",
        "stack",
        "args",
        "with_traceback",
        "add_note",
        "__cause__",
    ] {
        assert_eq!(with(bad), Err(Misuse::BadMemberProperty(bad.to_owned())), "{bad}");
    }
    for good in ["toolName", "__", "____"] {
        assert_eq!(with(good), Ok(()), "{good}");
    }
}
