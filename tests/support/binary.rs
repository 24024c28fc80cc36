//! The `railbird` binary, run as people run it.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::Nats;

/// What a command said, and how it ended.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: i32,
    /// The last lines of standard output, from the one that counts.
    pub(crate) summary: String,
    /// Everything.
    pub(crate) all: String,
}

pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_railbird"));
    // What the shell around the tests is set to is none of their business.
    for (name, _) in std::env::vars()
        .filter(|(name, _)| name.starts_with("RAILBIRD_") && name != "RAILBIRD_NATS_SERVER")
    {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// Runs a command to its end, on a thread of its own: the service that it talks to may live in this one.
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

/// `railbird serve` as a process of its own, to be killed.
pub(crate) struct Serving {
    child: Child,
    pub(crate) http: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Serving {
    pub(crate) fn start(nats: &Nats, data: &Path) -> Self {
        Self::start_at(nats, data, "127.0.0.1:0")
    }

    pub(crate) fn start_at(nats: &Nats, data: &Path, http: &str) -> Self {
        let mut command = command();
        command
            .args(["serve", "--nats", &nats.url(), "--log-json"])
            .args(["--http", http, "--admin", "127.0.0.1:0", "--data"])
            .arg(data)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let addresses = lines
            .by_ref()
            .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap())
            .find_map(|entry| {
                let address = |name: &str| entry["fields"][name].as_str()?.parse().ok();
                Some((address("http")?, address("admin")?))
            });
        let (http, admin) = addresses.expect("the log says where it serves");
        // Read on, so that the process never waits for a full pipe.
        std::thread::spawn(move || lines.count());
        Self { child, http, admin }
    }

    /// kill -9.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
