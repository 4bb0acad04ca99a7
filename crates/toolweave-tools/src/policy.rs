//! What may be decided about a call, by whom, and in which order.
//!
//! Outer and nested calls pass the same hooks: pre-execute, approval where one is asked for, guards, around, the body,
//! post-execute, observers. What is configured, and how, is decided elsewhere.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::{Content, ErrorCode, ToolError, ToolOutput, ToolSpec};

/// A call as policies see it.
#[derive(Clone, Copy)]
pub struct CallView<'c> {
    pub id: &'c Arc<str>,
    pub root_id: &'c Arc<str>,
    /// The call whose program made this one.
    pub parent_id: Option<&'c Arc<str>>,
    pub name: &'c str,
    /// `None` for a name that no tool has, and for `run_code`.
    pub spec: Option<&'c ToolSpec>,
    /// For `run_code` the whole program is in here.
    pub arguments: &'c Value,
}

/// What a policy thinks of a call before it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    /// The call fails with this reason; its body does not run.
    Deny(String),
    /// Somebody has to approve. The reason is shown to them.
    Ask(String),
}

/// What a policy makes of a finished call.
#[derive(Clone, Debug, PartialEq)]
pub enum PostVerdict {
    Keep,
    /// Other content for the model; a program still gets the value, so this keeps nothing secret.
    ReplaceContent(Vec<Content>),
    /// Another value, checked like the tool's own, and rendered anew.
    ReplaceValue(Value),
    /// The call fails with this reason after all.
    Block(String),
}

/// Hooks into every call. The defaults do nothing.
#[async_trait]
pub trait Policy: Send + Sync {
    /// Decides before the call. All policies are asked in order; the first denial ends it, and one question is enough.
    ///
    /// # Errors
    /// A policy that cannot decide fails the call, with this text.
    async fn pre_execute(&self, call: CallView<'_>) -> Result<Verdict, String> {
        let _ = call;
        Ok(Verdict::Allow)
    }

    /// Returns why the call must not run. Asked after approval, so that no approval lifts it.
    fn guard(&self, call: CallView<'_>) -> Option<String> {
        let _ = call;
        None
    }

    /// Wraps the body. The first policy is outermost.
    ///
    /// # Errors
    /// Whatever the rest fails with, or the policy's own failure.
    async fn around(&self, call: CallView<'_>, rest: Rest<'_>) -> Result<ToolOutput, ToolError> {
        let _ = call;
        rest.run().await
    }

    /// Returns whether [`post_execute`](Self::post_execute) does anything. Where no policy's does, a program gets a value
    /// as soon as it is there; otherwise in the order of the calls.
    fn has_post_execute(&self) -> bool {
        false
    }

    /// Looks at a finished call.
    ///
    /// # Errors
    /// A policy that cannot decide fails the call, with this text.
    async fn post_execute(
        &self,
        call: CallView<'_>,
        outcome: Result<&ToolOutput, &ToolError>,
    ) -> Result<PostVerdict, String> {
        let _ = (call, outcome);
        Ok(PostVerdict::Keep)
    }

    /// Sees the final result. Cannot change it; a panic in here harms nobody.
    fn observe(&self, call: CallView<'_>, outcome: Result<&ToolOutput, &ToolError>) {
        let _ = (call, outcome);
    }
}

/// The rest of the way to a tool's body.
pub struct Rest<'r> {
    pub(crate) policies: &'r [Arc<dyn Policy>],
    pub(crate) call: CallView<'r>,
    pub(crate) body: BoxFuture<'r, Result<ToolOutput, ToolError>>,
}

impl<'r> Rest<'r> {
    /// Goes on towards the body.
    ///
    /// # Errors
    /// Whatever the inner policies or the tool fail with.
    pub async fn run(self) -> Result<ToolOutput, ToolError> {
        match self.policies.split_first() {
            None => self.body.await,
            Some((first, policies)) => {
                let rest = Rest { policies, ..self };
                first.around(rest.call, rest).await
            }
        }
    }
}

/// A question to somebody who can say no.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalRequest {
    pub call_id: Arc<str>,
    pub root_id: Arc<str>,
    pub name: String,
    pub arguments: Value,
    pub reason: String,
}

/// The answer to an [`ApprovalRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approval {
    Allowed {
        by: Option<String>,
    },
    Denied {
        by: Option<String>,
        reason: Option<String>,
    },
    /// Nobody is there to answer.
    NoAnswerer,
}

/// Asks for approval. Each question is about one call only.
#[async_trait]
pub trait Approver: Send + Sync {
    async fn ask(&self, request: ApprovalRequest) -> Approval;
}

pub(crate) fn denied(reason: impl Into<String>) -> ToolError {
    ToolError::new(ErrorCode::Denied, reason)
}
