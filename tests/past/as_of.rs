//! `?as_of=`: what was served at any moment is served again, byte for byte.

use jiff::Timestamp;
use serde_json::{Value, json};
use simulator::{RaceDay, script};

use crate::conformance::rng::Rng;
use crate::support::*;

/// What a GET answered.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    body: String,
    seq: String,
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self {
            status: reply.status,
            body: reply.text(),
            seq: reply.header("railbird-seq").to_owned(),
        }
    }
}

/// The answers to all paths, which end with `?` or `&`, as they are now.
async fn answers(railbird: &Railbird, paths: &[String]) -> Vec<Answer> {
    let mut answers = Vec::new();
    for path in paths {
        let path = path.trim_end_matches(['?', '&']);
        answers.push(railbird.get(path).await.into());
    }
    answers
}

/// The answer as of a message. Links to further pages keep the message.
async fn answer_as_of(railbird: &Railbird, path: &str, as_of: &str) -> Answer {
    let reply = railbird.get(&format!("{path}as_of={as_of}")).await;
    if reply.status == 200 {
        let cached = "private, max-age=31536000, immutable";
        assert_eq!(reply.header("cache-control"), cached, "{path}");
    }
    let mut answer = Answer::from(reply);
    answer.body = answer.body.replace(&format!("&as_of={as_of}"), "");
    answer
}

/// Compares what was served after events, each with its sequence, with what is served as of them now.
async fn check(railbird: &Railbird, paths: &[String], served: &[(u64, Vec<Answer>)]) {
    for (seq, then) in served {
        for (path, then) in paths.iter().zip(then) {
            let now = answer_as_of(railbird, path, &seq.to_string()).await;
            if then.status != 200 {
                assert_eq!(
                    (now.status, now.body),
                    (then.status, then.body.clone()),
                    "{path} at {seq}"
                );
                continue;
            }
            assert_eq!(now, *then, "{path} at {seq}");
        }
    }
}

fn paths(date: &str, races: u16, horses: &[String]) -> Vec<String> {
    let mut paths = vec![
        format!("/api/v1/results/{date}?"),
        format!("/api/v1/racecards/{date}?"),
        format!("/api/v1/racecards/{date}?venue=HV&"),
        format!("/api/v1/racecards/{date}?lang=zh-Hant&"),
        "/api/v1/meetings?".to_owned(),
        format!("/api/v1/meetings?from={date}&limit=1&"),
    ];
    for race in 1..=races {
        for path in [
            "results/DATE/N?",
            "results/DATE/N/revisions?",
            "results/DATE/N/dividends?",
        ] {
            paths.push(format!("/api/v1/{path}"));
        }
        for path in [
            "odds/DATE/N?",
            "odds/DATE/N/history?limit=3&",
            "odds/DATE/N/sources?",
            "odds/DATE/N?source=test&",
        ] {
            paths.push(format!("/api/v1/{path}"));
        }
        let race = race.to_string();
        let last = paths.len() - 7;
        for path in &mut paths[last..] {
            *path = path
                .replace("DATE", date)
                .replace("/N", &format!("/{race}"));
        }
    }
    for horse in horses {
        paths.push(format!("/api/v1/horses/{horse}?"));
        paths.push(format!("/api/v1/horses/{horse}/form?"));
    }
    paths
}

/// Two meetings of a day, with all kinds of changes.
fn events() -> Vec<Value> {
    let mut chinese = registered("H1", "HORSE 1");
    chinese["source"] = json!("chinese");
    chinese["time"] = json!("2026-09-02T09:00:00+08:00");
    chinese["data"]["names"] = json!({ "zh-Hant": "馬一" });
    let other = |mut quote: Value| {
        quote["source"] = json!("other");
        quote
    };
    let ranked = event(
        "sources.ranked",
        &second(3),
        json!({ "sources": ["other", "test"] }),
    );
    vec![
        odds("ST", 1, &second(0), &[3.5, 4.0, 12.34, 7.0]),
        card(DAY, "ST", 1, 4),
        registered("H1", "HORSE 1"),
        card(DAY, "HV", 1, 3),
        other(odds("ST", 1, &second(1), &[3.0, 4.5, 12.0, 8.0])),
        card(DAY, "ST", 1, 3),
        card(DAY, "ST", 2, 4),
        chinese,
        withdrawn("ST", 2, &second(2), "H2"),
        ranked,
        odds("ST", 1, &second(4), &[3.6, 4.0, 12.0]),
        other(odds("ST", 1, &second(5), &[2.9, 4.6, 13.0])),
        status("ST", 1, &second(6), "off"),
        result(DAY, "ST", 1, 3, 1),
        dividends(DAY, "ST", 1, 1),
        result(DAY, "ST", 1, 2, 2),
        card("2026-10-04", "ST", 1, 4),
        status("HV", 1, &second(7), "abandoned"),
        registered("H3", "HORSE THREE"),
        dividends(DAY, "ST", 1, 2),
    ]
}

