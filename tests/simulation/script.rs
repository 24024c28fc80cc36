//! [`Script`]: the events of a feeder about races of its own, by the clock of its machine, and some that are invalid,
//! that repeat an earlier one, or that have the message id of another one.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::chance::Chance;
use super::machine::wall_clock;
use crate::log::Outgoing;

const VENUES: [&str; 3] = ["ST", "HV", "S1"];
const RACES: u64 = 3;
const RUNNERS: u64 = 4;
/// Some cards have the names of the horses in this language, too.
pub(super) const LANGUAGE: &str = "zh-Hant";
/// How far the clock of the second source is behind.
const LATE: SignedDuration = SignedDuration::from_secs(1);
pub(super) const SHARED_ID: &str = "shared-";

pub(super) struct Script {
    chance: Chance,
    venue: &'static str,
    events: u64,
    /// The last result of each race, and the last dividends.
    revisions: [u64; RACES as usize],
    dividends: [u64; RACES as usize],
    withdrawn: [Option<u64>; RACES as usize],
    /// What was published about each race under an id that others use as well.
    under_shared_ids: [u64; RACES as usize],
    all: Vec<Outgoing>,
    results: Vec<usize>,
}

impl Script {
    pub(super) fn new(feeder: usize, chance: Chance) -> Self {
        Self {
            chance,
            venue: VENUES[feeder % VENUES.len()],
            events: 0,
            revisions: [0; RACES as usize],
            dividends: [0; RACES as usize],
            withdrawn: [None; RACES as usize],
            under_shared_ids: [0; RACES as usize],
            all: Vec::new(),
            results: Vec::new(),
        }
    }

    /// The name of the feeder.
    pub(super) fn source(&self) -> String {
        format!("feeder-{}", self.venue)
    }

    /// An event, and whether it is of a feeder who repeats an earlier one.
    pub(super) fn next(&mut self) -> (Outgoing, bool) {
        if !self.all.is_empty() && self.chance.one_in(40) {
            return (self.repeat(), true);
        }
        let outgoing = self.new_event();
        self.all.push(outgoing.clone());
        (outgoing, false)
    }

    /// An earlier event, often a result or dividends, as a program publishes it that does not know that the log has it.
    fn repeat(&mut self) -> Outgoing {
        let all = self.all.len() as u64;
        let earlier = usize::try_from(self.chance.below(all)).expect("small");
        let earlier = match self.results.is_empty() || self.chance.one_in(2) {
            true => earlier,
            false => *self.chance.pick(&self.results),
        };
        Outgoing {
            id: format!("repeated-{:x}", self.chance.next()),
            ..self.all[earlier].clone()
        }
    }

    fn new_event(&mut self) -> Outgoing {
        self.events += 1;
        let race = self.chance.below(RACES);
        // First the cards.
        if self.events <= RACES {
            return self.card(self.events - 1);
        }
        match self.chance.below(100) {
            0..3 => self.garbage(race),
            3..7 => self.withdraw(race),
            7..12 => {
                let status = *self.chance.pick(&["open", "closed"]);
                self.event("race.status_changed", race, json!({ "status": status }))
            }
            12..15 => self.card(race),
            15..19 => self.result(race),
            19..24 => self.quinella(race),
            24..27 => self.dividends(race),
            27..29 => {
                let going = *self.chance.pick(&["GOOD", "SOFT"]);
                self.event("going.changed", race, json!({ "going": going }))
            }
            _ => self.quote(race),
        }
    }

    fn horse(&self, race: u64, runner: u64) -> String {
        format!("{}_{race}_{runner:02}", self.venue)
    }

    /// An event of the feeder's own source.
    fn event(&mut self, kind: &str, race: u64, more: Value) -> Outgoing {
        let now = wall_clock().expect("a simulation");
        self.event_of(self.source(), now, kind, race, more)
    }

    fn event_of(
        &mut self,
        source: String,
        time: Timestamp,
        kind: &str,
        race: u64,
        more: Value,
    ) -> Outgoing {
        let now = wall_clock().expect("a simulation");
        let date = now.to_zoned(TimeZone::fixed(jiff::tz::offset(8))).date();
        let number = race + 1;
        let mut data =
            json!({ "date": date.to_string(), "venue": self.venue, "race_number": number });
        let fields = data.as_object_mut().expect("an object");
        fields.extend(more.as_object().expect("an object").clone());
        let id = format!(
            "{:08x}-0000-7000-8000-{:012x}",
            self.events,
            self.chance.next() >> 16
        );
        let event = json!({
            "specversion": "1.0", "id": id, "source": source,
            "type": format!("racing.{kind}.v1"), "time": time.to_string(), "data": data,
        });
        let folder = match kind {
            "odds.quoted" | "market.quoted" => "odds",
            "result.declared" | "result.voided" | "dividends.declared" => "result",
            _ => "race",
        };
        Outgoing {
            subject: format!("racing.{folder}.{date}.{}.{number}", self.venue),
            id: self.message_id(race).unwrap_or(id),
            payload: event.to_string().into_bytes(),
        }
    }

