//! Starting programs that are not ours, confined before their first instruction.
//!
//! Two threads: this one makes the processes and lives as long as the launcher, because children take its end for the death
//! of the host; the other (`supervise`) lets their start-up calls pass and reaps them. They are two because making a
//! process waits until the program is executed, and being executed is one of those calls.

use super::{
    Socket,
    child::{Child, ChildHandle, Process, Reaper},
    foreign_filter::Filters,
    lockdown::{self, LEFT_OUT},
    supervise::{Shared, Supervisor, Word},
    sys::{self, CloseMode},
};
use crate::{LaunchConfig, Layer, Missing, Report, Requirement, SandboxError};
use landlock::{
    ABI, Access, AccessFs, AccessNet, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, Scope,
};
use rustix::{
    fs::{MemfdFlags, OFlags, SealFlags, fcntl_add_seals, fcntl_getfl, fcntl_setfl, ftruncate, memfd_create},
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, socketpair},
    process::{Resource, Rlimit, Signal, getppid, prlimit},
    thread::CapabilitySet,
};
use std::{
    io,
    os::fd::OwnedFd,
    process::{Command, Stdio},
    sync::{Arc, mpsc},
};
use tokio::sync::oneshot;

/// How much of what a program says on its standard error is kept, from the start.
const LAST_WORDS_BYTES: u64 = 16 * 1024;

/// Descriptors that a program may have open: an event loop makes about twenty.
const MAX_DESCRIPTORS: u64 = 128;

/// What the kernel counts beyond the memory limit: fragmentation, and the reaction to meeting it.
const DATA_SLACK_BYTES: u64 = 64 << 20;

/// The layers of a foreign program. See the crate's documentation for the one that is not here.
const LAYERS: [Layer; 8] = [
    Layer::Environment,
    Layer::Descriptors,
    Layer::ParentDeath,
    Layer::NoNewPrivileges,
    Layer::Capabilities,
    Layer::Landlock,
    Layer::ResourceLimits,
    Layer::Seccomp,
];

/// Starts processes of one foreign program.
///
/// Clones share it. When the last one is gone, every process that it started is killed and reaped, in the background;
/// [`Launcher::shutdown`] waits for that.
#[derive(Clone, Debug)]
pub struct Launcher {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    requests: mpsc::Sender<oneshot::Sender<Result<Starting, SandboxError>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Launcher {
    /// Prepares to start the program: compiles filters and opens what it may read. Starts nothing yet.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Config`] and [`SandboxError::System`]. What is missing of the sandbox shows with the first launch.
    pub fn start(config: LaunchConfig) -> Result<Self, SandboxError> {
        config.validate()?;
        super::keeper::keep_ended_children()?;
        let (supervisor, shared, words) = Supervisor::new()?;
        let (requests, inbox) = mpsc::channel();
        let starter = Starter::new(config, Arc::clone(&shared), words);
        let failed = |operation| move |source| SandboxError::System { operation, source };
        let thread = |name: &str| std::thread::Builder::new().name(String::from(name));
        thread("toolweave-supervisor")
            .spawn(move || supervisor.run())
            .map_err(failed("starting the supervisor thread"))?;
        thread("toolweave-launcher")
            .spawn(move || starter.run(&inbox))
            .map_err(failed("starting the launcher thread"))?;
        Ok(Self {
            inner: Arc::new(Inner { shared, requests }),
        })
    }

    /// Starts one process. It runs already, and is still in its first stage; see [`Starting::lock`].
    ///
    /// # Errors
    ///
    /// [`SandboxError::Spawn`] where the program does not start, [`SandboxError::Incomplete`] where the lockdown is required
    /// and a layer cannot be had, [`SandboxError::Closed`] after [`Launcher::shutdown`].
    pub async fn launch(&self) -> Result<Starting, SandboxError> {
        let (reply, answer) = oneshot::channel();
        if self.inner.shared.is_closed() || self.inner.requests.send(reply).is_err() {
            return Err(SandboxError::Closed);
        }
        answer.await.unwrap_or(Err(SandboxError::Closed))
    }

