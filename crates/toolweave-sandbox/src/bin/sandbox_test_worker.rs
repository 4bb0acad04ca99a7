//! A worker for the tests: its children do, one command at a time, what hostile code would do.
//!
//! `worker` serves a host. `host N` is a host of its own that takes N children and goes to sleep, for tests in which
//! the host dies. `check` is a host that runs every command given on its standard input in a child of its own and
//! prints what became of it, for tests under another user.

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(target_os = "linux")]
#[expect(clippy::print_stdout, clippy::unwrap_used, reason = "a test program")]
mod linux {
    use std::{
        ffi::{OsString, c_long},
        io::{BufRead, BufReader, Read, Write},
        os::unix::net::UnixStream,
    };
    use toolweave_sandbox::{ChildStart, Requirement, WarmConfig, WarmParent, serve_warm};

    pub(super) fn main() {
        let args: Vec<String> = std::env::args().skip(1).collect();
        match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["worker"] => serve(|| None),
            ["worker", "with-file"] => serve(|| Some(std::fs::File::open("/proc/self/exe").unwrap())),
            ["worker", "with-thread"] => serve(|| {
                std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_secs(60)));
                None
            }),
            ["worker", "slow"] => serve(|| {
                std::thread::sleep(std::time::Duration::from_secs(3600));
                None
            }),
            ["host", count] => host(count.parse().unwrap()),
            ["check"] => check(),
            _ => panic!("usage: worker [with-file | with-thread | slow] | host N | check"),
        }
    }

    fn serve(prepare: impl FnOnce() -> Option<std::fs::File>) {
        let Err(error) = serve_warm(prepare, obey);
        println!("{error}");
    }

    fn obey(_file: Option<std::fs::File>, start: ChildStart) -> u8 {
        let mut input = BufReader::new(start.socket);
        let mut line = String::new();
        while input.read_line(&mut line).unwrap_or(0) > 0 {
            let answer = match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
                ["exit", code] => return code.parse().unwrap(),
                ["entropy"] => format!("{:?}", start.entropy.0),
                ["start"] => format!("{} {}", start.stack_bytes, start.max_memory_bytes),
                ref command => hostile(command),
            };
            line.clear();
            let mut socket = input.get_ref();
            if socket.write_all(format!("{answer}\n").as_bytes()).is_err() {
                break;
            }
        }
        0
    }

    fn hostile(command: &[&str]) -> String {
        let number = |text: &str| text.parse::<c_long>().unwrap();
        match *command {
            ["ping"] => String::from("pong"),
            ["open", path] => match std::fs::File::open(path) {
                Ok(mut file) => {
                    let mut byte = [0];
                    format!(
                        "opened, {:?}",
                        file.read(&mut byte).map_err(|error| error.raw_os_error())
                    )
                }
                Err(error) => refused(&error),
            },
            ["create", path] => outcome(std::fs::File::create(path)),
            ["list", path] => outcome(std::fs::read_dir(path)),
            ["execute", path] => outcome(std::os::unix::process::CommandExt::exec(&mut program(path))),
            ["fork"] => call(libc::SYS_clone, [c_long::from(libc::SIGCHLD), 0, 0, 0, 0, 0]),
            ["thread"] => outcome(std::thread::Builder::new().spawn(|| ())),
            ["socket"] => call(
                libc::SYS_socket,
                [libc::AF_INET.into(), libc::SOCK_STREAM.into(), 0, 0, 0, 0],
            ),
            ["netlink"] => call(
                libc::SYS_socket,
                [libc::AF_NETLINK.into(), libc::SOCK_RAW.into(), 0, 0, 0, 0],
            ),
            ["connect", address] => outcome(std::net::TcpStream::connect(address)),
            ["ptrace", pid] => call(
                libc::SYS_ptrace,
                [libc::PTRACE_ATTACH.into(), number(pid), 0, 0, 0, 0],
            ),
            ["peek", pid] => call(libc::SYS_process_vm_readv, [number(pid), 0, 0, 0, 0, 0]),
            ["kill", pid, signal] => call(libc::SYS_kill, [number(pid), number(signal), 0, 0, 0, 0]),
            ["tgkill", pid, signal] => call(
                libc::SYS_tgkill,
                [number(pid), number(pid), number(signal), 0, 0, 0],
            ),
            ["mmap", protection, flags] => {
                let flags = number(flags) | c_long::from(libc::MAP_ANONYMOUS | libc::MAP_PRIVATE);
                call(libc::SYS_mmap, [0, 4096, number(protection), flags, -1, 0])
            }
            ["mprotect", protection] => {
                let page = Box::leak(vec![0_u8; 8192].into_boxed_slice())
                    .as_ptr()
                    .addr()
                    .next_multiple_of(4096);
                call(
                    libc::SYS_mprotect,
                    [page as c_long, 4096, number(protection), 0, 0, 0],
                )
            }
            ["prctl", option, value] => call(libc::SYS_prctl, [number(option), number(value), 0, 0, 0, 0]),
            ["dumpable"] => format!(
                "{:?}",
                raw(libc::SYS_prctl, [libc::PR_GET_DUMPABLE.into(), 0, 0, 0, 0, 0]).ok()
            ),
            ["nice", value] => call(libc::SYS_setpriority, [0, 0, number(value), 0, 0, 0]),
            ["ioctl", request] => call(libc::SYS_ioctl, [3, number(request), 0, 0, 0, 0]),
            ["clock", id] => call(libc::SYS_clock_getres, [number(id), 0, 0, 0, 0, 0]),
            ["syscall", call_number] => call(number(call_number), [0; 6]),
            ["dup"] => call(libc::SYS_dup, [3, 0, 0, 0, 0, 0]),
            ["descriptors"] => {
                let open =
                    |fd: &c_long| raw(libc::SYS_fcntl, [*fd, libc::F_GETFL.into(), 0, 0, 0, 0]).is_ok();
                format!("{:?}", (0..4096).filter(open).collect::<Vec<_>>())
            }
            ["environment"] => format!("{:?}", std::env::vars_os().collect::<Vec<_>>()),
            ["spin"] => loop {
                std::hint::spin_loop();
            },
            ["sleep"] => loop {
                std::thread::sleep(std::time::Duration::from_secs(60));
            },
            ["allocate", mib] => {
                let bytes = vec![1_u8; mib.parse::<usize>().unwrap() << 20];
                format!("allocated {}", std::hint::black_box(bytes).len() >> 20)
            }
            ["recurse"] => format!("recursed {}", recurse(0)),
            ["panic"] => panic!("as told"),
            ["abort"] => std::process::abort(),
            ref other => format!("unknown command {other:?}"),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "it is not expected to run")]
    fn program(path: &str) -> std::process::Command {
        std::process::Command::new(path)
    }

    fn recurse(depth: u64) -> u64 {
        let frame = std::hint::black_box([depth; 512]);
        if depth == u64::MAX {
            frame[0]
        } else {
            recurse(depth + 1) + frame[511]
        }
    }

    trait Attempt {
        fn attempt(self) -> Result<(), std::io::Error>;
    }
    impl<T> Attempt for Result<T, std::io::Error> {
        fn attempt(self) -> Result<(), std::io::Error> {
            self.map(drop)
        }
    }
    impl Attempt for std::io::Error {
        fn attempt(self) -> Result<(), std::io::Error> {
            Err(self)
        }
    }

    fn outcome(result: impl Attempt) -> String {
        match result.attempt() {
            Ok(()) => String::from("done"),
            Err(error) => refused(&error),
        }
    }

    fn refused(error: &std::io::Error) -> String {
        match error.raw_os_error() {
            Some(libc::EACCES) => String::from("refused: EACCES"),
            Some(libc::EPERM) => String::from("refused: EPERM"),
            Some(libc::EMFILE) => String::from("refused: EMFILE"),
            Some(libc::EAGAIN) => String::from("refused: EAGAIN"),
            _ => format!("refused: {error}"),
        }
    }

    fn call(number: c_long, arguments: [c_long; 6]) -> String {
        outcome(raw(number, arguments))
    }

    #[expect(unsafe_code, reason = "hostile code makes raw calls")]
    fn raw(number: c_long, [a, b, c, d, e, f]: [c_long; 6]) -> Result<c_long, std::io::Error> {
        // SAFETY: whatever these calls do to this process is the test; it ends afterwards, and pointers are null.
        let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
        if result == -1 {
            Err(std::io::Error::last_os_error())
        } else {
            Ok(result)
        }
    }

    fn config() -> WarmConfig {
        WarmConfig {
            args: vec![OsString::from("worker")],
            requirement: Requirement::Required,
            ..WarmConfig::default()
        }
    }

    fn block_on<F: Future>(future: F) -> F::Output {
        let mut future = std::pin::pin!(future);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        loop {
            if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    fn host(count: usize) {
        let pool = WarmParent::start(config()).unwrap();
        let children: Vec<_> = (0..count).map(|_| block_on(pool.take()).unwrap()).collect();
        for child in &children {
            // Half of them work, half of them wait.
            let command = if child.pid() % 2 == 0 { "spin\n" } else { "sleep\n" };
            child.socket().write_all_to(command);
            println!("{}", child.pid());
        }
        println!("end");
        loop {
            std::thread::sleep(std::time::Duration::from_secs(60));
        }
    }

    trait WriteAllTo {
        fn write_all_to(&self, text: &str);
    }
    impl WriteAllTo for UnixStream {
        fn write_all_to(&self, text: &str) {
            let mut socket = self;
            socket.write_all(text.as_bytes()).unwrap();
        }
    }

    fn check() {
        let pool = WarmParent::start(config()).unwrap();
        println!("{}", pool.report());
        for command in std::io::stdin().lines() {
            let command = command.unwrap();
            let (mut socket, handle) = block_on(pool.take()).unwrap().split();
            socket.set_nonblocking(false).unwrap();
            match command.strip_prefix("host: read ") {
                Some(file) => {
                    let result = std::fs::read(format!("/proc/{}/{file}", handle.pid()));
                    println!("{command}: {}", outcome(result));
                }
                None => {
                    socket.write_all_to(&format!("{command}\nexit 0\n"));
                    let mut answer = String::new();
                    let _ = socket.read_to_string(&mut answer);
                    let status = block_on(handle.wait()).status;
                    println!("{command}: {}{status}", answer.replace('\n', ", "));
                }
            }
        }
    }
}
