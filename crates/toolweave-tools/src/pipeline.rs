//! The one way that every call takes, outer or nested: admit, perform, finish.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolweave_runtime::Json;
use toolweave_runtime::json::{drop_value, with_stack_for};
use toolweave_session::{ApprovalAsked, ApprovalDecided, Decision, Recorder};

use crate::observed::Learned;
use crate::policy::{
    Approval, ApprovalRequest, Approver, CallView, Policy, PostVerdict, Rest, Verdict, denied,
};
use crate::registry::{Entry, OutputCheck};
use crate::schema::violation_message;
use crate::text::clip;
use crate::{CallContext, Concurrency, Content, ErrorCode, ToolError, ToolOutput};

/// How long a cancelled body may go on before it is dropped.
const CANCEL_GRACE: Duration = Duration::from_secs(2);
/// The same after the call's own time ran out.
const TIMEOUT_GRACE: Duration = Duration::from_millis(250);
/// Characters of a rejected value that are shown, so that the data is not lost to the program's author.
const SHOWN_OUTPUT: usize = 300;
/// Depth up to which a value is cloned and dropped on the caller's stack.
const SHALLOW: u32 = 64;

/// What all calls of a toolbox share.
pub(crate) struct Env {
    pub(crate) policies: Vec<Arc<dyn Policy>>,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    pub(crate) recorder: Recorder,
    pub(crate) recording: bool,
    pub(crate) call_timeout: Duration,
    pub(crate) max_json_depth: u32,
    /// Where shapes of results go, where somebody wants them.
    pub(crate) learned: Option<Arc<Learned>>,
}

impl Env {
    pub(crate) fn any_post_execute(&self) -> bool {
        self.policies.iter().any(|policy| policy.has_post_execute())
    }
}

/// A successful call.
pub(crate) struct Done {
    pub(crate) output: ToolOutput,
    /// The value as it crosses.
    pub(crate) json: Json,
    /// Why the value passed although it should not have.
    pub(crate) warning: Option<String>,
}

impl Drop for Done {
    fn drop(&mut self) {
        if self.json.depth() >= SHALLOW {
            drop_value(std::mem::take(&mut self.output.value));
        }
    }
}

/// Asks everybody who may object: pre-execute, approval, guards.
pub(crate) async fn admit(
    env: &Env,
    call: CallView<'_>,
    cancel: &CancellationToken,
) -> Result<(), ToolError> {
    if env.policies.is_empty() {
        return Ok(());
    }
    let mut question = None;
    for policy in &env.policies {
        let verdict = AssertUnwindSafe(policy.pre_execute(call)).catch_unwind().await;
        match verdict {
            Ok(Ok(Verdict::Allow)) => {}
            Ok(Ok(Verdict::Deny(reason))) => return Err(denied(reason)),
            Ok(Ok(Verdict::Ask(reason))) => question = question.or(Some(reason)),
            Ok(Err(failure)) => {
                return Err(denied(format!(
                    "the policy for `{}` failed: {failure}",
                    call.name
                )));
            }
            Err(_) => return Err(denied(format!("the policy for `{}` crashed", call.name))),
        }
    }
    if let Some(reason) = question {
        approve(env, call, reason, cancel).await?;
    }
    for policy in &env.policies {
        match catch_unwind(AssertUnwindSafe(|| policy.guard(call))) {
            Ok(None) => {}
            Ok(Some(reason)) => return Err(denied(reason)),
            Err(_) => return Err(denied(format!("a guard of `{}` crashed", call.name))),
        }
    }
    Ok(())
}

async fn approve(
    env: &Env,
    call: CallView<'_>,
    reason: String,
    cancel: &CancellationToken,
) -> Result<(), ToolError> {
    let Some(approver) = &env.approver else {
        return Err(denied(format!(
            "`{}` needs approval, and nothing here can ask for it ({reason})",
            call.name
        )));
    };
    if env.recording {
        env.recorder.append(ApprovalAsked {
            call_id: call.id.to_string(),
            name: call.name.to_owned(),
            arguments: logged(call.arguments),
            reason: Some(reason.clone()),
        });
    }
    let request = ApprovalRequest {
        call_id: Arc::clone(call.id),
        root_id: Arc::clone(call.root_id),
        name: call.name.to_owned(),
        arguments: clone_value(call.arguments),
        reason,
    };
    let answer = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        answer = AssertUnwindSafe(approver.ask(request)).catch_unwind() => Some(answer.unwrap_or(Approval::NoAnswerer)),
    };
    let name = call.name;
    let (decision, by, why, outcome) = match answer {
        Some(Approval::Allowed { by }) => (Decision::Allowed, by, None, Ok(())),
        Some(Approval::Denied { by, reason }) => {
            let error = denied(match &reason {
                Some(reason) => format!("approval of `{name}` was refused: {reason}"),
                None => format!("approval of `{name}` was refused"),
            });
            (Decision::Denied, by, reason, Err(error))
        }
        Some(Approval::NoAnswerer) => {
            let error = denied(format!("`{name}` needs approval, and nobody answered"));
            (Decision::NoAnswerer, None, None, Err(error))
        }
        None => {
            let error = ToolError::new(
                ErrorCode::AbortedBeforeDispatch,
                format!("`{name}` was cancelled while it waited for approval"),
            );
            (Decision::Cancelled, None, None, Err(error))
        }
    };
    if env.recording {
        env.recorder.append(ApprovalDecided {
            call_id: call.id.to_string(),
            decision,
            by,
            reason: why,
        });
    }
    outcome
}

