//! A server as a process of its own: started, measured by the kernel's own figures, stopped.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Set in the process that runs on a core of its own.
const PINNED: &str = "BERTH_BENCH_PINNED";

/// Whether programs can be held to a core.
fn can_pin() -> bool {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores >= 2 && Command::new("taskset").arg("--version").stdout(Stdio::null()).status().is_ok()
}

/// `program`, held to `core` where that can be done.
pub fn on_core(core: usize, program: &Path) -> Command {
    if std::env::var_os(PINNED).is_none() {
        return Command::new(program);
    }
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string()]).arg(program);
    command
}

/// Run this program again on core 1, and return its exit code; `None` when this is that run, or
/// when programs can't be held to cores.
pub fn pinned(arguments: &[String]) -> Option<i32> {
    if std::env::var_os(PINNED).is_some() {
        return None;
    }
    if !can_pin() {
        eprintln!("no taskset or one core: servers and load share what there is");
        return None;
    }
    let this = std::env::current_exe().expect("this program");
    let mut command = Command::new("taskset");
    let status = command.args(["-c", "1"]).arg(this).args(&arguments[1..]).env(PINNED, "1").status();
    Some(status.expect("starts").code().unwrap_or(1))
}

/// A running server.
pub struct Process {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Process {
    /// Start `command` and wait for the line with its address.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on http://").expect("the address");
        Self { address: address.parse().expect("an address"), child }
    }

    /// CPU seconds used so far by all threads, to the nanosecond.
    pub fn cpu_s(&self) -> f64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("alive");
        let ns = tasks.flatten().filter_map(|task| {
            let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        });
        ns.sum::<u64>() as f64 / 1e9
    }

    /// Resident memory, in MiB.
    pub fn resident_mib(&self) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("alive");
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
        let kib: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        kib / 1_024.0
    }

    /// Send one request that must succeed; for setting up.
    pub fn send(&self, method: &str, path: &str, body: &str) {
        let mut stream = TcpStream::connect(self.address).expect("connects");
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: b\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        assert!(answer.starts_with("HTTP/1.1 20"), "{method} {path}: {answer}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
