//! [`Drift`]: the settings of a stream that are not those that railbird creates it with.

use std::fmt::Debug;
use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy, Info};
use serde::Serialize;

use super::stream::CREATED;

/// A setting of a stream that is not the one that railbird creates it with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Drift {
    /// The setting, its value, and the value that it should have.
    pub setting: String,
    /// Whether the stream can lose acknowledged events for it.
    pub loses_events: bool,
}

/// Compares the settings of a stream with the wanted ones. Those by which it may lose its messages are no risk for one
/// whose messages may be lost.
pub(super) fn drift(wanted: &Config, info: &Info, keeps_all: bool) -> Vec<Drift> {
    let mut drift = Vec::new();
    let mut add = |settings: Vec<Option<String>>, loses_events| {
        drift.extend(settings.into_iter().flatten().map(|setting| Drift {
            setting,
            loses_events,
        }));
    };
    let found = &info.config;
    let wanted = &wanted_of_mirror(found, wanted);
    add(keeping(found, wanted), keeps_all);
    // A stream that rejects new messages at its limit loses none.
    let drops = found.discard == DiscardPolicy::Old;
    add(limits(found, wanted), keeps_all && drops);
    add(foreign(found, wanted), true);
    add(others(found, wanted), false);
    // As many disks have an acknowledged event as there are replicas. Each has it for good.
    let replicas = differs("num_replicas", &found.num_replicas, &wanted.num_replicas);
    add(vec![replicas], false);
    drift
}

/// What is wanted of a mirror that names the log that it copies: the settings that make it a mirror, and else those of
/// the log.
fn wanted_of_mirror(found: &Config, wanted: &Config) -> Config {
    if found.mirror.is_none() || !found.metadata.contains_key(CREATED) {
        return wanted.clone();
    }
    Config {
        mirror: found.mirror.clone(),
        subjects: Vec::new(),
        duplicate_window: Duration::ZERO,
        ..wanted.clone()
    }
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
        max_age(found.max_age, wanted.max_age),
    ]
}

/// The limits at which a stream drops messages or rejects new ones.
fn limits(found: &Config, wanted: &Config) -> Vec<Option<String>> {
    let per_subject = |config: &Config| config.max_messages_per_subject;
    vec![
        limit("max_messages", found.max_messages, wanted.max_messages),
        limit("max_bytes", found.max_bytes, wanted.max_bytes),
        limit(
            "max_messages_per_subject",
            per_subject(found),
            per_subject(wanted),
        ),
    ]
}

fn others(found: &Config, wanted: &Config) -> Vec<Option<String>> {
    vec![
        limit(
            "max_message_size",
            found.max_message_size.into(),
            wanted.max_message_size.into(),
        ),
        differs("subjects", &found.subjects, &wanted.subjects),
        differs("allow_direct", &found.allow_direct, &wanted.allow_direct),
        differs(
            "duplicate_window",
            &found.duplicate_window,
            &wanted.duplicate_window,
        ),
    ]
}

/// With these, messages come from elsewhere or go there: the server publishes them with all rights on the log.
fn foreign(found: &Config, wanted: &Config) -> Vec<Option<String>> {
    vec![
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

/// An age has no other effect than to drop messages. Zero is none.
fn max_age(found: Duration, wanted: Duration) -> Option<String> {
    let text = |age: Duration| {
        if age.is_zero() {
            "unlimited".to_owned()
        } else {
            format!("{age:?}")
        }
    };
    (found != wanted).then(|| format!("max_age is {}, not {}", text(found), text(wanted)))
}

/// The text of a limit that has not the wanted value. Zero and below are none.
fn limit(name: &str, found: i64, wanted: i64) -> Option<String> {
    let text = |limit: i64| {
        if limit > 0 {
            limit.to_string()
        } else {
            "unlimited".to_owned()
        }
    };
    (found.max(0) != wanted.max(0))
        .then(|| format!("{name} is {}, not {}", text(found), text(wanted)))
}
