//! Events as a feeder writes them: plain JSON, independent of the types of the service.

use serde_json::{Value, json};

pub(crate) const DAY: &str = "2026-10-03";

/// An event with this data, and a new UUIDv7 as its id.
pub(crate) fn event(kind: &str, time: &str, data: Value) -> Value {
    json!({
        "specversion": "1.0",
        "id": uuid::Uuid::now_v7().to_string(),
        "source": "test",
        "type": format!("racing.{kind}.v1"),
        "time": time,
        "data": data,
    })
}

/// The key of a race, and more fields.
pub(crate) fn of_race(date: &str, venue: &str, race_number: u16, more: Value) -> Value {
    let mut data = json!({ "date": date, "venue": venue, "race_number": race_number });
    data.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    data
}

pub(crate) fn registered(horse_no: &str, name: &str) -> Value {
    event(
        "horse.registered",
        "2026-09-01T09:00:00+08:00",
        json!({
            "horse_no": horse_no, "horse_name": name, "country_of_origin": "AUS", "colour": "Bay", "sex": "Gelding",
            "foaled": "2020-09-03", "trainer": "T Rainer", "owner": "The Owner Syndicate", "stakes_currency": "HKD",
        }),
    )
}

/// A card with runners `H1`, `H2`, ...
pub(crate) fn card(date: &str, venue: &str, race_number: u16, runners: u16) -> Value {
    let runners: Vec<Value> = (1..=runners)
        .map(|n| json!({
            "horse_no": format!("H{n}"), "horse_name": format!("HORSE {n}"), "number": n, "jockey": format!("J Ockey {n}"),
            "trainer": "T Rainer", "draw": n, "weight": 110 + n,
        }))
        .collect();
    event(
        "race.declared",
        "2026-10-02T12:00:00+08:00",
        of_race(
            date,
            venue,
            race_number,
            json!({
                "race_name": format!("THE {venue} HANDICAP {race_number}"), "distance": 1200, "class": "4", "going": "GOOD",
                "off_time": "2026-10-03T13:00:00+08:00", "runners": runners,
            }),
        ),
    )
}

/// A card so large that the views of some of them are stored in files of their own.
pub(crate) fn large_card(venue: &str, race_number: u16) -> Value {
    let mut card = card(DAY, venue, race_number, 64);
    for runner in card["data"]["runners"].as_array_mut().unwrap() {
        runner["jockey"] = "J".repeat(250).into();
        runner["trainer"] = "T".repeat(250).into();
    }
    card
}

/// Dividends of the win pool, and of a quartet that nobody had.
pub(crate) fn dividends(date: &str, venue: &str, race_number: u16, revision: u32) -> Value {
    let lines = json!([
        { "pool": "win", "combination": [1], "unit": 10, "dividend": 35 },
        { "pool": "quartet", "unit": 10, "state": "jackpot" },
    ]);
    let data = json!({ "revision": revision, "status": "official", "currency": "HKD", "dividends": lines });
    event(
        "dividends.declared",
        "2026-10-03T13:06:00+08:00",
        of_race(date, venue, race_number, data),
    )
}

/// A result in which `H1` to `Hn` finished in that order, and `P1` was pulled up.
pub(crate) fn result(
    date: &str,
    venue: &str,
    race_number: u16,
    runners: u16,
    revision: u32,
) -> Value {
    let mut rows: Vec<Value> = (1..=runners)
        .map(|n| json!({
            "horse_no": format!("H{n}"), "horse_name": format!("HORSE {n}"), "position": n, "jockey": format!("J Ockey {n}"),
            "trainer": "T Rainer", "finish_time": format!("1:09.{:02}", 30 + n), "win_odds": 2.5 + f64::from(n),
            "stakes": 100_000 / u32::from(n),
        }))
        .collect();
    rows.push(json!({
        "horse_no": "P1", "horse_name": "PULLED UP", "outcome": "PU", "jockey": "J Ockey", "trainer": "T Rainer", "win_odds": 99,
    }));
    event(
        "result.declared",
        "2026-10-03T13:05:00+08:00",
        of_race(
            date,
            venue,
            race_number,
            json!({
                "race_name": format!("THE {venue} HANDICAP {race_number}"), "distance": 1200, "going": "GOOD",
                "revision": revision, "status": "official", "runners": rows,
            }),
        ),
    )
}

/// Win prices of `H1`, `H2`, ... in a race of [`DAY`].
pub(crate) fn odds(venue: &str, race_number: u16, time: &str, prices: &[f64]) -> Value {
    odds_on(DAY, venue, race_number, time, prices)
}

/// Win prices of `H1`, `H2`, ... in a race.
pub(crate) fn odds_on(
    date: &str,
    venue: &str,
    race_number: u16,
    time: &str,
    prices: &[f64],
) -> Value {
    let runners: Vec<Value> = prices
        .iter()
        .zip(1..)
        .map(|(price, n): (&f64, u16)| json!({ "horse_no": format!("H{n}"), "horse_name": format!("HORSE {n}"), "number": n, "win": price }))
        .collect();
    event(
        "odds.quoted",
        time,
        of_race(date, venue, race_number, json!({ "runners": runners })),
    )
}

/// The status of a race of [`DAY`].
pub(crate) fn status(venue: &str, race_number: u16, time: &str, status: &str) -> Value {
    of_today(
        "race.status_changed",
        venue,
        race_number,
        time,
        json!({ "status": status }),
    )
}

/// A withdrawal in a race of [`DAY`].
pub(crate) fn withdrawn(venue: &str, race_number: u16, time: &str, horse_no: &str) -> Value {
    of_today(
        "runner.withdrawn",
        venue,
        race_number,
        time,
        json!({ "horse_no": horse_no }),
    )
}

/// An event about a race of [`DAY`].
pub(crate) fn of_today(
    kind: &str,
    venue: &str,
    race_number: u16,
    time: &str,
    more: Value,
) -> Value {
    event(kind, time, of_race(DAY, venue, race_number, more))
}

/// The `n`th second of a betting afternoon.
pub(crate) fn second(n: u64) -> String {
    let start: jiff::Timestamp = "2026-10-03T04:00:00Z".parse().unwrap();
    (start + jiff::SignedDuration::from_secs(i64::try_from(n).unwrap())).to_string()
}
