//! Given facts, when a fact follows, then the views are these: the fixture of all tests of views.

#![allow(dead_code, reason = "every test binary uses a part of it")]

pub(crate) mod history;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use events::{HorseNo, Moment, PoolCode, RaceKey, RaceNumber, RacingDate, VenueCode};
use jiff::{Timestamp, ToSpan};
use projections::horse_form::RowKind;
use projections::json::render;
use projections::odds_history::ticks;
use projections::{
    LogIdentity, Projection, Step, Store, StoredMessage, View, board_of_source, horse_profile,
    keys, odds_market, odds_sources,
};
use serde_json::{Value, json};

/// A race: date, venue, number.
pub(crate) type Race = (&'static str, &'static str, u16);

pub(crate) fn key((date, venue, number): Race) -> RaceKey {
    RaceKey {
        date: day(date),
        venue: VenueCode::parse(venue).expect("a venue"),
        race_number: RaceNumber::try_from(number).expect("a race number"),
    }
}

pub(crate) fn day(date: &str) -> RacingDate {
    RacingDate::parse(date).expect("a date")
}

pub(crate) fn horse(horse_no: &str) -> HorseNo {
    HorseNo::parse(horse_no).expect("a horse number")
}

/// A fact before it is in the log. Without an `id` it gets one made of its sequence.
#[derive(Debug, Clone)]
pub(crate) struct Fact {
    pub(crate) type_name: &'static str,
    pub(crate) data: Value,
    pub(crate) id: Option<String>,
    pub(crate) source: &'static str,
    pub(crate) time: String,
}

impl Fact {
    pub(crate) fn new(type_name: &'static str, data: Value) -> Self {
        Self {
            type_name,
            data,
            id: None,
            source: "test",
            time: "2026-11-21T06:00:00Z".to_owned(),
        }
    }

    pub(crate) fn of(
        type_name: &'static str,
        (date, venue, number): Race,
        mut data: Value,
    ) -> Self {
        data["date"] = json!(date);
        data["venue"] = json!(venue);
        data["race_number"] = json!(number);
        Self::new(type_name, data)
    }

    /// With this id.
    pub(crate) fn id(mut self, id: &str) -> Self {
        self.id = Some(id.to_owned());
        self
    }

    /// From another feeder.
    pub(crate) fn from(mut self, source: &'static str) -> Self {
        self.source = source;
        self
    }

    /// With another value in a field.
    pub(crate) fn with(mut self, pointer: &str, value: Value) -> Self {
        let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
        self.data.pointer_mut(parent).expect("a parent")[field] = value;
        self
    }

    /// At this time of the day, `hh:mm:ss`, with or without a fraction.
    pub(crate) fn at(mut self, time: &str) -> Self {
        self.time = format!("2026-11-21T{time}Z");
        self
    }

    pub(crate) fn subject(&self) -> String {
        let data = |field: &str| self.data[field].as_str().unwrap_or_default();
        let kind = match self.type_name {
            "racing.horse.registered.v1" => return format!("racing.horse.{}", data("horse_no")),
            "racing.sources.ranked.v1" => return "racing.sources".to_owned(),
            "racing.odds.quoted.v1" | "racing.market.quoted.v1" | "racing.pool.invested.v1" => {
                "odds"
            }
            "racing.dividends.declared.v1" => "result",
            result if result.starts_with("racing.result.") => "result",
            _ => "race",
        };
        format!(
            "racing.{kind}.{}.{}.{}",
            data("date"),
            data("venue"),
            self.data["race_number"]
        )
    }

    pub(crate) fn payload(&self, seq: u64) -> Vec<u8> {
        let id = self.id.clone().unwrap_or_else(|| format!("event-{seq}"));
        let event = json!({
            "specversion": "1.0", "id": id, "source": self.source, "type": self.type_name, "time": self.time, "data": self.data,
        });
        event.to_string().into_bytes()
    }
}

/// A card. Every horse is named after its number, as are its jockey and its trainer.
pub(crate) fn card(race: Race, horses: &[&str]) -> Fact {
    let runner = |(index, horse): (usize, &&str)| {
        json!({
            "horse_no": horse, "horse_name": format!("NAME {horse}"), "number": index + 1, "jockey": format!("Jockey {horse}"),
            "trainer": format!("Trainer {horse}"), "draw": 10 + index, "weight": 120 + index,
        })
    };
    let runners: Vec<Value> = horses.iter().enumerate().map(runner).collect();
    Fact::of(
        "racing.race.declared.v1",
        race,
        json!({ "race_name": "THE PLATE", "distance": 1200, "class": "Class 4", "going": "GOOD", "runners": runners }),
    )
}

