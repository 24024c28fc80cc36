//! [`Client`]: a client of the live channel, over the feeds of the replicas: it reads fast or slowly, or not at all,
//! and resumes on any replica. What it receives is compared with the messages of the log's histories.

use std::collections::BTreeMap;
use std::sync::Arc;

use events::Moment;
use serde_json::Value;

use super::chance::Chance;
use super::oracle::Oracle;
use super::replica::{Replica, Running};
use crate::feed::frame::Frame;
use crate::feed::{ConflatedBy, Feed, NotRecovered, Position};

pub(super) struct Client {
    chance: Chance,
    /// It reads once in so many ticks, and so many messages.
    pause: u64,
    messages_max: usize,
    connection: Option<Connection>,
    /// What it knows; `None` before the first images.
    known: Option<Known>,
}

/// A connection to a process of a replica.
struct Connection {
    replica: usize,
    incarnation: u64,
    generation: u64,
    next_index: u64,
}

/// What a client was sent, without a gap since the last images.
struct Known {
    epoch: Arc<str>,
    /// Everything up to this event.
    seq: u64,
    recorded_at: Option<Moment>,
    /// So many messages of that event; `None` is all.
    received: Option<usize>,
    /// The histories of the log that have all that was received.
    histories: Vec<usize>,
}

impl Client {
    pub(super) fn new(mut chance: Chance) -> Self {
        Self {
            pause: *chance.pick(&[1, 1, 7, 40]),
            messages_max: *chance.pick(&[1, 5, usize::MAX]),
            chance,
            connection: None,
            known: None,
        }
    }

    /// Connects or reads, if it is time to.
    pub(super) fn act(&mut self, replicas: &[Replica], oracle: &Oracle) -> Result<(), String> {
        if self.chance.one_in(100) {
            self.connection = None;
        }
        let Some(Connection {
            replica,
            incarnation,
            ..
        }) = self.connection
        else {
            let n = usize::try_from(self.chance.below(replicas.len() as u64)).expect("small");
            return match self.chance.one_in(5) {
                true => self.connect(n, &replicas[n], oracle),
                false => Ok(()),
            };
        };
        let replica = &replicas[replica];
        let running = replica.running.as_ref();
        let running = running.filter(|_| replica.incarnation == incarnation);
        let Some(running) = running.filter(|_| !replica.has_crashed()) else {
            self.connection = None;
            return Ok(());
        };
        if replica.machine.is_suspended() || !self.chance.one_in(self.pause) {
            return Ok(());
        }
        self.read(running, oracle)
    }

    fn connect(&mut self, n: usize, replica: &Replica, oracle: &Oracle) -> Result<(), String> {
        let running = replica.running.as_ref();
        let running = running.filter(|_| !replica.has_crashed() && !replica.machine.is_suspended());
        let Some(feed) = running.map(|running| &running.health.feed) else {
            return Ok(());
        };
        let position = feed.position();
        if position.generation == 0 {
            return Ok(());
        }
        let mut connection = Connection {
            replica: n,
            incarnation: replica.incarnation,
            generation: position.generation,
            next_index: position.head,
        };
        let resumed = self.known.as_ref().map(|known| {
            let recorded_at = known.recorded_at;
            feed.resume(known.seq, Some(&*known.epoch), recorded_at)
        });
        match resumed {
            // It comes back when the replica has read the event.
            Some(Err(NotRecovered::Ahead)) if self.chance.below(20) > 0 => return Ok(()),
            Some(Ok(next_index)) => {
                connection.next_index = next_index;
                // All messages of its event but the first are sent again.
                if let Some(known) = &mut self.known {
                    known.received = Some(1);
                }
            }
            Some(Err(_)) | None => connection.next_index = self.start_over(feed, oracle)?,
        }
        self.connection = Some(connection);
        Ok(())
    }

    /// Takes the images. Returns the index of the next message.
    fn start_over(&mut self, feed: &Feed, oracle: &Oracle) -> Result<u64, String> {
        let position = feed.snapshots(|_, _| true).position;
        let recorded_at = feed.recorded_at(position.generation, position.seq);
        let histories = oracle.histories(&position.epoch, position.seq, recorded_at);
        if histories.is_empty() && !oracle.has_holes {
            let seq = position.seq;
            return Err(format!("images at {seq} are of no history of the log"));
        }
        self.known = Some(Known {
            epoch: position.epoch,
            seq: position.seq,
            recorded_at,
            received: None,
            histories,
        });
        Ok(position.head)
    }

