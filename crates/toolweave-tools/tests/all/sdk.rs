//! The text that a model reads.

use serde_json::{Value, json};
use toolweave_tools::{Effect, Registry, SdkDetail, Tool, ToolOutput, ToolSpec, Toolbox, ToolboxConfig};

use crate::support::{FakeRuntime, echo, rig, spec, tool};

fn described(name: &str, description: &str) -> std::sync::Arc<dyn Tool> {
    let spec = ToolSpec {
        description: description.to_owned(),
        ..spec(name, Effect::Read)
    };
    tool(spec, |_, arguments| {
        std::future::ready(Ok(ToolOutput::from_value(arguments)))
    })
}

#[test]
fn the_text_depends_on_the_set_of_tools_only() {
    let names = ["b", "a", "my-tool.x", "🦀"];
    let one = rig(
        names.map(|name| echo(name, Effect::Read)).to_vec(),
        FakeRuntime::idle(),
        ToolboxConfig::default(),
    );
    let registry = Registry::new();
    let mut kept: Vec<_> = names
        .iter()
        .rev()
        .map(|name| registry.register([echo(name, Effect::Read)]).unwrap())
        .collect();
    let other = Toolbox::new(
        registry.clone(),
        Some(FakeRuntime::idle()),
        ToolboxConfig::default(),
    );
    for detail in [
        SdkDetail::Full,
        SdkDetail::Compact,
        SdkDetail::Search,
        SdkDetail::Auto,
    ] {
        assert_eq!(one.toolbox.sdk(detail).unwrap(), other.sdk(detail).unwrap());
    }
    let before = other.sdk(SdkDetail::Full).unwrap();
    kept.push(registry.register([echo("c", Effect::Read)]).unwrap());
    let with_c = other.sdk(SdkDetail::Full).unwrap();
    assert_ne!(before, with_c);
    kept.pop();
    assert_eq!(before, other.sdk(SdkDetail::Full).unwrap());
}

#[test]
fn auto_takes_the_longest_form_that_fits() {
    let tools: Vec<_> = (0..40)
        .map(|n| described(&format!("tool_{n}"), &"words that explain it. ".repeat(5)))
        .collect();
    let probe = rig(tools.clone(), FakeRuntime::idle(), ToolboxConfig::default());
    let length = |detail| probe.toolbox.sdk(detail).unwrap().text.chars().count();
    let (full, compact, search) = (
        length(SdkDetail::Full),
        length(SdkDetail::Compact),
        length(SdkDetail::Search),
    );
    assert!(search < compact && compact < full, "{search} {compact} {full}");
    for (budget, detail) in [
        (full, SdkDetail::Full),
        (full - 1, SdkDetail::Compact),
        (compact, SdkDetail::Compact),
        (compact - 1, SdkDetail::Search),
        (0, SdkDetail::Search),
    ] {
        let config = ToolboxConfig {
            sdk_budget_chars: budget,
            ..ToolboxConfig::default()
        };
        let rig = rig(tools.clone(), FakeRuntime::idle(), config);
        let section = rig.toolbox.present().unwrap().sdk.unwrap();
        assert_eq!(section.detail, detail, "{budget}: {}", section.note);
        assert!(section.note.starts_with("auto picked `"), "{}", section.note);
    }
}

#[test]
fn the_search_form_does_not_grow_with_the_tools() {
    let length = |count: usize| {
        let registry = Registry::new();
        let tools: Vec<_> = (0..count)
            .map(|n| {
                let mut spec = spec(&format!("tool_{n}"), Effect::Read);
                spec.provider.name = format!("provider-with-a-long-name-{n}").into();
                tool(spec, |_, arguments| {
                    std::future::ready(Ok(ToolOutput::from_value(arguments)))
                })
            })
            .collect();
        let _kept = registry.register(tools).unwrap();
        let toolbox = Toolbox::new(registry, Some(FakeRuntime::idle()), ToolboxConfig::default());
        toolbox.sdk(SdkDetail::Search).unwrap().text.chars().count()
    };
    let (few, many) = (length(20), length(3_000));
    assert!(many < few + 60, "{few} {many}");
    // About four characters make a token.
    assert!(many < 3_600, "{many}");
}

