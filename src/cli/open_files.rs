//! [`ConnectionsMax`]: the connections that the limit of open files allows.

use std::fmt;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files that are kept from clients: 32 connections of the admin address, two to NATS, the files of the store, of
/// new views beside it and of snapshots, the event queues of threads, mails and requests for files. About 100 are in
/// use.
const RESERVE: u64 = 256;

/// The maximum of HTTP connections, and of WebSockets. Without a descriptor the store could not open its files, so
/// clients are refused before.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionsMax {
    configured: u32,
    /// At least one.
    pub(super) allowed: u32,
    /// Open files; `None` without a limit.
    limit: Option<u64>,
}

impl ConnectionsMax {
    /// Raises the soft limit to the hard one, and lowers the maximum to what that allows.
    pub(super) fn within_limit(configured: u32) -> Self {
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit {
            current: limit.maximum,
            ..limit
        };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "the limit of open files cannot be raised");
        }
        let limit = getrlimit(Resource::Nofile).current;
        let reachable = limit.map_or(u64::MAX, |limit| limit.saturating_sub(RESERVE) / 2);
        let allowed = configured.min(u32::try_from(reachable.max(1)).unwrap_or(u32::MAX));
        Self {
            configured,
            allowed,
            limit,
        }
    }

    /// Warns if the maximum is lowered.
    pub(super) fn warn(self) {
        if self.allowed < self.configured {
            tracing::warn!("{self}");
        }
    }
}

impl fmt::Display for ConnectionsMax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (configured, allowed) = (self.configured, self.allowed);
        let Some(limit) = self.limit.filter(|_| allowed < configured) else {
            return write!(
                f,
                "at most {allowed} HTTP connections, and as many WebSockets"
            );
        };
        let needed = 2 * u64::from(configured) + RESERVE;
        write!(
            f,
            "the limit of open files, {limit}, is too low for --connections-max {configured}: at most {allowed} HTTP \
             connections, and as many WebSockets, are accepted; set LimitNOFILE={needed} in the systemd unit, or \
             `ulimits: nofile: {needed}` in compose"
        )
    }
}
