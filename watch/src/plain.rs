//! A message as a line of plain text, for pipes: `event race key=value ...`.

use serde_json::Value;

/// Formats the JSON text of a message as a line; `None` for an unknown event.
pub(crate) fn line(message: &str) -> Option<String> {
    let message: Value = serde_json::from_str(message).ok()?;
    let event = message["event"].as_str()?;
    let names: &[&str] = match event {
        "welcome" => &["seq", "epoch", "recovered", "reason"],
        "odds_update" => &["seq", "status", "snapshot", "conflated"],
        "status_update" => &["seq", "status", "reason"],
        "runner_update" => &["seq", "change", "runner", "jockey", "reason"],
        "result_update" => &["seq", "status", "revision", "reason", "sectionals"],
        "card_update" => &["seq", "status", "race_name", "going", "off_time"],
        "dividends_update" => &["seq", "status", "revision", "currency", "reason"],
        "snapshot_complete" => &["seq", "races", "replayed"],
        "heartbeat" => &["seq", "feed", "lag_ms"],
        "resync" => &["epoch", "reason"],
        "closing" => &["code", "retry_after_ms", "reason"],
        _ => return None,
    };
    let mut line = event.to_owned();
    if message["race_number"].is_number() {
        let race = ["date", "venue_code", "race_number"].map(|name| text(&message[name]));
        line += &format!(" {}", race.join("/"));
    }
    for name in names {
        let value = match *name {
            "runner" => number_and_horse(&message),
            "feed" => text(&message["feed"]["state"]),
            "lag_ms" => text(&message["feed"]["lag_ms"]),
            "sectionals" => joined(&message["sectionals"], ","),
            name => text(&message[name]),
        };
        push_pair(&mut line, name, &value);
    }
    for runner in message["runners"].as_array().into_iter().flatten() {
        let horse = number_and_horse(runner);
        match event {
            "result_update" => {
                push_pair(&mut line, &text(&runner["position"]), &horse);
                push_pair(&mut line, "margin", &text(&runner["margin"]));
            }
            "card_update" => push_pair(&mut line, &horse, &text(&runner["jockey"])),
            _ => push_pair(&mut line, &horse, &prices(runner)),
        }
    }
    for dividend in message["dividends"].as_array().into_iter().flatten() {
        let numbers = joined(&dividend["combination"], "-");
        let name = format!("{}:{numbers}", text(&dividend["pool"]));
        let paid = ["dividend", "state"].map(|field| text(&dividend[field]));
        push_pair(&mut line, &name, paid.join(" ").trim());
    }
    Some(line)
}

/// The values of a list, with a separator between them; nothing for what is no list.
fn joined(list: &Value, separator: &str) -> String {
    let values = list.as_array().into_iter().flatten().map(text);
    values.collect::<Vec<_>>().join(separator)
}

/// Appends ` name=value`; nothing if the value is empty.
fn push_pair(line: &mut String, name: &str, value: &str) {
    if value.contains(|c: char| c == ' ' || c == '"' || c.is_control()) {
        *line += &format!(" {name}={value:?}");
    } else if !value.is_empty() {
        *line += &format!(" {name}={value}");
    }
}

/// A string without quotes, nothing for null, any other value as in JSON.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

fn number_and_horse(runner: &Value) -> String {
    let number = runner["number"].as_u64().unwrap_or(0);
    format!("{number}:{}", text(&runner["horse_no"]))
}

/// Formats `win/place`, or the reason for the missing price.
fn prices(runner: &Value) -> String {
    let [win, place] = ["win", "place"].map(|name| match &runner[name] {
        Value::Null => "-".to_owned(),
        price => price.to_string(),
    });
    match text(&runner["state"]) {
        state if runner["win"].is_null() && !state.is_empty() => state,
        _ => format!("{win}/{place}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_of(message: &str) -> String {
        line(message).unwrap()
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
                "sectionals":["0:24.12","0:22.90"],
                "runners":[{{"position":1,"horse_no":"RB_014","number":1}},
                    {{"position":2,"horse_no":"RB_007","number":3,"margin":"1-1/4"}}]}}"#
        );
        assert_eq!(
            line_of(&result),
            "result_update 2026-11-21/RB/1 seq=248 status=official revision=2 sectionals=0:24.12,0:22.90 1=1:RB_014 \
             2=3:RB_007 margin=1-1/4"
        );
        let dividends = format!(
            r#"{{"event":"dividends_update",{RACE},"status":"official","revision":1,"currency":"HKD","reason":"","dividends":[
                {{"pool":"quinella","combination":[1,3],"unit":10.0,"dividend":187.5}},
                {{"pool":"quartet","combination":[],"unit":10.0,"state":"jackpot"}}]}}"#
        );
        assert_eq!(
            line_of(&dividends),
            "dividends_update 2026-11-21/RB/1 seq=248 status=official revision=1 currency=HKD quinella:1-3=187.5 \
             quartet:=jackpot"
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
        assert_eq!(line(r#"{"event":"weather","rain":true}"#), None);
    }

    #[test]
    fn a_value_with_spaces_or_control_characters_is_quoted() {
        let line = line_of(r#"{"event":"resync","epoch":"e1","reason":"a\u001b[2Jb"}"#);
        assert_eq!(line, r#"resync epoch=e1 reason="a\u{1b}[2Jb""#);
    }
}