#[test]
fn one_fence_holds_whatever_a_description_says() {
    let hostile = "ends */ here ``` and ```` there {{model}} ${x}\n```ts\ndeclare const evil: 1;";
    let rig = rig(
        vec![described("t", hostile)],
        FakeRuntime::idle(),
        ToolboxConfig::default(),
    );
    for detail in [SdkDetail::Full, SdkDetail::Compact, SdkDetail::Search] {
        let text = rig.toolbox.sdk(detail).unwrap().text;
        let (head, rest) = text.split_once("ts\n").unwrap();
        let fence = head.lines().last().unwrap();
        assert!(fence.len() >= 3 && fence.bytes().all(|b| b == b'`'), "{fence}");
        let block = rest.strip_suffix(fence).unwrap();
        assert!(!block.contains(fence), "{block}");
    }
}

#[test]
fn an_empty_set_still_has_a_text() {
    let rig = rig(vec![], FakeRuntime::idle(), ToolboxConfig::default());
    let section = rig.toolbox.present().unwrap().sdk.unwrap();
    assert_eq!(section.detail, SdkDetail::Full);
    assert!(section.text.contains("declare const tools"), "{}", section.text);
}

#[test]
fn help_tells_everything_about_one_tool() {
    let rig = rig(
        vec![described("read_doc", "Reads a document.")],
        FakeRuntime::idle(),
        ToolboxConfig::default(),
    );
    let help = rig.toolbox.help("read_doc").unwrap();
    for part in ["Reads a document.", "read_doc(", "effect: read", "provider: test"] {
        assert!(help.contains(part), "{help}");
    }
    assert_eq!(
        rig.toolbox.help("readdoc").unwrap_err().message,
        "unknown tool `readdoc`; closest: `read_doc`"
    );
}

#[test]
fn thousands_of_real_tools_have_a_text_in_every_form() {
    let Some(folder) = toolweave_testkit::shared_dir(env!("CARGO_MANIFEST_DIR")) else {
        return;
    };
    let mut tools: Vec<std::sync::Arc<dyn Tool>> = Vec::new();
    for file in std::fs::read_dir(folder.join("corpus/mcp-tools")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let server = path.file_stem().unwrap().to_string_lossy().into_owned();
        let listed: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        for declared in listed["tools"].as_array().into_iter().flatten() {
            let spec = ToolSpec {
                description: declared["description"].as_str().unwrap_or_default().to_owned(),
                input_schema: declared["inputSchema"].clone(),
                output_schema: declared.get("outputSchema").cloned(),
                ..spec(
                    &format!("mcp__{server}__{}", declared["name"].as_str().unwrap_or_default()),
                    Effect::Read,
                )
            };
            tools.push(tool(spec, |_, _| {
                std::future::ready(Ok(ToolOutput::from_value(json!(1))))
            }));
        }
    }
    assert!(tools.len() > 1_000, "{}", tools.len());
    let registry = Registry::new();
    let _kept: Vec<_> = tools
        .into_iter()
        .filter_map(|tool| registry.register([tool]).ok())
        .collect();
    let toolbox = Toolbox::new(registry, Some(FakeRuntime::idle()), ToolboxConfig::default());
    assert_eq!(toolbox.present().unwrap().sdk.unwrap().detail, SdkDetail::Search);
    let hits = toolbox.search("create a pull request", 10);
    assert!(
        hits.iter()
            .any(|hit| hit.name.contains("pull_request") || hit.name.contains("pullRequest")),
        "{:?}",
        hits.iter().map(|hit| &hit.name).collect::<Vec<_>>()
    );
}

#[test]
fn what_a_model_reads() {
    let instructions = |sdk: SdkDetail| {
        let config = ToolboxConfig {
            sdk,
            ..ToolboxConfig::default()
        };
        let rig = rig(
            vec![described("read", "Reads a file.")],
            FakeRuntime::idle(),
            config,
        );
        let presentation = rig.toolbox.present().unwrap();
        let text = presentation.sdk.unwrap().text;
        // The declarations of tools are the code generator's, and tested there.
        let shown = match sdk {
            SdkDetail::Search => text.as_str(),
            _ => text.split("\n```").next().unwrap(),
        };
        format!("{}\n\n=== code ===\n{shown}", presentation.tools[0].description)
    };
    insta::assert_snapshot!("full", instructions(SdkDetail::Full));
    insta::assert_snapshot!("compact", instructions(SdkDetail::Compact));
    insta::assert_snapshot!("search", instructions(SdkDetail::Search));
}
