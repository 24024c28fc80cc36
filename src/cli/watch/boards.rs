//! [`Boards`]: what is known of the races that are watched, folded from the messages of the channel.

use std::collections::HashMap;

use events::{Moment, RaceKey, Text};

use super::message::{Message, Placed, Runner};

/// Races that are remembered; beyond that the one that changed longest ago is forgotten. A season's results may pass by.
const RACES_MAX: usize = 1_024;

/// What is known of the races that are watched.
#[derive(Debug, Default)]
pub(super) struct Boards {
    races: HashMap<RaceKey, Race>,
}

#[derive(Debug)]
struct Race {
    /// The last `seq` of each kind of message; 0 before the first.
    seqs: [u64; 4],
    changed_at: Moment,
    /// Nothing is shown of a race that has no prices.
    board: Option<Board>,
}

/// A race with prices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Board {
    pub(super) venue: Text,
    pub(super) status: Text,
    pub(super) runners: Vec<Runner>,
    pub(super) changed_at: Moment,
    pub(super) result: Option<Result>,
}

/// What was said of how a race ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Result {
    pub(super) status: Text,
    pub(super) placed: Vec<Placed>,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    New,
    /// It was there before.
    Repeated,
    /// It is new, and something between the two places is missing.
    Gap {
        last_seq: u64,
        prev_seq: u64,
    },
}

impl Boards {
    /// Takes in a message.
    pub(super) fn take(&mut self, message: &Message) -> Taken {
        match message {
            Message::Welcome(welcome) if !welcome.goes_on() => self.races.clear(),
            Message::Resync(_) => self.races.clear(),
            _ => {}
        }
        let (Some(about), Some(kind)) = (message.about(), kind(message)) else {
            return Taken::New;
        };
        let key = about.race();
        if !self.races.contains_key(&key) {
            self.make_room();
        }
        let race = self.races.entry(key).or_insert_with(|| Race {
            seqs: [0; 4],
            changed_at: about.recorded_at,
            board: None,
        });
        let last_seq = race.seqs[kind];
        let snapshot = matches!(message, Message::OddsUpdate(odds) if odds.snapshot);
        if !snapshot && about.seq <= last_seq {
            return Taken::Repeated;
        }
        race.seqs[kind] = about.seq;
        race.changed_at = about.recorded_at;
        race.show(message);
        if snapshot || last_seq == 0 || [0, last_seq].contains(&about.prev_seq) {
            return Taken::New;
        }
        Taken::Gap {
            last_seq,
            prev_seq: about.prev_seq,
        }
    }

    fn make_room(&mut self) {
        if self.races.len() < RACES_MAX {
            return;
        }
        let oldest = self.races.iter().min_by_key(|(_, race)| race.changed_at);
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.races.remove(&key);
        }
    }

    /// The races that have prices, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = (&RaceKey, &Board)> {
        self.races
            .iter()
            .filter_map(|(key, race)| Some((key, race.board.as_ref()?)))
    }
}

impl Race {
    fn show(&mut self, message: &Message) {
        if let Message::OddsUpdate(odds) = message {
            self.board = Some(Board {
                venue: odds.about.venue.clone(),
                status: odds.status.clone(),
                runners: odds.runners.clone(),
                changed_at: odds.about.recorded_at,
                result: self.board.take().and_then(|board| board.result),
            });
            return;
        }
        let Some(board) = &mut self.board else {
            return;
        };
        board.changed_at = self.changed_at;
        match message {
            Message::StatusUpdate(update) => board.status = update.status.clone(),
            Message::ResultUpdate(update) => {
                board.result = Some(Result {
                    status: update.status.clone(),
                    placed: update.runners.clone(),
                });
            }
            // What it changes on a board comes with the image that follows it.
            _ => {}
        }
    }
}

