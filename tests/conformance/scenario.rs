//! [`Scenario`]: synthetic events of some races: mostly odds, and every other event with live messages.

use serde_json::{Value, json};

use super::rng::Rng;

/// Five races at one venue, and three at another.
pub(crate) const RACES: [(&str, u16); 8] = [
    ("ST", 1),
    ("ST", 2),
    ("ST", 3),
    ("ST", 4),
    ("ST", 5),
    ("HV", 1),
    ("HV", 2),
    ("HV", 3),
];

pub(crate) const SOURCE: &str = "scenario";
/// Another source, whose clock is a second behind.
const OTHER_SOURCE: &str = "scenario-late";
pub(crate) const DATE: &str = "2026-10-03";

/// The state of a race.
#[derive(Debug, Clone)]
struct Race {
    venue: &'static str,
    number: u16,
    withdrawn: Option<u16>,
    status: &'static str,
    revision: u32,
    over: bool,
}

/// Synthetic events of some races.
#[derive(Debug)]
pub(crate) struct Scenario {
    rng: Rng,
    races: Vec<Race>,
    runners: u16,
    events: u64,
}

impl Scenario {
    pub(crate) fn new(seed: u64, races: &[(&'static str, u16)], runners: u16) -> Self {
        let race = |(venue, number): &(&'static str, u16)| Race {
            venue,
            number: *number,
            withdrawn: None,
            status: "scheduled",
            revision: 0,
            over: false,
        };
        Self {
            rng: Rng::new(seed),
            races: races.iter().map(race).collect(),
            runners,
            events: 0,
        }
    }

    /// A horse of a race. No horse runs in two races.
    pub(crate) fn horse(venue: &str, number: u16, runner: u16) -> String {
        format!("{venue}_{number}_{runner:02}")
    }

    /// The cards, and a first price for everyone.
    pub(crate) fn opening(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        for at in 0..self.races.len() {
            events.push(self.card(at));
        }
        for at in 0..self.races.len() {
            events.push(self.status(at, "open"));
            events.push(self.quote(at, self.runners));
        }
        events
    }

    /// The next event.
    pub(crate) fn next(&mut self) -> Value {
        let running: Vec<usize> = (0..self.races.len())
            .filter(|at| !self.races[*at].over)
            .collect();
        let at = *self.rng.of(&running);
        // Of several scenarios at once, one ranks.
        let ranks = self
            .races
            .iter()
            .any(|race| (race.venue, race.number) == RACES[0]);
        if let (true, 300 | 900) = (ranks, self.events) {
            return self.ranking(at);
        }
        match self.rng.within(&(0..100)) {
            0..3 => self.withdraw_or_reinstate(at),
            3 => self.rider(at),
            4 => self.toggle(at),
            5 => self.card(at),
            6 => self.stale_quote(at),
            7 => self.suspended(at),
            8..20 => self.late_quote(at),
            _ => {
                let runners = self.rng.within(&(1..u64::from(self.runners) + 1));
                self.quote(at, u16::try_from(runners).expect("few"))
            }
        }
    }

    /// Finishes a race: its result, without further quotes.
    pub(crate) fn finish(&mut self, at: usize) -> Vec<Value> {
        self.races[at].over = true;
        vec![
            self.status(at, "off"),
            self.status(at, "finished"),
            self.result(at, "provisional"),
            self.void(at),
            self.result(at, "official"),
        ]
    }

    fn event(&mut self, at: usize, kind: &str, more: Value) -> Value {
        self.events += 1;
        // In the past of every log's clock.
        let start: jiff::Timestamp = "2026-10-03T04:00:00Z".parse().expect("a time");
        let time = start
            + jiff::SignedDuration::from_millis(i64::try_from(self.events).expect("few") * 10);
        let race = &self.races[at];
        let mut data = json!({ "date": DATE, "venue": race.venue, "race_number": race.number });
        let fields = data.as_object_mut().expect("an object");
        fields.extend(more.as_object().expect("an object").clone());
        json!({
            "specversion": "1.0", "id": uuid::Uuid::now_v7().to_string(), "source": SOURCE,
            "type": format!("racing.{kind}.v1"), "time": time.to_string(), "data": data,
        })
    }

    fn card(&mut self, at: usize) -> Value {
        let Race { venue, number, .. } = self.races[at];
        let weight = 110 + self.rng.within(&(0..20));
        let runners: Vec<Value> = (1..=self.runners)
            .map(|n| json!({
                "horse_no": Self::horse(venue, number, n), "horse_name": format!("HORSE {number} {n}"), "number": n,
                "jockey": format!("J Ockey {n}"), "trainer": "T Rainer", "draw": n, "weight": weight,
            }))
            .collect();
        let card = json!({
            "race_name": format!("THE {venue} HANDICAP {number}"), "distance": 1200, "class": "4", "going": "GOOD",
            "off_time": "2026-10-03T13:00:00+08:00", "runners": runners,
        });
        // Each card differs from the one before.
        let mut card = card;
        card["distance"] = json!(1200 + self.events % 400);
        self.event(at, "race.declared", card)
    }

    fn price(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let tenths = self.rng.within(&(11..999)) as f64;
        tenths / 10.0
    }

    /// A quote of this many runners, somewhere in the field.
    fn quote(&mut self, at: usize, runners: u16) -> Value {
        let Race { venue, number, .. } = self.races[at];
        let skip = self.rng.within(&(0..u64::from(self.runners - runners) + 1));
        let skip = u16::try_from(skip).expect("few");
        let quoted: Vec<Value> = (1 + skip..=runners + skip)
            .map(|n| {
                let mut line =
                    json!({ "horse_no": Self::horse(venue, number, n), "win": self.price() });
                if self.rng.happens(50) {
                    line["place"] = json!(self.price());
                }
                line
            })
            .collect();
        self.event(at, "odds.quoted", json!({ "runners": quoted }))
    }

    fn stale_quote(&mut self, at: usize) -> Value {
        let mut quote = self.quote(at, 1);
        quote["time"] = json!("2026-10-03T03:00:00Z");
        quote
    }

    /// A quote of the other source.
    fn late_quote(&mut self, at: usize) -> Value {
        let mut quote = self.quote(at, 1);
        let time: jiff::Timestamp = quote["time"]
            .as_str()
            .expect("a time")
            .parse()
            .expect("one");
        let late = time - jiff::SignedDuration::from_secs(1);
        (quote["source"], quote["time"]) = (json!(OTHER_SOURCE), json!(late.to_string()));
        quote
    }

    /// The other source ranks highest, then lowest.
    fn ranking(&mut self, at: usize) -> Value {
        let mut sources = [OTHER_SOURCE, SOURCE];
        sources.rotate_left(usize::from(self.events > 300));
        let mut ranking = self.event(at, "sources.ranked", json!({}));
        ranking["data"] = json!({ "sources": sources });
        ranking
    }

    fn suspended(&mut self, at: usize) -> Value {
        let mut quote = self.quote(at, 1);
        let horse = quote["data"]["runners"][0]["horse_no"].clone();
        quote["data"]["runners"] =
            json!([{ "horse_no": horse, "win": null, "state": "suspended" }]);
        quote
    }

    fn withdraw_or_reinstate(&mut self, at: usize) -> Value {
        let Race {
            venue,
            number,
            withdrawn,
            ..
        } = self.races[at];
        match withdrawn {
            Some(runner) => {
                self.races[at].withdrawn = None;
                let horse = Self::horse(venue, number, runner);
                self.event(
                    at,
                    "runner.reinstated",
                    json!({ "horse_no": horse, "reason": "sound again" }),
                )
            }
            None => {
                let runner = self.rng.within(&(1..u64::from(self.runners) + 1));
                let runner = u16::try_from(runner).expect("few");
                self.races[at].withdrawn = Some(runner);
                let horse = Self::horse(venue, number, runner);
                self.event(
                    at,
                    "runner.withdrawn",
                    json!({ "horse_no": horse, "reason": "lame" }),
                )
            }
        }
    }

    fn rider(&mut self, at: usize) -> Value {
        let Race { venue, number, .. } = self.races[at];
        let jockey = format!("S Ubstitute {}", self.events);
        self.event(
            at,
            "rider.changed",
            json!({ "horse_no": Self::horse(venue, number, 1), "jockey": jockey, "weight": 120 }),
        )
    }

    fn toggle(&mut self, at: usize) -> Value {
        let next = if self.races[at].status == "open" {
            "closed"
        } else {
            "open"
        };
        self.status(at, next)
    }

    fn status(&mut self, at: usize, status: &'static str) -> Value {
        self.races[at].status = status;
        self.event(at, "race.status_changed", json!({ "status": status }))
    }

    fn result(&mut self, at: usize, status: &str) -> Value {
        let Race { venue, number, .. } = self.races[at];
        self.races[at].revision += 1;
        let revision = self.races[at].revision;
        let runners: Vec<Value> = (1..=3)
            .map(|n| json!({
                "horse_no": Self::horse(venue, number, n), "horse_name": format!("HORSE {number} {n}"), "position": n,
                "jockey": "J Ockey", "trainer": "T Rainer", "finish_time": format!("1:09.{:02}", 30 + n),
            }))
            .collect();
        self.event(
            at,
            "result.declared",
            json!({ "revision": revision, "status": status, "runners": runners }),
        )
    }

    fn void(&mut self, at: usize) -> Value {
        self.races[at].revision += 1;
        let revision = self.races[at].revision;
        self.event(
            at,
            "result.voided",
            json!({ "revision": revision, "reason": "the wrong course" }),
        )
    }
}
