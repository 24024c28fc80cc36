//! [`KeyUses`]: when, how often and from where each key was last used.
//!
//! Each process counts for itself, and writes for each key what it knows to a subject of its own in the stream
//! `KEY_USE`, so a process that starts again within a day continues the count. To read a message again changes nothing.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use events::Moment;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::KeyId;
use super::use_counter::UseCounter;
use crate::limits::CoarseNetwork;
use crate::log::{KEY_USE_AGE_MAX, Outgoing};

/// The keys whose use is known: more than a service has. Some 300 bytes each.
const KEYS_MAX: usize = 100_000;
/// The processes whose requests of a day are added up, for each key: the replicas and their restarts. Of more, those
/// that used the key last.
const PROCESSES_MAX: usize = 64;

/// The use of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyUse {
    /// When it was last used. At most the write interval later than the request.
    pub last_used_at: Moment,
    /// The requests on the day (UTC) of the last use.
    pub requests: u64,
    /// The network of the last client.
    pub network: CoarseNetwork,
}

impl KeyUse {
    /// The requests on the day (UTC) of a moment, which is not before the last use.
    pub fn requests_on(&self, moment: Moment) -> u64 {
        if day(self.last_used_at) == day(moment) {
            self.requests
        } else {
            0
        }
    }
}

fn day(moment: Moment) -> Date {
    moment.timestamp().to_zoned(TimeZone::UTC).date()
}

/// A process that counts the use of keys, by a random number.
#[derive(Debug, derive_more::Display, Clone, Copy, PartialEq, Eq)]
#[display("{_0:016x}")]
pub(super) struct ProcessId(u64);

/// A random one.
impl Default for ProcessId {
    fn default() -> Self {
        Self(RandomState::new().hash_one("process"))
    }
}

impl ProcessId {
    fn parse(text: &str) -> Option<Self> {
        u64::from_str_radix(text, 16).ok().map(Self)
    }
}

/// The use of keys by all processes, as they have written it.
#[derive(Debug, Default)]
pub struct UsesByProcess(HashMap<KeyId, Vec<(ProcessId, KeyUse)>>);

impl UsesByProcess {
    /// The use of a key by all processes together.
    pub fn get(&self, key_id: KeyId) -> Option<KeyUse> {
        let uses = self.0.get(&key_id)?.iter().map(|(_, of)| *of);
        let last = uses.clone().max_by_key(|of| of.last_used_at)?;
        Some(KeyUse {
            requests: uses.map(|of| of.requests).sum(),
            ..last
        })
    }

    /// Folds a message of the stream. Ignores what is not of this form, or not new.
    pub(super) fn fold_message(&mut self, subject: &str, payload: &[u8]) {
        let mut tokens = subject.split('.').skip(1);
        let key_id = tokens.next().and_then(KeyId::parse);
        let process = tokens.next().and_then(ProcessId::parse);
        match (key_id, process, serde_json::from_slice(payload)) {
            (Some(key_id), Some(process), Ok(found)) => self.fold(key_id, process, found),
            _ => tracing::debug!(subject, "a message is no use of a key"),
        }
    }

    fn fold(&mut self, key_id: KeyId, process: ProcessId, found: KeyUse) {
        if self.0.len() >= KEYS_MAX && !self.0.contains_key(&key_id) {
            return;
        }
        let uses = self.0.entry(key_id).or_default();
        match uses.iter_mut().find(|(of, _)| *of == process) {
            Some((_, known)) => {
                let version = |of: &KeyUse| (of.last_used_at, of.requests);
                *known = std::cmp::max_by_key(*known, found, version);
            }
            None => uses.push((process, found)),
        }
        // Requests are known for the day of the last use.
        let last_day = uses.iter().map(|(_, of)| day(of.last_used_at)).max();
        uses.retain(|(_, of)| Some(day(of.last_used_at)) == last_day);
        if uses.len() > PROCESSES_MAX {
            let indices = 0..uses.len();
            let oldest = indices.min_by_key(|index| uses[*index].1.last_used_at);
            oldest.map(|oldest| uses.swap_remove(oldest));
        }
    }

