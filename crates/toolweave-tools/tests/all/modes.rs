//! What each mode shows, and that the executor holds to it.

use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolweave_tools::{
    Effect, ErrorCode, Mode, ModeError, Registry, SdkDetail, ToolCall, Toolbox, ToolboxConfig,
};

use crate::support::{End, FakeRuntime, Rig, call, echo, failure, rig, run_code, text};

fn config(mode: Mode) -> ToolboxConfig {
    ToolboxConfig {
        mode,
        ..ToolboxConfig::default()
    }
}

fn mode_rig(mode: Mode) -> Rig {
    rig(
        vec![
            echo("alpha", Effect::Read),
            echo("zeta", Effect::Write),
            echo("my-tool", Effect::Read),
        ],
        FakeRuntime::new(|_| async { End::Value(json!("ran")) }),
        config(mode),
    )
}

fn shown(rig: &Rig) -> Vec<String> {
    rig.toolbox
        .present()
        .unwrap()
        .tools
        .into_iter()
        .map(|tool| tool.name)
        .collect()
}

#[tokio::test]
async fn each_mode_shows_what_it_executes() {
    for (mode, names) in [
        (Mode::Native, vec!["alpha", "my-tool", "zeta"]),
        (Mode::Code, vec!["run_code"]),
        (Mode::Both, vec!["alpha", "my-tool", "run_code", "zeta"]),
    ] {
        let rig = mode_rig(mode);
        assert_eq!(shown(&rig), names);
        assert_eq!(rig.toolbox.present().unwrap().sdk.is_some(), mode != Mode::Native);
        for name in ["alpha", "my-tool", "run_code", "zeta"] {
            let request = if name == "run_code" {
                run_code()
            } else {
                call(name, r#"{"v":1}"#)
            };
            let result = rig.toolbox.execute(request).await;
            let expected = if names.contains(&name) {
                None
            } else {
                Some(ErrorCode::UnknownTool)
            };
            assert_eq!(result.error, expected, "{mode:?} {name}");
        }
    }
}

#[tokio::test]
async fn a_collapsed_call_is_told_the_way() {
    let rig = mode_rig(Mode::Code);
    for (name, message) in [
        (
            "alpha",
            "only `run_code` can be called directly; call `alpha` from inside a program as `await tools.alpha({ ... })`",
        ),
        (
            "my-tool",
            "only `run_code` can be called directly; call `my-tool` from inside a program as `await tools[\"my-tool\"]({ ... })`",
        ),
        ("alpa", "unknown tool `alpa`; closest: `alpha`"),
        ("qqqq", "unknown tool `qqqq`"),
    ] {
        let result = rig.toolbox.execute(call(name, "{}")).await;
        assert_eq!(
            failure(&result),
            (Some(ErrorCode::UnknownTool), message.to_owned())
        );
    }
    let result = rig.toolbox.execute(call("alpha", "{")).await;
    assert_eq!(
        result.error,
        Some(ErrorCode::InvalidArgs),
        "arguments are looked at first"
    );
    let cancelled = ToolCall {
        cancel: CancellationToken::new(),
        ..call("alpha", "{}")
    };
    cancelled.cancel.cancel();
    let result = rig.toolbox.execute(cancelled).await;
    assert_eq!(result.error, Some(ErrorCode::AbortedBeforeDispatch));
}

#[tokio::test]
async fn without_a_runtime_only_native_mode_presents() {
    let registry = Registry::new();
    let _kept = registry.register([echo("alpha", Effect::Read)]).unwrap();
    for (mode, name) in [(Mode::Code, "code"), (Mode::Both, "both")] {
        let toolbox = Toolbox::new(registry.clone(), None, config(mode));
        assert_eq!(toolbox.present(), Err(ModeError::NoRuntime { mode: name }));
        let result = toolbox.execute(run_code()).await;
        assert_eq!(result.error, Some(ErrorCode::CodeRunFailed), "{}", text(&result));
    }
    let toolbox = Toolbox::new(registry.clone(), None, config(Mode::Native));
    let presentation = toolbox.present().unwrap();
    assert_eq!(presentation.tools.len(), 1);
    assert_eq!(presentation.sdk, None);
    assert_eq!(toolbox.execute(call("alpha", "{}")).await.error, None);
}

#[test]
fn mode_names_are_those_of_the_configuration() {
    for (text, mode) in [
        ("native", Mode::Native),
        ("code", Mode::Code),
        ("ptc", Mode::Code),
        ("both", Mode::Both),
    ] {
        assert_eq!(serde_json::from_value::<Mode>(json!(text)).unwrap(), mode);
    }
    assert!(serde_json::from_value::<Mode>(json!("banana")).is_err());
}

#[test]
fn run_code_goes_on_the_wire_whole() {
    let rig = mode_rig(Mode::Code);
    let presentation = rig.toolbox.present().unwrap();
    let [run_code] = presentation.tools.as_slice() else {
        panic!("{presentation:?}")
    };
    assert_eq!(run_code.input_schema["required"], json!(["description", "code"]));
    let order: Vec<_> = run_code.input_schema["properties"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    assert_eq!(order, ["description", "code", "timeoutMs"]);
    let sdk = presentation.sdk.unwrap();
    assert_eq!(
        run_code.input_schema["properties"]["code"]["description"],
        json!(sdk.text)
    );
    assert_eq!(
        run_code.output_schema.as_ref().unwrap()["required"],
        json!(["logs"])
    );
    for detail in [SdkDetail::Full, SdkDetail::Compact, SdkDetail::Search] {
        let rig = self::rig(
            vec![echo("alpha", Effect::Read)],
            FakeRuntime::idle(),
            ToolboxConfig {
                sdk: detail,
                ..ToolboxConfig::default()
            },
        );
        let description = rig.toolbox.present().unwrap().tools[0].description.clone();
        assert!(
            description.chars().count() <= 1024,
            "{detail:?}: {}",
            description.chars().count()
        );
    }
}

#[tokio::test]
async fn unloading_tools_leaves_no_trace() {
    let Rig {
        registry,
        registration,
        toolbox,
    } = mode_rig(Mode::Code);
    let before = toolbox.present().unwrap();
    assert!(before.sdk.unwrap().text.contains("alpha"));
    drop(registration);
    let after = toolbox.present().unwrap();
    assert!(!after.sdk.unwrap().text.contains("alpha"));
    assert_eq!(registry.tools().len(), 0);
    assert_eq!(
        toolbox.execute(call("alpha", "{}")).await.error,
        Some(ErrorCode::UnknownTool)
    );
}