#[tokio::test]
async fn every_answer_is_given_again_as_of_each_event() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let horses = [1, 2, 3, 4].map(|n| format!("H{n}"));
    let paths = paths(DAY, 2, &horses);
    let mut served = Vec::new();
    for event in events() {
        let seq = nats.publish([event]).await;
        railbird.until_seq(seq).await;
        served.push((seq, answers(&railbird, &paths).await));
    }
    check(&railbird, &paths, &served).await;
    // Of another replica, which has folded all in one batch.
    let other = Railbird::start(&nats).await;
    other.until_seq(nats.last_seq().await).await;
    check(&other, &paths, &served).await;

    let (_, at_off) = &served[12];
    let board = format!("/api/v1/odds/{DAY}/1?");
    let index = paths.iter().position(|path| *path == board).unwrap();
    assert_eq!(answer_as_of(&railbird, &board, "off").await, at_off[index]);
    for (n, (seq, then)) in served.iter().enumerate() {
        let time = nats.recorded_at(*seq).await;
        let now = railbird.get(&format!("{board}as_of={time}")).await;
        let now = Answer::from(now);
        // Two events may be stored in one microsecond.
        let times = served[n..].iter().map(|(seq, _)| nats.recorded_at(*seq));
        let same = futures::future::join_all(times).await;
        let same = same.iter().take_while(|at| **at == time).count();
        assert_eq!(
            now.body,
            served[n + same - 1].1[index].body,
            "{time}: {then:?}"
        );
    }
}

#[tokio::test]
async fn a_place_that_is_wrong_is_an_error_that_says_so() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let last = nats.publish([card(DAY, "ST", 1, 3)]).await;
    railbird.until_seq(last).await;
    let path = format!("/api/v1/racecards/{DAY}");
    let soon = Timestamp::now() + jiff::SignedDuration::from_hours(1);
    for (as_of, status, error) in [
        ("0", 400, "invalid_parameter"),
        ("2", 400, "invalid_parameter"),
        ("yesterday", 400, "invalid_parameter"),
        ("", 400, "invalid_parameter"),
        ("off", 400, "invalid_parameter"),
        (&soon.to_string(), 400, "invalid_parameter"),
        ("2001-01-01T00:00:00Z", 410, "gone"),
    ] {
        let reply = railbird.get(&format!("{path}?as_of={as_of}")).await;
        let found = (reply.status, reply.json()["error"].clone());
        assert_eq!(found, (status, json!(error)), "{as_of}: {}", reply.text());
    }
    for path in ["/api/v1/horses?as_of=1", "/api/v1/account?as_of=1"] {
        assert_eq!(railbird.get(path).await.status, 400, "{path}");
    }
    let never = railbird
        .get(&format!("/api/v1/odds/{DAY}/1?as_of=off"))
        .await;
    assert_eq!(never.status, 404, "{}", never.text());
}

#[tokio::test]
async fn a_simulated_day_is_given_again_as_of_random_moments() {
    let nats = Nats::start();
    let date = events::RacingDate::parse("2026-11-21").unwrap();
    let day = RaceDay::new(date, 3, 7);
    let midnight: Timestamp = "2026-11-20T16:00:00Z".parse().unwrap();
    let script = script(&day, &day.as_in_life(midnight));
    let mut events = script.iter().map(|event| {
        let event: Value = serde_json::from_slice(&event.encode()).unwrap();
        event
    });
    let railbird = Railbird::start(&nats).await;
    let horses: Vec<String> = Vec::new();
    let paths = paths("2026-11-21", 3, &horses);
    let mut rng = Rng::new(29);
    let mut served = Vec::new();
    loop {
        let count = usize::try_from(1 + rng.below(120)).unwrap();
        let some: Vec<Value> = events.by_ref().take(count).collect();
        if some.is_empty() {
            break;
        }
        let seq = nats.publish(some).await;
        railbird.until_seq(seq).await;
        served.push((seq, answers(&railbird, &paths).await));
    }
    check(&railbird, &paths, &served).await;
}