    fn of_process(&self, key_id: KeyId, process: ProcessId) -> Option<KeyUse> {
        let (_, found) = self.0.get(&key_id)?.iter().find(|(of, _)| *of == process)?;
        Some(*found)
    }

    /// Forgets what is as old as the stream forgets it.
    fn forget_old(&mut self, now: Moment) {
        let Ok(oldest) = now.timestamp().checked_sub(KEY_USE_AGE_MAX) else {
            return;
        };
        let is_known = |(_, of): &(_, KeyUse)| of.last_used_at.timestamp() > oldest;
        self.0.retain(|_, uses| uses.iter().any(is_known));
    }
}

/// The use of keys by this process, as it is counted, and by all others, as they have written it.
#[derive(Debug, Default)]
pub struct KeyUses {
    process: ProcessId,
    uses: Mutex<CountedUses>,
}

#[derive(Debug, Default)]
struct CountedUses {
    /// The counters of this process, and the requests of each that are in `known`.
    counters: HashMap<KeyId, (Arc<UseCounter>, u64)>,
    /// With the use by this process.
    known: UsesByProcess,
    /// The keys whose use by this process is newer than the stream has it.
    unwritten: HashSet<KeyId>,
}

impl KeyUses {
    /// The use of a key, with the requests that this process has just counted.
    pub fn get(&self, key_id: KeyId, now: Moment) -> Option<KeyUse> {
        let mut uses = self.uses.lock();
        uses.observe(key_id, self.process, now);
        uses.known.get(key_id)
    }

    /// The counter of a key in this process.
    pub(super) fn counter(&self, key_id: KeyId) -> Arc<UseCounter> {
        let mut uses = self.uses.lock();
        let (counter, _) = uses.counters.entry(key_id).or_default();
        Arc::clone(counter)
    }

    /// What this process has counted until a moment and not written. Drops the counters of keys that are not valid any
    /// more, and what is too old.
    pub(super) fn unwritten(&self, until: Moment) -> Vec<(KeyId, KeyUse)> {
        let mut guard = self.uses.lock();
        let uses = &mut *guard;
        let key_ids: Vec<KeyId> = uses.counters.keys().copied().collect();
        for key_id in key_ids {
            uses.observe(key_id, self.process, until);
        }
        // The key cache has the counters of valid keys, too.
        let is_valid = |counter: &Arc<UseCounter>| Arc::strong_count(counter) > 1;
        uses.counters.retain(|_, (counter, _)| is_valid(counter));
        uses.known.forget_old(until);
        let known = &uses.known;
        let of = |key_id: &KeyId| Some((*key_id, known.of_process(*key_id, self.process)?));
        uses.unwritten.retain(|key_id| of(key_id).is_some());
        uses.unwritten.iter().filter_map(of).collect()
    }

    /// Notes that the stream has the use of a key by this process.
    pub(super) fn written(&self, key_id: KeyId, written: &KeyUse) {
        let mut uses = self.uses.lock();
        if uses.known.of_process(key_id, self.process).as_ref() == Some(written) {
            uses.unwritten.remove(&key_id);
        }
    }

    /// The message with the use of a key by this process.
    pub(super) fn message(&self, key_id: KeyId, found: &KeyUse) -> Outgoing {
        let subject = format!("key_use.{key_id}.{}", self.process);
        Outgoing {
            id: format!("{subject}.{}", found.last_used_at),
            subject,
            payload: serde_json::to_vec(found).expect("a struct of strings and numbers"),
        }
    }

    /// Folds messages of the stream: subjects and payloads.
    pub(super) fn fold<'a>(&self, messages: impl Iterator<Item = (&'a str, &'a [u8])>) {
        let mut uses = self.uses.lock();
        for (subject, payload) in messages {
            uses.known.fold_message(subject, payload);
        }
    }
}

