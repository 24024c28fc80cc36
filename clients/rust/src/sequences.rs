//! [`Sequences`]: proves that no message about a race is missing or repeated.

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};

use crate::message::{Message, Race};

/// Races times kinds of messages, and markets of sources, of which the last `seq` is kept: more than a year of racing
/// without quotes. Beyond that, the proof begins again.
const LAST_SEQS_MAX: usize = 100_000;

/// Messages about a race between these two are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The `seq` of the last message of the kind before.
    pub last_seq: u64,
    /// The `seq` of the message that should have been the last.
    pub prev_seq: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received {
    New(Option<Gap>),
    /// It was received before.
    Repeated,
}

/// A kind of message, its race, and the source and market of a quote.
type Key = (Discriminant<Message>, Race, Option<(String, String)>);

/// The last `seq` of each kind of message about each race, and of the quotes of each source in each market.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    last: HashMap<Key, u64>,
}

impl Sequences {
    pub(crate) fn receive(&mut self, message: &Message) -> Received {
        if message.reset().is_some() {
            self.last.clear();
        }
        let Some(header) = message.header() else {
            return Received::New(None);
        };
        let (is_snapshot, market) = match message {
            Message::OddsUpdate(odds) => (odds.snapshot, None),
            Message::Quote(quote) => {
                let market = (quote.source.clone(), quote.market.clone());
                (quote.snapshot, Some(market))
            }
            _ => (false, None),
        };
        let key = (discriminant(message), header.race.clone(), market);
        let last = self.last.get(&key).copied().filter(|_| !is_snapshot);
        if last.is_some_and(|last| header.seq <= last) {
            return Received::Repeated;
        }
        if self.last.len() >= LAST_SEQS_MAX {
            self.last.clear();
        }
        self.last.insert(key, header.seq);
        let prev_seq = header.prev_seq;
        let gap = last.filter(|last| ![0, *last].contains(&prev_seq));
        Received::New(gap.map(|last_seq| Gap { last_seq, prev_seq }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Gap, Received, Sequences};
    use crate::message::Message;

    const NEW: Received = Received::New(None);

    fn message(event: &str, prev_seq: u64, seq: u64, more: Value) -> Message {
        let mut message = json!({
            "event": event, "date": "2026-11-21", "venue": "Railbird Park", "venue_code": "RB", "race_number": 1,
            "recorded_at": "2026-11-21T09:01:16Z", "seq": seq, "prev_seq": prev_seq,
        });
        let more = more.as_object().unwrap().clone();
        message.as_object_mut().unwrap().extend(more);
        serde_json::from_value(message).unwrap()
    }

    fn odds(prev_seq: u64, seq: u64, snapshot: bool) -> Message {
        let more = json!({ "status": "open", "runners": [], "snapshot": snapshot });
        message("odds_update", prev_seq, seq, more)
    }

    #[test]
    fn a_message_counts_once_and_a_gap_is_noticed_once() {
        let mut sequences = Sequences::default();
        assert_eq!(sequences.receive(&odds(3, 5, true)), NEW);
        assert_eq!(sequences.receive(&odds(5, 7, false)), NEW);
        assert_eq!(sequences.receive(&odds(5, 7, false)), Received::Repeated);
        assert_eq!(sequences.receive(&odds(3, 5, false)), Received::Repeated);
        let gap = Some(Gap {
            last_seq: 7,
            prev_seq: 8,
        });
        assert_eq!(sequences.receive(&odds(8, 9, false)), Received::New(gap));
        assert_eq!(sequences.receive(&odds(9, 10, false)), NEW);
        assert_eq!(sequences.receive(&odds(9, 10, true)), NEW, "a snapshot");
    }

    #[test]
    fn the_kinds_of_messages_are_counted_apart() {
        let mut sequences = Sequences::default();
        let withdrawn = json!({ "change": "withdrawn", "horse_no": "H2" });
        let withdrawn = message("runner_update", 0, 6, withdrawn);
        assert_eq!(sequences.receive(&odds(0, 5, false)), NEW);
        assert_eq!(sequences.receive(&withdrawn), NEW);
        assert_eq!(sequences.receive(&odds(5, 6, false)), NEW);
        assert_eq!(sequences.receive(&withdrawn), Received::Repeated);
    }

    fn quote(source: &str, market: &str, prev_seq: u64, seq: u64, snapshot: bool) -> Message {
        let more = json!({
            "source": source, "market": market, "timestamp": "2026-11-21T09:01:16Z", "snapshot": snapshot,
            "prices": [{ "combination": [1, 3], "odds": 18.5 }, { "combination": [2, 3], "state": "suspended" }],
        });
        message("quote", prev_seq, seq, more)
    }

    #[test]
    fn the_quotes_of_each_source_and_market_are_counted_apart() {
        let mut sequences = Sequences::default();
        let quinella = quote("tote", "quinella", 5, 7, false);
        for message in [
            quote("tote", "quinella", 0, 5, true),
            quote("tote", "win_place", 0, 6, true),
            quote("exchange", "quinella", 0, 6, true),
            quinella.clone(),
        ] {
            assert_eq!(sequences.receive(&message), NEW, "{message:?}");
        }
        assert_eq!(sequences.receive(&quinella), Received::Repeated);
        let gap = Some(Gap {
            last_seq: 7,
            prev_seq: 8,
        });
        let after_gap = quote("tote", "quinella", 8, 9, false);
        assert_eq!(sequences.receive(&after_gap), Received::New(gap));
        let snapshot = quote("tote", "quinella", 8, 9, true);
        assert_eq!(sequences.receive(&snapshot), NEW, "a snapshot");
    }

    #[test]
    fn earlier_sequences_count_only_if_the_service_resumes() {
        let mut sequences = Sequences::default();
        sequences.receive(&odds(0, 5, false));
        let welcome = |recovered: bool| -> Message {
            let welcome = json!({
                "event": "welcome", "seq": 9, "server_time": "2026-11-21T09:01:15Z", "recovered": recovered,
            });
            serde_json::from_value(welcome).unwrap()
        };
        sequences.receive(&welcome(true));
        let repeated = sequences.receive(&odds(0, 5, false));
        assert_eq!(repeated, Received::Repeated);
        sequences.receive(&welcome(false));
        assert_eq!(sequences.receive(&odds(0, 3, false)), NEW);
    }
}