    /// Ends every process of this launcher, and waits until all are gone and reaped.
    pub async fn shutdown(&self) {
        self.inner.shared.close();
        self.inner.shared.ended().await;
    }
}

/// A foreign process that is still starting: files that it may read, it may open; threads, it may make.
///
/// Dropping it kills the process.
#[derive(Debug)]
pub struct Starting {
    child: Child,
    process: Arc<Process>,
    shared: Arc<Shared>,
    words: LastWords,
    report: Report,
    requirement: Requirement,
    data_bytes: u64,
}

impl Starting {
    /// Returns the host's end of the program's standard input, a non-blocking stream socket that carries both directions.
    pub fn socket(&self) -> &Socket {
        self.child.socket()
    }

    /// Returns what the program said on its standard error.
    pub fn last_words(&self) -> &LastWords {
        &self.words
    }

    /// Returns the process without its connection, for callers who end a start that takes too long.
    pub fn handle(&self) -> &ChildHandle {
        self.child.handle()
    }

    /// Ends the first stage for good: from here on the kernel refuses to open, execute, or make threads.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Incomplete`] where the lockdown is required and something is missing, [`SandboxError::Closed`] when
    /// the launcher or the process has ended.
    pub async fn lock(self) -> Result<Launched, SandboxError> {
        let Self {
            child,
            process,
            shared,
            words,
            mut report,
            requirement,
            data_bytes,
        } = self;
        shared.lock_process(process.pid).await?;
        let footprint = process.footprint();
        if report.has(Layer::ResourceLimits) {
            let limited = match footprint {
                None => Err(String::from("cannot read its footprint from /proc")),
                Some(footprint) => {
                    let most = footprint
                        .data
                        .saturating_add(data_bytes)
                        .saturating_add(DATA_SLACK_BYTES);
                    let limit = Rlimit {
                        current: Some(most),
                        maximum: Some(most),
                    };
                    process
                        .while_ours(|pid| prlimit(Some(pid), Resource::Data, limit))
                        .unwrap_or(Err(Errno::SRCH))
                        .map(drop)
                        .map_err(lockdown::explain)
                }
            };
            if let Err(reason) = limited {
                lose(&mut report, Layer::ResourceLimits, reason);
            }
        }
        for (layer, reason) in contradictions(&process) {
            if report.has(layer) {
                lose(&mut report, layer, reason);
            }
        }
        if requirement == Requirement::Required && !report.is_complete() {
            return Err(SandboxError::Incomplete {
                missing: report.missing,
            });
        }
        Ok(Launched {
            child,
            report,
            words,
            resident_bytes: footprint.map_or(0, |footprint| footprint.resident),
        })
    }
}

/// A foreign process under its whole lockdown.
#[derive(Debug)]
pub struct Launched {
    pub child: Child,
    /// What is in force, as far as it can be seen from outside, for this process.
    pub report: Report,
    pub words: LastWords,
    /// What it had in RAM when it was locked.
    pub resident_bytes: u64,
}

/// The first 16 KiB of what a program said on its standard error.
///
/// They are in memory that the program writes and the host reads; nobody waits for anybody. After the program was given
/// hostile code they are as hostile.
#[derive(Clone, Debug)]
pub struct LastWords(Arc<OwnedFd>);

impl LastWords {
    fn new() -> Result<Self, Errno> {
        let file = memfd_create("last-words", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, LAST_WORDS_BYTES)?;
        // A write beyond the end fails then, instead of taking memory or sending a signal.
        fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        Ok(Self(Arc::new(file)))
    }

