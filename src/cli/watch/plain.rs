//! A message as a line of plain text, for pipes: `event race key=value ...`.

use events::{HorseNo, Odds, RaceKey};

use super::message::{UpdateHeader, WatchFinisher, WatchMessage, WatchRunner};

/// Formats a message as a line; `None` for an unknown event.
pub(super) fn line(message: &WatchMessage) -> Option<String> {
    let line = match message {
        WatchMessage::Welcome {
            seq,
            epoch,
            recovered,
            reason,
            ..
        } => {
            let recovered = recovered.map_or(String::new(), |value| format!(" recovered={value}"));
            let (epoch, reason) = (
                pair("epoch", epoch.as_str()),
                pair("reason", reason.as_str()),
            );
            format!("welcome seq={seq}{epoch}{recovered}{reason}")
        }
        WatchMessage::OddsUpdate {
            header,
            snapshot,
            conflated,
            status,
            runners,
        } => {
            let head = head("odds_update", header) + &pair("status", status.as_str());
            let snapshot = if *snapshot { " snapshot=true" } else { "" };
            let conflated = conflated.map_or(String::new(), |count| format!(" conflated={count}"));
            let prices = runners.iter().map(prices_of_runner).collect::<String>();
            head + snapshot + &conflated + &prices
        }
        WatchMessage::StatusUpdate {
            header,
            status,
            reason,
        } => {
            let status = pair("status", status.as_str());
            head("status_update", header) + &status + &pair("reason", reason.as_str())
        }
        WatchMessage::RunnerUpdate {
            header,
            change,
            horse_no,
            number,
            jockey,
            reason,
        } => {
            let change = pair("change", change.as_str());
            let runner = pair("runner", &runner(*number, horse_no));
            let jockey = pair("jockey", jockey.as_str());
            head("runner_update", header)
                + &change
                + &runner
                + &jockey
                + &pair("reason", reason.as_str())
        }
        WatchMessage::ResultUpdate {
            header,
            status,
            revision,
            reason,
            runners,
        } => {
            let head = head("result_update", header) + &pair("status", status.as_str());
            let reason = pair("reason", reason.as_str());
            let finishers = runners.iter().map(finisher).collect::<String>();
            format!("{head} revision={revision}{reason}{finishers}")
        }
        WatchMessage::SnapshotComplete {
            seq,
            races,
            replayed,
        } => format!("snapshot_complete seq={seq} races={races} replayed={replayed}"),
        WatchMessage::Heartbeat { seq, feed, .. } => {
            let state = pair("feed", feed.state.as_str());
            format!("heartbeat seq={seq}{state} lag_ms={}", feed.lag_ms)
        }
        WatchMessage::Resync { epoch, reason } => {
            let epoch = pair("epoch", epoch.as_str());
            format!("resync{epoch}{}", pair("reason", reason.as_str()))
        }
        WatchMessage::Closing {
            code,
            reason,
            retry_after_ms,
        } => {
            let code = code.map_or(String::new(), |code| format!(" code={code}"));
            let reason = pair("reason", reason.as_str());
            format!("closing{code} retry_after_ms={retry_after_ms}{reason}")
        }
        WatchMessage::Other => return None,
    };
    Some(line)
}

/// Formats a race as `--race` accepts it.
pub(super) fn race(key: &RaceKey) -> String {
    format!("{}/{}/{}", key.date, key.venue, key.race_number)
}

fn head(event: &str, header: &UpdateHeader) -> String {
    format!("{event} {} seq={}", race(&header.race()), header.seq)
}

/// Formats ` name=value`, quoted where the value holds a space or a quotation mark; nothing if the value is empty.
fn pair(name: &str, value: &str) -> String {
    if value.is_empty() {
        String::new()
    } else if value.contains([' ', '"']) {
        format!(" {name}={value:?}")
    } else {
        format!(" {name}={value}")
    }
}

fn runner(number: u16, horse_no: &HorseNo) -> String {
    format!("{number}:{horse_no}")
}

/// Formats ` number:horse=win/place`, or the reason for the missing price.
fn prices_of_runner(quoted: &WatchRunner) -> String {
    let price = |odds: Option<Odds>| odds.map_or("-".to_owned(), |odds| odds.to_string());
    let prices = match (quoted.win, quoted.state.as_str()) {
        (None, state) if !state.is_empty() => state.to_owned(),
        (win, _) => format!("{}/{}", price(win), price(quoted.place)),
    };
    pair(&runner(quoted.number, &quoted.horse_no), &prices)
}

fn finisher(finisher: &WatchFinisher) -> String {
    let runner = runner(finisher.number, &finisher.horse_no);
    pair(&finisher.position.to_string(), &runner)
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