    /// The id of a message, if it is one that is used for other races as well.
    fn message_id(&mut self, race: u64) -> Option<String> {
        let used = &mut self.under_shared_ids[usize::try_from(race).expect("small")];
        let is_shared = self.chance.one_in(30);
        *used += u64::from(is_shared);
        is_shared.then(|| format!("{SHARED_ID}{used}"))
    }

    fn card(&mut self, race: u64) -> Outgoing {
        let weight = 110 + self.chance.below(20);
        let in_chinese = self.chance.one_in(2);
        let names = |n: u64| match in_chinese {
            true => json!({ LANGUAGE: format!("馬 {race} {n}") }),
            false => json!({}),
        };
        let runners: Vec<Value> = (1..=RUNNERS)
            .map(|n| json!({
                "horse_no": self.horse(race, n), "horse_name": format!("HORSE {race} {n}"), "number": n,
                "names": names(n), "jockey": format!("J Ockey {n}"), "trainer": "T Rainer", "draw": n, "weight": weight,
            }))
            .collect();
        let card = json!({
            "race_name": format!("THE {} HANDICAP {race}", self.venue), "distance": 1200 + self.events % 400,
            "class": "4", "going": "GOOD", "off_time": "2026-11-21T23:30:00+08:00", "runners": runners,
        });
        self.event("race.declared", race, card)
    }

    fn quote(&mut self, race: u64) -> Outgoing {
        let runner = self.chance.between(1, RUNNERS);
        let tenths = u32::try_from(self.chance.between(11, 999)).expect("small");
        let win = f64::from(tenths) / 10.0;
        let runners = json!([{ "horse_no": self.horse(race, runner), "win": win }]);
        let quote = json!({ "runners": runners });
        if self.chance.one_in(4) {
            let late = wall_clock().expect("a simulation") - LATE;
            let source = format!("bookmaker-{}", self.venue);
            return self.event_of(source, late, "odds.quoted", race, quote);
        }
        self.event("odds.quoted", race, quote)
    }

    /// The odds of a pair, which often are as before.
    fn quinella(&mut self, race: u64) -> Outgoing {
        let (first, odds) = (
            self.chance.between(1, RUNNERS - 1),
            self.chance.between(5, 7),
        );
        let prices = json!([{ "combination": [first, RUNNERS], "odds": odds }]);
        let quote = json!({ "market": "quinella", "prices": prices });
        self.event("market.quoted", race, quote)
    }

    fn withdraw(&mut self, race: u64) -> Outgoing {
        let at = usize::try_from(race).expect("small");
        match self.withdrawn[at].take() {
            Some(runner) => {
                let horse = self.horse(race, runner);
                self.event(
                    "runner.reinstated",
                    race,
                    json!({ "horse_no": horse, "reason": "sound again" }),
                )
            }
            None => {
                let runner = self.chance.between(1, RUNNERS);
                self.withdrawn[at] = Some(runner);
                let horse = self.horse(race, runner);
                self.event(
                    "runner.withdrawn",
                    race,
                    json!({ "horse_no": horse, "reason": "lame" }),
                )
            }
        }
    }

    fn result(&mut self, race: u64) -> Outgoing {
        let at = usize::try_from(race).expect("small");
        self.revisions[at] += 1;
        self.results.push(self.all.len());
        let revision = self.revisions[at];
        let runners: Vec<Value> = (1..=3)
            .map(|n| json!({
                "horse_no": self.horse(race, n), "horse_name": format!("HORSE {race} {n}"), "position": n,
                "jockey": "J Ockey", "trainer": "T Rainer", "finish_time": format!("1:09.{:02}", 30 + n),
            }))
            .collect();
        let result = json!({ "revision": revision, "status": "official", "runners": runners });
        self.event("result.declared", race, result)
    }

    fn dividends(&mut self, race: u64) -> Outgoing {
        let at = usize::try_from(race).expect("small");
        self.dividends[at] += 1;
        self.results.push(self.all.len());
        let revision = self.dividends[at];
        let win =
            json!({ "pool": "win", "combination": [1], "unit": 10, "dividend": 10 + revision });
        let dividends = json!({
            "revision": revision, "status": "official", "currency": "HKD", "dividends": [win],
        });
        self.event("dividends.declared", race, dividends)
    }

    /// No event: it is rejected.
    fn garbage(&mut self, race: u64) -> Outgoing {
        let mut outgoing = self.event("odds.quoted", race, json!({ "runners": [] }));
        let garbage = format!("{{\"garbage\":\"{} {}\"}}", self.venue, self.events);
        outgoing.payload = garbage.into_bytes();
        outgoing
    }
}
