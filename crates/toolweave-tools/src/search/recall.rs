//! How well tools of real servers are found by words of their own descriptions. Prints its figures.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Index, STOP_WORDS};
use crate::text::words;
use crate::{CallContext, Effect, Provider, Registry, Tool, ToolError, ToolOutput, ToolSpec};

/// How deep the list of hits is looked at.
const DEEPEST: usize = 10;
/// A sentence with fewer words that mean something describes nothing.
const FEWEST_WORDS: usize = 3;
/// The longest query in characters.
const LONGEST: usize = 200;

struct Declared(ToolSpec);

#[async_trait]
impl Tool for Declared {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, _: &CallContext, _: Value) -> Result<ToolOutput, ToolError> {
        Err(ToolError::failed("known by its declaration alone"))
    }
}

/// One tool with the sentence that it is looked for by.
struct Case {
    name: String,
    sentence: String,
}

#[derive(Default)]
struct Figures {
    queries: usize,
    /// Hits at the first place, among the first five, among the first ten.
    found: [usize; 3],
    reciprocal: f64,
    time: Duration,
}

impl Figures {
    fn recall(&self, at: usize) -> f64 {
        self.found[at] as f64 / self.queries.max(1) as f64
    }
}

/// Reads all servers, and returns their tools with the sentences of those that have a usable one.
type Corpus = (Vec<Arc<dyn Tool>>, Vec<Case>);

fn corpus() -> Option<Corpus> {
    let folder = toolweave_testkit::shared_dir(env!("CARGO_MANIFEST_DIR"))?.join("corpus/mcp-tools");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    let (mut tools, mut cases): (Vec<Arc<dyn Tool>>, Vec<_>) = (Vec::new(), Vec::new());
    for file in files {
        let server: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let server_name = server["server"].as_str().unwrap();
        for tool in server["tools"].as_array().unwrap() {
            let name = format!("mcp__{server_name}__{}", tool["name"].as_str().unwrap());
            let description = tool["description"].as_str().unwrap_or_default();
            if let Some(sentence) = first_sentence(description) {
                cases.push(Case {
                    name: name.clone(),
                    sentence,
                });
            }
            tools.push(Arc::new(Declared(ToolSpec {
                name,
                title: tool["title"].as_str().map(str::to_owned),
                description: description.to_owned(),
                input_schema: tool.get("inputSchema").cloned().unwrap_or_else(|| json!({})),
                output_schema: None,
                effect: Effect::Unknown,
                provider: Provider {
                    name: server_name.into(),
                    version: None,
                },
            })));
        }
    }
    Some((tools, cases))
}

fn first_sentence(description: &str) -> Option<String> {
    let text = description.trim_start();
    let line = text.lines().next()?;
    let end = line.find(". ").unwrap_or(line.len());
    let sentence: String = line[..end].trim_end_matches('.').chars().take(LONGEST).collect();
    (meaningful(&sentence).len() >= FEWEST_WORDS).then_some(sentence)
}

fn meaningful(sentence: &str) -> Vec<&str> {
    sentence
        .split_whitespace()
        .filter(|word| {
            let word = word.to_lowercase();
            let word = word.trim_matches(|c: char| !c.is_alphanumeric());
            !word.is_empty() && !STOP_WORDS.contains(&word)
        })
        .collect()
}

/// The sentence without the words of the tool's own name: nobody who knows the name has to search.
fn without_name(case: &Case) -> String {
    let own = words(&case.name);
    let stem = |word: &str| word.chars().take(5).collect::<String>();
    let own: Vec<_> = own.iter().map(|word| stem(word)).collect();
    let kept = case.sentence.split_whitespace().filter(|word| {
        let parts = words(word);
        !parts.iter().any(|part| own.contains(&stem(part)))
    });
    kept.collect::<Vec<_>>().join(" ")
}

/// The sentence as somebody else would say it: no small words, other endings, the end before the beginning.
fn paraphrased(case: &Case) -> String {
    let mut said: Vec<_> = meaningful(&case.sentence).into_iter().map(other_ending).collect();
    let half = said.len() / 2;
    said.rotate_left(half);
    said.join(" ")
}

