//! What the program will surely or probably do wrong, said before it runs.

use std::collections::HashMap;

use crate::error::ErrorKind;
use crate::form::{Ending, Plan, Refusal};
use crate::literal::Literal;
use crate::position::Lines;
use crate::walk::{RawCall, Usage, Use, Walk};

/// Findings that one program gets at most.
const MAX_FINDINGS: usize = 50;

/// What kind of slip a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// The promise of a call is not waited for, or is used as if it were the value.
    Unawaited,
    /// The program gives nothing back.
    NoResult,
    /// A function is defined and never called.
    UncalledFunction,
    /// A module is imported where the program may get to.
    DynamicImport,
}

/// A slip that does not stop the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of slip it is.
    pub kind: FindingKind,
    /// In the model's own text, from 1.
    pub line: u32,
    /// In UTF-16 units, from 1.
    pub column: u32,
    /// What is wrong and how to put it right.
    pub message: String,
}

/// What the program does with the promise of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Awaited {
    /// Waits for it on the spot.
    Awaited,
    /// Returns it.
    Returned,
    /// Keeps it, chains it or passes it on.
    Later,
    /// Drops it.
    Discarded,
}

/// A call of a tool as the text shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct StaticCall {
    /// `tools` or `sdk`, also where the call goes through another name.
    pub root: String,
    /// The names after it: `["read_doc"]`, or more for `tools.github.search`.
    pub path: Vec<String>,
    /// In the model's own text, from 1.
    pub line: u32,
    /// In UTF-16 units, from 1.
    pub column: u32,
    /// Whether the program makes this call whenever it gets that far: at the top level or in the function that
    /// is run, behind no condition, loop, `try` or earlier `return`, and not through `?.`.
    pub certain: bool,
    /// What becomes of the promise.
    pub awaited: Awaited,
    /// The first argument, as far as the text shows it.
    pub argument: Option<Literal>,
    /// How many arguments there are; nothing with a spread.
    pub argument_count: Option<usize>,
}

impl StaticCall {
    /// Says whether a failure of this call fails the program, so that a call that must fail need not be made.
    pub fn fails_the_run(&self) -> bool {
        self.certain && matches!(self.awaited, Awaited::Awaited | Awaited::Returned)
    }
}

/// Returns what makes it pointless to start the program, if anything does.
pub(crate) fn refuse(walk: &Walk, plan_entry: Option<usize>) -> Option<Refusal> {
    if let Some((at, name)) = walk.decorators.first() {
        return Some(Refusal {
            kind: ErrorKind::Decorator,
            at: *at,
            message: format!(
                "decorators are not supported; remove `@{name}` and call the function around the method instead"
            ),
        });
    }
    if let Some(at) = walk.import_meta {
        return Some(Refusal {
            kind: ErrorKind::HostApi,
            at,
            message: "`import.meta` is not available: the program is not a module and has no file".to_owned(),
        });
    }
    let certain = walk
        .imports
        .iter()
        .find(|(.., owner, reached)| *reached && (owner.is_none() || *owner == plan_entry));
    certain.map(|(at, module, ..)| Refusal {
        kind: ErrorKind::Import,
        at: *at,
        message: import_message(module.as_deref()),
    })
}

fn import_message(module: Option<&str>) -> String {
    let what = match module {
        Some(module) => format!("`import(\"{}\")`", module.chars().take(200).collect::<String>()),
        None => "`import()`".to_owned(),
    };
    format!(
        "{what} cannot work: modules are not available; everything outside of the language is reached through \
         `tools`: `await tools.NAME({{ ... }})`"
    )
}

/// The findings and the calls of a program.
pub(crate) fn check(text: &str, lines: &Lines, walk: Walk, plan: &Plan) -> (Vec<Finding>, Vec<StaticCall>) {
    let mut findings: Vec<(usize, FindingKind, String)> = Vec::new();
    let roots_shadowed = |call: &RawCall| match walk.bindings.get(&call.root) {
        None => false,
        // `async (tools) => …` gets the tools under their own name.
        Some(binding) => {
            let of_entry = plan
                .entry
                .is_some_and(|entry| walk.root_parameters.contains(&(entry, binding.at)));
            binding.count > 1 || !of_entry
        }
    };
    let mut calls: Vec<&RawCall> = walk
        .calls
        .iter()
        .filter(|call| !roots_shadowed(call) && call.via.iter().all(|name| walk.bound_once(name)))
        .collect();
    calls.sort_by_key(|call| call.at);
    let stored = StoredUses::of(&walk, &calls);
    let in_main = |owner: Option<usize>| owner.is_none() || owner == plan.entry;
    for call in &calls {
        let shown = shown(call);
        let fix = |instead: &str| match call.in_async {
            true => format!("write `{instead}`"),
            false => format!("write `{instead}` and make the function around it `async`"),
        };
        let message = match &call.usage {
            Usage::Discarded => format!(
                "the promise of `{shown}` is dropped: the program may end before the call does, and its error is \
                 lost; {}",
                fix(&format!("await {shown}"))
            ),
            Usage::Property(name) => format!(
                "`.{name}` is read from the promise of `{shown}` and is undefined; {}",
                fix(&format!("(await {shown}).{name}"))
            ),
            Usage::Destructured => {
                format!(
                    "the promise of `{shown}` is taken apart instead of its value; {}",
                    fix(&format!("await {shown}"))
                )
            }
            Usage::Operand(how) => {
                format!(
                    "the promise of `{shown}` is {how} instead of its value; {}",
                    fix(&format!("await {shown}"))
                )
            }
            Usage::InArgument => {
                format!(
                    "the promise of `{shown}` is passed to a tool instead of its value; {}",
                    fix(&format!("await {shown}"))
                )
            }
            Usage::InResult if in_main(call.owner) => {
                format!(
                    "the promise of `{shown}` is part of the result instead of its value; {}",
                    fix(&format!("await {shown}"))
                )
            }
            Usage::Stored(name) => match stored.get(name) {
                Some(uses) if uses.properties == uses.all => format!(
                    "`{name}` is the promise of `{shown}` and is never awaited{}; {}",
                    if uses.all == 0 {
                        ""
                    } else {
                        ", so that its properties are undefined"
                    },
                    fix(&format!("const {name} = await {shown}"))
                ),
                _ => continue,
            },
            Usage::Value | Usage::Awaited | Usage::Returned | Usage::Voided | Usage::InResult => continue,
        };
        findings.push((call.at, FindingKind::Unawaited, message));
    }
    other_findings(&walk, plan, &mut findings);
    findings.sort_by_key(|(at, ..)| *at);
    findings.truncate(MAX_FINDINGS);
    let findings = findings
        .into_iter()
        .map(|(at, kind, message)| {
            let (line, column) = lines.position(text, at);
            Finding {
                kind,
                line,
                column,
                message,
            }
        })
        .collect();
    let calls = calls
        .into_iter()
        .map(|call| static_call(text, lines, call, in_main(call.owner)))
        .collect();
    (findings, calls)
}