impl CountedUses {
    /// Takes what this process has counted of a key since the last time as used now.
    fn observe(&mut self, key_id: KeyId, process: ProcessId, now: Moment) {
        let Some((counter, observed)) = self.counters.get_mut(&key_id) else {
            return;
        };
        let (requests, network, has_sockets) = counter.counts();
        let new = requests - *observed;
        let Some(network) = network.filter(|_| new > 0 || has_sockets) else {
            return;
        };
        *observed = requests;
        let before = self.known.of_process(key_id, process);
        let last_used_at = before.map_or(now, |before| before.last_used_at.max(now));
        let same_day = before.map_or(0, |before| before.requests_on(last_used_at));
        let found = KeyUse {
            last_used_at,
            requests: same_day + new,
            network,
        };
        self.known.fold(key_id, process, found);
        self.unwritten.insert(key_id);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use events::Moment;
    use jiff::SignedDuration;

    use super::{
        CoarseNetwork, KEYS_MAX, KeyUse, KeyUses, PROCESSES_MAX, ProcessId, UsesByProcess,
    };
    use crate::accounts::KeyId;
    use crate::log::KEY_USE_AGE_MAX;

    fn at(text: &str) -> Moment {
        Moment::parse(text).expect(text)
    }

    fn after(moment: Moment, hours: i64) -> Moment {
        (moment.timestamp() + SignedDuration::from_hours(hours)).into()
    }

    fn key(n: usize) -> KeyId {
        KeyId::parse(&format!("{n:08}")).expect("an id")
    }

    fn network(last: u8) -> CoarseNetwork {
        IpAddr::from(Ipv4Addr::new(192, 0, last, 1)).into()
    }

    fn used(last_used_at: Moment, requests: u64) -> KeyUse {
        KeyUse {
            last_used_at,
            requests,
            network: network(requests as u8),
        }
    }

    const NOON: &str = "2026-11-21T12:00:00Z";

    #[test]
    fn requests_of_all_processes_on_the_last_day_are_added_up() {
        let noon = at(NOON);
        let mut uses = UsesByProcess::default();
        let mut fold = |process, of: KeyUse| uses.fold(key(1), ProcessId(process), of);
        fold(1, used(noon, 5));
        fold(2, used(after(noon, 2), 3));
        fold(1, used(after(noon, 1), 7));
        // A message that is read again, and one of the day before.
        fold(1, used(noon, 5));
        fold(3, used(after(noon, -24), 100));
        let found = uses.get(key(1)).expect("used");
        assert_eq!(
            found,
            KeyUse {
                requests: 10,
                ..used(after(noon, 2), 3)
            }
        );
        assert_eq!(found.requests_on(after(noon, 11)), 10);
        assert_eq!(found.requests_on(after(noon, 12)), 0, "the next day");
        uses.fold(key(1), ProcessId(2), used(after(noon, 13), 1));
        assert_eq!(uses.get(key(1)), Some(used(after(noon, 13), 1)));
        assert_eq!(uses.get(key(2)), None);
    }

    #[test]
    fn any_number_of_keys_and_processes_takes_bounded_memory() {
        let noon = at(NOON);
        let mut uses = UsesByProcess::default();
        for n in 0..KEYS_MAX + 1_000 {
            uses.fold(key(n), ProcessId(1), used(noon, 1));
        }
        assert_eq!(uses.0.len(), KEYS_MAX);
        for n in 0..10 * PROCESSES_MAX as u64 {
            let last_used_at = (noon.timestamp() + SignedDuration::from_secs(n as i64)).into();
            uses.fold(key(0), ProcessId(n), used(last_used_at, 1));
        }
        assert_eq!(uses.0[&key(0)].len(), PROCESSES_MAX);
        let found = uses.get(key(0)).expect("used");
        assert_eq!(found.requests, PROCESSES_MAX as u64);
        assert!(
            uses.of_process(key(0), ProcessId(10 * PROCESSES_MAX as u64 - 1))
                .is_some()
        );
        uses.forget_old((noon.timestamp() + KEY_USE_AGE_MAX).into());
        assert_eq!(Vec::from_iter(uses.0.keys()), [&key(0)], "used after noon");
    }

    #[test]
    fn a_message_is_folded_as_it_was_written_and_anything_else_is_ignored() {
        let noon = at(NOON);
        let uses = KeyUses::default();
        let mut read = UsesByProcess::default();
        uses.counter(key(1)).count(network(7));
        let found = uses.get(key(1), noon).expect("used");
        let message = uses.message(key(1), &found);
        let payload =
            r#"{"last_used_at":"2026-11-21T12:00:00Z","requests":1,"network":"192.0.7.0/24"}"#;
        assert_eq!(String::from_utf8_lossy(&message.payload), payload);
        for (subject, payload) in [
            ("key_use", payload),
            ("key_use.00000002", payload),
            ("key_use.no-key.1f", payload),
            ("key_use.00000002.process", payload),
            ("key_use.00000002.1f", "{}"),
            ("key_use.00000002.1f", "\u{0}"),
        ] {
            read.fold_message(subject, payload.as_bytes());
        }
        assert_eq!(read.get(key(2)), None);
        read.fold_message(&message.subject, &message.payload);
        assert_eq!(read.get(key(1)), Some(found));
        // Its own message changes nothing for the process that wrote it.
        uses.fold([(message.subject.as_str(), &*message.payload)].into_iter());
        assert_eq!(uses.get(key(1), noon), Some(found));
    }

    #[test]
    fn what_is_counted_is_written_once_and_each_day_begins_at_zero() {
        let noon = at(NOON);
        let uses = KeyUses::default();
        let counter = uses.counter(key(1));
        let _unused = uses.counter(key(2));
        assert_eq!(uses.unwritten(noon), []);
        counter.count(network(1));
        counter.count(network(2));
        let two = used(noon, 2);
        assert_eq!(uses.unwritten(noon), [(key(1), two)]);
        assert_eq!(
            uses.unwritten(after(noon, 1)),
            [(key(1), two)],
            "not written yet"
        );
        counter.count(network(3));
        let three = used(after(noon, 2), 3);
        assert_eq!(uses.unwritten(after(noon, 2)), [(key(1), three)]);
        uses.written(key(1), &two);
        assert_eq!(
            uses.unwritten(after(noon, 2)),
            [(key(1), three)],
            "newer than what was written"
        );
        uses.written(key(1), &three);
        assert_eq!(uses.unwritten(after(noon, 2)), []);
        counter.count(network(1));
        let next_day = used(after(noon, 12), 1);
        assert_eq!(uses.unwritten(after(noon, 12)), [(key(1), next_day)]);
        // A clock that was set back.
        counter.count(network(2));
        let same_time = KeyUse {
            last_used_at: after(noon, 12),
            ..used(noon, 2)
        };
        assert_eq!(uses.unwritten(noon), [(key(1), same_time)]);
    }

    #[test]
    fn an_open_socket_is_a_use_without_requests() {
        let noon = at(NOON);
        let uses = KeyUses::default();
        let counter = uses.counter(key(1));
        counter.count(network(1));
        let socket = counter.open_socket();
        uses.unwritten(noon);
        let later = KeyUse {
            last_used_at: after(noon, 1),
            ..used(noon, 1)
        };
        assert_eq!(uses.unwritten(after(noon, 1)), [(key(1), later)]);
        let tomorrow = after(noon, 24);
        let found = uses.get(key(1), tomorrow).expect("used");
        assert_eq!((found.last_used_at, found.requests), (tomorrow, 0));
        drop(socket);
        assert_eq!(uses.get(key(1), after(noon, 25)), Some(found));
    }

    #[test]
    fn counters_of_keys_that_are_not_valid_are_dropped_with_their_use_known() {
        let noon = at(NOON);
        let uses = KeyUses::default();
        let counter = uses.counter(key(1));
        counter.count(network(1));
        drop(counter);
        assert_eq!(uses.unwritten(noon), [(key(1), used(noon, 1))]);
        assert!(uses.uses.lock().counters.is_empty());
        assert_eq!(
            uses.unwritten(noon),
            [(key(1), used(noon, 1))],
            "until it is written"
        );
        // The same key again, as after another log was accepted.
        uses.counter(key(1)).count(network(2));
        assert_eq!(uses.unwritten(noon), [(key(1), used(noon, 2))]);
        let later: Moment = (noon.timestamp() + KEY_USE_AGE_MAX).into();
        assert_eq!(uses.unwritten(later), [], "too old");
        assert!(uses.uses.lock().unwritten.is_empty());
    }
}
