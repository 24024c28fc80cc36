//! A message as a line of plain text, for pipes: `event race key=value ...`, the same form for ever.

use events::{HorseNo, Odds, RaceKey};

use super::message::{About, Message, OddsUpdate, ResultUpdate, Runner};

/// The line of a message; `None` for one that this version does not know.
pub(super) fn line(message: &Message) -> Option<String> {
    let line = match message {
        Message::Welcome(welcome) => {
            let recovered = match welcome.recovered {
                Some(recovered) => format!(" recovered={recovered}"),
                None => String::new(),
            };
            let epoch = pair("epoch", welcome.epoch.as_str());
            let reason = pair("reason", welcome.reason.as_str());
            format!("welcome seq={}{epoch}{recovered}{reason}", welcome.seq)
        }
        Message::OddsUpdate(update) => odds(update),
        Message::StatusUpdate(update) => {
            let reason = pair("reason", update.reason.as_str());
            let status = pair("status", update.status.as_str());
            head("status_update", &update.about) + &status + &reason
        }
        Message::RunnerUpdate(update) => {
            let change = pair("change", update.change.as_str());
            let runner = runner(update.number, &update.horse_no);
            let jockey = pair("jockey", update.jockey.as_str());
            let reason = pair("reason", update.reason.as_str());
            let head = head("runner_update", &update.about);
            format!("{head}{change} runner={runner}{jockey}{reason}")
        }
        Message::ResultUpdate(update) => result(update),
        Message::SnapshotComplete(complete) => format!(
            "snapshot_complete seq={} races={} replayed={}",
            complete.seq, complete.races, complete.replayed
        ),
        Message::Heartbeat(heartbeat) => {
            let feed = pair("feed", heartbeat.feed.state.as_str());
            let lag_ms = heartbeat.feed.lag_ms;
            format!("heartbeat seq={}{feed} lag_ms={lag_ms}", heartbeat.seq)
        }
        Message::Resync(resync) => {
            let epoch = pair("epoch", resync.epoch.as_str());
            let reason = pair("reason", resync.reason.as_str());
            format!("resync{epoch}{reason}")
        }
        Message::Closing(closing) => {
            let code = closing.code.map_or(String::new(), |c| format!(" code={c}"));
            let reason = pair("reason", closing.reason.as_str());
            let retry_after_ms = closing.retry_after_ms;
            format!("closing{code} retry_after_ms={retry_after_ms}{reason}")
        }
        Message::Other => return None,
    };
    Some(line)
}

fn odds(update: &OddsUpdate) -> String {
    let mut line = head("odds_update", &update.about);
    line += &pair("status", update.status.as_str());
    if update.snapshot {
        line += " snapshot=true";
    }
    if let Some(conflated) = update.conflated {
        line += &pair("conflated", &conflated.to_string());
    }
    for quoted in &update.runners {
        let runner = runner(quoted.number, &quoted.horse_no);
        line += &pair(&runner, &prices(quoted));
    }
    line
}

fn result(update: &ResultUpdate) -> String {
    let mut line = head("result_update", &update.about);
    line += &pair("status", update.status.as_str());
    line += &pair("revision", &update.revision.to_string());
    line += &pair("reason", update.reason.as_str());
    for placed in &update.runners {
        let runner = runner(placed.number, &placed.horse_no);
        line += &pair(&placed.position.to_string(), &runner);
    }
    line
}

/// A race as people write it, and as `--race` takes it.
pub(super) fn race(key: &RaceKey) -> String {
    format!("{}/{}/{}", key.date, key.venue, key.race_number)
}

fn head(event: &str, about: &About) -> String {
    format!("{event} {} seq={}", race(&about.race()), about.seq)
}

/// ` name=value`, with quotation marks where it is more than a word; nothing where there is no value.
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

/// `win/place`, or why there is no price.
fn prices(runner: &Runner) -> String {
    let text = |odds: Option<Odds>| odds.map_or("-".to_owned(), |odds| odds.to_string());
    match (runner.win, runner.state.as_str()) {
        (None, state) if !state.is_empty() => state.to_owned(),
        (win, _) => format!("{}/{}", text(win), text(runner.place)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(message: &str) -> String {
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
            said(&odds),
            "odds_update 2026-11-21/RB/1 seq=248 status=open 1:RB_014=7.1/1.9 2:RB_064=scratched 3:RB_007=10.0/-"
        );
        let withdrawn = format!(
            r#"{{"event":"runner_update",{RACE},"change":"withdrawn","horse_no":"RB_064","number":2,"jockey":"A Rider",
                "reason":"lame"}}"#
        );
        assert_eq!(
            said(&withdrawn),
            r#"runner_update 2026-11-21/RB/1 seq=248 change=withdrawn runner=2:RB_064 jockey="A Rider" reason=lame"#
        );
        let result = format!(
            r#"{{"event":"result_update",{RACE},"status":"official","revision":2,"reason":"",
                "runners":[{{"position":1,"horse_no":"RB_014","number":1}},{{"position":2,"horse_no":"RB_007","number":3}}]}}"#
        );
        assert_eq!(
            said(&result),
            "result_update 2026-11-21/RB/1 seq=248 status=official revision=2 1=1:RB_014 2=3:RB_007"
        );
        assert_eq!(
            said(
                r#"{"event":"closing","code":1001,"reason":"the service is stopping","retry_after_ms":1830}"#
            ),
            r#"closing code=1001 retry_after_ms=1830 reason="the service is stopping""#
        );
    }

    #[test]
    fn a_message_that_nobody_knows_is_no_line() {
        assert_eq!(line(&Message::Other), None);
    }
}