    /// Returns the text, with what is not UTF-8 replaced.
    pub fn read(&self) -> String {
        let mut bytes = vec![0; usize::try_from(LAST_WORDS_BYTES).unwrap_or(0)];
        let length = rustix::io::pread(&*self.0, &mut bytes[..], 0).unwrap_or(0);
        bytes.truncate(length);
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(length);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

/// Compares what the kernel says of a process with what it should say.
fn contradictions(process: &Process) -> Vec<(Layer, String)> {
    let path = format!("/proc/{}/status", process.pid);
    let Some(Ok(status)) = process.while_ours(|_| std::fs::read_to_string(&path)) else {
        return Vec::new();
    };
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    };
    let expected = [
        (Layer::NoNewPrivileges, "NoNewPrivs", "1"),
        (Layer::Capabilities, "CapEff", "0000000000000000"),
        (Layer::Capabilities, "CapPrm", "0000000000000000"),
        (Layer::Seccomp, "Seccomp", "2"),
    ];
    expected
        .into_iter()
        .filter_map(|(layer, name, wanted)| {
            let found = field(name)?;
            (found != wanted).then(|| (layer, format!("the kernel says {name} {found}")))
        })
        .collect()
}

fn lose(report: &mut Report, layer: Layer, reason: String) {
    report.layers.retain(|held| *held != layer);
    if report.missing.iter().all(|missing| missing.layer != layer) {
        report.missing.push(Missing { layer, reason });
        report.missing.sort_unstable_by_key(|missing| missing.layer);
    }
}

/// The state of the launcher thread.
struct Starter {
    config: LaunchConfig,
    shared: Arc<Shared>,
    /// Where children tell the supervisor what they gave up.
    words: Arc<OwnedFd>,
    ruleset: Result<OwnedFd, String>,
    landlock_abi: Option<u32>,
    filters: Result<Filters, String>,
}

impl Starter {
    fn new(config: LaunchConfig, shared: Arc<Shared>, words: OwnedFd) -> Self {
        let version = sys::landlock_version();
        Self {
            ruleset: match &version {
                Ok(_) => ruleset(&config).and_then(|rules| {
                    Option::<OwnedFd>::from(rules).ok_or_else(|| String::from("this kernel has no Landlock"))
                }),
                Err(error) => Err(format!("this kernel has no Landlock: {error}")),
            },
            landlock_abi: version.ok(),
            filters: Filters::compile(config.preset),
            words: Arc::new(words),
            config,
            shared,
        }
    }

    fn run(self, inbox: &mpsc::Receiver<oneshot::Sender<Result<Starting, SandboxError>>>) {
        while let Ok(reply) = inbox.recv() {
            if self.shared.is_closed() {
                return;
            }
            let started = self.launch();
            // Nobody waits any more: the drop kills it.
            let _ = reply.send(started);
        }
    }

