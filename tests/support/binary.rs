//! The `railbird` binary, run as people run it.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use serde_json::Value;

use super::{Nats, PATIENCE, eventually, request};

/// The output of a command, and its exit code.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: i32,
    /// Standard output from the summary on.
    pub(crate) summary: String,
    /// Standard output and standard error.
    pub(crate) all: String,
}

pub(crate) fn command() -> Command {
    command_of(Path::new(env!("CARGO_BIN_EXE_railbird")))
}

/// A command of the binary of another version.
pub(crate) fn command_of(program: &Path) -> Command {
    let mut command = Command::new(program);
    // The tests do not depend on the variables of the shell.
    for (name, _) in std::env::vars()
        .filter(|(name, _)| name.starts_with("RAILBIRD_") && name != "RAILBIRD_NATS_SERVER")
    {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// Runs a command to its end, on a blocking thread: this one may run the service that the command connects to.
pub(crate) async fn railbird<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Output {
    let mut command = command();
    command.args(args);
    let output = tokio::task::spawn_blocking(move || command.output())
        .await
        .unwrap()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<&str> = stdout.lines().collect();
    let first = lines
        .iter()
        .position(|line| line.contains(" read, "))
        .unwrap_or(0);
    Output {
        code: output.status.code().unwrap_or(-1),
        summary: lines[first..].join("\n"),
        all: format!("{stdout}{stderr}"),
    }
}

/// `railbird serve` as a process, to be killed or measured.
#[derive(Debug)]
pub(crate) struct Serving {
    child: Child,
    pub(crate) http: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// Reads all that the process writes, so that it never waits for a full pipe.
    log: Option<JoinHandle<Vec<String>>>,
}

impl Serving {
    pub(crate) fn start(nats: &Nats, data: &Path) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), nats, data)
    }

    /// The same, on the address of a service that has ended.
    pub(crate) fn start_at(http: SocketAddr, nats: &Nats, data: &Path) -> Self {
        let http = http.to_string();
        Self::start_with(&["--http", &http, "--nats", &nats.url()], data)
    }

    /// The same, with these flags.
    pub(crate) fn start_with(flags: &[&str], data: &Path) -> Self {
        Self::start_as(command(), flags, data)
    }

    /// The same, whose data folder is a file system of its own of this size.
    pub(crate) fn start_on_small_disk(nats: &Nats, data: &Path, size: &str) -> Self {
        let mut command = Command::new("unshare");
        let mount = format!("mount -t tmpfs -o size={size} none \"$0\" && exec \"$@\"");
        command.args(["-rm", "sh", "-c", &mount]).arg(data);
        command.arg(env!("CARGO_BIN_EXE_railbird"));
        let http = ["--http", "127.0.0.1:0", "--nats", &nats.url()];
        Self::start_as(command, &http, data)
    }

    /// The same, with a command that has variables of its own.
    pub(crate) fn start_as(mut command: Command, flags: &[&str], data: &Path) -> Self {
        let (reader, writer) = std::io::pipe().unwrap();
        command.args(["serve", "--log-json"]);
        if !flags.contains(&"--admin") {
            command.args(["--admin", "127.0.0.1:0"]);
        }
        command
            .arg("--data")
            .arg(data)
            .args(flags)
            .stdout(writer.try_clone().unwrap())
            .stderr(writer);
        let mut child = command.spawn().unwrap();
        // The pipe ends when its last writer is dropped.
        drop(command);
        let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
        let mut first_lines = Vec::new();
        let addresses = lines.by_ref().find_map(|line| {
            // What is no JSON explains why it does not start.
            let entry: Value = serde_json::from_str(&line).unwrap_or_default();
            first_lines.push(line);
            let address = |name| entry["fields"][name].as_str()?.parse().ok();
            Some((address("http")?, address("admin")?))
        });
        let Some((http, admin)) = addresses else {
            // Until then it counts as a process of its user.
            child.wait().unwrap();
            panic!("no line has the addresses:\n{}", first_lines.join("\n"));
        };
        let log = std::thread::spawn(move || first_lines.into_iter().chain(lines).collect());
        Self {
            child,
            http,
            admin,
            log: Some(log),
        }
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Sends SIGTERM, waits until the process has ended, and returns its log.
    pub(crate) async fn stop(mut self) -> Vec<String> {
        self.signal(rustix::process::Signal::TERM);
        let ended = tokio::task::spawn_blocking(move || {
            let log = self.log.take().unwrap().join().unwrap();
            (self.child.wait().unwrap(), log)
        });
        let (status, log) = ended.await.unwrap();
        assert!(status.success());
        log
    }

    /// Waits until the process ends by itself, and returns its exit code and its log.
    pub(crate) async fn until_ended(mut self) -> (Option<i32>, String) {
        let until = std::time::Instant::now() + PATIENCE;
        while self.child.try_wait().unwrap().is_none() {
            assert!(std::time::Instant::now() < until, "the service runs on");
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let code = self.child.wait().unwrap().code();
        (code, self.log.take().unwrap().join().unwrap().join("\n"))
    }

    /// Waits until its reads are right, by the admin address: that of a service with TLS is plain, too.
    pub(crate) async fn until_it_knows_another_replica(&self) {
        eventually("another replica is known", async || {
            let status = request(self.admin, "GET", "/status", &[]).await.json();
            status["replicas"] != serde_json::json!([])
        })
        .await;
    }

    pub(crate) async fn until_ready(&self) {
        eventually("the service is ready", || async {
            let status = request(self.admin, "GET", "/status", &[]).await;
            status.json()["ready"] == true
        })
        .await;
    }

    /// The peak of its resident memory.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.memory("VmHWM:")
    }

    /// Its resident memory.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.memory("VmRSS:")
    }

    fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let memory = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = memory.unwrap().trim().trim_end_matches(" kB");
        kib.parse::<u64>().unwrap() * 1024
    }

    /// The value of a metric without labels.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let metrics = request(self.admin, "GET", "/metrics", &[]).await.text();
        let value = metrics
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap().parse().unwrap()
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The root of the file systems that the process sees.
    pub(crate) fn root(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.child.id()))
    }

    /// kill -9.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGSTOP: it keeps its connections and does nothing.
    pub(crate) fn pause(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    /// SIGCONT.
    pub(crate) fn resume(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `railbird dev` on free ports, after it has printed its addresses.
#[derive(Debug)]
pub(crate) struct Dev {
    /// `None` once the test has taken it.
    child: Option<Child>,
    /// Its standard output up to the address of the live channel.
    pub(crate) output: Vec<String>,
    pub(crate) http: SocketAddr,
    pub(crate) key: String,
}

impl Dev {
    pub(crate) fn start(data: &Path, more: &[&str]) -> Self {
        let mut command = command();
        command
            .args(["dev", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(["--nats-port", "0", "--data"])
            .arg(data)
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let output: Vec<String> = lines
            .map(Result::unwrap)
            .take_while(|line| !line.starts_with("ws://"))
            .collect();
        let curl = output
            .iter()
            .find_map(|line| line.strip_prefix("curl -H 'X-API-Key: "));
        let (key, url) = curl.unwrap().split_once("' http://").unwrap();
        let (address, _) = url.split_once('/').unwrap();
        Self {
            http: address.parse().unwrap(),
            key: key.to_owned(),
            child: Some(child),
            output,
        }
    }

    pub(crate) fn nats(&self) -> &str {
        let nats = self
            .output
            .iter()
            .find_map(|line| line.strip_prefix("NATS "));
        nats.unwrap().trim()
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let headers = [("x-api-key", self.key.as_str())];
        let reply = request(self.http, "GET", path, &headers).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply.json()
    }

    /// Sends SIGINT, as Ctrl-C does, and waits until the process has ended.
    pub(crate) fn interrupt(self) {
        let mut child = self.into_child();
        let id = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// The process, which the test then ends.
    pub(crate) fn into_child(mut self) -> Child {
        self.child.take().unwrap()
    }
}

/// A test that fails leaves no nats-server behind: `dev` ends its own when it is interrupted, not when it is killed.
impl Drop for Dev {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let id = rustix::process::Pid::from_child(child);
            let _ = rustix::process::kill_process(id, rustix::process::Signal::INT);
            let _ = child.wait();
        }
    }
}
