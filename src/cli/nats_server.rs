//! [`NatsServer`]: the embedded default, a nats-server of our own as a child process.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use super::WrongConfiguration;
use super::report::line;
use crate::accounts::random_secret;

/// The one NATS configuration, see there.
const NATS_CONF: &str = include_str!("../../nats.conf");

/// Around it: whoever connects from this machine may do everything, so that trying things out needs no password.
const DEV_CONF: &str = "include \"nats.conf\"\nno_auth_user: admin\n";

/// A server reads its log before it listens.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const START_POLL: Duration = Duration::from_millis(20);
/// A server that does not stop when it is asked is killed: everything acknowledged is on disk.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A nats-server that ends with this process.
#[derive(Debug)]
pub(super) struct NatsServer {
    child: Child,
    /// Where it listens.
    pub(super) url: String,
}

impl NatsServer {
    /// Starts a server on loopback, with its store under a folder; port 0 takes a free one.
    pub(super) async fn start(folder: &Path, port: u16) -> anyhow::Result<Self> {
        let program =
            std::env::var_os("RAILBIRD_NATS_SERVER").unwrap_or_else(|| "nats-server".into());
        fs::create_dir_all(folder)
            .with_context(|| format!("{} cannot be made", folder.display()))?;
        fs::write(folder.join("nats.conf"), NATS_CONF)?;
        fs::write(folder.join("dev.conf"), DEV_CONF)?;
        end_leftover(folder).await?;
        for old in ports_files(folder) {
            fs::remove_file(old)?;
        }
        let log_path = folder.join("nats-server.log");
        let log = File::create(&log_path)?;
        let port = if port == 0 {
            "-1".to_owned()
        } else {
            port.to_string()
        };
        let mut command = Command::new(&program);
        command
            .arg("--config")
            .arg(folder.join("dev.conf"))
            .args(["--addr", "127.0.0.1", "--port", &port])
            .arg("--store_dir")
            .arg(folder.join("store"))
            .arg("--ports_file_dir")
            .arg(folder)
            .arg("--pid")
            .arg(folder.join("nats-server.pid"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C is for this process, which then ends its child in order.
            .process_group(0)
            .kill_on_drop(true);
        for user in [
            "RAILBIRD_NATS_PASSWORD",
            "RAILBIRD_NATS_FEEDER_PASSWORD",
            "RAILBIRD_NATS_ADMIN_PASSWORD",
        ] {
            command.env(user, format!("p{}", random_secret()?));
        }
        let mut child = command.spawn().map_err(|error| {
            let program = program.to_string_lossy();
            WrongConfiguration(format!("{program} cannot be started ({error}): put nats-server 2.12 or later on the PATH, or name it in RAILBIRD_NATS_SERVER"))
        })?;
        let until = Instant::now() + START_TIMEOUT;
        loop {
            if let Some(url) = ports_files(folder).find_map(|path| nats_url(&path)) {
                return Ok(Self { child, url });
            }
            if let Some(status) = child.try_wait()? {
                bail!(
                    "nats-server ended at once ({status}): {}",
                    last_words(&log_path)
                );
            }
            if Instant::now() > until {
                bail!("nats-server does not listen: {}", last_words(&log_path));
            }
            sleep(START_POLL).await;
        }
    }

    /// Waits for the end of the server, which only comes by itself when something is wrong.
    pub(super) async fn ended(&mut self) -> anyhow::Error {
        match self.child.wait().await {
            Ok(status) => anyhow::anyhow!("nats-server ended: {status}"),
            Err(error) => error.into(),
        }
    }

    /// Asks the server to end, and sees that it does.
    pub(super) async fn stop(mut self) {
        if let Some(pid) = self
            .child
            .id()
            .and_then(|pid| i32::try_from(pid).ok())
            .and_then(rustix::process::Pid::from_raw)
        {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        if timeout(STOP_TIMEOUT, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

/// A server of an earlier run that was killed may still have the store: it is ended by the id that it wrote down.
async fn end_leftover(folder: &Path) -> anyhow::Result<()> {
    let Ok(text) = fs::read_to_string(folder.join("nats-server.pid")) else {
        return Ok(());
    };
    let Some(pid) = text
        .trim()
        .parse()
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    else {
        return Ok(());
    };
    let command = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    let ours =
        String::from_utf8_lossy(&command).contains(&*folder.join("dev.conf").to_string_lossy());
    if !ours {
        return Ok(());
    }
    line(format_args!(
        "a nats-server of an earlier run is still there; ending it"
    ));
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    let until = Instant::now() + STOP_TIMEOUT;
    while rustix::process::test_kill_process(pid).is_ok() {
        if Instant::now() > until {
            bail!(
                "the nats-server of an earlier run (process {}) does not end",
                pid.as_raw_nonzero()
            );
        }
        sleep(START_POLL).await;
    }
    Ok(())
}

fn ports_files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ext| ext == "ports"))
}

/// The server may still be writing the file.
fn nats_url(ports: &Path) -> Option<String> {
    let ports: Value = serde_json::from_slice(&fs::read(ports).ok()?).ok()?;
    Some(ports.pointer("/nats/0")?.as_str()?.to_owned())
}

fn last_words(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().last().unwrap_or("it said nothing").to_owned()
}
