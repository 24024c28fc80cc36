//! [`Streams`]: what the model of nats-server stores, and its clock.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use async_nats::jetstream::context::PublishErrorKind;

use super::chance::Chance;
use super::machine::{true_time, uptime};
use crate::log::LogMessage;

const DEDUPED_FOR: SignedDuration = SignedDuration::from_secs(120);

#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) subject: String,
    pub(crate) id: String,
    pub(crate) payload: Bytes,
    pub(crate) recorded_at: Timestamp,
    /// When it was stored, by the clock that nobody sets.
    pub(crate) at: Duration,
}

#[derive(Debug, Clone)]
pub(crate) struct Stream {
    config: Value,
    subjects: Vec<String>,
    max_age: SignedDuration,
    /// Of each subject.
    keeps_latest: bool,
    pub(crate) created: Timestamp,
    pub(crate) messages: BTreeMap<u64, Stored>,
    pub(crate) last_seq: u64,
    deleted: u64,
    ids: BTreeMap<String, (u64, Timestamp)>,
}

#[derive(Debug, Clone)]
pub(crate) struct Streams {
    chance: Chance,
    /// How far the clock of the server is ahead.
    pub(crate) ahead: SignedDuration,
    pub(crate) all: BTreeMap<String, Stream>,
}

impl Streams {
    pub(super) fn new(chance: Chance) -> Self {
        Self {
            chance,
            ahead: SignedDuration::ZERO,
            all: BTreeMap::new(),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        true_time(uptime().expect("a simulation")) + self.ahead
    }

    /// A time that no other message has.
    fn next_time(&mut self) -> Timestamp {
        let nanos = i64::try_from(self.chance.below(1_000_000)).expect("small");
        self.now() + SignedDuration::from_nanos(nanos)
    }

    fn stream(&mut self, name: &str) -> Option<&mut Stream> {
        let now = self.now();
        let stream = self.all.get_mut(name)?;
        stream.expire(now);
        Some(stream)
    }

    /// Stores all messages, each after the sequence that it expects, or none. Returns the sequence of the last one, and
    /// whether it is a single one that the stream has already.
    pub(super) fn append(
        &mut self,
        mut messages: Vec<(Stored, Option<u64>)>,
    ) -> Result<(u64, bool), PublishErrorKind> {
        let ids: HashSet<&str> = (messages.iter()).map(|(m, _)| m.id.as_str()).collect();
        let has_repetition = ids.len() < messages.len();
        let has_known = messages.iter().any(|(message, _)| self.has(message));
        if messages.len() > 1 && (has_repetition || has_known) {
            return Err(PublishErrorKind::Other);
        }
        let last = messages.pop().ok_or(PublishErrorKind::Other)?;
        for (message, expected) in messages {
            self.append_one(message, expected)?;
        }
        self.append_one(last.0, last.1)
    }

    fn has(&mut self, message: &Stored) -> bool {
        let now = self.now();
        let mut streams = self.all.values();
        let stream = streams.find(|stream| stream.takes(&message.subject));
        stream.is_some_and(|stream| stream.known(&message.id, now).is_some())
    }

    fn append_one(
        &mut self,
        message: Stored,
        expected: Option<u64>,
    ) -> Result<(u64, bool), PublishErrorKind> {
        let recorded_at = self.next_time();
        let now = self.now();
        let name = (self.all.iter())
            .find(|(_, stream)| stream.takes(&message.subject))
            .map(|(name, _)| name.clone());
        let stream = name.and_then(|name| self.stream(&name));
        let stream = stream.ok_or(PublishErrorKind::StreamNotFound)?;
        if let Some(seq) = stream.known(&message.id, now) {
            return Ok((seq, true));
        }
        if expected.is_some_and(|expected| stream.last_on(&message.subject) != expected) {
            return Err(PublishErrorKind::WrongLastSequence);
        }
        stream.last_seq += 1;
        let seq = stream.last_seq;
        if !message.id.is_empty() {
            stream.ids.insert(message.id.clone(), (seq, now));
        }
        if stream.keeps_latest {
            stream
                .messages
                .retain(|_, old| old.subject != message.subject);
        }
        let at = uptime().unwrap_or_default();
        let message = Stored {
            recorded_at,
            at,
            ..message
        };
        stream.messages.insert(seq, message);
        Ok((seq, false))
    }

    /// The number of messages from a sequence on; `None` without the stream.
    pub(super) fn pending(&mut self, stream: &str, from: u64, subjects: &[String]) -> Option<u64> {
        let stream = self.stream(stream)?;
        if subjects.is_empty() && stream.deleted == 0 && !stream.keeps_latest {
            let first = stream.messages.first_key_value();
            let from = first.map_or(u64::MAX, |(first, _)| from.max(*first));
            return Some((stream.last_seq + 1).saturating_sub(from));
        }
        let messages = stream.messages.range(from..);
        Some(
            messages
                .filter(|(_, message)| is_any(subjects, &message.subject))
                .count() as u64,
        )
    }

    pub(super) fn next(
        &mut self,
        stream: &str,
        from: u64,
        subjects: &[String],
    ) -> Option<LogMessage> {
        let mut messages = self.stream(stream)?.messages.range(from..);
        let next = messages.find(|(_, message)| is_any(subjects, &message.subject));
        next.map(|(seq, message)| message.read(*seq))
    }

    pub(super) fn direct_get(
        &mut self,
        stream: &str,
        seq: u64,
        subject: Option<&str>,
    ) -> Option<LogMessage> {
        match subject {
            None => {
                let message = self.stream(stream)?.messages.get(&seq)?;
                Some(message.read(seq))
            }
            Some(subject) => self.next(stream, seq, &[subject.to_owned()]),
        }
    }

    pub(super) fn info(&mut self, name: &str, is_clustered: bool) -> Value {
        let Some(stream) = self.stream(name) else {
            return error(404, 10059, "stream not found");
        };
        let (first, first_time) = match stream.messages.first_key_value() {
            Some((seq, message)) => (*seq, message.recorded_at),
            None => (stream.last_seq + 1, Timestamp::UNIX_EPOCH),
        };
        let last_time = stream.messages.get(&stream.last_seq);
        let last_time = last_time.map_or(Timestamp::UNIX_EPOCH, |message| message.recorded_at);
        let follower = |name: &str| json!({ "name": name, "current": true, "active": 1_000_000 });
        let cluster =
            json!({ "name": "C", "leader": "A", "replicas": [follower("B"), follower("C")] });
        json!({
            "config": stream.config,
            "created": stream.created.to_string(),
            "state": {
                "messages": stream.messages.len(), "bytes": 0, "consumer_count": 0,
                "first_seq": first, "first_ts": first_time.to_string(),
                "last_seq": stream.last_seq, "last_ts": last_time.to_string(),
                "num_deleted": stream.deleted,
            },
            "cluster": is_clustered.then_some(cluster),
        })
    }

    /// Has an empty stream begin after a sequence.
    pub(super) fn begin_at(&mut self, stream: &str, seq: u64) {
        if let Some(stream) = self.all.get_mut(stream) {
            stream.last_seq = seq;
        }
    }

    pub(super) fn create(&mut self, name: &str, config: &Value, is_clustered: bool) -> Value {
        let created = self.next_time();
        self.all.entry(name.to_owned()).or_insert_with(|| Stream {
            subjects: serde_json::from_value(config["subjects"].clone()).expect("subjects"),
            max_age: SignedDuration::from_nanos(config["max_age"].as_i64().unwrap_or(0)),
            keeps_latest: config["max_msgs_per_subject"] == json!(1),
            config: config.clone(),
            created,
            messages: BTreeMap::new(),
            last_seq: 0,
            deleted: 0,
            ids: BTreeMap::new(),
        });
        self.info(name, is_clustered)
    }

    /// The last message on a subject.
    pub(super) fn last(&mut self, stream: &str, subject: &str) -> Option<&Stored> {
        let mut messages = self.stream(stream)?.messages.values().rev();
        messages.find(|message| message.subject == subject)
    }

    pub(super) fn get(&mut self, name: &str, query: &Value) -> Value {
        let Some(stream) = self.stream(name) else {
            return error(404, 10059, "stream not found");
        };
        let text = |name: &str| query[name].as_str().map(str::to_owned);
        let found = if let Some(subject) = text("last_by_subj") {
            let mut messages = stream.messages.iter().rev();
            messages.find(|(_, message)| is_on(&subject, &message.subject))
        } else {
            let seq = query["seq"].as_u64().unwrap_or(0);
            match text("next_by_subj") {
                Some(subject) => {
                    let mut messages = stream.messages.range(seq..);
                    messages.find(|(_, message)| is_on(&subject, &message.subject))
                }
                None => stream.messages.get_key_value(&seq),
            }
        };
        match found {
            None => error(404, 10037, "no message found"),
            Some((seq, message)) => json!({ "message": {
                "subject": message.subject, "seq": seq, "time": message.recorded_at.to_string(),
                "data": BASE64_STANDARD.encode(&message.payload),
                "hdrs": BASE64_STANDARD.encode(format!("NATS/1.0\r\nNats-Msg-Id: {}\r\n\r\n", message.id)),
            }}),
        }
    }
}

impl Stored {
    fn read(&self, seq: u64) -> LogMessage {
        LogMessage::of(seq, self.recorded_at, &self.subject, self.payload.clone())
    }
}

impl Stream {
    fn takes(&self, subject: &str) -> bool {
        self.subjects.iter().any(|filter| is_on(filter, subject))
    }