/// Runs the body, within its time, and checks what it gives.
///
/// `over` is a second reason to stop beside the call's own token, for a caller that is going away.
pub(crate) async fn perform(
    env: &Env,
    call: CallView<'_>,
    entry: &Entry,
    context: &CallContext,
    arguments: Value,
    depth: u32,
    over: &CancellationToken,
) -> Result<Done, ToolError> {
    let output = run_body(env, call, entry, context, arguments, depth, over).await?;
    let done = check_output(env, Some(entry), output)?;
    if let Some(learned) = &env.learned {
        learned.observe(entry, &done.output.value);
    }
    Ok(done)
}

async fn run_body(
    env: &Env,
    call: CallView<'_>,
    entry: &Entry,
    context: &CallContext,
    arguments: Value,
    depth: u32,
    over: &CancellationToken,
) -> Result<ToolOutput, ToolError> {
    let name = &*entry.name;
    if context.cancel.is_cancelled() || over.is_cancelled() {
        drop_value(arguments);
        return Err(ToolError::new(
            ErrorCode::AbortedBeforeDispatch,
            format!("`{name}` was cancelled before it began"),
        ));
    }
    let body = Deep::new(depth, async move { entry.tool.call(context, arguments).await });
    let work = async {
        if env.policies.is_empty() {
            body.await
        } else {
            let rest = Rest {
                policies: &env.policies,
                call,
                body: Box::pin(body),
            };
            rest.run().await
        }
    };
    let work = AssertUnwindSafe(work).catch_unwind();
    let mut work = std::pin::pin!(work);
    let settled = |outcome: std::thread::Result<Result<ToolOutput, ToolError>>| match outcome {
        Ok(outcome) => outcome,
        Err(_) => Err(ToolError::failed(format!("`{name}` crashed"))),
    };
    // Most quick tools are done at once, and need no timer.
    if let Poll::Ready(outcome) = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await {
        return settled(outcome);
    }
    let timed_out = tokio::select! {
        biased;
        outcome = &mut work => return settled(outcome),
        () = over.cancelled() => false,
        () = context.cancel.cancelled() => false,
        () = after(env.call_timeout) => true,
    };
    context.cancel.cancel();
    let grace = if timed_out { TIMEOUT_GRACE } else { CANCEL_GRACE };
    let late = tokio::select! {
        biased;
        outcome = &mut work => Some(settled(outcome)),
        () = after(grace) => None,
    };
    if timed_out {
        return Err(ToolError::new(
            ErrorCode::ToolTimeout,
            format!(
                "`{name}` did not answer within {:?}; it was cancelled and may have done part of its work",
                env.call_timeout
            ),
        ));
    }
    match late {
        // It was done all the same, and saying otherwise would make somebody do it again.
        Some(Ok(output)) => Ok(output),
        Some(Err(error)) => Err(ToolError {
            code: ErrorCode::Aborted,
            ..error
        }),
        None => Err(ToolError::new(
            ErrorCode::Aborted,
            format!("`{name}` was cancelled while it ran and did not stop in time"),
        )),
    }
}

fn check_output(env: &Env, entry: Option<&Entry>, output: ToolOutput) -> Result<Done, ToolError> {
    let name = entry.map_or(crate::RUN_CODE, |entry| &*entry.name);
    let json = match Json::from_value(&output.value, env.max_json_depth) {
        Ok(json) => json,
        Err(error) => {
            drop_value(output.value);
            return Err(ToolError {
                code: ErrorCode::InvalidToolOutput,
                message: format!("the result of `{name}` cannot be handed on without loss: {error}"),
                content: output.content,
            });
        }
    };
    let mut done = Done {
        output,
        json,
        warning: None,
    };
    let Some(entry) = entry else {
        return Ok(done);
    };
    let (Some(checker), Some(schema)) = (entry.output(), entry.spec().output_schema.as_ref()) else {
        return Ok(done);
    };
    let violations = checker.violations(
        schema,
        &done.output.value,
        done.json.depth(),
        done.json.as_str().len(),
    );
    if violations.is_empty() {
        return Ok(done);
    }
    let mut message = violation_message(
        &format!("the result of `{name}` does not match its output schema"),
        &violations,
    );
    if entry.output_check == OutputCheck::Warn {
        done.warning = Some(message);
        return Ok(done);
    }
    message.push_str("\nit was: ");
    message.push_str(&clip(done.json.as_str(), SHOWN_OUTPUT));
    Err(ToolError {
        code: ErrorCode::InvalidToolOutput,
        message,
        content: std::mem::take(&mut done.output.content),
    })
}