/// A result: `("A", "1")` is a position, `("A", "PU")` an outcome. The stakes are 1000 divided by the position.
pub(crate) fn result(race: Race, revision: u32, placings: &[(&str, &str)]) -> Fact {
    let runner = |(horse, placing): &(&str, &str)| {
        let mut runner = json!({
            "horse_no": horse, "horse_name": format!("NAME {horse}"), "jockey": format!("Jockey {horse}"), "trainer": format!("Trainer {horse}"),
        });
        match placing.parse::<u16>() {
            Ok(position) => {
                runner["position"] = json!(position);
                runner["stakes"] = json!(1000 / position);
            }
            Err(_) => runner["outcome"] = json!(placing),
        }
        runner
    };
    let runners: Vec<Value> = placings.iter().map(runner).collect();
    Fact::of(
        "racing.result.declared.v1",
        race,
        json!({ "revision": revision, "status": "official", "runners": runners }),
    )
}

pub(crate) fn void(race: Race, revision: u32) -> Fact {
    Fact::of(
        "racing.result.voided.v1",
        race,
        json!({ "revision": revision, "reason": "In error" }),
    )
}

/// Dividends of the win pool.
pub(crate) fn dividends(race: Race, revision: u32) -> Fact {
    let win = json!({ "pool": "win", "combination": [1], "unit": 10, "dividend": 35.5 });
    Fact::of(
        "racing.dividends.declared.v1",
        race,
        json!({ "revision": revision, "status": "official", "currency": "HKD", "dividends": [win] }),
    )
}

pub(crate) fn withdrawn(race: Race, horse_no: &str) -> Fact {
    Fact::of(
        "racing.runner.withdrawn.v1",
        race,
        json!({ "horse_no": horse_no, "reason": "Lame" }),
    )
}

pub(crate) fn reinstated(race: Race, horse_no: &str) -> Fact {
    Fact::of(
        "racing.runner.reinstated.v1",
        race,
        json!({ "horse_no": horse_no }),
    )
}

pub(crate) fn rider(race: Race, horse_no: &str, jockey: &str) -> Fact {
    Fact::of(
        "racing.rider.changed.v1",
        race,
        json!({ "horse_no": horse_no, "jockey": jockey }),
    )
}

pub(crate) fn going(race: Race, going: &str) -> Fact {
    Fact::of("racing.going.changed.v1", race, json!({ "going": going }))
}

pub(crate) fn status(race: Race, status: &str) -> Fact {
    Fact::of(
        "racing.race.status_changed.v1",
        race,
        json!({ "status": status }),
    )
}

pub(crate) fn registered(horse_no: &str) -> Fact {
    Fact::new(
        "racing.horse.registered.v1",
        json!({
            "horse_no": horse_no, "horse_name": format!("REGISTERED {horse_no}"), "country_of_origin": "IRE", "colour": "Bay",
            "sex": "Gelding", "foaled": "2020", "trainer": "Her trainer", "owner": "Her owner", "stakes_currency": "HKD",
        }),
    )
}

/// Win prices. A runner with null is suspended.
pub(crate) fn odds(race: Race, prices: &[(&str, Value)]) -> Fact {
    let runner = |(horse, win): &(&str, Value)| match win {
        Value::Null => json!({ "horse_no": horse, "win": null, "state": "suspended" }),
        win => json!({ "horse_no": horse, "win": win }),
    };
    let runners: Vec<Value> = prices.iter().map(runner).collect();
    Fact::of("racing.odds.quoted.v1", race, json!({ "runners": runners }))
}

/// Prices of a market.
pub(crate) fn market(race: Race, market: &str, prices: &Value) -> Fact {
    let data = json!({ "market": market, "prices": prices });
    Fact::of("racing.market.quoted.v1", race, data)
}

/// The total of a pool.
pub(crate) fn invested(race: Race, pool: &str, invested: f64) -> Fact {
    let data = json!({ "pool": pool, "currency": "HKD", "invested": invested });
    Fact::of("racing.pool.invested.v1", race, data)
}

/// A ranking of sources by an operator.
pub(crate) fn ranked(sources: &[&str]) -> Fact {
    Fact::new("racing.sources.ranked.v1", json!({ "sources": sources })).from("operator")
}

