//! Which layers are in force, as the worker side found out by trying them.

use std::fmt;

/// How much a host insists on the lockdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Requirement {
    /// Refuses to start unless every [`Layer`] is in force.
    #[default]
    Required,
    /// Applies what this system offers and reports the rest.
    Preferred,
    /// Locks nothing down. The processes are arranged as always: own session, one socket, empty environment.
    Off,
}

/// One thing that a child gives up, or has taken away from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// The environment is empty: tokens and paths that the host keeps in variables are not there to be read.
    Environment,
    /// Every descriptor but one socket is closed: no file, socket, pipe, terminal or log of the host is reachable.
    Descriptors,
    /// `PR_SET_PDEATHSIG`: a child cannot outlive its host, however the host ends.
    ParentDeath,
    /// `no_new_privs`: set-uid programs and file capabilities give nothing, even if something could be executed.
    NoNewPrivileges,
    /// Every capability is dropped, so that a child of a root host cannot override file modes, mount, or load modules.
    Capabilities,
    /// Landlock without a single allowed path: the kernel itself refuses to open, create, link, rename or remove any
    /// file, to use TCP (ABI 4), and to signal or reach abstract sockets of processes outside (ABI 6).
    Landlock,
    /// `PR_SET_DUMPABLE` 0: same-user processes cannot trace the child or read its memory, there is no core dump, and
    /// its `/proc` entries belong to root.
    NotDumpable,
    /// Address space, data, CPU seconds, descriptors, file size, processes, core size, locked memory: a backstop for
    /// what the engine's own limits miss. As root the kernel ignores the process count; seccomp covers it.
    ResourceLimits,
    /// A seccomp allow-list: compute, manage plain memory, read clocks, read and write the socket, exit. Opening,
    /// connecting, executing, forking, tracing, signalling and executable memory end the process with SIGSYS.
    Seccomp,
}

impl Layer {
    /// Every layer, in the order in which they take effect.
    pub const ALL: [Layer; 9] = [
        Layer::Environment,
        Layer::Descriptors,
        Layer::ParentDeath,
        Layer::NoNewPrivileges,
        Layer::Capabilities,
        Layer::Landlock,
        Layer::NotDumpable,
        Layer::ResourceLimits,
        Layer::Seccomp,
    ];

    /// Returns the name that reports and configuration use.
    pub fn name(self) -> &'static str {
        match self {
            Layer::Environment => "environment",
            Layer::Descriptors => "descriptors",
            Layer::ParentDeath => "parent-death",
            Layer::NoNewPrivileges => "no-new-privileges",
            Layer::Capabilities => "capabilities",
            Layer::Landlock => "landlock",
            Layer::NotDumpable => "not-dumpable",
            Layer::ResourceLimits => "resource-limits",
            Layer::Seccomp => "seccomp",
        }
    }

    /// Returns what an operator can do about this layer when it is missing.
    pub fn remedy(self) -> &'static str {
        match self {
            Layer::Landlock => {
                "use Linux 5.13 or later with Landlock built in and listed in the `lsm=` boot parameter, and a container \
                 profile that lets the landlock system calls through"
            }
            Layer::Seccomp => {
                "use a kernel with CONFIG_SECCOMP_FILTER, on x86-64, arm64 or riscv64, outside an emulator"
            }
            Layer::ResourceLimits => {
                "mount /proc and raise the hard limits (`ulimit -Hv`, `ulimit -Hd`) of the host"
            }
            Layer::Environment
            | Layer::Descriptors
            | Layer::ParentDeath
            | Layer::NoNewPrivileges
            | Layer::Capabilities
            | Layer::NotDumpable => "use Linux 5.13 or later, outside an emulator",
        }
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn bit(self) -> u16 {
        1 << (self as u16)
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A layer that is not in force, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub layer: Layer,
    pub reason: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.layer, self.reason)
    }
}

/// What is in force in the children of a [`crate::WarmParent`].
///
/// The worker side fills it in: the warm parent reports the layers that it applied and saw working, and it locked down
/// a throwaway child to try those that each child applies for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The layers in force, in the order of [`Layer::ALL`].
    pub layers: Vec<Layer>,
    /// The layers that are not.
    pub missing: Vec<Missing>,
    /// The version of the Landlock interface in use; 4 brings TCP rules, 6 signal and abstract-socket scopes.
    pub landlock_abi: Option<u32>,
    /// The size that a child's main stack may grow to.
    pub stack_bytes: u64,
}

impl Report {
    /// Returns true where nothing is missing.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Returns true where `layer` is in force.
    pub fn has(&self, layer: Layer) -> bool {
        self.layers.contains(&layer)
    }
}

impl fmt::Display for Report {
    /// Writes one line: the layers in force, then those missing with their reasons.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, layer) in self.layers.iter().enumerate() {
            let gap = if i == 0 { "" } else { ", " };
            match (layer, self.landlock_abi) {
                (Layer::Landlock, Some(abi)) => write!(f, "{gap}{layer} (ABI {abi})")?,
                _ => write!(f, "{gap}{layer}")?,
            }
        }
        for (i, missing) in self.missing.iter().enumerate() {
            write!(f, "{}{missing}", if i == 0 { "; missing: " } else { ", " })?;
        }
        Ok(())
    }
}
