//! What native code in the process would try, tried with all of Node's own power: no realm stands in between here, only
//! the launcher's lockdown.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use toolweave_sandbox::{ExitStatus, LaunchConfig, Launcher, Layer, Requirement, SandboxError};

use crate::support::{PLACEMENTS, shared};

/// Says READY on its socket, and does what `attack` says when it gets a byte. What that gives goes back as a line.
fn config(attack: &str, leave_out: Vec<Layer>) -> LaunchConfig {
    let script = format!(
        "const fs = require('fs'); const net = require('net'); const cp = require('child_process'); \
         const read = () => fs.readSync(0, Buffer.alloc(1), 0, 1, null); \
         const say = (text) => fs.writeSync(0, text + '\\n'); \
         new net.Socket; fs.writeSync(0, 'R'); read(); \
         try {{ say('did ' + (() => {{ {attack} }})()) }} catch (e) {{ say('refused ' + (e.code ?? e.name)) }} \
         setInterval(() => {{}}, 1000)"
    );
    let node = shared("v8").node();
    LaunchConfig {
        args: vec![OsString::from("--no-warnings"), "-e".into(), script.into()],
        requirement: if leave_out.is_empty() {
            Requirement::Required
        } else {
            Requirement::Preferred
        },
        readable: ["/etc/ld.so.cache", "/etc/ssl/openssl.cnf"]
            .map(PathBuf::from)
            .to_vec(),
        executable: node.files().to_vec(),
        leave_out,
        ..LaunchConfig::new(node.path.clone())
    }
}

enum Stage {
    Starting,
    Locked,
}

/// Runs one attack. Returns its line, or how the process ended.
async fn attack(attack: &str, stage: Stage, leave_out: Vec<Layer>) -> Result<String, SandboxError> {
    let launcher = Launcher::start(config(attack, leave_out))?;
    let starting = launcher.launch().await?;
    let mut socket =
        UnixStream::from_std(starting.socket().try_clone().expect("a socket")).expect("a socket");
    assert_eq!(
        socket.read_u8().await.expect("it starts"),
        b'R',
        "{}",
        starting.last_words().read()
    );
    let mut line = Vec::new();
    let mut answer = async |socket: &mut UnixStream| {
        socket.write_all(b"x").await.expect("it listens");
        while let Ok(byte) = socket.read_u8().await {
            if byte == b'\n' {
                break;
            }
            line.push(byte);
        }
    };
    let status = match stage {
        Stage::Starting => {
            tokio::time::timeout(Duration::from_secs(60), answer(&mut socket))
                .await
                .expect("it ends");
            drop(starting);
            None
        }
        Stage::Locked => {
            let launched = starting.lock().await?;
            tokio::time::timeout(Duration::from_secs(60), answer(&mut socket))
                .await
                .expect("it ends");
            // What is killed a little later has said that it did something, and not what.
            if line.is_empty() || line == b"did undefined" {
                Some(launched.child.handle().wait().await.status)
            } else {
                None
            }
        }
    };
    launcher.shutdown().await;
    Ok(match status {
        Some(ExitStatus::Signal(31)) => "killed".to_owned(),
        Some(status) => status.to_string(),
        None => String::from_utf8_lossy(&line).into_owned(),
    })
}

