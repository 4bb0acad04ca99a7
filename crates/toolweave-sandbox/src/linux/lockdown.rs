//! Giving things up, in the worker.
//!
//! The warm parent gives up for good what its children inherit ([`inheritable`]); each child gives up the rest for
//! itself ([`Rest::apply`]), because the warm parent still needs it in order to fork. A throwaway child tries the rest
//! first ([`rehearse`]), so that the report says what really happens and not what was asked for.

use super::{
    filter::{ChildFilter, confine_warm_parent},
    sys::{self, CloseMode, Fork, Parentage, Reap},
    wire::Setup,
};
use crate::{ExitStatus, Layer, Missing};
use landlock::{
    ABI, Access, AccessFs, AccessNet, LandlockStatus, Ruleset, RulesetAttr, RulesetStatus, Scope,
};
use rustix::{
    io::Errno,
    net::{AddressFamily, SocketType},
    process::{DumpableBehavior, Resource, Signal, getppid},
    thread::{CapabilitySet, CapabilitySets},
};
use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, OwnedFd, RawFd},
    os::unix::net::UnixStream,
};

/// Where a child finds its socket, and the warm parent its control socket.
pub(super) const SOCKET: RawFd = 3;

/// What the kernel counts for a child beyond its memory limit: buffers of the transport, fragmentation, and the
/// engine's own reaction to meeting its limit.
const MEMORY_SLACK_BYTES: u64 = 32 << 20;

/// Descriptors 0 to 3 and not one more. A limit below the socket's number would make `poll` fail.
const CHILD_DESCRIPTORS: u64 = 4;

/// The warm parent's socket, two ends of a new pair, and a few for whatever `prepare` keeps open.
const WARM_DESCRIPTORS: u64 = 64;

/// Raises the odds that the kernel, when the machine runs out of memory, ends a worker and not its host.
const OOM_SCORE: &[u8] = b"500";

/// The outcome of trying layers: those in force, and those not.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) in_force: Vec<Layer>,
    pub(super) missing: Vec<Missing>,
    pub(super) landlock_abi: Option<u32>,
}

impl Outcome {
    fn record(&mut self, setup: &Setup, layer: Layer, attempt: impl FnOnce() -> Result<(), String>) {
        let result = if setup.layers & layer.bit() == 0 {
            Err(LEFT_OUT.to_owned())
        } else {
            attempt()
        };
        match result {
            Ok(()) => self.in_force.push(layer),
            Err(reason) => self.missing.push(Missing { layer, reason }),
        }
    }
}

pub(super) const LEFT_OUT: &str = "left out by the configuration";

/// How much memory a process has mapped.
#[derive(Clone, Copy)]
pub(super) struct Footprint {
    address_space: u64,
    pub(super) resident: u64,
    pub(super) data: u64,
}

impl Footprint {
    /// Reads the footprint of this process from `/proc`.
    pub(super) fn read() -> Result<Self, String> {
        Self::of("/proc/self/statm")
    }

    /// Reads a footprint from a file of this form.
    pub(super) fn of(path: &str) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
        let mut fields = text
            .split_ascii_whitespace()
            .map(|field| field.parse::<u64>().ok());
        let page = rustix::param::page_size() as u64;
        match (
            fields.next().flatten(),
            fields.next().flatten(),
            fields.nth(3).flatten(),
        ) {
            (Some(size), Some(resident), Some(data)) => Ok(Self {
                address_space: size * page,
                resident: resident * page,
                data: data * page,
            }),
            _ => Err(format!("{path} has an unknown form")),
        }
    }
}

/// Makes a worker the first to go when the machine runs out of memory. A favour to the host, so failure is no matter.
pub(super) fn volunteer_for_oom() {
    if let Ok(mut file) = File::options().write(true).open("/proc/self/oom_score_adj") {
        let _ = file.write_all(OOM_SCORE);
    }
}