fn static_call(text: &str, lines: &Lines, call: &RawCall, in_main: bool) -> StaticCall {
    let (line, column) = lines.position(text, call.at);
    StaticCall {
        root: call.root.clone(),
        path: call.path.clone(),
        line,
        column,
        certain: in_main && call.reached && !call.optional,
        awaited: match call.usage {
            Usage::Awaited => Awaited::Awaited,
            Usage::Returned => Awaited::Returned,
            Usage::Discarded | Usage::Voided => Awaited::Discarded,
            _ => Awaited::Later,
        },
        argument: call.argument.clone(),
        argument_count: call.argument_count,
    }
}

fn other_findings(walk: &Walk, plan: &Plan, findings: &mut Vec<(usize, FindingKind, String)>) {
    for dropped in &walk.discarded {
        let message = match &dropped.name {
            None => {
                "the promise of this async function is dropped: the program may end before it does; write \
                     `await` before it"
                    .to_owned()
            }
            Some(name) if plan.async_functions.contains(name) && walk.bound_once(name) => format!(
                "the promise of `{name}(...)` is dropped: the program may end before it does, and its error is lost; \
                 write `await {name}(...)`"
            ),
            Some(_) => continue,
        };
        findings.push((dropped.at, FindingKind::Unawaited, message));
    }
    for &at in &walk.for_each {
        let message = "`forEach` does not wait for an async callback; use `for (const x of list) { await ... }` or \
                       `await Promise.all(list.map(async (x) => ...))`";
        findings.push((at, FindingKind::Unawaited, message.to_owned()));
    }
    for (at, module, owner, reached) in &walk.imports {
        if !(*reached && (owner.is_none() || *owner == plan.entry)) {
            findings.push((*at, FindingKind::DynamicImport, import_message(module.as_deref())));
        }
    }
    for (at, name) in &plan.uncalled {
        let notable = matches!(name.as_str(), "main" | "run") || plan.async_functions.contains(name);
        if notable {
            let message = format!("`{name}` is defined and never called; call it: `await {name}()`");
            findings.push((*at, FindingKind::UncalledFunction, message));
        }
    }
    if let Some(ending) = &plan.no_result {
        let message = match &ending.what {
            Ending::Declaration(name) => format!(
                "the program ends with the declaration of `{name}` and returns nothing; add `return {name}`"
            ),
            Ending::Block => {
                "the program returns nothing: `{ ... }` at the start of a statement is a block and not an \
                              object; write `return { ... }`"
                    .to_owned()
            }
            Ending::Other => {
                "the program prints nothing and returns nothing; end it with `return` and the value to \
                              report"
                    .to_owned()
            }
        };
        findings.push((ending.at, FindingKind::NoResult, message));
    }
}

#[derive(Clone, Copy, Default)]
struct Counts {
    all: u32,
    properties: u32,
}

/// How the names that keep a promise are used.
struct StoredUses<'a>(HashMap<&'a str, Counts>);

impl<'a> StoredUses<'a> {
    fn of(walk: &'a Walk, calls: &[&'a RawCall]) -> Self {
        let mut counts: HashMap<&str, Counts> = HashMap::new();
        for call in calls {
            if let Usage::Stored(name) = &call.usage
                && walk.bound_once(name)
            {
                counts.insert(name, Counts::default());
            }
        }
        if !counts.is_empty() {
            for (name, _, how) in &walk.uses {
                if let Some(count) = counts.get_mut(name.as_str()) {
                    count.all += 1;
                    count.properties += u32::from(*how == Use::Property);
                }
            }
        }
        Self(counts)
    }

    fn get(&self, name: &str) -> Option<Counts> {
        self.0.get(name).copied()
    }
}

fn shown(call: &RawCall) -> String {
    let mut out = call.via.last().cloned().unwrap_or_else(|| call.root.clone());
    let skip = if call.via.is_empty() { 0 } else { call.path.len() };
    for name in call.path.iter().skip(skip) {
        let plain = name
            .chars()
            .enumerate()
            .all(|(at, c)| c == '_' || c == '$' || c.is_alphabetic() || (at > 0 && c.is_alphanumeric()));
        if plain && !name.is_empty() {
            out.push('.');
            out.push_str(name);
        } else {
            out.push_str(&format!("[{name:?}]"));
        }
    }
    out.push_str("(...)");
    out
}
