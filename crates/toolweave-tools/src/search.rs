//! Finds tools by what somebody remembers of them.
//!
//! BM25 over the words of names, parameters and descriptions, with English stems, a few synonyms of what tools do, and
//! tolerance for typing errors. Writing systems without spaces are indexed by pairs of characters.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rust_stemmers::{Algorithm, Stemmer};
use serde_json::Value;
use unicode_segmentation::UnicodeSegmentation as _;

use crate::registry::{Entry, Snapshot};
use crate::text::words;

#[cfg(test)]
mod recall;

/// Weight of a word by where it stands.
const NAME: f64 = 4.0;
const TITLE: f64 = 2.0;
const PARAMETER: f64 = 1.5;
const DESCRIPTION: f64 = 1.0;
/// Weight of a word that only nearly matches.
const SYNONYM: f64 = 0.5;
const PREFIX: f64 = 0.7;
const TYPO: f64 = 0.6;
/// The usual constants of BM25.
const K: f64 = 1.2;
const B: f64 = 0.6;
/// Words of a description, parameters of a tool, words of a query that are looked at.
const MAX_DESCRIPTION_WORDS: usize = 400;
const MAX_PARAMETERS: usize = 200;
const MAX_QUERY_WORDS: usize = 32;
const MAX_QUERY_BYTES: usize = 2_000;
/// Longer words are not compared for typing errors.
const MAX_TYPO_CHARS: usize = 40;

/// Words that say nothing about a tool.
const STOP_WORDS: &[&str] = &[
    "a", "an", "and", "any", "are", "as", "at", "be", "by", "can", "for", "from", "how", "i", "if", "in",
    "into", "is", "it", "its", "me", "my", "of", "on", "or", "that", "the", "this", "to", "tool", "use",
    "using", "want", "with", "you", "your",
];

/// What tools do, by its several names.
const SYNONYMS: &[&[&str]] = &[
    &["get", "fetch", "read", "retrieve", "show", "view", "load"],
    &["list", "enumerate", "browse", "all"],
    &["search", "find", "query", "lookup", "grep"],
    &["create", "add", "new", "make", "insert"],
    &["update", "edit", "modify", "change", "set", "patch"],
    &["delete", "remove", "drop", "erase", "destroy"],
    &["send", "post", "publish", "submit"],
    &["run", "execute", "invoke", "start"],
    &["issue", "ticket", "bug"],
    &["document", "doc", "page", "file"],
    &["folder", "directory"],
    &["message", "mail", "email"],
    &["picture", "image", "photo"],
    &["repository", "repo"],
];

/// An index over one set of tools.
pub(crate) struct Index {
    entries: Vec<Arc<Entry>>,
    /// Letters and digits of each name.
    flat_names: Vec<String>,
    /// Weighted length of each tool's text.
    lengths: Vec<f64>,
    mean_length: f64,
    /// Which tools have a word, and with what weight.
    postings: BTreeMap<String, Vec<(usize, f64)>>,
    synonyms: HashMap<String, Vec<String>>,
    stemmer: Stemmer,
}

impl Index {
    pub(crate) fn new(snapshot: &Snapshot) -> Self {
        let stemmer = Stemmer::create(Algorithm::English);
        let entries = snapshot.entries.clone();
        let mut postings: BTreeMap<String, Vec<(usize, f64)>> = BTreeMap::new();
        let mut lengths = Vec::with_capacity(entries.len());
        for (number, entry) in entries.iter().enumerate() {
            let mut weights: BTreeMap<String, f64> = BTreeMap::new();
            let mut length = 0.0;
            for (term, weight) in terms_of(entry, &stemmer) {
                length += weight;
                *weights.entry(term).or_default() += weight;
            }
            for (term, weight) in weights {
                postings.entry(term).or_default().push((number, weight));
            }
            lengths.push(length);
        }
        let mean_length = lengths.iter().sum::<f64>() / (lengths.len().max(1) as f64);
        let mut synonyms: HashMap<String, Vec<String>> = HashMap::new();
        for group in SYNONYMS {
            let stems: Vec<_> = group.iter().map(|word| stemmer.stem(word).into_owned()).collect();
            for stem in &stems {
                let others = stems.iter().filter(|other| *other != stem).cloned();
                synonyms.entry(stem.clone()).or_default().extend(others);
            }
        }
        let flat_names = entries.iter().map(|entry| words(&entry.name).concat()).collect();
        Self {
            entries,
            flat_names,
            lengths,
            mean_length: mean_length.max(1.0),
            postings,
            synonyms,
            stemmer,
        }
    }