/// Gives up, in the warm parent, what its children inherit.
pub(super) fn inheritable(setup: &Setup, environment: Result<(), String>) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.record(setup, Layer::Environment, || environment);
    outcome.record(setup, Layer::NoNewPrivileges, || {
        rustix::thread::set_no_new_privs(true).map_err(explain)?;
        match rustix::thread::no_new_privs() {
            Ok(true) => Ok(()),
            _ => Err(String::from("the kernel did not keep it")),
        }
    });
    outcome.record(setup, Layer::Capabilities, drop_capabilities);
    let mut abi = None;
    outcome.record(setup, Layer::Landlock, || {
        abi = Some(restrict_with_landlock()?);
        Ok(())
    });
    outcome.landlock_abi = abi;
    outcome.record(setup, Layer::NotDumpable, || {
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(explain)?;
        match rustix::process::dumpable_behavior() {
            Ok(DumpableBehavior::NotDumpable) => Ok(()),
            _ => Err(String::from("the kernel did not keep it")),
        }
    });
    outcome
}

/// Gives up every capability. Allocates nothing.
pub(super) fn clear_capabilities() -> Result<(), Errno> {
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none)
}

fn drop_capabilities() -> Result<(), String> {
    clear_capabilities().map_err(explain)?;
    match rustix::thread::capabilities(None) {
        Ok(now) if now.permitted.is_empty() && now.effective.is_empty() && now.inheritable.is_empty() => {
            Ok(())
        }
        Ok(_) => Err(String::from("the kernel kept some")),
        Err(error) => Err(explain(error)),
    }
}

/// Denies everything that this kernel's Landlock knows, and returns the version in use.
fn restrict_with_landlock() -> Result<u32, String> {
    // The newest interface that the library knows; it leaves out what the kernel does not.
    const NEWEST: ABI = ABI::V10;
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(NEWEST)))
        .and_then(|rules| rules.scope(Scope::from_all(NEWEST)))
        .and_then(Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(|error| error.to_string())?;
    let abi = match status.landlock {
        LandlockStatus::NotImplemented => return Err(String::from("this kernel has no Landlock")),
        LandlockStatus::NotEnabled => return Err(String::from("Landlock is disabled on this system")),
        LandlockStatus::Available { effective_abi, .. } => effective_abi as u32,
    };
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(String::from("the kernel did not enforce the rules"));
    }
    match File::open("/") {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(abi),
        _ => Err(String::from("the root directory can still be opened")),
    }
}

/// What each child gives up for itself.
pub(super) struct Rest {
    host_pid: i32,
    keep_stderr: bool,
    layers: Vec<Layer>,
    footprint: Option<Footprint>,
    max_memory_bytes: u64,
    cpu_seconds: u64,
    stack_bytes: u64,
    filter: Option<ChildFilter>,
}

/// The layers that each child applies for itself, in this order. Seccomp has to be last.
const PER_CHILD: [Layer; 4] = [
    Layer::ParentDeath,
    Layer::Descriptors,
    Layer::ResourceLimits,
    Layer::Seccomp,
];