fn kind(message: &Message) -> Option<usize> {
    match message {
        Message::OddsUpdate(_) => Some(0),
        Message::StatusUpdate(_) => Some(1),
        Message::RunnerUpdate(_) => Some(2),
        Message::ResultUpdate(_) => Some(3),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn message(event: &str, race_number: u16, prev_seq: u64, seq: u64, more: Value) -> Message {
        let mut message = json!({
            "event": event, "date": "2026-11-21", "venue": "Railbird Park", "venue_code": "RB", "race_number": race_number,
            "recorded_at": "2026-11-21T09:01:16Z", "seq": seq, "prev_seq": prev_seq,
        });
        let more = more.as_object().unwrap().clone();
        message.as_object_mut().unwrap().extend(more);
        serde_json::from_value(message).unwrap()
    }

    fn odds(race_number: u16, prev_seq: u64, seq: u64, win: f64) -> Message {
        let runner = json!({ "horse_no": "H1", "number": 1, "horse_name": "HORSE 1", "win": win });
        let more = json!({ "status": "open", "runners": [runner] });
        message("odds_update", race_number, prev_seq, seq, more)
    }

    fn snapshot(mut odds: Message) -> Message {
        if let Message::OddsUpdate(odds) = &mut odds {
            odds.snapshot = true;
        }
        odds
    }

    fn welcome(recovered: Option<bool>) -> Message {
        let welcome = json!({ "event": "welcome", "seq": 9, "epoch": "e", "server_time": "2026-11-21T09:01:15Z",
            "recovered": recovered });
        serde_json::from_value(welcome).unwrap()
    }

    fn wins(boards: &Boards) -> Vec<String> {
        let mut wins: Vec<_> = boards
            .all()
            .map(|(key, board)| format!("{}: {}", key.race_number, board.runners[0].win.unwrap()))
            .collect();
        wins.sort();
        wins
    }

    #[test]
    fn the_latest_image_is_the_board() {
        let mut boards = Boards::default();
        assert_eq!(boards.take(&snapshot(odds(1, 3, 5, 2.0))), Taken::New);
        assert_eq!(boards.take(&odds(2, 0, 6, 7.5)), Taken::New);
        assert_eq!(boards.take(&odds(1, 5, 7, 2.1)), Taken::New);
        assert_eq!(wins(&boards), ["1: 2.1", "2: 7.5"]);
    }

    #[test]
    fn what_was_there_before_changes_nothing() {
        let mut boards = Boards::default();
        boards.take(&odds(1, 0, 5, 2.0));
        assert_eq!(boards.take(&odds(1, 0, 5, 9.0)), Taken::Repeated);
        assert_eq!(boards.take(&odds(1, 0, 4, 9.0)), Taken::Repeated);
        assert_eq!(wins(&boards), ["1: 2.0"]);
    }

    #[test]
    fn a_gap_is_noticed_and_healed_by_the_image() {
        let mut boards = Boards::default();
        boards.take(&odds(1, 0, 5, 2.0));
        let gap = Taken::Gap {
            last_seq: 5,
            prev_seq: 8,
        };
        assert_eq!(boards.take(&odds(1, 8, 9, 2.2)), gap);
        assert_eq!(wins(&boards), ["1: 2.2"]);
        assert_eq!(boards.take(&odds(1, 9, 10, 2.3)), Taken::New);
    }

    #[test]
    fn the_kinds_of_messages_are_counted_apart() {
        let mut boards = Boards::default();
        boards.take(&odds(1, 0, 5, 2.0));
        let withdrawn = json!({ "change": "withdrawn", "horse_no": "H2" });
        let runner = message("runner_update", 1, 0, 6, withdrawn);
        assert_eq!(boards.take(&runner), Taken::New);
        assert_eq!(boards.take(&odds(1, 5, 6, 2.1)), Taken::New);
        assert_eq!(boards.take(&runner), Taken::Repeated);
    }

    #[test]
    fn boards_live_on_only_where_the_service_says_so() {
        let mut boards = Boards::default();
        boards.take(&odds(1, 0, 5, 2.0));
        boards.take(&welcome(Some(true)));
        assert_eq!(wins(&boards), ["1: 2.0"]);
        for forget in [
            welcome(None),
            welcome(Some(false)),
            serde_json::from_value(json!({ "event": "resync", "seq": 2, "epoch": "e2" })).unwrap(),
        ] {
            boards.take(&odds(1, 0, 5, 2.0));
            boards.take(&forget);
            assert_eq!(wins(&boards), [""; 0]);
        }
        assert_eq!(
            boards.take(&odds(1, 0, 3, 2.0)),
            Taken::New,
            "places of before count no more"
        );
    }

    #[test]
    fn status_and_result_stand_on_the_board_and_make_none() {
        let mut boards = Boards::default();
        let closed = |seq| message("status_update", 1, 0, seq, json!({ "status": "closed" }));
        let result = json!({ "status": "official", "revision": 1,
            "runners": [{ "position": 1, "horse_no": "H1", "horse_name": "HORSE 1" }] });
        let result = message("result_update", 1, 0, 8, result);
        boards.take(&closed(4));
        assert_eq!(boards.all().count(), 0);
        boards.take(&odds(1, 0, 5, 2.0));
        boards.take(&closed(6));
        boards.take(&result);
        let (_, board) = boards.all().next().unwrap();
        assert_eq!(board.status.as_str(), "closed");
        assert_eq!(board.result.as_ref().unwrap().placed[0].position, 1);
        boards.take(&odds(1, 5, 9, 2.0));
        let (_, board) = boards.all().next().unwrap();
        assert!(board.result.is_some(), "a result outlives an image");
    }

    #[test]
    fn only_so_many_races_are_remembered() {
        let mut boards = Boards::default();
        for venue in ["RB", "GL"] {
            for race_number in 1..=999 {
                let more = json!({ "venue_code": venue, "status": "open", "runners": [] });
                boards.take(&message("odds_update", race_number, 0, 5, more));
            }
        }
        assert_eq!(boards.all().count(), RACES_MAX);
    }
}