/// Lets post-execute hooks look at a finished call and change what became of it.
pub(crate) async fn finish(
    env: &Env,
    call: CallView<'_>,
    entry: Option<&Entry>,
    mut outcome: Result<Done, ToolError>,
) -> Result<Done, ToolError> {
    for policy in env.policies.iter().filter(|policy| policy.has_post_execute()) {
        let seen = match &outcome {
            Ok(done) => Ok(&done.output),
            Err(error) => Err(error),
        };
        let verdict = AssertUnwindSafe(policy.post_execute(call, seen))
            .catch_unwind()
            .await;
        outcome = match verdict {
            Ok(Ok(PostVerdict::Keep)) => outcome,
            Ok(Ok(PostVerdict::ReplaceContent(content))) => outcome.map(|mut done| {
                done.output.content = content;
                done
            }),
            Ok(Ok(PostVerdict::ReplaceValue(value))) => match outcome {
                Ok(_) => check_output(env, entry, ToolOutput::from_value(value)),
                error => error,
            },
            Ok(Ok(PostVerdict::Block(reason))) => Err(denied(reason)),
            Ok(Err(failure)) => Err(denied(format!(
                "a policy failed after `{}` had run: {failure}",
                call.name
            ))),
            Err(_) => Err(denied(format!("a policy crashed after `{}` had run", call.name))),
        };
    }
    outcome
}

/// Tells the observers among the policies.
pub(crate) fn notify(env: &Env, call: CallView<'_>, outcome: Result<&Done, &ToolError>) {
    for policy in &env.policies {
        let seen = outcome.map(|done| &done.output);
        if catch_unwind(AssertUnwindSafe(|| policy.observe(call, seen))).is_err() {
            tracing::warn!(tool = call.name, "an observer crashed");
        }
    }
}

/// Classifies a call; anything but a clear answer means that it runs alone.
pub(crate) fn classify(entry: &Entry, arguments: &Value) -> Concurrency {
    catch_unwind(AssertUnwindSafe(|| entry.tool.concurrency(arguments))).unwrap_or(Concurrency::Exclusive)
}

/// Returns the content blocks of a finished call as they are logged.
pub(crate) fn rendered(outcome: Result<&Done, &ToolError>) -> Vec<Content> {
    match outcome {
        Ok(done) => done.output.content.clone(),
        Err(error) => error_content(error),
    }
}

/// Returns what a caller is shown of a failure.
pub(crate) fn error_content(error: &ToolError) -> Vec<Content> {
    if error.content.is_empty() || error.code == ErrorCode::InvalidToolOutput {
        let mut content = vec![Content::Text(error.message.clone())];
        content.extend(error.content.iter().cloned());
        content
    } else {
        error.content.clone()
    }
}

/// Returns a copy of a value of any depth.
pub(crate) fn clone_value(value: &Value) -> Value {
    with_stack_for(depth_of(value), || value.clone())
}

/// Returns a value of any depth as compact JSON text.
pub(crate) fn compact(value: &Value) -> String {
    with_stack_for(depth_of(value), || value.to_string())
}

/// Returns how deep a value is nested.
pub(crate) fn depth_of(value: &Value) -> u32 {
    let mut deepest = 0;
    let mut open = vec![(value, 0_u32)];
    while let Some((value, depth)) = open.pop() {
        match value {
            Value::Array(items) => {
                deepest = deepest.max(depth + 1);
                open.extend(items.iter().filter(|v| nests(v)).map(|item| (item, depth + 1)));
            }
            Value::Object(members) => {
                deepest = deepest.max(depth + 1);
                open.extend(
                    members
                        .values()
                        .filter(|v| nests(v))
                        .map(|member| (member, depth + 1)),
                );
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    deepest
}

fn nests(value: &Value) -> bool {
    value.is_array() || value.is_object()
}

/// Returns a value as the session log carries it.
pub(crate) fn logged(value: &Value) -> toolweave_session::Json {
    toolweave_session::Json::parse(compact(value)).unwrap_or_default()
}

/// Waits, where there is a clock; for ever where no tokio runtime is around.
async fn after(time: Duration) {
    if tokio::runtime::Handle::try_current().is_ok() {
        tokio::time::sleep(time).await;
    } else {
        std::future::pending::<()>().await;
    }
}

/// A future that handles a deep value: it is polled and dropped on a stack that is large enough for that.
struct Deep<F> {
    depth: u32,
    inner: Option<Pin<Box<F>>>,
}

impl<F: Future> Deep<F> {
    fn new(depth: u32, inner: F) -> Self {
        Self {
            depth,
            inner: Some(Box::pin(inner)),
        }
    }
}

impl<F: Future> Future for Deep<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let depth = self.depth;
        match &mut self.inner {
            Some(inner) => with_stack_for(depth, || inner.as_mut().poll(context)),
            None => Poll::Pending,
        }
    }
}

impl<F> Drop for Deep<F> {
    fn drop(&mut self) {
        let inner = self.inner.take();
        with_stack_for(self.depth, || drop(inner));
    }
}