    fn launch(&self) -> Result<Starting, SandboxError> {
        let failed = |operation| {
            move |source: Errno| SandboxError::System {
                operation,
                source: source.into(),
            }
        };
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(failed("making a socket"))?;
        fcntl_getfl(&ours)
            .and_then(|flags| fcntl_setfl(&ours, flags | OFlags::NONBLOCK))
            .map_err(failed("making a socket"))?;
        let words = LastWords::new().map_err(failed("making memory for the program's last words"))?;
        let stderr = words.0.try_clone().map_err(|source| SandboxError::System {
            operation: "making memory for the program's last words",
            source,
        })?;
        #[expect(
            clippy::disallowed_methods,
            reason = "starting processes is what this crate is for"
        )]
        let mut command = Command::new(&self.config.program);
        command.args(&self.config.args).env_clear().current_dir("/");
        command
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::from(stderr));
        let mut confinement = self.confinement();
        #[expect(unsafe_code, reason = "pre_exec runs between fork and exec")]
        // SAFETY: `apply` makes system calls on values that were prepared here; it neither allocates nor locks.
        unsafe {
            sys::before_exec(&mut command, move || confinement.apply());
        }
        let spawned = command.spawn();
        drop(command);
        let process = match spawned {
            Ok(process) => process,
            Err(source) => {
                let missing = self.shared.take_refusal();
                return Err(match missing.filter(|missing| !missing.is_empty()) {
                    Some(missing) => SandboxError::Incomplete {
                        missing: self.with_reasons(missing),
                    },
                    None => SandboxError::Spawn {
                        program: self.config.program.clone(),
                        source,
                    },
                });
            }
        };
        let pid = process.id().cast_signed();
        let process = Arc::new(Process::new(pid));
        let outcome = self.shared.adopt(&process);
        let (layers, missing) = match outcome {
            Some(word) => word.outcome(&LAYERS),
            // It said nothing, so nothing is known to be in force.
            None => (
                Vec::new(),
                LAYERS
                    .map(|layer| Missing {
                        layer,
                        reason: String::from("the new process did not report it"),
                    })
                    .to_vec(),
            ),
        };
        let landlock_abi = self.landlock_abi.filter(|_| layers.contains(&Layer::Landlock));
        let report = Report {
            layers,
            missing: self.with_reasons(missing),
            landlock_abi,
            stack_bytes: self.config.stack_bytes,
        };
        let reaper = Arc::clone(&self.shared) as Arc<dyn Reaper>;
        Ok(Starting {
            child: Child::new(ours.into(), Arc::clone(&process), reaper),
            process,
            shared: Arc::clone(&self.shared),
            words,
            report,
            requirement: self.config.requirement,
            data_bytes: self.config.data_bytes,
        })
    }

    fn confinement(&self) -> Confinement {
        let wanted = |layer: &Layer| match self.config.requirement {
            Requirement::Off => matches!(
                layer,
                Layer::Environment | Layer::Descriptors | Layer::ParentDeath
            ),
            Requirement::Required | Requirement::Preferred => true,
        };
        let layers = LAYERS
            .iter()
            .filter(|layer| wanted(layer) && !self.config.leave_out.contains(layer))
            .fold(0, |bits, layer| bits | layer.bit());
        Confinement {
            layers,
            required: self.config.requirement == Requirement::Required,
            host_pid: std::process::id().cast_signed(),
            words: Arc::clone(&self.words),
            ruleset: self.ruleset.as_ref().ok().and_then(|fd| fd.try_clone().ok()),
            filters: self.filters.as_ref().ok().cloned(),
            stack_bytes: self.config.stack_bytes,
            cpu_seconds: self.config.cpu_seconds,
        }
    }

    /// Replaces the bare numbers that a child reports by what this side knows.
    fn with_reasons(&self, mut missing: Vec<Missing>) -> Vec<Missing> {
        for missing in &mut missing {
            let known = match missing.layer {
                _ if self.config.leave_out.contains(&missing.layer) => Some(LEFT_OUT),
                Layer::Landlock => self.ruleset.as_ref().err().map(String::as_str),
                Layer::Seccomp => self.filters.as_ref().err().map(String::as_str),
                _ => None,
            };
            if let Some(known) = known {
                known.clone_into(&mut missing.reason);
            }
        }
        if self.config.requirement == Requirement::Off {
            missing.retain(|missing| {
                matches!(
                    missing.layer,
                    Layer::Environment | Layer::Descriptors | Layer::ParentDeath
                )
            });
        }
        missing
    }
}

/// Makes the rules: nothing but reading and executing what is listed.
fn ruleset(config: &LaunchConfig) -> Result<RulesetCreated, String> {
    const NEWEST: ABI = ABI::V10;
    let explain = |error: landlock::RulesetError| error.to_string();
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(NEWEST)))
        .and_then(|rules| rules.scope(Scope::from_all(NEWEST)))
        .and_then(Ruleset::create)
        .map_err(explain)?;
    let allowances = [
        (&config.readable, AccessFs::ReadFile.into()),
        (&config.executable, AccessFs::ReadFile | AccessFs::Execute),
    ];
    for (paths, file_access) in allowances {
        for path in paths {
            let Ok(metadata) = std::fs::metadata(path) else {
                continue;
            };
            let access = if metadata.is_dir() {
                file_access | AccessFs::ReadDir
            } else {
                file_access
            };
            let opened = PathFd::new(path).map_err(|error| error.to_string())?;
            rules = rules
                .add_rule(PathBeneath::new(opened, access))
                .map_err(explain)?;
        }
    }
    Ok(rules)
}

