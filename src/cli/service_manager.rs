//! [`ServiceManager`]: what systemd is sent of the state of the service, as in sd_notify(3).

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::{MissedTickBehavior, interval};

use crate::http::state::App;

const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";
/// How often the status is sent, if it has changed.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// The service manager that started this process; none without `NOTIFY_SOCKET`.
#[derive(Debug)]
pub(super) struct ServiceManager(Option<UnixDatagram>);

impl ServiceManager {
    pub(super) fn connect() -> Self {
        let address = env::var_os(SOCKET_VARIABLE).filter(|address| !address.is_empty());
        let connected = address.map(|address| connect(&address)).transpose();
        Self(connected.unwrap_or_else(|error| {
            tracing::warn!(%error, "the service manager in {SOCKET_VARIABLE} cannot be notified");
            None
        }))
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

    fn send(&self, message: &str) {
        let Some(socket) = &self.0 else { return };
        if let Err(error) = socket.send(message.as_bytes()) {
            tracing::debug!(%error, message, "the service manager was not notified");
        }
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