    fn read(&mut self, running: &Running, oracle: &Oracle) -> Result<(), String> {
        let feed = &running.health.feed;
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        let from = connection.next_index;
        let position = feed.position();
        if position.generation == connection.generation {
            let Some(known) = &mut self.known else {
                return Ok(());
            };
            // A history that parts from it only later has begun since.
            let begun = oracle.histories(&known.epoch, known.seq, known.recorded_at);
            known.histories.extend(begun);
            known.histories.sort_unstable();
            known.histories.dedup();
            // As a client that reads too slowly is moved on.
            if position.head - from > 20 && self.chance.one_in(20) {
                let conflated = feed.conflated(from, ConflatedBy::Backpressure, |_, _| true);
                if let Some((frames, position)) = conflated {
                    connection.next_index = position.head;
                    known.take_conflated(&frames, &position, oracle)?;
                    return known.pass(feed, &position, oracle);
                }
            } else if let Some(tail) = feed.tail(from, self.messages_max) {
                for message in &tail.messages {
                    known.take(message.seq, &message.frame, oracle)?;
                    connection.next_index = message.index + 1;
                }
                known.recorded_at = feed.recorded_at(position.generation, known.seq);
                if connection.next_index == tail.position.head {
                    return known.pass(feed, &tail.position, oracle);
                }
                return Ok(());
            }
        }
        let next_index = self.start_over(feed, oracle)?;
        if let Some(connection) = &mut self.connection {
            connection.next_index = next_index;
            connection.generation = position.generation;
        }
        Ok(())
    }
}

impl Known {
    /// Keeps the histories that agree. One must.
    fn retain(
        &mut self,
        oracle: &Oracle,
        what: &str,
        agrees: impl Fn(&Self, &BTreeMap<u64, Vec<Frame>>) -> bool,
    ) -> Result<(), String> {
        if oracle.has_holes {
            return Ok(());
        }
        let mut histories = std::mem::take(&mut self.histories);
        histories.retain(|history| agrees(self, oracle.messages(*history)));
        self.histories = histories;
        if self.histories.is_empty() {
            let seq = self.seq;
            return Err(format!(
                "a client that had all up to {seq} was sent {what}, which follows it in no history of the log"
            ));
        }
        Ok(())
    }

    /// Whether a history has no message between what was received and an event.
    fn is_next(&self, messages: &BTreeMap<u64, Vec<Frame>>, seq: u64) -> bool {
        let of_last = messages.get(&self.seq).map_or(0, Vec::len);
        let has_last = self.received.is_none_or(|received| received >= of_last);
        has_last && messages.range(self.seq + 1..seq).next().is_none()
    }

    fn take(&mut self, seq: u64, frame: &Frame, oracle: &Oracle) -> Result<(), String> {
        let n = match self.received {
            Some(received) if seq == self.seq => received,
            _ => 0,
        };
        self.retain(
            oracle,
            &format!("message {n} of {seq}"),
            |known, messages| {
                let expected = messages.get(&seq).and_then(|messages| messages.get(n));
                let follows = seq == known.seq || seq > known.seq && known.is_next(messages, seq);
                follows && expected.map(Frame::json) == Some(frame.json())
            },
        )?;
        (self.seq, self.received) = (seq, Some(n + 1));
        Ok(())
    }

    /// It has everything up to a position.
    fn pass(&mut self, feed: &Feed, position: &Position, oracle: &Oracle) -> Result<(), String> {
        let seq = position.seq;
        self.retain(
            oracle,
            &format!("nothing up to {seq}"),
            |known, messages| known.is_next(messages, seq + 1),
        )?;
        if seq > self.seq {
            (self.seq, self.received) = (seq, None);
        }
        self.recorded_at = feed.recorded_at(position.generation, self.seq);
        Ok(())
    }

    /// Takes what stands for all messages up to a position.
    fn take_conflated(
        &mut self,
        frames: &[Frame],
        position: &Position,
        oracle: &Oracle,
    ) -> Result<(), String> {
        let what = format!("conflated messages up to {}", position.seq);
        let sent = conflated(frames.iter());
        let is_sent = |known: &Self, messages: &BTreeMap<u64, Vec<Frame>>| {
            let received = known.received.unwrap_or(usize::MAX);
            let of_last = messages.get(&known.seq).into_iter().flatten();
            let later = messages.range(known.seq + 1..=position.seq);
            let missed = of_last.skip(received).chain(later.flat_map(|(_, of)| of));
            conflated(missed) == sent
        };
        self.retain(oracle, &what, is_sent)?;
        (self.seq, self.received) = (position.seq, None);
        Ok(())
    }
}

/// Messages as they may be merged: of each race that there is a board and a market, and all else.
fn conflated<'a>(frames: impl Iterator<Item = &'a Frame>) -> BTreeMap<(String, u64), Value> {
    let mut merged = BTreeMap::new();
    for frame in frames {
        let mut message: Value = serde_json::from_slice(frame.json()).expect("JSON");
        let fields = message.as_object_mut().expect("an object");
        for of_this_client in ["more", "conflated", "conflated_by", "prev_seq"] {
            fields.remove(of_this_client);
        }
        let is_odds = fields["event"] == "odds_update" || fields["event"] == "quote";
        let name = |field: &str| message[field].to_string();
        let kind = name("event");
        let n = match is_odds {
            true => 0,
            false => message["seq"].as_u64().unwrap_or(0),
        };
        let of_quote = ["source", "market"].map(|field| match kind == r#""quote""# {
            true => name(field),
            false => String::new(),
        });
        let race = ["date", "venue_code", "race_number"].map(name).join(" ");
        let race = [race, kind, of_quote.join(" ")].join(" ");
        // The latest image may have facts that came after the last message about odds; that of a market has all
        // prices.
        let compared = if is_odds { Value::Null } else { message };
        merged.insert((race, n), compared);
    }
    merged
}