fn other_ending(word: &str) -> String {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric());
    let plain = word.len() >= 5 && word.bytes().all(|b| b.is_ascii_lowercase());
    match word {
        _ if !plain => word.to_owned(),
        _ if word.ends_with("ies") => format!("{}y", &word[..word.len() - 3]),
        _ if word.ends_with("ing") && word.len() >= 7 => word[..word.len() - 3].to_owned(),
        _ if word.ends_with('s') && !word.ends_with("ss") => word[..word.len() - 1].to_owned(),
        _ if word.ends_with('e') => format!("{}ing", &word[..word.len() - 1]),
        _ => format!("{word}s"),
    }
}

/// The sentence with an error in every second word that is long enough for one.
fn mistyped(case: &Case) -> String {
    let mut count = 0;
    let typed = case.sentence.split_whitespace().map(|word| {
        let mut chars: Vec<char> = word.chars().collect();
        if chars.len() < 5 || !chars.iter().all(|c| c.is_ascii_alphabetic()) {
            return word.to_owned();
        }
        count += 1;
        let at = 1 + count % (chars.len() - 2);
        match count % 4 {
            0 => chars.swap(at, at + 1),
            2 => {
                chars.remove(at);
            }
            _ => {}
        }
        chars.into_iter().collect()
    });
    typed.collect::<Vec<_>>().join(" ")
}

fn measure(index: &Index, cases: &[Case], every: usize, query: impl Fn(&Case) -> String) -> Figures {
    // Tools that describe themselves in the same words cannot be told apart by them.
    let mut same: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for case in cases {
        same.entry(&case.sentence).or_default().push(&case.name);
    }
    let mut figures = Figures::default();
    for case in cases.iter().step_by(every) {
        let query = query(case);
        if meaningful(&query).len() < FEWEST_WORDS {
            continue;
        }
        let since = Instant::now();
        let hits = index.search(&query, DEEPEST);
        figures.time += since.elapsed();
        figures.queries += 1;
        let place = hits
            .iter()
            .position(|hit| same[case.sentence.as_str()].contains(&&*hit.name));
        let Some(place) = place else { continue };
        figures.reciprocal += 1.0 / (place + 1) as f64;
        for (found, within) in figures.found.iter_mut().zip([1, 5, DEEPEST]) {
            *found += usize::from(place < within);
        }
    }
    figures
}

#[test]
fn tools_of_real_servers_are_found() {
    let Some((tools, cases)) = corpus() else {
        return;
    };
    let registry = Registry::new();
    let _kept = registry.register(tools).unwrap();
    let snapshot = registry.snapshot();
    let since = Instant::now();
    let index = Index::new(&snapshot);
    eprintln!(
        "{} tools indexed in {:?}",
        snapshot.entries.len(),
        since.elapsed()
    );
    // Floors are well below what was measured, so that they catch a broken ranking and not a changed one.
    type Query = fn(&Case) -> String;
    let kinds: [(&str, usize, Query, f64); 4] = [
        ("first sentence", 1, |case| case.sentence.clone(), 0.9),
        ("without the words of the name", 2, without_name, 0.75),
        ("other endings, no small words", 2, paraphrased, 0.9),
        ("typing errors", 8, mistyped, 0.85),
    ];
    for (kind, every, query, floor) in kinds {
        let figures = measure(&index, &cases, every, query);
        eprintln!(
            "{kind}: {} queries, recall@1 {:.3}, @5 {:.3}, @10 {:.3}, MRR {:.3}, {:?} a query",
            figures.queries,
            figures.recall(0),
            figures.recall(1),
            figures.recall(2),
            figures.reciprocal / figures.queries.max(1) as f64,
            figures.time / u32::try_from(figures.queries.max(1)).unwrap(),
        );
        assert!(figures.recall(1) >= floor, "{kind}: {}", figures.recall(1));
    }
}
