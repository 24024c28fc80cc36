//! [`ServiceManager`]: what systemd is sent of the state of the service, as in sd_notify(3).

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Handle;
use tokio::time::{MissedTickBehavior, interval};

use crate::http::state::App;

const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";
/// The microseconds after which systemd ends a service without a sign of life, and the process that it means.
const WATCHDOG_VARIABLE: &str = "WATCHDOG_USEC";
const WATCHDOG_PID_VARIABLE: &str = "WATCHDOG_PID";
/// How often the status is sent, if it has changed.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// The service manager that started this process; none without `NOTIFY_SOCKET`.
#[derive(Debug, Clone)]
pub(super) struct ServiceManager(Option<Arc<UnixDatagram>>);

impl ServiceManager {
    pub(super) fn connect() -> Self {
        let address = env::var_os(SOCKET_VARIABLE).filter(|address| !address.is_empty());
        let connected = address.map(|address| connect(&address)).transpose().unwrap_or_else(|error| {
            tracing::warn!(%error, "the service manager in {SOCKET_VARIABLE} cannot be notified");
            None
        });
        Self(connected.map(Arc::new))
    }

    /// The service listens. Whether it may be sent requests is up to `/readyz`: folding a long log takes longer than a
    /// start may.
    pub(super) fn listening(&self) {
        self.send("READY=1");
    }

    pub(super) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let microseconds = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}"));
    }

    pub(super) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=the service is stopping");
    }

    /// Sends why the service is not ready, or that it is, until dropped.
    pub(super) async fn send_status(&self, app: &App) {
        if self.0.is_none() {
            return std::future::pending().await;
        }
        let mut tick = interval(STATUS_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sent = String::new();
        loop {
            tick.tick().await;
            let status = match app.health.state().unready(None) {
                reason if reason.is_empty() => "ready".to_owned(),
                reason => format!("not ready: {reason}"),
            };
            if status != sent {
                self.send(&format!("STATUS={status}"));
                sent = status;
            }
        }
    }

    /// Starts to send signs of life, as often as the service manager asks for, while all of these runtimes run tasks.
    pub(super) fn send_signs_of_life(&self, runtimes: Vec<Handle>) {
        let variable = |name| env::var(name).ok()?.parse::<u64>().ok();
        let is_other = |id: u64| id != u64::from(std::process::id());
        let Some(after) = variable(WATCHDOG_VARIABLE).filter(|after| *after > 1) else {
            return;
        };
        if variable(WATCHDOG_PID_VARIABLE).is_some_and(is_other) {
            return;
        }
        let manager = self.clone();
        let mut tick = interval(Duration::from_micros(after / 2));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tokio::spawn(async move {
            loop {
                tick.tick().await;
                run_on_each(&runtimes).await;
                manager.send("WATCHDOG=1");
            }
        });
    }

    fn send(&self, message: &str) {
        let Some(socket) = &self.0 else { return };
        if let Err(error) = socket.send(message.as_bytes()) {
            tracing::debug!(%error, message, "the service manager was not notified");
        }
    }
}

/// Has each runtime run a task. One whose threads are all blocked does not.
async fn run_on_each(runtimes: &[Handle]) {
    for runtime in runtimes {
        // It fails only where the runtime ends.
        let _ = runtime.spawn(async {}).await;
    }
}

fn connect(address: &OsStr) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    // A manager that reads nothing must not hold up the service.
    socket.set_nonblocking(true)?;
    match address.as_bytes() {
        [b'@', name @ ..] => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        _ => socket.connect(address)?,
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::runtime::{Builder, Handle};

    use super::run_on_each;

    #[tokio::test]
    async fn a_runtime_whose_threads_are_blocked_shows_no_sign_of_life() {
        let blocked = Builder::new_multi_thread().worker_threads(1).build();
        let blocked = blocked.expect("a runtime");
        let runtimes = [Handle::current(), blocked.handle().clone()];
        run_on_each(&runtimes).await;
        let (is_running, runs) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        blocked.spawn(async move {
            is_running.send(()).expect("a receiver");
            released.recv()
        });
        runs.recv().expect("it runs");
        let mut waiting = std::pin::pin!(run_on_each(&runtimes));
        // The task of the blocked runtime is behind that of the other one, which has run.
        for _ in 0..100 {
            tokio::task::yield_now().await;
            assert!(futures::poll!(&mut waiting).is_pending());
        }
        release.send(()).expect("a receiver");
        waiting.await;
        blocked.shutdown_background();
    }
}
