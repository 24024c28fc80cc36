//! A message as a line of plain text, for pipes: `event race key=value ...`.

use std::fmt::Display;

use events::{HorseNo, Odds, RaceKey};

use super::message::{UpdateHeader, WatchMessage, WatchRunner};

/// Formats a message as a line; `None` for an unknown event.
pub(super) fn line(message: &WatchMessage) -> Option<String> {
    let PlainLine(text) = match message {
        WatchMessage::Welcome(welcome) => PlainLine("welcome".to_owned())
            .pair("seq", welcome.seq)
            .pair("epoch", &welcome.epoch)
            .pair("recovered", or_empty(welcome.recovered))
            .pair("reason", &welcome.reason),
        WatchMessage::OddsUpdate(odds) => {
            let line = PlainLine::about("odds_update", &odds.header)
                .pair("status", &odds.status)
                .pair("snapshot", or_empty(odds.snapshot.then_some(true)))
                .pair("conflated", or_empty(odds.conflated));
            odds.runners.iter().fold(line, |line, runner| {
                let number = number(runner.number, &runner.horse_no);
                line.pair(&number, prices(runner))
            })
        }
        WatchMessage::StatusUpdate(update) => PlainLine::about("status_update", &update.header)
            .pair("status", &update.status)
            .pair("reason", &update.reason),
        WatchMessage::RunnerUpdate(update) => PlainLine::about("runner_update", &update.header)
            .pair("change", &update.change)
            .pair("runner", number(update.number, &update.horse_no))
            .pair("jockey", &update.jockey)
            .pair("reason", &update.reason),
        WatchMessage::ResultUpdate(result) => {
            let line = PlainLine::about("result_update", &result.header)
                .pair("status", &result.status)
                .pair("revision", result.revision)
                .pair("reason", &result.reason);
            result.runners.iter().fold(line, |line, runner| {
                let number = number(runner.number, &runner.horse_no);
                line.pair(&runner.position.to_string(), number)
            })
        }
        WatchMessage::SnapshotComplete {
            seq,
            races,
            replayed,
        } => PlainLine("snapshot_complete".to_owned())
            .pair("seq", seq)
            .pair("races", races)
            .pair("replayed", replayed),
        WatchMessage::Heartbeat { seq, feed, .. } => PlainLine("heartbeat".to_owned())
            .pair("seq", seq)
            .pair("feed", &feed.state)
            .pair("lag_ms", feed.lag_ms),
        WatchMessage::Resync { epoch, reason } => PlainLine("resync".to_owned())
            .pair("epoch", epoch)
            .pair("reason", reason),
        WatchMessage::Closing(closing) => PlainLine("closing".to_owned())
            .pair("code", or_empty(closing.code))
            .pair("retry_after_ms", closing.retry_after_ms)
            .pair("reason", &closing.reason),
        WatchMessage::Other => return None,
    };
    Some(text)
}

/// Formats a race as `--race` accepts it.
pub(super) fn race(key: &RaceKey) -> String {
    format!("{}/{}/{}", key.date, key.venue, key.race_number)
}

/// A line that grows by pairs.
struct PlainLine(String);

impl PlainLine {
    fn about(event: &str, header: &UpdateHeader) -> Self {
        Self(format!("{event} {}", race(&header.race()))).pair("seq", header.seq)
    }

    /// Adds ` name=value`, quoted where the value holds a space or a quotation mark; nothing if the value is empty.
    fn pair(mut self, name: &str, value: impl Display) -> Self {
        let value = value.to_string();
        if value.contains([' ', '"']) {
            self.0 += &format!(" {name}={value:?}");
        } else if !value.is_empty() {
            self.0 += &format!(" {name}={value}");
        }
        self
    }
}

fn or_empty(value: Option<impl Display>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

fn number(number: u16, horse_no: &HorseNo) -> String {
    format!("{number}:{horse_no}")
}

/// Formats `win/place`, or the reason for the missing price.
fn prices(runner: &WatchRunner) -> String {
    let price = |odds: Option<Odds>| odds.map_or("-".to_owned(), |odds| odds.to_string());
    match runner.win {
        None if !runner.state.is_empty() => runner.state.to_string(),
        win => format!("{}/{}", price(win), price(runner.place)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_of(message: &str) -> String {
        line(&serde_json::from_str(message).unwrap()).unwrap()
    }

    const RACE: &str = r#""date":"2026-11-21","venue":"Railbird Park","venue_code":"RB","race_number":1,
        "recorded_at":"2026-11-21T09:01:16.276737Z","seq":248,"prev_seq":245"#;

    #[test]
    fn a_message_is_a_line() {
        let odds = format!(
            r#"{{"event":"odds_update",{RACE},"status":"open","runners":[
                {{"horse_no":"RB_014","number":1,"horse_name":"A","win":7.1,"place":1.9,"opening":3.9,"previous":7.5}},
                {{"horse_no":"RB_064","number":2,"horse_name":"B","win":null,"place":null,"state":"scratched"}},
                {{"horse_no":"RB_007","number":3,"horse_name":"C","win":10.0,"place":null}}]}}"#
        );
        assert_eq!(
            line_of(&odds),
            "odds_update 2026-11-21/RB/1 seq=248 status=open 1:RB_014=7.1/1.9 2:RB_064=scratched 3:RB_007=10.0/-"
        );
        let withdrawn = format!(
            r#"{{"event":"runner_update",{RACE},"change":"withdrawn","horse_no":"RB_064","number":2,"jockey":"A Rider",
                "reason":"lame"}}"#
        );
        assert_eq!(
            line_of(&withdrawn),
            r#"runner_update 2026-11-21/RB/1 seq=248 change=withdrawn runner=2:RB_064 jockey="A Rider" reason=lame"#
        );
        let result = format!(
            r#"{{"event":"result_update",{RACE},"status":"official","revision":2,"reason":"",
                "runners":[{{"position":1,"horse_no":"RB_014","number":1}},{{"position":2,"horse_no":"RB_007","number":3}}]}}"#
        );
        assert_eq!(
            line_of(&result),
            "result_update 2026-11-21/RB/1 seq=248 status=official revision=2 1=1:RB_014 2=3:RB_007"
        );
        assert_eq!(
            line_of(
                r#"{"event":"closing","code":1001,"reason":"the service is stopping","retry_after_ms":1830}"#
            ),
            r#"closing code=1001 retry_after_ms=1830 reason="the service is stopping""#
        );
    }

    #[test]
    fn an_unknown_event_is_not_printed() {
        assert_eq!(line(&WatchMessage::Other), None);
    }
}
