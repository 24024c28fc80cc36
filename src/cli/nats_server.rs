//! [`NatsServer`]: the nats-server that `railbird dev` runs as a child process.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use super::WrongConfiguration;
use super::report::line;
use crate::accounts::random_secret;

/// The NATS configuration of the repository.
const NATS_CONF: &str = include_str!("../../nats.conf");

/// The file that it includes, without feeders.
const FEEDERS_CONF: &str = include_str!("../../feeders.conf");

/// Includes it, and gives local connections every permission without a password.
const DEV_CONF: &str = "include \"nats.conf\"\nno_auth_user: admin\n";

/// nats-server reads its log before it listens.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const START_POLL: Duration = Duration::from_millis(20);
/// A server that does not stop within this time is killed: every acknowledged event is on disk.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A nats-server that ends with this process.
pub(super) struct NatsServer {
    child: Child,
    /// The address for clients.
    pub(super) url: String,
}

impl NatsServer {
    /// Starts a server on loopback, with its store in a folder; port 0 picks a free port.
    ///
    /// # Errors
    /// Returns [`WrongConfiguration`] if the program cannot be started, and an error with the last line of its log if
    /// it ends or does not listen within [`START_TIMEOUT`].
    pub(super) async fn start(folder: &Path, port: u16) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)
            .with_context(|| format!("the folder {} cannot be created", folder.display()))?;
        fs::write(folder.join("nats.conf"), NATS_CONF)?;
        fs::write(folder.join("feeders.conf"), FEEDERS_CONF)?;
        fs::write(folder.join("dev.conf"), DEV_CONF)?;
        stop_leftover(folder).await?;
        for old in ports_files(folder) {
            fs::remove_file(old)?;
        }
        let log_path = folder.join("nats-server.log");
        let mut child = spawn(folder, port, File::create(&log_path)?)?;
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if let Some(url) = ports_files(folder).find_map(|path| nats_url(&path)) {
                return Ok(Self { child, url });
            }
            if let Some(status) = child.try_wait()? {
                bail!("nats-server ended ({status}): {}", last_line(&log_path));
            }
            if Instant::now() > deadline {
                let seconds = START_TIMEOUT.as_secs();
                let line = last_line(&log_path);
                bail!("nats-server does not listen after {seconds} s: {line}");
            }
            sleep(START_POLL).await;
        }
    }

    /// Waits until the server ends by itself, which is an error.
    pub(super) async fn ended(&mut self) -> anyhow::Error {
        match self.child.wait().await {
            Ok(status) => anyhow::anyhow!("nats-server ended: {status}"),
            Err(error) => error.into(),
        }
    }

    /// Terminates the server, and kills it after [`STOP_TIMEOUT`].
    pub(super) async fn stop(mut self) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        if timeout(STOP_TIMEOUT, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

fn spawn(folder: &Path, port: u16, log: File) -> anyhow::Result<Child> {
    let program = std::env::var_os("RAILBIRD_NATS_SERVER").unwrap_or_else(|| "nats-server".into());
    let port = if port == 0 { -1 } else { i32::from(port) };
    let mut command = Command::new(&program);
    command
        .arg("--config")
        .arg(folder.join("dev.conf"))
        .args(["--addr", "127.0.0.1", "--port", &port.to_string()])
        .arg("--store_dir")
        .arg(folder.join("store"))
        .arg("--ports_file_dir")
        .arg(folder)
        .arg("--pid")
        .arg(folder.join("nats-server.pid"))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        // Ctrl-C reaches this process only, which then stops the server in order.
        .process_group(0)
        .kill_on_drop(true);
    for password in [
        "RAILBIRD_NATS_PASSWORD",
        "RAILBIRD_NATS_KEYS_PASSWORD",
        "RAILBIRD_NATS_FEEDER_PASSWORD",
        "RAILBIRD_NATS_ADMIN_PASSWORD",
    ] {
        command.env(password, format!("p{}", random_secret()?));
    }
    command.spawn().map_err(|error| {
        let program = program.to_string_lossy();
        let message = format!(
            "{program} cannot be started ({error}): put nats-server 2.12 or later on the PATH, or name it in RAILBIRD_NATS_SERVER"
        );
        WrongConfiguration(message).into()
    })
}

/// Stops the server of an earlier run that was killed. It still holds the store, and its id is in the pid file.
async fn stop_leftover(folder: &Path) -> anyhow::Result<()> {
    let pid = fs::read_to_string(folder.join("nats-server.pid")).ok();
    let Some(pid) = pid.and_then(|pid| Pid::from_raw(pid.trim().parse().ok()?)) else {
        return Ok(());
    };
    let id = pid.as_raw_nonzero();
    // The id may belong to another process by now.
    let command = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    let config = folder.join("dev.conf");
    if !String::from_utf8_lossy(&command).contains(&*config.to_string_lossy()) {
        return Ok(());
    }
    line(format_args!(
        "stopping the nats-server of an earlier run (process {id})"
    ));
    let _ = kill_process(pid, Signal::TERM);
    let deadline = Instant::now() + STOP_TIMEOUT;
    while test_kill_process(pid).is_ok() {
        if Instant::now() > deadline {
            bail!("the nats-server of an earlier run (process {id}) does not stop; kill it");
        }
        sleep(START_POLL).await;
    }
    Ok(())
}

fn ports_files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.extension().is_some_and(|ext| ext == "ports"))
}

/// The address in a ports file; `None` while the server is still writing it.
fn nats_url(ports: &Path) -> Option<String> {
    let ports: Value = serde_json::from_slice(&fs::read(ports).ok()?).ok()?;
    Some(ports.pointer("/nats/0")?.as_str()?.to_owned())
}

fn last_line(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().last().unwrap_or("its log is empty").to_owned()
}