    /// Returns the tools that fit, best first.
    pub(crate) fn search(&self, query: &str, limit: usize) -> Vec<Arc<Entry>> {
        let query = &query[..query.floor_char_boundary(MAX_QUERY_BYTES.min(query.len()))];
        let mut terms = terms(query, &self.stemmer);
        terms.truncate(MAX_QUERY_WORDS);
        let mut scores = vec![0.0_f64; self.entries.len()];
        for term in &terms {
            // A tool counts once for each word of the query, by the best of the forms that it has.
            let mut best: BTreeMap<usize, f64> = BTreeMap::new();
            for (form, weight) in self.forms(term) {
                let Some(postings) = self.postings.get(form) else {
                    continue;
                };
                let rarity = self.rarity(postings.len());
                for &(number, frequency) in postings {
                    let length = self.lengths.get(number).copied().unwrap_or(0.0) / self.mean_length;
                    let score =
                        weight * rarity * frequency * (K + 1.0) / (frequency + K * (1.0 - B + B * length));
                    let known = best.entry(number).or_default();
                    *known = known.max(score);
                }
            }
            for (number, score) in best {
                scores[number] += score;
            }
        }
        let wanted = words(query).concat();
        let mut hits: Vec<(f64, usize)> = scores
            .into_iter()
            .enumerate()
            .filter_map(|(number, score)| {
                let flat = &self.flat_names[number];
                // Somebody who knows the name, or its end, means that tool.
                let bonus = if wanted.is_empty() {
                    0.0
                } else if *flat == wanted {
                    1_000.0
                } else if wanted.chars().count() >= 4 && flat.contains(&wanted) {
                    2.0
                } else {
                    0.0
                };
                let score = score + bonus;
                (score > 0.0).then_some((score, number))
            })
            .collect();
        hits.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        hits.truncate(limit);
        hits.into_iter()
            .map(|(_, number)| Arc::clone(&self.entries[number]))
            .collect()
    }

    /// Returns the indexed words that a word of a query may stand for.
    fn forms<'i>(&'i self, term: &'i str) -> Vec<(&'i str, f64)> {
        let mut forms = Vec::new();
        let known = self.postings.contains_key(term);
        if known {
            forms.push((term, 1.0));
        }
        for synonym in self.synonyms.get(term).into_iter().flatten() {
            forms.push((synonym, SYNONYM));
        }
        let chars = term.chars().count();
        if chars >= 3 {
            let longer = self
                .postings
                .range::<str, _>((std::ops::Bound::Excluded(term), std::ops::Bound::Unbounded));
            forms.extend(
                longer
                    .take_while(|(word, _)| word.starts_with(term))
                    .map(|(word, _)| (word.as_str(), PREFIX)),
            );
        }
        if !known && (4..=MAX_TYPO_CHARS).contains(&chars) {
            let allowed = if chars >= 8 { 2 } else { 1 };
            for word in self.postings.keys() {
                let close = word.chars().count().abs_diff(chars) <= allowed
                    && strsim::damerau_levenshtein(word, term) <= allowed;
                if close {
                    forms.push((word, TYPO));
                }
            }
        }
        forms
    }

    fn rarity(&self, holders: usize) -> f64 {
        let (all, holders) = (self.entries.len() as f64, holders as f64);
        (1.0 + (all - holders + 0.5) / (holders + 0.5)).ln()
    }
}

fn terms_of(entry: &Entry, stemmer: &Stemmer) -> Vec<(String, f64)> {
    let spec = entry.spec();
    let mut weighted = Vec::new();
    let mut add = |text: &str, weight: f64, most: usize| {
        weighted.extend(
            terms(text, stemmer)
                .into_iter()
                .take(most)
                .map(|term| (term, weight)),
        );
    };
    add(&spec.name, NAME, MAX_DESCRIPTION_WORDS);
    add(
        spec.title.as_deref().unwrap_or_default(),
        TITLE,
        MAX_DESCRIPTION_WORDS,
    );
    add(&spec.description, DESCRIPTION, MAX_DESCRIPTION_WORDS);
    if let Some(properties) = spec.input_schema.get("properties").and_then(Value::as_object) {
        for (name, schema) in properties.iter().take(MAX_PARAMETERS) {
            add(name, PARAMETER, MAX_QUERY_WORDS);
            let description = schema
                .get("description")
                .and_then(Value::as_str)
                .unwrap_or_default();
            add(description, DESCRIPTION / 2.0, MAX_QUERY_WORDS);
        }
    }
    weighted
}

/// Returns the words of a text as they are indexed.
fn terms(text: &str, stemmer: &Stemmer) -> Vec<String> {
    let mut terms = Vec::new();
    let mut run = String::new();
    for word in text.unicode_words() {
        if word.chars().all(is_unspaced) {
            run.push_str(word);
            continue;
        }
        pairs(&mut run, &mut terms);
        for part in words(word) {
            if STOP_WORDS.contains(&part.as_str()) {
                continue;
            }
            terms.push(stemmer.stem(&part).into_owned());
        }
    }
    pairs(&mut run, &mut terms);
    terms
}

/// Whether a character belongs to a script that writes no spaces between words.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

fn pairs(run: &mut String, terms: &mut Vec<String>) {
    let chars: Vec<char> = run.chars().collect();
    match chars.as_slice() {
        [] => {}
        [one] => terms.push(one.to_string()),
        many => terms.extend(many.windows(2).map(|pair| pair.iter().collect::<String>())),
    }
    run.clear();
}
