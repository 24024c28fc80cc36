//! `/api/v1/days/{date}` and `/api/v1/races/next`.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::support::*;

#[tokio::test]
async fn a_day_has_the_cards_and_results_of_all_its_meetings() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let facts = [
        card(DAY, "ST", 1, 2),
        card(DAY, "HV", 1, 2),
        card(DAY, "HV", 2, 2),
        result(DAY, "ST", 1, 2, 1),
    ];
    let last = nats.publish(facts).await;
    railbird.until_seq(last).await;
    let get = async |path: &str| railbird.get(&format!("/api/v1/{path}")).await.json();
    let day = get(&format!("days/{DAY}")).await;
    assert_eq!(day["date"], DAY);
    let meetings = day["meetings"].as_array().unwrap();
    let codes: Vec<_> = meetings.iter().map(|of| &of["venue_code"]).collect();
    assert_eq!(codes, ["HV", "ST"]);
    for meeting in meetings {
        for list in ["racecards", "results"] {
            let venue = meeting["venue_code"].as_str().unwrap();
            let races = get(&format!("{list}/{DAY}?venue={venue}")).await;
            assert_eq!(meeting[list], races["races"], "{list} at {venue}");
        }
    }
    let earlier = get(&format!("days/{DAY}?as_of=1")).await;
    assert_eq!(earlier["meetings"].as_array().unwrap().len(), 1);
    let unknown = railbird.get("/api/v1/days/2026-10-04").await;
    assert_eq!(unknown.status, 404, "{}", unknown.text());
}

#[tokio::test]
async fn the_next_races_are_those_before_their_off_by_time() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let now = Timestamp::now();
    let date = now.strftime("%F").to_string();
    let race = |venue, number, minutes| {
        let mut card = card(&date, venue, number, 2);
        card["data"]["off_time"] = json!((now + SignedDuration::from_mins(minutes)).to_string());
        card
    };
    let off = json!({ "status": "off" });
    let facts = [
        race("ST", 1, 30),
        race("HV", 1, 10),
        race("ST", 2, -5),
        race("HV", 2, -13 * 60),
        race("HV", 3, 20),
        event(
            "race.status_changed",
            &now.to_string(),
            of_race(&date, "HV", 3, off),
        ),
    ];
    let last = nats.publish(facts).await;
    railbird.until_seq(last).await;
    let next = async |query: &str| {
        let reply = railbird.get(&format!("/api/v1/races/next{query}")).await;
        assert_eq!(reply.status, 200, "{query}: {}", reply.text());
        let races = reply.json()["races"].as_array().unwrap().clone();
        let key = |race: &Value| {
            (
                race["venue_code"].to_string(),
                race["race_number"].to_string(),
            )
        };
        races.iter().map(key).collect::<Vec<_>>()
    };
    let keys = |keys: &[(&str, u16)]| -> Vec<_> {
        let key = |(venue, number): &(&str, u16)| (format!("\"{venue}\""), number.to_string());
        keys.iter().map(key).collect()
    };
    assert_eq!(next("").await, keys(&[("ST", 2), ("HV", 1), ("ST", 1)]));
    assert_eq!(next("?limit=1").await, keys(&[("ST", 2)]));
    assert_eq!(next("?as_of=2").await, keys(&[("HV", 1), ("ST", 1)]));
}
