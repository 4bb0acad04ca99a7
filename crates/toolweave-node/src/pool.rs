//! Node processes that stand ready.
//!
//! One thread starts them and keeps as many as configured. What is asked for while none is ready is started at once; a
//! start that fails is told to who waits for it, and tried again when the next run asks.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use toolweave_runtime::Limits;
use toolweave_sandbox::{LaunchConfig, Launched, Launcher, Requirement, SandboxError};

use crate::find::{NodeProgram, with_causes};

/// How long Node may take to become ready.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// Starts at one time; more would only slow each other down.
const MAX_STARTING: usize = 4;
/// What `host.js` says when it is ready.
const READY: u8 = 0x52;
const MIB: u64 = 1024 * 1024;
/// What Node itself has on its heap, in MiB.
const NODE_HEAP_MB: u64 = 8;
/// What the kernel lets a process have beyond the memory limit: JSON on its way, and the compiler.
const HOST_MEMORY: u64 = 512 * MIB;
/// V8's own choice for half of its young generation; with less memory to have, it is an eighth of that.
const MAX_SEMI_SPACE_MB: u64 = 16;
/// Stack beyond V8's own limit, for what is not JavaScript.
const STACK_SLACK: u64 = 4 * MIB;

/// Files that Node reads while it starts, where they exist.
const READABLE: [&str; 4] = [
    "/etc/ld.so.cache",
    "/etc/ssl/openssl.cnf",
    "/usr/lib/ssl/openssl.cnf",
    "/etc/pki/tls/openssl.cnf",
];

/// Sends a process, or why there is none.
type Reply = oneshot::Sender<Result<Launched, String>>;

/// The ready processes of a runtime.
#[derive(Debug)]
pub(crate) struct Pool {
    requests: mpsc::UnboundedSender<Reply>,
    launcher: Launcher,
}

impl Pool {
    /// Starts a first process, to see that it works, and lets the others be started.
    pub(crate) fn start(
        node: &NodeProgram,
        standbys: usize,
        requirement: Requirement,
        limits: &Limits,
    ) -> Result<(Self, Launched), StartError> {
        let launcher =
            Launcher::start(launch_config(node, requirement, limits)).map_err(StartError::Sandbox)?;
        let bundle: Arc<[u8]> = bundle().into();
        let first = {
            let (launcher, bundle) = (launcher.clone(), Arc::clone(&bundle));
            crate::find::blocking(async move { start(&launcher, &bundle).await })
                .unwrap_or_else(|| Err(StartError::Node("its start could not be watched".to_owned())))?
        };
        let (requests, inbox) = mpsc::unbounded_channel();
        let keeper = Keeper {
            launcher: launcher.clone(),
            bundle,
            standbys,
        };
        let thread = std::thread::Builder::new().name("toolweave-node-pool".to_owned());
        thread.spawn(move || keeper.run(inbox)).map_err(|source| {
            StartError::Sandbox(SandboxError::System {
                operation: "starting the pool's thread",
                source,
            })
        })?;
        Ok((Self { requests, launcher }, first))
    }

    /// Returns a process that ran nothing yet.
    pub(crate) async fn take(&self) -> Result<Launched, String> {
        let (reply, answer) = oneshot::channel();
        let closed = || "the runtime was disposed".to_owned();
        self.requests.send(reply).map_err(|_| closed())?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Ends every process, and waits until all are gone.
    pub(crate) async fn shutdown(&self) {
        self.launcher.shutdown().await;
    }
}

/// Why no process could be started.
#[derive(Debug)]
pub(crate) enum StartError {
    Sandbox(SandboxError),
    /// Node ended, or said something else than that it is ready.
    Node(String),
}

impl StartError {
    fn text(&self) -> String {
        match self {
            Self::Sandbox(error) => with_causes(error),
            Self::Node(reason) => format!("Node did not become ready: {reason}"),
        }
    }
}

struct Keeper {
    launcher: Launcher,
    bundle: Arc<[u8]>,
    standbys: usize,
}

impl Keeper {
    fn run(self, inbox: mpsc::UnboundedReceiver<Reply>) {
        match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(executor) => executor.block_on(self.keep(inbox)),
            Err(error) => tracing::error!(%error, "no executor for the pool of Node processes"),
        }
    }