/// What a new process does to itself before it executes the program.
struct Confinement {
    /// One bit for each layer.
    layers: u16,
    required: bool,
    host_pid: i32,
    words: Arc<OwnedFd>,
    ruleset: Option<OwnedFd>,
    filters: Option<Filters>,
    stack_bytes: u64,
    cpu_seconds: u64,
}

impl Confinement {
    /// Runs in a forked copy of a process with other threads: nothing here may allocate or lock.
    fn apply(&mut self) -> io::Result<()> {
        rustix::process::setsid()?;
        let mut word = Word::new();
        let mut listener = None;
        for layer in LAYERS {
            if self.layers & layer.bit() != 0 {
                let result = self.apply_layer(layer, &mut listener);
                word.record(layer, result);
            }
        }
        let refused = self.required && word.has_failures();
        word.send(&self.words, listener.as_ref())?;
        // Closed by being executed; its other end is with the supervisor by now.
        std::mem::forget(listener);
        if refused {
            return Err(Errno::PERM.into());
        }
        match &self.filters {
            Some(filters) if self.layers & Layer::Seccomp.bit() != 0 => {
                sys::install_filter(&filters.seal, sys::Listener::None).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn apply_layer(&mut self, layer: Layer, listener: &mut Option<OwnedFd>) -> io::Result<()> {
        match layer {
            Layer::Descriptors => sys::close_descriptors(3, u32::MAX, CloseMode::OnExec),
            Layer::ParentDeath => {
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                match getppid() {
                    Some(parent) if parent.as_raw_pid() == self.host_pid => Ok(()),
                    _ => Err(Errno::SRCH.into()),
                }
            }
            Layer::NoNewPrivileges => Ok(rustix::thread::set_no_new_privs(true)?),
            Layer::Capabilities => {
                // What a root user would get back by executing a program. Needs a capability itself; without it there is
                // nothing to get back, because of `no_new_privs`.
                for bit in 0..u64::BITS {
                    if let Some(capability) = CapabilitySet::from_bits(1 << bit) {
                        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
                    }
                }
                Ok(lockdown::clear_capabilities()?)
            }
            Layer::Landlock => {
                let Some(ruleset) = &self.ruleset else {
                    return Err(Errno::OPNOTSUPP.into());
                };
                sys::landlock_restrict_self(ruleset)?;
                match rustix::fs::open("/", OFlags::RDONLY | OFlags::CLOEXEC, rustix::fs::Mode::empty()) {
                    Err(Errno::ACCESS) => Ok(()),
                    _ => Err(Errno::NOTRECOVERABLE.into()),
                }
            }
            Layer::ResourceLimits => Ok(self.limit()?),
            Layer::Seccomp => {
                let Some(filters) = &mut self.filters else {
                    return Err(Errno::OPNOTSUPP.into());
                };
                filters.name_self();
                sys::install_filter(&filters.allow, sys::Listener::None)?;
                sys::install_filter(&filters.kill, sys::Listener::None)?;
                *listener = sys::install_filter(&filters.start, sys::Listener::New)?;
                Ok(())
            }
            Layer::Environment | Layer::NotDumpable => Ok(()),
        }
    }

    fn limit(&self) -> Result<(), Errno> {
        for resource in [Resource::Core, Resource::Memlock, Resource::Msgqueue] {
            sys::lower_limit(resource, 0)?;
        }
        sys::lower_limit(Resource::Fsize, LAST_WORDS_BYTES)?;
        sys::lower_limit(Resource::Nofile, MAX_DESCRIPTORS)?;
        sys::lower_limit(Resource::Stack, self.stack_bytes)?;
        let cpu = Rlimit {
            current: Some(self.cpu_seconds),
            maximum: Some(self.cpu_seconds.saturating_add(1)),
        };
        rustix::process::setrlimit(Resource::Cpu, cpu)
    }
}
