//! [`Drift`]: the settings of a stream that are not those that railbird creates it with.

use std::fmt::Debug;
use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy, Info};
use serde::Serialize;

/// The replicas of a stream in a cluster: with fewer, the loss of one server loses the stream.
const REPLICAS_IN_CLUSTER: usize = 3;

/// A setting of a stream that is not the one that railbird creates it with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Drift {
    /// The setting, its value, and the value that it should have.
    pub setting: String,
    /// Whether the stream can lose acknowledged events for it.
    pub loses_events: bool,
}

/// Compares the settings of a stream with the wanted ones.
pub(super) fn drift(wanted: &Config, info: &Info) -> Vec<Drift> {
    let (found, mut drift) = (&info.config, Vec::new());
    let mut compare = |setting: String, loses_events| {
        if !setting.is_empty() {
            drift.push(Drift {
                setting,
                loses_events,
            });
        }
    };
    // A stream that rejects new messages at its limit loses none.
    let drops = found.discard == DiscardPolicy::Old;
    compare(differs("storage", &found.storage, &wanted.storage), true);
    compare(
        differs("retention", &found.retention, &wanted.retention),
        true,
    );
    compare(
        differs("persist_mode", &found.persist_mode, &wanted.persist_mode),
        true,
    );
    compare(differs("no_ack", &found.no_ack, &wanted.no_ack), true);
    compare(
        differs("deny_delete", &found.deny_delete, &wanted.deny_delete),
        true,
    );
    compare(
        differs("deny_purge", &found.deny_purge, &wanted.deny_purge),
        true,
    );
    compare(
        differs("allow_rollup", &found.allow_rollup, &wanted.allow_rollup),
        true,
    );
    compare(
        limited("max_age", found.max_age != Duration::ZERO, found.max_age),
        true,
    );
    compare(
        limited("max_messages", found.max_messages > 0, found.max_messages),
        drops,
    );
    compare(
        limited("max_bytes", found.max_bytes > 0, found.max_bytes),
        drops,
    );
    let per_subject = found.max_messages_per_subject;
    compare(
        limited("max_messages_per_subject", per_subject > 0, per_subject),
        drops,
    );
    compare(
        limited(
            "max_message_size",
            found.max_message_size > 0,
            found.max_message_size,
        ),
        false,
    );
    compare(
        differs("subjects", &found.subjects, &wanted.subjects),
        false,
    );
    compare(
        differs("allow_direct", &found.allow_direct, &wanted.allow_direct),
        false,
    );
    compare(
        differs(
            "duplicate_window",
            &found.duplicate_window,
            &wanted.duplicate_window,
        ),
        false,
    );
    let clustered = info
        .cluster
        .as_ref()
        .is_some_and(|cluster| cluster.name.is_some());
    if clustered && found.num_replicas < REPLICAS_IN_CLUSTER {
        let replicas = found.num_replicas;
        compare(
            format!("num_replicas is {replicas}, not {REPLICAS_IN_CLUSTER}"),
            false,
        );
    }
    drift
}

/// The text of a setting with another value; empty if it has the wanted one.
fn differs<T: PartialEq + Debug>(name: &str, found: &T, wanted: &T) -> String {
    if found == wanted {
        return String::new();
    }
    format!("{name} is {found:?}, not {wanted:?}")
}

fn limited(name: &str, limited: bool, limit: impl Debug) -> String {
    if limited {
        format!("{name} is {limit:?}, not unlimited")
    } else {
        String::new()
    }
}