/// A message of the log that owns its bytes.
#[derive(Clone)]
pub(crate) struct OwnedMessage {
    pub(crate) seq: u64,
    /// Stands for the time that the log stored it, as in [`recorded_at`].
    pub(crate) stored: u64,
    pub(crate) subject: String,
    pub(crate) payload: Vec<u8>,
}

impl fmt::Debug for OwnedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let payload = String::from_utf8_lossy(&self.payload);
        write!(f, "{} {} {payload}", self.seq, self.subject)
    }
}

impl OwnedMessage {
    pub(crate) fn as_stored(&self) -> StoredMessage<'_> {
        StoredMessage {
            seq: self.seq,
            recorded_at: recorded_at(self.stored),
            subject: &self.subject,
            payload: &self.payload,
        }
    }
}

/// The log stores a message each second, with a time that is finer than a microsecond.
pub(crate) fn recorded_at(seq: u64) -> Moment {
    let begin: Timestamp = "2026-11-21T09:00:00.123456789Z".parse().expect("a time");
    (begin + i64::try_from(seq).expect("small").seconds()).into()
}

pub(crate) fn log() -> LogIdentity {
    LogIdentity {
        name: "RACING".to_owned(),
        created: "2026-11-01T00:00:00Z".to_owned(),
    }
}

pub(crate) fn open(folder: &Path) -> Projection {
    Projection::new(Arc::new(Store::open(folder).expect("a folder")), log())
}

/// Everything in a store but its checkpoint.
pub(crate) fn dump(store: &Store) -> Vec<(String, Vec<u8>)> {
    let views = store.scan("").map(|entry| entry.expect("a healthy store"));
    let views = views.filter(|(key, _)| !key.starts_with(keys::META));
    views.map(|(key, view)| (key, view.to_vec())).collect()
}

/// A log and the views of it.
pub(crate) struct Fixture {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) projection: Projection,
    pub(crate) seq: u64,
}

impl Fixture {
    /// Folds facts, each in a step of its own.
    pub(crate) fn given(facts: impl IntoIterator<Item = Fact>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let projection = open(folder.path());
        let mut fixture = Self {
            folder,
            projection,
            seq: 0,
        };
        for fact in facts {
            fixture.when(fact);
        }
        fixture
    }

    /// Folds one more fact.
    pub(crate) fn when(&mut self, fact: Fact) -> Step {
        let payload = fact.payload(self.seq + 1);
        self.raw(&fact.subject(), payload)
    }

    /// Folds one more fact, which the log stores at a time of the day.
    pub(crate) fn when_recorded(&mut self, at: &str, fact: Fact) -> Step {
        self.when_recorded_at(&format!("2026-11-21T{at}Z"), fact)
    }

    /// Folds one more fact, which the log stores at a time.
    pub(crate) fn when_recorded_at(&mut self, at: &str, fact: Fact) -> Step {
        self.seq += 1;
        let (subject, payload) = (fact.subject(), fact.payload(self.seq));
        let recorded_at = Moment::parse(at).expect("a time");
        let message = StoredMessage {
            seq: self.seq,
            recorded_at,
            subject: &subject,
            payload: &payload,
        };
        self.projection
            .step([message], true)
            .expect("a healthy store")
    }

    /// Folds any message.
    pub(crate) fn raw(&mut self, subject: &str, payload: Vec<u8>) -> Step {
        self.seq += 1;
        let message = OwnedMessage {
            seq: self.seq,
            stored: self.seq,
            subject: subject.to_owned(),
            payload,
        };
        self.projection
            .step([message.as_stored()], true)
            .expect("a healthy store")
    }

    /// Closes the store and opens it again.
    pub(crate) fn reopen(self) -> Self {
        let Self {
            folder,
            projection,
            seq,
        } = self;
        drop(projection);
        let projection = open(folder.path());
        Self {
            folder,
            projection,
            seq,
        }
    }

    pub(crate) fn bytes(&self, key: &str) -> Option<Vec<u8>> {
        let view = self.projection.store().get(key).expect("a healthy store");
        view.map(|view| view.to_vec())
    }

    /// A view; null if there is none.
    pub(crate) fn view(&self, key: &str) -> Value {
        self.bytes(key).map_or(Value::Null, |view| parse(&view))
    }

    /// Folds one more fact. Returns the messages of the live channel.
    pub(crate) fn live_messages(&mut self, fact: Fact) -> Vec<Value> {
        let messages = self.when(fact).updates.into_iter().flat_map(|u| u.messages);
        messages.map(|message| parse(&message.json)).collect()
    }

