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
        allow_atomic_publish: false,
        ..wanted.clone()
    }
}

/// The texts of the settings that have not the wanted values.
macro_rules! differences {
    ($compare:ident, $found:ident, $wanted:ident: $($setting:ident),*) => {
        vec![$($compare(stringify!($setting), &$found.$setting, &$wanted.$setting)),*]
    };
}

/// The settings that keep acknowledged events.
fn keeping(found: &Config, wanted: &Config) -> Vec<Option<String>> {
    let persisted = |config: &Config| config.persist_mode.unwrap_or_default();
    let mut keeping = differences!(differs, found, wanted: storage, retention, no_ack, deny_delete, deny_purge, allow_rollup);
    let mode = differs("persist_mode", &persisted(found), &persisted(wanted));
    keeping.extend([mode, unless_same("max_age", found.max_age, wanted.max_age)]);
    keeping
}

/// The limits at which a stream drops messages or rejects new ones.
fn limits(found: &Config, wanted: &Config) -> Vec<Option<String>> {
    differences!(limit, found, wanted: max_messages, max_bytes, max_messages_per_subject)
}

fn others(found: &Config, wanted: &Config) -> Vec<Option<String>> {
    let mut others = differences!(differs, found, wanted: subjects, allow_direct, allow_atomic_publish, duplicate_window);
    others.extend(differences!(limit, found, wanted: max_message_size));
    others
}

/// With these, messages come from elsewhere or go there: the server publishes them with all rights on the log.
fn foreign(found: &Config, wanted: &Config) -> Vec<Option<String>> {
    differences!(differs, found, wanted: mirror, sources, republish, subject_transform)
}

/// The text of a setting that has not the wanted value.
fn differs<T: PartialEq + Debug>(name: &str, found: &T, wanted: &T) -> Option<String> {
    (found != wanted).then(|| format!("{name} is {found:?}, not {wanted:?}"))
}

/// The text of a limit that has not the wanted value. Zero and below are none.
fn limit<T: Copy + Into<i64>>(name: &str, found: &T, wanted: &T) -> Option<String> {
    unless_same(name, (*found).into().max(0), (*wanted).into().max(0))
}

/// Says that a limit or an age is another one than wanted. Zero stands for unlimited.
fn unless_same<T: PartialEq + Default + Debug>(name: &str, found: T, wanted: T) -> Option<String> {
    let text = |limit: &T| match *limit == T::default() {
        true => "unlimited".to_owned(),
        false => format!("{limit:?}"),
    };
    (found != wanted).then(|| format!("{name} is {}, not {}", text(&found), text(&wanted)))
}
