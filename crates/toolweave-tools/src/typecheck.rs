//! The type check of a program before anything runs: what it is held against, and what becomes of the complaints.

use tokio_util::sync::CancellationToken;
use toolweave_codegen::ToolDecl;
use toolweave_runtime::FailureKind;
use toolweave_typecheck::{CheckPrograms, Complaint, Declarations, Policy, Unchecked, Verdict};

use crate::ReportedError;
use crate::program::Ready;
use crate::registry::Snapshot;
use crate::sdk::declaration;

/// Mistakes that one refusal lists, and complaints that are told beside a result.
const LISTED: usize = 10;

/// Returns what programs are checked against while these tools are there.
pub(crate) fn declarations(snapshot: &Snapshot) -> Declarations {
    // What was only observed binds nobody, so no program is refused for it.
    let tools: Vec<ToolDecl<'_>> = snapshot
        .entries
        .iter()
        .map(|entry| declaration(entry, None))
        .collect();
    Declarations::new(toolweave_codegen::checked(&tools))
}

/// Checks a program. Mistakes that the program does not deal with itself refuse it, the rest become warnings.
///
/// # Errors
/// What the run is refused with. Nothing has run.
pub(crate) async fn check(
    checker: &dyn CheckPrograms,
    declarations: &Declarations,
    ready: &mut Ready,
    cancel: &CancellationToken,
) -> Result<(), ReportedError> {
    let outcome = tokio::select! {
        biased;
        // The run itself says that it was cancelled.
        () = cancel.cancelled() => return Ok(()),
        outcome = checker.check(declarations, &ready.prepared.typescript) => outcome,
    };
    match outcome {
        Ok(complaints) if complaints.is_empty() => Ok(()),
        Ok(complaints) => judge(&complaints, ready),
        Err(why) => unchecked(&why, checker.policy(), ready),
    }
}

fn judge(complaints: &[Complaint], ready: &mut Ready) -> Result<(), ReportedError> {
    let handled = ready.prepared.handled();
    let mut mistakes = Vec::new();
    let mut doubts = Vec::new();
    for complaint in complaints {
        let place = ready
            .prepared
            .typescript_position(complaint.line, complaint.column);
        let Some(place) = place else { continue };
        let is_handled = handled
            .iter()
            .any(|span| span.contains(complaint.line, complaint.column));
        let list = match complaint.verdict {
            Verdict::Mistake if !is_handled => &mut mistakes,
            Verdict::Mistake | Verdict::Doubt => &mut doubts,
        };
        list.push((place, complaint));
    }
    mistakes.sort_by_key(|&(place, _)| place);
    doubts.sort_by_key(|&(place, _)| place);
    // What is known without a compiler is said better already.
    doubts.retain(|((line, _), _)| {
        let said = format!("line {line}: ");
        !ready.warnings.iter().any(|warning| warning.starts_with(&said))
    });
    let left_out = doubts.len().saturating_sub(LISTED);
    ready.warnings.extend(doubts.iter().take(LISTED).map(worded));
    if left_out > 0 {
        ready
            .warnings
            .push(format!("the type check has {left_out} more doubts"));
    }
    match mistakes.first() {
        None => Ok(()),
        Some(&((line, column), _)) => Err(refusal(&mistakes, (line, column), ready)),
    }
}

fn worded(&((line, _), complaint): &((u32, u32), &Complaint)) -> String {
    format!("line {line}: {} (TS{})", complaint.message, complaint.code)
}

fn refusal(
    mistakes: &[((u32, u32), &Complaint)],
    (line, column): (u32, u32),
    ready: &Ready,
) -> ReportedError {
    let mut message = match mistakes {
        [(_, one)] => format!("{} (TS{}; line {line}, column {column})", one.message, one.code),
        many => {
            let mut text = format!("the program makes {} mistakes with its tools:", many.len());
            for mistake in many.iter().take(LISTED) {
                text.push('\n');
                text.push_str(&worded(mistake));
            }
            if many.len() > LISTED {
                text.push_str(&format!("\nand {} more", many.len() - LISTED));
            }
            text
        }
    };
    let excerpt = ready.prepared.excerpt(line, column);
    if !excerpt.is_empty() {
        message.push('\n');
        message.push_str(&excerpt);
    }
    message.push_str("\nnothing was run; where a declared type is wrong, write `as any`");
    ReportedError {
        kind: FailureKind::Exception,
        message,
        line: Some(line),
        column: Some(column),
    }
}

fn unchecked(why: &Unchecked, policy: Policy, ready: &mut Ready) -> Result<(), ReportedError> {
    match policy {
        Policy::Required => Err(ReportedError {
            kind: FailureKind::Exception,
            message: format!("{why}; nothing was run, because `typecheck: required` is set"),
            line: None,
            column: None,
        }),
        Policy::Auto => {
            // Without a compiler that can be used all is as if the check were off.
            if !matches!(why, Unchecked::NoCompiler(_)) {
                ready.warnings.push(format!("{why}; the program ran unchecked"));
            }
            Ok(())
        }
    }
}