impl Rest {
    /// Prepares what children will do, and rehearses it in a throwaway child.
    pub(super) fn rehearsed(
        setup: &Setup,
        footprint: Result<Footprint, String>,
        stack_bytes: u64,
        outcome: &mut Outcome,
    ) -> Self {
        let mut rest = Self {
            host_pid: setup.host_pid,
            keep_stderr: setup.keep_stderr,
            layers: PER_CHILD
                .into_iter()
                .filter(|layer| setup.layers & layer.bit() != 0)
                .collect(),
            footprint: None,
            max_memory_bytes: setup.max_memory_bytes,
            cpu_seconds: setup.cpu_seconds,
            stack_bytes,
            filter: None,
        };
        let mut failures = Vec::new();
        match footprint {
            Ok(footprint) => rest.footprint = Some(footprint),
            Err(reason) => failures.push((Layer::ResourceLimits, reason)),
        }
        if rest.layers.contains(&Layer::Seccomp) {
            // The rehearsal goes through both filters, as children will.
            match ChildFilter::compile().and_then(|filter| confine_warm_parent().map(|()| filter)) {
                Ok(filter) => rest.filter = Some(filter),
                Err(reason) => failures.push((Layer::Seccomp, reason)),
            }
        }
        rest.layers
            .retain(|layer| failures.iter().all(|(failed, _)| failed != layer));
        let rehearsal = match rehearse(&mut rest) {
            Ok(rehearsal) => rehearsal,
            Err(error) => rest
                .layers
                .iter()
                .map(|layer| (*layer, format!("the rehearsal failed: {error}")))
                .collect(),
        };
        failures.extend(rehearsal);
        rest.layers
            .retain(|layer| failures.iter().all(|(failed, _)| failed != layer));
        for layer in PER_CHILD {
            let failure = failures.iter().find(|(failed, _)| *failed == layer);
            outcome.record(setup, layer, || {
                failure.map_or(Ok(()), |(_, reason)| Err(reason.clone()))
            });
        }
        rest
    }

    /// Gives up, in a child, whatever is left. The socket is at [`SOCKET`] afterwards.
    ///
    /// # Errors
    ///
    /// Returns the layer that failed. The child must end then: it is not what the report promised.
    pub(super) fn apply(&mut self, socket: OwnedFd) -> Result<(), (Layer, String)> {
        sys::move_descriptor(&socket, SOCKET).map_err(|error| (Layer::Descriptors, error.to_string()))?;
        // Closed with all others below, or kept on purpose where that layer is left out.
        std::mem::forget(socket);
        for layer in PER_CHILD {
            if self.layers.contains(&layer) {
                self.apply_layer(layer, self.host_pid)
                    .map_err(|reason| (layer, reason))?;
            }
        }
        Ok(())
    }

    fn apply_layer(&mut self, layer: Layer, parent: i32) -> Result<(), String> {
        match layer {
            Layer::ParentDeath => {
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(explain)?;
                // The signal comes only for a death after the call.
                match getppid() {
                    Some(now) if now.as_raw_pid() == parent => Ok(()),
                    _ => Err(String::from("the host is gone")),
                }
            }
            Layer::Descriptors => close_all_but_socket(self.keep_stderr).map_err(|error| error.to_string()),
            Layer::ResourceLimits => self.limit().map_err(explain),
            Layer::Seccomp => match &mut self.filter {
                Some(filter) => filter.install().map_err(|error| error.to_string()),
                None => Err(String::from("no filter")),
            },
            _ => Ok(()),
        }
    }

    fn limit(&self) -> Result<(), Errno> {
        if let Some(footprint) = self.footprint {
            let data = footprint
                .data
                .saturating_add(self.max_memory_bytes)
                .saturating_add(MEMORY_SLACK_BYTES);
            let stack_and_data = self
                .max_memory_bytes
                .saturating_add(MEMORY_SLACK_BYTES)
                .saturating_add(self.stack_bytes);
            sys::lower_limit(Resource::Data, data)?;
            sys::lower_limit(
                Resource::As,
                footprint.address_space.saturating_add(stack_and_data),
            )?;
        }
        // SIGXCPU at the first limit, SIGKILL at the second, should the first be blocked.
        let hard = self.cpu_seconds.saturating_add(1);
        let cpu = rustix::process::Rlimit {
            current: Some(self.cpu_seconds),
            maximum: Some(hard),
        };
        rustix::process::setrlimit(Resource::Cpu, cpu)?;
        sys::lower_limit(Resource::Nproc, 0)?;
        sys::lower_limit(Resource::Nofile, CHILD_DESCRIPTORS)
    }
}

