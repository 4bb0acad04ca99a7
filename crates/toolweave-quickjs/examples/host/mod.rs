//! What the examples share: runtimes of both placements, a host with a few tools, and a look at `/proc`.

#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each example uses a part of this, and none all of it"
)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use toolweave_quickjs::{Placement, QuickJsConfig, QuickJsRuntime, WorkerConfig};
use toolweave_runtime::{
    Binding, BindingCall, BindingFuture, Bindings, ErrorClass, FunctionKind, FunctionTable, Json, Namespace,
    RunRequest, UnknownMembers,
};
use toolweave_sandbox::Requirement;

/// The argument that makes an example a worker of itself.
pub(crate) const WORKER: &str = "--worker";

pub(crate) fn runtime(placement: &str) -> QuickJsRuntime {
    let placement = match placement {
        "thread" => Placement::Thread,
        _ => Placement::Worker(WorkerConfig {
            program: PathBuf::from("/proc/self/exe"),
            args: vec![WORKER.into()],
            standbys: 4,
            requirement: Requirement::Preferred,
        }),
    };
    QuickJsRuntime::new(QuickJsConfig {
        placement,
        ..QuickJsConfig::default()
    })
    .expect("default limits")
}

/// The tools: `echo`, `rows` (10 MB of JSON), and `hold`, which answers when [`Host::let_go`] says so.
pub(crate) struct Host {
    holding: AtomicUsize,
    gate: Semaphore,
}

impl Host {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            holding: AtomicUsize::new(0),
            gate: Semaphore::new(0),
        })
    }

    /// Returns how many calls of `hold` there were.
    pub(crate) fn holding(&self) -> usize {
        self.holding.load(Ordering::SeqCst)
    }

    pub(crate) fn let_go(&self) {
        self.gate.close();
    }
}

struct Tools(Arc<Host>);

impl Bindings for Tools {
    fn call(&self, call: BindingCall) -> BindingFuture {
        match &*call.name {
            "rows" => Box::pin(std::future::ready(Ok(ROWS.clone()))),
            "hold" => {
                let host = Arc::clone(&self.0);
                host.holding.fetch_add(1, Ordering::SeqCst);
                Box::pin(async move {
                    // An error is what a closed gate gives.
                    let _ = host.gate.acquire().await;
                    Ok(Json::null())
                })
            }
            _ => Box::pin(std::future::ready(Ok(call.arguments))),
        }
    }
}

/// Ten megabytes of rows, as a database would give them.
pub(crate) static ROWS: LazyLock<Json> = LazyLock::new(|| {
    let rows: Vec<String> = (0..100_000)
        .map(|n| format!(r#"{{"id":{n},"name":"row number {n}","tags":["a","b"],"score":{n}.5,"ok":true,"note":"some text"}}"#))
        .collect();
    Json::parse(format!("[{}]", rows.join(",")), 10).expect("JSON")
});

static FUNCTIONS: LazyLock<Arc<FunctionTable>> = LazyLock::new(|| {
    Arc::new(FunctionTable::new(["echo", "rows", "hold"].map(|name| Binding {
        name: name.into(),
        kind: FunctionKind::Async,
        enumerable: true,
    })))
});

pub(crate) fn request(program: &str, host: &Arc<Host>) -> RunRequest {
    RunRequest {
        program: program.to_owned(),
        namespaces: vec![Namespace {
            global: "tools".to_owned(),
            aliases: vec!["sdk".to_owned()],
            functions: Arc::clone(&FUNCTIONS),
            error_class: Some(ErrorClass {
                name: "ToolCallError".to_owned(),
                member_property: "toolName".to_owned(),
            }),
            unknown: UnknownMembers::Reject,
            host: Arc::new(Tools(Arc::clone(host))),
        }],
        cancel: CancellationToken::new(),
        timeout: None,
        on_log: None,
    }
}

/// What the kernel holds for this process and its children.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
    pub(crate) children: usize,
    pub(crate) zombies: usize,
    /// Of this process alone, in KiB.
    pub(crate) resident: u64,
    /// Of this process and its children together, in KiB: shared pages count once. `None` where it may not be read.
    pub(crate) proportional: Option<u64>,
}

impl Held {
    pub(crate) fn now() -> Self {
        let own = std::process::id();
        let count = |name: &str| {
            std::fs::read_dir(process(own).join(name))
                .map(Iterator::count)
                .unwrap_or(0)
        };
        let children = children_of(own);
        let family = children
            .iter()
            .filter(|child| child.state != 'Z')
            .map(|child| child.pid)
            .chain([own]);
        Self {
            // Reading the folder opens it.
            descriptors: count("fd").saturating_sub(1),
            threads: count("task"),
            children: children.len(),
            zombies: children.iter().filter(|child| child.state == 'Z').count(),
            resident: field(&process(own).join("status"), "VmRSS:").unwrap_or(0),
            proportional: family
                .map(|pid| field(&process(pid).join("smaps_rollup"), "Pss:"))
                .sum(),
        }
    }
}

/// A process in the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) state: char,
    pub(crate) parent: u32,
    pub(crate) session: u32,
}

pub(crate) fn processes() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(process(pid).join("stat")).ok()?;
            let mut fields = stat.rsplit_once(") ")?.1.split(' ');
            let state = fields.next()?.chars().next()?;
            let parent = fields.next()?.parse().ok()?;
            let session = fields.nth(1)?.parse().ok()?;
            Some(Process {
                pid,
                state,
                parent,
                session,
            })
        })
        .collect()
}

pub(crate) fn children_of(parent: u32) -> Vec<Process> {
    let mut children = processes();
    children.retain(|child| child.parent == parent);
    children
}

fn process(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

fn field(file: &Path, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the value below which this share of the sorted values lies.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index into a short list"
    )]
    let at = ((sorted.len().saturating_sub(1)) as f64 * share).round() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}