#[tokio::test]
async fn a_locked_process_can_do_nothing_but_compute() {
    for _ in PLACEMENTS {
        for (program, expected) in [
            ("return 6 * 7", "did 42"),
            ("return Object.keys(process.env).length", "did 0"),
            ("return fs.readFileSync('/etc/passwd')", "refused ENOSYS"),
            (
                "return fs.readFileSync(process.execPath).length",
                "refused ENOSYS",
            ),
            ("return fs.readdirSync('/')", "refused ENOSYS"),
            (
                "return fs.writeFileSync('/tmp/toolweave-attack', 'x')",
                "refused ENOSYS",
            ),
            ("return fs.statSync('/').size", "refused ENOSYS"),
            ("return fs.readlinkSync('/proc/self/exe')", "refused ENOSYS"),
            ("return fs.unlinkSync('/tmp/toolweave-attack')", "refused ENOSYS"),
            ("return fs.rmdirSync('/tmp/toolweave-attack')", "refused ENOSYS"),
            ("process.kill(process.ppid, 0)", "killed"),
            ("process.kill(process.pid, 9)", "killed"),
            ("net.connect(80, '127.0.0.1')", "killed"),
            ("require('dgram').createSocket('udp4').bind()", "killed"),
            ("process.setuid(1)", "killed"),
        ] {
            let outcome = attack(program, Stage::Locked, Vec::new())
                .await
                .expect("it starts and locks");
            assert_eq!(outcome, expected, "{program}");
        }
        // New processes and threads: how Node puts it differs between versions, that nothing comes of it does not.
        for program in [
            "const r = cp.spawnSync('/bin/true'); if (r.error) throw r.error; return r.status",
            "const r = cp.spawnSync(process.execPath, ['-v']); if (r.error) throw r.error; return r.status",
            "new (require('worker_threads').Worker)('0', {eval: true}); return 'a thread'",
        ] {
            let outcome = attack(program, Stage::Locked, Vec::new())
                .await
                .expect("it starts and locks");
            assert!(!outcome.starts_with("did"), "{program}: {outcome}");
        }
    }
}

#[tokio::test]
async fn a_starting_process_reaches_what_it_is_made_of_and_nothing_else() {
    for _ in PLACEMENTS {
        for (program, expected) in [
            (
                "return fs.readFileSync(process.execPath).length > 1e6",
                "did true",
            ),
            ("return fs.readFileSync('/etc/passwd')", "refused EACCES"),
            ("return fs.readdirSync('/')", "refused EACCES"),
            ("return fs.readFileSync('/proc/self/environ')", "refused EACCES"),
            (
                "return fs.writeFileSync('/tmp/toolweave-attack', 'x')",
                "refused ENOSYS",
            ),
        ] {
            let outcome = attack(program, Stage::Starting, Vec::new())
                .await
                .expect("it starts");
            assert_eq!(outcome, expected, "{program}");
        }
    }
}

#[tokio::test]
async fn each_layer_holds_without_the_other_and_its_loss_is_reported() {
    for _ in PLACEMENTS {
        // Without Landlock the filters hold a locked process; without filters Landlock does.
        for (program, left_out, expected) in [
            (
                "return fs.readFileSync('/etc/passwd')",
                Layer::Landlock,
                "refused ENOSYS",
            ),
            (
                "return fs.readFileSync('/etc/passwd')",
                Layer::Seccomp,
                "refused EACCES",
            ),
            (
                "return fs.writeFileSync('/tmp/toolweave-attack', 'x')",
                Layer::Seccomp,
                "refused EACCES",
            ),
        ] {
            let outcome = attack(program, Stage::Locked, vec![left_out])
                .await
                .expect("it starts");
            assert_eq!(outcome, expected, "without {left_out}: {program}");
        }
        for layer in [
            Layer::Landlock,
            Layer::Seccomp,
            Layer::ResourceLimits,
            Layer::Capabilities,
        ] {
            let launcher = Launcher::start(config("return 1", vec![layer])).expect("a good configuration");
            let starting = launcher.launch().await.expect("it starts");
            let mut socket =
                UnixStream::from_std(starting.socket().try_clone().expect("a socket")).expect("a socket");
            assert_eq!(socket.read_u8().await.expect("it starts"), b'R');
            let report = starting.lock().await.expect("it locks").report;
            assert_eq!(
                report
                    .missing
                    .iter()
                    .map(|missing| missing.layer)
                    .collect::<Vec<_>>(),
                [layer]
            );
            launcher.shutdown().await;
            let required = LaunchConfig {
                requirement: Requirement::Required,
                ..config("return 1", vec![layer])
            };
            let launcher = Launcher::start(required).expect("a good configuration");
            let refusal = match launcher.launch().await {
                Err(error) => error,
                Ok(starting) => starting.lock().await.expect_err("a layer is missing"),
            };
            assert!(
                matches!(refusal, SandboxError::Incomplete { .. }),
                "{layer}: {refusal:?}"
            );
        }
    }
}