/// Sets, in the warm parent, the limits that its children inherit.
pub(super) fn inheritable_limits(setup: &Setup) -> Result<(), String> {
    if setup.layers & Layer::ResourceLimits.bit() == 0 {
        return Ok(());
    }
    for resource in [Resource::Core, Resource::Memlock, Resource::Msgqueue] {
        sys::lower_limit(resource, 0).map_err(explain)?;
    }
    if !setup.keep_stderr {
        sys::lower_limit(Resource::Fsize, 0).map_err(explain)?;
    }
    sys::lower_limit(Resource::Nofile, WARM_DESCRIPTORS).map_err(explain)
}

fn close_all_but_socket(keep_stderr: bool) -> io::Result<()> {
    let last_standard = if keep_stderr { 1 } else { 2 };
    let above = SOCKET as u32 + 1;
    match sys::close_descriptors(0, last_standard, CloseMode::Now) {
        Ok(()) => sys::close_descriptors(above, u32::MAX, CloseMode::Now),
        Err(error) => Err(error),
    }
}

/// Something that a locked-down child must not survive.
type Canary = fn() -> bool;

/// One call that the warm parent may not make either, and one that only it may.
const CANARIES: [Canary; 2] = [
    || rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).is_ok(),
    || getppid().is_some(),
];

/// Locks down throwaway children in the way that real ones will be, and returns the layers that failed.
fn rehearse(rest: &mut Rest) -> io::Result<Vec<(Layer, String)>> {
    let mut failures = Vec::new();
    for canary in CANARIES {
        let (told, status) = rehearse_once(rest, canary)?;
        failures.extend(told.lines().filter_map(|line| {
            let (name, reason) = line.split_once('\t')?;
            let layer = PER_CHILD.into_iter().find(|layer| layer.name() == name)?;
            Some((layer, reason.to_owned()))
        }));
        let filtered = rest.layers.contains(&Layer::Seccomp);
        if filtered && failures.is_empty() && status != ExitStatus::Signal(libc::SIGSYS) {
            failures.push((
                Layer::Seccomp,
                format!("a forbidden call was not stopped: {status}"),
            ));
        }
    }
    Ok(failures)
}

/// Returns what the throwaway child says about failures, and how it ended.
fn rehearse_once(rest: &mut Rest, canary: Canary) -> io::Result<(String, ExitStatus)> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let parent = std::process::id().cast_signed();
    #[expect(unsafe_code, reason = "forking needs a promise")]
    // SAFETY: the warm parent has a single thread; `serve_warm` counted them before it came here.
    let fork = unsafe { sys::fork(Parentage::Own) }?;
    let pid = match fork {
        Fork::Child => rehearse_in_child(rest, theirs.into(), parent, canary),
        Fork::Parent(pid) => pid,
    };
    drop(theirs);
    let mut told = String::new();
    let read = ours.read_to_string(&mut told);
    let status = sys::reap(pid, Reap::Wait)?.map_or(ExitStatus::Unknown, |exit| exit.status);
    read?;
    Ok((told, status))
}

fn rehearse_in_child(rest: &mut Rest, socket: OwnedFd, parent: i32, canary: Canary) -> ! {
    if sys::move_descriptor(&socket, SOCKET).is_err() {
        sys::exit_now(crate::LOCKDOWN_FAILED);
    }
    std::mem::forget(socket);
    let mut report = UnixStream::from(sys::adopt_descriptor(SOCKET));
    for layer in PER_CHILD {
        if rest.layers.contains(&layer)
            && let Err(reason) = rest.apply_layer(layer, parent)
        {
            let _ = report.write_all(format!("{layer}\t{}\n", reason.replace('\n', " ")).as_bytes());
        }
    }
    // With the filters in place this ends the process.
    sys::exit_now(u8::from(canary()))
}

/// Reads fresh random bytes from the kernel.
pub(super) fn entropy() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

/// Returns true where `descriptor` is a socket that keeps packet boundaries, as a control socket does.
pub(super) fn is_control_socket(descriptor: impl AsFd) -> bool {
    rustix::net::sockopt::socket_type(descriptor).is_ok_and(|kind| kind == SocketType::SEQPACKET)
}

pub(super) fn explain(error: Errno) -> String {
    io::Error::from(error).to_string()
}
