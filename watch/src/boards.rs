//! [`WatchBoards`]: the odds boards of the watched races, folded from the messages of the live channel.

use std::collections::HashMap;

use client::Message;
use client::message::{BoardRunner, Race, ResultUpdate};
use jiff::{SignedDuration, Timestamp};

/// The most races that are kept; the race that changed longest ago is dropped first.
const RACES_MAX: usize = 1_024;

/// The most win prices that are kept for each runner.
pub(crate) const TREND_LEN_MAX: u16 = 16;

/// A race is active if it changed this shortly before the latest change of any race. Active races keep the order of the
/// card, so that boards do not swap places with each quote.
const ACTIVE: SignedDuration = SignedDuration::from_secs(60);

#[derive(Debug, Clone, Default)]
pub(crate) struct WatchBoards {
    races: HashMap<Race, WatchBoard>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct WatchBoard {
    pub(crate) changed_at: Timestamp,
    /// Whether odds have arrived. A race is not shown before.
    has_odds: bool,
    pub(crate) venue: String,
    pub(crate) status: String,
    pub(crate) runners: Vec<BoardRunner>,
    /// The latest win prices of each runner, oldest first.
    trends: HashMap<String, Vec<f64>>,
    pub(crate) result: Option<ResultUpdate>,
}

impl WatchBoards {
    /// Applies a message that was not received before.
    pub(crate) fn apply(&mut self, message: &Message) {
        if message.reset().is_some() {
            self.races.clear();
        }
        let Some(header) = message.header() else {
            return;
        };
        let is_new = !self.races.contains_key(&header.race);
        if is_new && self.races.len() >= RACES_MAX {
            let oldest = self.races.iter().min_by_key(|(_, race)| race.changed_at);
            if let Some(key) = oldest.map(|(key, _)| key.clone()) {
                self.races.remove(&key);
            }
        }
        let board = self.races.entry(header.race.clone()).or_default();
        board.venue.clone_from(&header.venue);
        board.changed_at = header.recorded_at;
        board.update(message);
    }

    /// The races that have odds: first the active ones in the order of the card, then the others, latest change first.
    pub(crate) fn in_display_order(&self) -> Vec<(&Race, &WatchBoard)> {
        let races = self.races.iter().filter(|(_, board)| board.has_odds);
        let mut races: Vec<_> = races.collect();
        let latest = races.iter().map(|(_, board)| board.changed_at).max();
        races.sort_by_key(|(key, board)| {
            let age = latest.map(|latest| latest.duration_since(board.changed_at));
            (age.filter(|age| *age > ACTIVE), *key)
        });
        races
    }
}

impl WatchBoard {
    fn update(&mut self, message: &Message) {
        match message {
            Message::OddsUpdate(odds) => {
                self.has_odds = true;
                self.status = odds.status.clone();
                self.runners = odds.runners.clone();
                self.extend_trends();
            }
            Message::StatusUpdate(update) => self.status = update.status.clone(),
            Message::ResultUpdate(result) => self.result = Some(result.clone()),
            // An odds_update follows each runner_update that changes the board.
            _ => {}
        }
    }

    /// The latest win prices of a runner, oldest first.
    pub(crate) fn trend(&self, horse_no: &str) -> Vec<f64> {
        self.trends.get(horse_no).cloned().unwrap_or_default()
    }

    fn extend_trends(&mut self) {
        for runner in &self.runners {
            let Some(win) = runner.win else { continue };
            let trend = self.trends.entry(runner.horse_no.clone()).or_default();
            if trend.len() == usize::from(TREND_LEN_MAX) {
                trend.remove(0);
            }
            trend.push(win);
        }
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

    fn wins(boards: &WatchBoards) -> Vec<String> {
        let mut wins: Vec<_> = boards
            .in_display_order()
            .iter()
            .map(|(key, board)| format!("{}: {:?}", key.race_number, board.runners[0].win.unwrap()))
            .collect();
        wins.sort();
        wins
    }

    #[test]
    fn the_latest_update_is_the_board() {
        let mut boards = WatchBoards::default();
        boards.apply(&snapshot(odds(1, 3, 5, 2.0)));
        boards.apply(&odds(2, 0, 6, 7.5));
        boards.apply(&odds(1, 5, 7, 2.1));
        assert_eq!(wins(&boards), ["1: 2.1", "2: 7.5"]);
    }

    #[test]
    fn boards_are_kept_only_if_the_service_resumes() {
        let mut boards = WatchBoards::default();
        boards.apply(&odds(1, 0, 5, 2.0));
        boards.apply(&welcome(Some(true)));
        assert_eq!(wins(&boards), ["1: 2.0"]);
        for reset in [
            welcome(None),
            welcome(Some(false)),
            serde_json::from_value(json!({ "event": "resync", "seq": 2, "epoch": "e2" })).unwrap(),
        ] {
            boards.apply(&odds(1, 0, 5, 2.0));
            boards.apply(&reset);
            assert_eq!(wins(&boards), [""; 0]);
        }
    }

    #[test]
    fn status_and_result_update_a_board_but_do_not_create_one() {
        let mut boards = WatchBoards::default();
        let closed = |seq| message("status_update", 1, 0, seq, json!({ "status": "closed" }));
        let result = json!({ "status": "official", "revision": 1,
            "runners": [{ "position": 1, "horse_no": "H1", "horse_name": "HORSE 1" }] });
        let result = message("result_update", 1, 0, 8, result);
        boards.apply(&closed(4));
        assert_eq!(boards.in_display_order().len(), 0);
        boards.apply(&odds(1, 0, 5, 2.0));
        boards.apply(&closed(6));
        boards.apply(&result);
        let (_, board) = boards.in_display_order()[0];
        assert_eq!(board.status.as_str(), "closed");
        assert_eq!(board.result.as_ref().unwrap().runners[0].position, 1);
        boards.apply(&odds(1, 5, 9, 2.0));
        let (_, board) = boards.in_display_order()[0];
        assert!(board.result.is_some(), "an odds_update keeps the result");
    }

    #[test]
    fn the_number_of_races_is_bounded() {
        let mut boards = WatchBoards::default();
        for venue in ["RB", "GL"] {
            for race_number in 1..=999 {
                let more = json!({ "venue_code": venue, "status": "open", "runners": [] });
                boards.apply(&message("odds_update", race_number, 0, 5, more));
            }
        }
        assert_eq!(boards.in_display_order().len(), RACES_MAX);
    }

    #[test]
    fn the_trend_of_a_runner_is_its_latest_prices_up_to_a_bound() {
        let mut boards = WatchBoards::default();
        for n in 1..=20_u32 {
            boards.apply(&odds(1, 0, n.into(), f64::from(n) + 1.0));
        }
        let (_, board) = boards.in_display_order()[0];
        let trend = board.trend(&board.runners[0].horse_no);
        assert_eq!(trend.len(), usize::from(TREND_LEN_MAX));
        assert_eq!(trend.last(), Some(&21.0));
    }
}