    async fn keep(self, mut inbox: mpsc::UnboundedReceiver<Reply>) {
        let mut ready: VecDeque<Launched> = VecDeque::new();
        let mut waiters: VecDeque<Reply> = VecDeque::new();
        let mut starting = FuturesUnordered::new();
        // After a failure nothing is started that nobody waits for.
        let mut healthy = true;
        loop {
            while let Some(waiter) = waiters.pop_front() {
                if waiter.is_closed() {
                    continue;
                }
                let Some(process) = take_alive(&mut ready) else {
                    waiters.push_front(waiter);
                    break;
                };
                if let Err(Ok(back)) = waiter.send(Ok(process)) {
                    ready.push_front(back);
                }
            }
            let spare = if healthy {
                self.standbys.saturating_sub(ready.len())
            } else {
                0
            };
            let wanted = (waiters.len() + spare).min(MAX_STARTING);
            while starting.len() < wanted {
                starting.push(start(&self.launcher, &self.bundle));
            }
            tokio::select! {
                request = inbox.recv() => match request {
                    Some(waiter) => waiters.push_back(waiter),
                    None => return,
                },
                Some(outcome) = starting.next(), if !starting.is_empty() => match outcome {
                    Ok(process) => {
                        healthy = true;
                        ready.push_back(process);
                    }
                    Err(error) => {
                        healthy = false;
                        tracing::debug!(error = error.text(), "a Node process did not start");
                        if let Some(waiter) = waiters.pop_front() {
                            let _ = waiter.send(Err(error.text()));
                        }
                    }
                },
            }
        }
    }
}

fn take_alive(ready: &mut VecDeque<Launched>) -> Option<Launched> {
    while let Some(process) = ready.pop_front() {
        let mut byte = [0];
        // A ready process says nothing; one that is gone says end.
        let silent = matches!(
            io::Read::read(&mut process.child.socket(), &mut byte),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock
        );
        if silent {
            return Some(process);
        }
    }
    None
}

/// Starts a process and waits until it is ready and locked.
async fn start(launcher: &Launcher, bundle: &[u8]) -> Result<Launched, StartError> {
    let starting = launcher.launch().await.map_err(StartError::Sandbox)?;
    let greet = async {
        let mut socket = starting.socket().try_clone().and_then(UnixStream::from_std)?;
        socket.write_all(bundle).await?;
        socket.read_u8().await
    };
    let greeting = tokio::time::timeout(START_PATIENCE, greet).await;
    let reason = match greeting {
        Ok(Ok(READY)) => return starting.lock().await.map_err(StartError::Sandbox),
        Ok(Ok(byte)) => format!("it said {byte} instead"),
        Ok(Err(error)) => format!("it ended ({error})"),
        Err(_) => format!("it took longer than {} s", START_PATIENCE.as_secs()),
    };
    let words = starting.last_words().read();
    let words = words.trim();
    let end = words.floor_char_boundary(500.min(words.len()));
    Err(StartError::Node(if words.is_empty() {
        reason
    } else {
        format!("{reason}: {}", &words[..end])
    }))
}

/// The JavaScript that a process is given, with its length in front.
fn bundle() -> Vec<u8> {
    let sources = serde_json::json!({
        "host": include_str!("host.js"),
        "guest": include_str!("guest.js"),
        "prelude": include_str!("../../toolweave-quickjs/src/prelude.js"),
    })
    .to_string();
    let length = u32::try_from(sources.len()).unwrap_or(u32::MAX);
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend_from_slice(sources.as_bytes());
    bytes
}

fn launch_config(node: &NodeProgram, requirement: Requirement, limits: &Limits) -> LaunchConfig {
    let mut args: Vec<OsString> = [
        "--expose-internals".to_owned(),
        "--no-warnings".to_owned(),
        "--disallow-code-generation-from-strings".to_owned(),
        format!("--max-old-space-size={}", limits.max_memory_mb + NODE_HEAP_MB),
        format!(
            "--max-semi-space-size={}",
            (limits.max_memory_mb / 8).clamp(1, MAX_SEMI_SPACE_MB)
        ),
        format!("--stack-size={}", limits.max_stack_kb),
    ]
    .map(OsString::from)
    .to_vec();
    let known = |option: &str| node.options.iter().any(|known| known == option);
    let permission = ["--permission", "--experimental-permission"]
        .into_iter()
        .find(|option| known(option));
    let others = ["--disable-sigusr1", "--no-addons", "--no-global-search-paths"];
    args.extend(
        permission
            .into_iter()
            .chain(others.into_iter().filter(|option| known(option)))
            .map(OsString::from),
    );
    args.extend(["-e".into(), include_str!("boot.js").into()]);
    let mut executable = vec![node.path.clone()];
    executable.extend(node.files.iter().cloned());
    LaunchConfig {
        args,
        requirement,
        readable: READABLE.map(PathBuf::from).to_vec(),
        executable,
        data_bytes: limits.max_memory_bytes() + HOST_MEMORY,
        stack_bytes: limits.max_stack_kb * 1024 + STACK_SLACK,
        cpu_seconds: (limits.compute_ms / 1000 + 120).min(7 * 24 * 3600),
        ..LaunchConfig::new(node.path.clone())
    }
}
