//! Namespaces, contexts and guests made for tests.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolweave_runtime::driver::DriveContext;
use toolweave_runtime::{
    Binding, BindingCall, BindingError, BindingFuture, Bindings, ErrorClass, FunctionKind, FunctionTable,
    Isolation, JsonMode, Limits, Namespace, RunRequest, SandboxReport, UnknownMembers,
};

/// Echoes its arguments, fails on demand, or never answers.
#[derive(Default)]
pub(crate) struct Host {
    pub(crate) calls: Mutex<Vec<(String, String)>>,
    pub(crate) cancelled: Arc<AtomicU32>,
}

impl Bindings for Host {
    fn call(&self, call: BindingCall) -> BindingFuture {
        self.calls
            .lock()
            .expect("no panic")
            .push((call.name.to_string(), call.arguments.as_str().to_owned()));
        let cancelled = Arc::clone(&self.cancelled);
        match &*call.name {
            "echo" => Box::pin(async move { Ok(call.arguments) }),
            "fail" => Box::pin(async {
                Err(BindingError {
                    message: "no such row".to_owned(),
                })
            }),
            "hang" => Box::pin(async move {
                call.run_over.cancelled().await;
                cancelled.fetch_add(1, Ordering::SeqCst);
                Err(BindingError {
                    message: "the run is over".to_owned(),
                })
            }),
            "slow" => Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                Ok(call.arguments)
            }),
            other => panic!("`{other}` is in no table"),
        }
    }
}

pub(crate) fn namespace(host: &Arc<Host>) -> Namespace {
    let binding = |name: &str| Binding {
        name: Arc::from(name),
        kind: FunctionKind::Async,
        enumerable: true,
    };
    Namespace {
        global: "tools".to_owned(),
        aliases: vec!["sdk".to_owned()],
        functions: Arc::new(FunctionTable::new(["echo", "fail", "hang", "slow"].map(binding))),
        error_class: Some(ErrorClass {
            name: "ToolCallError".to_owned(),
            member_property: "toolName".to_owned(),
        }),
        unknown: UnknownMembers::Reject,
        host: Arc::clone(host) as Arc<dyn Bindings>,
    }
}

pub(crate) fn request(host: &Arc<Host>) -> RunRequest {
    RunRequest {
        program: "return 1".to_owned(),
        namespaces: vec![namespace(host)],
        cancel: CancellationToken::new(),
        timeout: None,
        on_log: None,
    }
}

pub(crate) fn context(limits: Limits) -> DriveContext {
    DriveContext {
        limits: Arc::new(limits),
        json: JsonMode::Standard,
        isolation: Isolation::Worker,
        sandbox: SandboxReport::none(),
    }
}