    /// The sequence of the message with an id, as long as the server remembers it.
    fn known(&self, id: &str, now: Timestamp) -> Option<u64> {
        let (seq, at) = self.ids.get(id)?;
        (now.duration_since(*at) < DEDUPED_FOR).then_some(*seq)
    }

    fn expire(&mut self, now: Timestamp) {
        let max = self.max_age;
        if !max.is_zero() {
            self.messages
                .retain(|_, old| now.duration_since(old.recorded_at) < max);
        }
    }

    fn last_on(&self, subject: &str) -> u64 {
        let mut messages = self.messages.iter().rev();
        let last = messages.find(|(_, message)| message.subject == subject);
        last.map_or(0, |(seq, _)| *seq)
    }

    /// The last message that was stored up to a time; 0 for none.
    pub(super) fn seq_at(&self, time: Duration) -> u64 {
        let mut messages = self.messages.iter().rev();
        let last = messages.find(|(_, message)| message.at <= time);
        last.map_or(0, |(seq, _)| *seq)
    }

    /// The server has lost its last messages.
    pub(super) fn lose(&mut self, count: u64) {
        self.last_seq = self.last_seq.saturating_sub(count);
        let last_seq = self.last_seq;
        drop(self.messages.split_off(&(last_seq + 1)));
        self.ids.retain(|_, (seq, _)| *seq <= last_seq);
    }

    /// Somebody has deleted a message.
    pub(super) fn delete(&mut self, seq: u64) {
        self.deleted += u64::from(self.messages.remove(&seq).is_some());
    }

    /// The server has forgotten the ids.
    pub(super) fn forget_ids(&mut self) {
        self.ids.clear();
    }
}

fn is_any(filters: &[String], subject: &str) -> bool {
    filters.is_empty() || filters.iter().any(|filter| is_on(filter, subject))
}

/// Whether a subject matches a filter of NATS. A seed asks this very often.
fn is_on(filter: &str, subject: &str) -> bool {
    let (filter, subject) = (filter.as_bytes(), subject.as_bytes());
    let mut at = 0;
    for byte in filter {
        match byte {
            b'>' => return at < subject.len(),
            b'*' => {
                at += subject[at..]
                    .iter()
                    .take_while(|byte| **byte != b'.')
                    .count()
            }
            byte if subject.get(at) == Some(byte) => at += 1,
            _ => return false,
        }
    }
    at == subject.len()
}

fn error(code: u64, err_code: u64, description: &str) -> Value {
    json!({ "error": { "code": code, "err_code": err_code, "description": description } })
}
