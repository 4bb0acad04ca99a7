//! Required, preferred and off: what each does where a layer is missing, and what the report says.

use crate::harness::{Guest, config, status_field, try_out, worker_program};
use toolweave_sandbox::{Layer, Missing, Requirement, SandboxError, WarmConfig, WarmParent, probe};

fn left_out(layers: &[Layer]) -> Vec<Missing> {
    layers
        .iter()
        .map(|layer| Missing {
            layer: *layer,
            reason: String::from("left out by the configuration"),
        })
        .collect()
}

#[test]
fn a_complete_lockdown_is_reported_layer_by_layer() {
    let pool = WarmParent::start(config()).unwrap();
    let report = pool.report();
    assert_eq!(report.layers, Layer::ALL);
    assert_eq!(report.missing, []);
    assert_eq!(report.stack_bytes, 64 << 20);
    assert!(report.landlock_abi.is_some());
    let abi = report.landlock_abi.unwrap();
    assert_eq!(
        report.to_string(),
        format!(
            "environment, descriptors, parent-death, no-new-privileges, capabilities, landlock (ABI {abi}), \
             not-dumpable, resource-limits, seccomp"
        )
    );
    assert_eq!(&probe(&config()).unwrap(), report);
}

#[test]
fn required_refuses_to_start_without_a_layer_and_says_what_to_do() {
    let leave_out = vec![Layer::Landlock, Layer::Seccomp];
    let error = WarmParent::start(WarmConfig {
        leave_out,
        ..config()
    })
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "sandbox incomplete: missing landlock (left out by the configuration), seccomp (left out by the \
         configuration); for landlock: use Linux 5.13 or later with Landlock built in and listed in the `lsm=` boot \
         parameter, and a container profile that lets the landlock system calls through; for seccomp: use a kernel \
         with CONFIG_SECCOMP_FILTER, on x86-64, arm64 or riscv64, outside an emulator; or let the sandbox be preferred \
         instead of required"
    );
}

#[test]
fn preferred_goes_on_without_a_layer_and_reports_it() {
    for layer in Layer::ALL {
        let config = WarmConfig {
            requirement: Requirement::Preferred,
            leave_out: vec![layer],
            ..config()
        };
        let pool = WarmParent::start(config).unwrap();
        assert_eq!(pool.report().missing, left_out(&[layer]));
        assert!(!pool.report().has(layer));
        assert_eq!(pool.report().layers.len(), Layer::ALL.len() - 1);
        assert_eq!(try_out(&pool, "ping"), "pong", "without {layer}");
    }
}

#[test]
fn off_locks_nothing_down_and_says_so() {
    let pool = WarmParent::start(WarmConfig {
        requirement: Requirement::Off,
        ..config()
    })
    .unwrap();
    assert_eq!(
        pool.report().layers,
        [Layer::Environment, Layer::Descriptors, Layer::ParentDeath]
    );
    let rest: Vec<Layer> = Layer::ALL.into_iter().skip(3).collect();
    assert_eq!(pool.report().missing, left_out(&rest));
    let mut guest = Guest::take(&pool);
    let answers =
        ["open /etc/passwd", "socket", "descriptors", "environment"].map(|command| guest.ask(command));
    assert_eq!(answers, ["opened, Ok(1)", "done", "[0, 3]", "[]"]);
    assert_eq!(status_field(guest.handle.pid(), "Seccomp"), "0");
}

#[test]
fn a_program_that_is_not_there_or_is_no_worker_is_named() {
    let start = |program: &str, args: &[&str]| {
        let args = args.iter().map(Into::into).collect();
        WarmParent::start(WarmConfig {
            program: program.into(),
            args,
            ..config()
        })
        .unwrap_err()
    };
    assert!(matches!(start("/nonexistent", &[]), SandboxError::Spawn { .. }));
    assert_eq!(
        start("/nonexistent", &[]).to_string(),
        "worker program `/nonexistent` did not start"
    );
    assert_eq!(
        start("/bin/true", &[]).to_string(),
        "worker program `/bin/true` did not become ready: it ended (exit status: 0)"
    );
    let worker = worker_program();
    let worker = worker.to_str().unwrap();
    assert_eq!(
        start(worker, &["worker", "with-thread"]).to_string(),
        format!(
            "worker program `{worker}` did not become ready: the worker has 2 threads after its preparation, and \
             forking needs exactly one"
        )
    );
}

#[test]
fn a_worker_that_is_started_by_hand_says_that_it_has_no_host() {
    #[expect(clippy::disallowed_methods, reason = "a user starts it")]
    let output = std::process::Command::new(worker_program())
        .arg("worker")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "not started by a host: descriptor 0 is not a control socket\n"
    );
}
