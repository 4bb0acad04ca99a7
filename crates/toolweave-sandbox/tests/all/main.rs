//! What the sandbox promises, tried from the inside by a worker that does what hostile code would do.

#[cfg(target_os = "linux")]
mod harness;
#[cfg(target_os = "linux")]
mod layers;
#[cfg(target_os = "linux")]
mod lifecycle;
#[cfg(target_os = "linux")]
mod requirement;

#[cfg(not(target_os = "linux"))]
#[test]
fn other_systems_say_so() {
    use toolweave_sandbox::{SandboxError, WarmConfig, WarmParent};
    assert!(matches!(
        WarmParent::start(WarmConfig::default()),
        Err(SandboxError::Unsupported)
    ));
}
