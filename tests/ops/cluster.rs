//! `script/cluster`: a cluster on this machine that leaves nothing.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::proxy::free_address;
use crate::support::*;

/// The ports that the script takes, from the one it is given.
const PORTS: u16 = 13;
/// Below the ports that systems give to clients, of which others may take some at any time.
const LAST_PORT: u16 = 32_000;

/// Runs a program as in a container without an init: what its processes leave behind is never waited for. Passes
/// signals on, also where the tests are a job in the background, whose programs begin with SIGINT ignored.
const WITHOUT_INIT: &str = "
import ctypes, signal, subprocess, sys
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
signal.signal(signal.SIGINT, signal.SIG_DFL)
program = subprocess.Popen(sys.argv[1:])
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: program.send_signal(number))
sys.exit(program.wait())
";

/// `script/cluster`, with its files in a folder of the test.
struct Script {
    process: Process,
    folder: TempDir,
}

/// The first of some ports in a row that nothing listens on. No test of this process gets them again.
fn free_ports() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
    // Each process begins elsewhere.
    let first = 10_000 + u16::try_from(std::process::id() % 1_000).unwrap() * PORTS;
    loop {
        let taken = NEXT.fetch_add(PORTS, Ordering::Relaxed);
        let ports = first + taken..first + taken + PORTS;
        assert!(ports.end < LAST_PORT, "no free ports");
        if ports.clone().all(is_free) {
            return ports.start;
        }
    }
}

/// Whether a page is served that has this text.
async fn serves(address: SocketAddr, path: &str, key: &str, text: &str) -> bool {
    let reply = try_send(address, "GET", path, &[("x-api-key", key)], String::new()).await;
    reply.is_ok_and(|reply| reply.status == 200 && reply.text().contains(text))
}

impl Script {
    fn start(port: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        fs::create_dir(folder.path().join("tmp")).unwrap();
        let python = tool("RAILBIRD_PYTHON", "python3", ["-c", "import ctypes"]);
        let mut command = Command::new(python);
        command
            .args(["-c", WITHOUT_INIT])
            .arg(root.join("script/cluster"))
            .arg(port.to_string())
            .env("RAILBIRD_PROGRAM", env!("CARGO_BIN_EXE_railbird"))
            .env("TMPDIR", folder.path().join("tmp"));
        let process = Process::start(command, folder.path().join("output"));
        Self { process, folder }
    }

    /// The key, once everything runs.
    async fn key(&mut self) -> String {
        let mut key = None;
        let output = self.folder.path().join("output");
        let serves = || {
            let output = fs::read_to_string(&output).unwrap();
            let mut lines = output.lines();
            key = lines.find_map(|line| Some(line.strip_prefix("API key ")?.trim().to_owned()));
            std::future::ready(output.contains("\nws://"))
        };
        self.process.until("everything runs", serves).await;
        key.unwrap()
    }

    /// The processes with a path in the folder of the script.
    fn processes(&self) -> Vec<String> {
        let folder = self.folder.path().join("tmp").display().to_string();
        let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
        lines.filter(|line| line.contains(&folder)).collect()
    }

    /// Waits until the script has ended, and checks that nothing is left. Returns its exit code and its output.
    async fn until_gone(mut self) -> (Option<i32>, String) {
        let status = self.process.ended().await;
        assert_eq!(self.processes(), Vec::<String>::new());
        let left: Vec<_> = fs::read_dir(self.folder.path().join("tmp"))
            .unwrap()
            .collect();
        assert!(left.is_empty(), "{left:?}");
        (status.code(), self.process.output())
    }
}

/// The process whose command line has this part.
fn pid_with(part: &str) -> Pid {
    let mut entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let pid = entries.find_map(|entry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let is_it = line.contains(part) && !line.contains("script/cluster");
        is_it
            .then(|| entry.file_name().to_str()?.parse().ok())
            .flatten()
    });
    Pid::from_raw(pid.unwrap()).unwrap()
}

#[tokio::test]
async fn the_cluster_serves_through_the_balancer_and_leaves_nothing() {
    if program("haproxy").is_none() {
        return;
    }
    let port = free_ports();
    let mut script = Script::start(port);
    let key = script.key().await;
    let balancer = SocketAddr::from(([127, 0, 0, 1], port));
    let card = || serves(balancer, "/api/v1/racecards/today", &key, "\"RB\"");
    script.process.until("the card is served", card).await;
    let path = format!("/ws/live/odds?api_key={key}");
    let mut socket = Socket::connect(balancer, &path).await;
    socket.until("snapshot_complete").await;
    socket.until("odds_update").await;

    // A process that is killed comes back, and the balancer serves meanwhile.
    let replica = SocketAddr::from(([127, 0, 0, 1], port + 1));
    kill_process(pid_with(&format!("--http {replica}")), Signal::KILL).unwrap();
    assert_eq!(request(balancer, "GET", "/readyz", &[]).await.status, 200);
    let ready = || serves(replica, "/readyz", &key, "\"ready\":true");
    let process = &mut script.process;
    process.until("the replica is ready again", ready).await;
    let output = script.process.output();
    assert!(output.contains("railbird-1 has ended"), "{output}");

    assert!(script.processes().len() >= 7, "{:?}", script.processes());
    script.process.signal(Signal::INT);
    assert_eq!(script.until_gone().await.0, Some(0));
}

#[tokio::test]
async fn a_cluster_that_is_stopped_while_it_starts_leaves_nothing() {
    if program("haproxy").is_none() {
        return;
    }
    let script = Script::start(free_ports());
    eventually("a replica has begun", || {
        let mut processes = script.processes().into_iter();
        std::future::ready(processes.any(|line| line.contains(" serve ")))
    })
    .await;
    script.process.signal(Signal::TERM);
    assert_eq!(script.until_gone().await.0, Some(0));
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let taken = free_address();
    let listener = TcpListener::bind(taken).unwrap();
    let (code, log) = Script::start(taken.port()).until_gone().await;
    assert_eq!(code, Some(1));
    assert!(
        log.contains(&format!("port {} is in use", taken.port())),
        "{log}"
    );
    drop(listener);
}
