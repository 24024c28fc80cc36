//! The limit of open files: raised at the start, and compared with what the service may need.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files beside the connections of clients: 32 on the admin address, two to NATS, those of the store and of new
/// views beside it, the event queues of threads, mails and requests for files. About 100 are in use.
const OTHERS: u64 = 256;

/// Raises the soft limit to the hard one, and warns if the service can reach it: connections are refused then, and the
/// store cannot open its files.
pub(super) fn raise_limit(connections_max: usize) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
    // Without a value there is no limit.
    let Some(limit) = getrlimit(Resource::Nofile).current else {
        return;
    };
    let needed = needed(connections_max);
    if limit < needed {
        let reachable = (limit.saturating_sub(OTHERS) / 2).max(1);
        tracing::warn!(
            limit,
            needed,
            "the limit of open files is too low for --connections-max {connections_max}: set LimitNOFILE={needed} in \
             the systemd unit, or `ulimits: nofile: {needed}` in compose, or --connections-max {reachable}"
        );
    }
}

/// HTTP connections, as many WebSockets, and all others.
fn needed(connections_max: usize) -> u64 {
    2 * connections_max as u64 + OTHERS
}
