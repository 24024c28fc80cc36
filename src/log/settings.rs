//! [`Drift`]: the settings of a stream that are not those that railbird creates it with.

use std::fmt::Debug;

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
    let mut drift = Vec::new();
    let mut add = |settings: Vec<Option<String>>, loses_events| {
        drift.extend(settings.into_iter().flatten().map(|setting| Drift {
            setting,
            loses_events,
        }));
    };
    let found = &info.config;
    add(keeping(found, wanted), true);
    // A stream that rejects new messages at its limit loses none.
    add(limits(found), found.discard == DiscardPolicy::Old);
    add(others(found, wanted), false);
    let clustered = info.cluster.as_ref().is_some_and(|of| of.name.is_some());
    if clustered && found.num_replicas < REPLICAS_IN_CLUSTER {
        let replicas = found.num_replicas;
        let setting = format!("num_replicas is {replicas}, not {REPLICAS_IN_CLUSTER}");
        add(vec![Some(setting)], false);
    }
    drift
}

/// The settings that keep acknowledged events.
fn keeping(found: &Config, wanted: &Config) -> Vec<Option<String>> {
    vec![
        differs("storage", &found.storage, &wanted.storage),
        differs("retention", &found.retention, &wanted.retention),
        differs(
            "persist_mode",
            &found.persist_mode.unwrap_or_default(),
            &wanted.persist_mode.unwrap_or_default(),
        ),
        differs("no_ack", &found.no_ack, &wanted.no_ack),
        differs("deny_delete", &found.deny_delete, &wanted.deny_delete),
        differs("deny_purge", &found.deny_purge, &wanted.deny_purge),
        differs("allow_rollup", &found.allow_rollup, &wanted.allow_rollup),
        // An age has no other effect than to drop messages.
        (!found.max_age.is_zero())
            .then(|| format!("max_age is {:?}, not unlimited", found.max_age)),
    ]
}

/// The limits at which a stream drops messages or rejects new ones.
fn limits(found: &Config) -> Vec<Option<String>> {
    vec![
        limited("max_messages", found.max_messages),
        limited("max_bytes", found.max_bytes),
        limited("max_messages_per_subject", found.max_messages_per_subject),
    ]
}

fn others(found: &Config, wanted: &Config) -> Vec<Option<String>> {
    vec![
        limited("max_message_size", found.max_message_size.into()),
        differs("subjects", &found.subjects, &wanted.subjects),
        differs("allow_direct", &found.allow_direct, &wanted.allow_direct),
        differs(
            "duplicate_window",
            &found.duplicate_window,
            &wanted.duplicate_window,
        ),
        // With these, messages come from elsewhere or go there.
        differs("mirror", &found.mirror, &wanted.mirror),
        differs("sources", &found.sources, &wanted.sources),
        differs("republish", &found.republish, &wanted.republish),
        differs(
            "subject_transform",
            &found.subject_transform,
            &wanted.subject_transform,
        ),
    ]
}

/// The text of a setting that has not the wanted value.
fn differs<T: PartialEq + Debug>(name: &str, found: &T, wanted: &T) -> Option<String> {
    (found != wanted).then(|| format!("{name} is {found:?}, not {wanted:?}"))
}

fn limited(name: &str, limit: i64) -> Option<String> {
    (limit > 0).then(|| format!("{name} is {limit}, not unlimited"))
}