    fn views(&self, prefix: &str) -> Vec<Value> {
        let views = self.projection.store().scan(prefix);
        views
            .map(|entry| parse(&entry.expect("a healthy store").1))
            .collect()
    }

    pub(crate) fn card(&self, race: Race) -> Value {
        self.view(&keys::card(&key(race)))
    }

    pub(crate) fn result(&self, race: Race) -> Value {
        self.view(&keys::result(&key(race)))
    }

    pub(crate) fn revisions(&self, race: Race) -> Vec<Value> {
        self.views(&keys::revisions(&key(race)))
    }

    pub(crate) fn dividends(&self, race: Race) -> Value {
        self.view(&keys::dividends(&key(race)))
    }

    pub(crate) fn board(&self, race: Race) -> Value {
        self.view(&keys::board(&key(race)))
    }

    /// The board of a source; null if it has not quoted the race.
    pub(crate) fn board_of(&self, race: Race, source: &str) -> Value {
        let board = board_of_source(self.projection.store(), &key(race), source);
        board
            .expect("a healthy store")
            .map_or(Value::Null, |board| parse(&board))
    }

    /// The sources that have quoted a race.
    pub(crate) fn sources(&self, race: Race) -> Value {
        let sources = odds_sources(self.projection.store(), &key(race));
        parse(&sources.expect("a healthy store"))
    }

    /// A market of a source, or of the primary one; null if it was not quoted.
    pub(crate) fn market(&self, race: Race, market: &str, source: Option<&str>) -> Value {
        market_of(self.projection.store(), race, market, source)
    }

    pub(crate) fn is_open(&self, race: Race) -> bool {
        self.bytes(&keys::open_race(&key(race))).is_some()
    }

    /// The history of a race's odds, each chunk as a list.
    pub(crate) fn history(&self, race: Race) -> Vec<Vec<Value>> {
        let chunks = self.projection.store().scan(&keys::ticks(&key(race)));
        let list = |(key, chunk): (String, View)| {
            let ticks = ticks(&key, &chunk).expect("quotes").into_iter();
            ticks.map(|tick| parse(&render(&tick))).collect()
        };
        chunks
            .map(|entry| list(entry.expect("a healthy store")))
            .collect()
    }

    pub(crate) fn meeting(&self, date: &str, venue: &str) -> Value {
        self.view(&keys::meeting_view(
            day(date),
            &VenueCode::parse(venue).expect("a venue"),
        ))
    }

    pub(crate) fn rejections(&self) -> Vec<Value> {
        self.views(keys::REJECTIONS)
    }

    /// A horse's profile on a day in 2026.
    pub(crate) fn profile(&self, horse_no: &str) -> Value {
        let view = self.bytes(&keys::profile(&horse(horse_no)));
        view.map_or(Value::Null, |view| {
            parse(&horse_profile::serve(&view, day("2026-11-21")).expect("a profile"))
        })
    }

    /// Starts, wins, places and stakes of a profile.
    pub(crate) fn career(&self, horse_no: &str) -> [u64; 4] {
        let profile = self.profile(horse_no);
        ["starts", "wins", "places", "total_stakes"]
            .map(|field| profile[field].as_u64().expect("a count"))
    }

    /// A horse's form rows with their kinds, oldest first.
    pub(crate) fn form(&self, horse_no: &str) -> Vec<(RowKind, Value)> {
        let rows = self.projection.store().scan(&keys::form(&horse(horse_no)));
        rows.filter_map(|entry| {
            let (_, row) = entry.expect("a healthy store");
            let (kind, row) = RowKind::split(&row).expect("a form row");
            (kind != RowKind::Former).then(|| (kind, parse(row)))
        })
        .collect()
    }
}

pub(crate) fn market_of(store: &Store, race: Race, market: &str, source: Option<&str>) -> Value {
    let market = PoolCode::parse(market).expect("a pool");
    let found = odds_market(store, &key(race), &market, source).expect("a healthy store");
    found.map_or(Value::Null, |market| parse(&market))
}

fn parse(json: &[u8]) -> Value {
    serde_json::from_slice(json)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(json)))
}

/// Some fields of each object in a list.
pub(crate) fn pick(list: &Value, fields: &[&str]) -> Value {
    let pick = |object: &Value| {
        fields
            .iter()
            .map(|field| object[*field].clone())
            .collect::<Value>()
    };
    list.as_array().expect("a list").iter().map(pick).collect()
}
