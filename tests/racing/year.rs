//! [`Year`]: a year of racing for each test, with its own horses, on a service that the tests share.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, Weak, mpsc};

use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::support::*;

/// A service that lives as long as any test uses it. It runs on its own thread, because the runtime of a test ends with
/// the test.
struct SharedService {
    railbird: Railbird,
    nats: Nats,
    _open: oneshot::Sender<()>,
}

impl SharedService {
    fn get() -> Arc<Self> {
        static SHARED: Mutex<Weak<SharedService>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap();
        if let Some(service) = shared.upgrade() {
            return service;
        }
        let service = Self::start();
        *shared = Arc::downgrade(&service);
        service
    }

    fn start() -> Arc<Self> {
        let (started, starting) = mpsc::channel();
        let (open, closed) = oneshot::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async {
                let nats = Nats::start();
                let railbird = Railbird::start(&nats).await;
                started.send((railbird, nats)).ok();
                closed.await.unwrap_or_default();
            });
        });
        let (railbird, nats) = starting.recv().expect("the service starts");
        Arc::new(Self {
            railbird,
            nats,
            _open: open,
        })
    }
}

/// A year that no other test uses, with its own horses: `A` is `1951_A`. It is in the past, because a quote with a time
/// in the future counts with the time of the log.
#[derive(Clone)]
pub(super) struct Year {
    service: Arc<SharedService>,
    year: u16,
}

impl Year {
    pub(super) fn new() -> Self {
        Self::on(SharedService::get())
    }

    /// A year whose races no later event of another test closes.
    pub(super) fn on_a_service_of_its_own() -> Self {
        Self::on(SharedService::start())
    }

    fn on(service: Arc<SharedService>) -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(1951);
        Self {
            service,
            year: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }

    pub(super) fn railbird(&self) -> &Railbird {
        &self.service.railbird
    }

    pub(super) fn nats(&self) -> &Nats {
        &self.service.nats
    }

    /// `11-21` of this year.
    pub(super) fn date(&self, day: &str) -> String {
        format!("{}-{day}", self.year)
    }

    pub(super) fn horse_no(&self, horse: &str) -> String {
        format!("{}_{horse}", self.year)
    }

    pub(super) fn race(&self, day: &str, venue: &'static str, number: u16) -> Race {
        Race {
            year: self.clone(),
            day: day.to_owned(),
            venue,
            number,
        }
    }

    /// Publishes facts, and waits until all responses reflect them and all sockets were sent them. Returns the sequence
    /// of the last.
    pub(super) async fn publish(&self, facts: impl IntoIterator<Item = Value>) -> u64 {
        let seq = self.nats().publish(facts).await;
        self.railbird().until_published(seq).await;
        self.railbird().until_seq(seq).await;
        seq
    }

    /// A GET of anything under `/api/v1/`.
    pub(super) async fn get(&self, path: &str) -> Reply {
        self.railbird().get(&format!("/api/v1/{path}")).await
    }

    /// The body of a response with status 200.
    pub(super) async fn json(&self, path: &str) -> Value {
        let reply = self.get(path).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply.json()
    }

    pub(super) async fn profile(&self, horse: &str) -> Value {
        self.json(&format!("horses/{}", self.horse_no(horse))).await
    }

    /// Starts, wins, places and stakes.
    pub(super) async fn career(&self, horse: &str) -> [u64; 4] {
        let profile = self.profile(horse).await;
        ["starts", "wins", "places", "total_stakes"].map(|field| profile[field].as_u64().unwrap())
    }

    /// Starts, wins and places of some horses.
    pub(super) async fn careers(&self, horses: &str) -> Vec<[u64; 3]> {
        let mut careers = Vec::new();
        for horse in horses.split(' ') {
            let [starts, wins, places, _] = self.career(horse).await;
            careers.push([starts, wins, places]);
        }
        careers
    }

    /// The rows of `form` and of `unplaced`, such as `11-21 ST 3: 1`.
    pub(super) async fn form(&self, horse: &str) -> [Vec<String>; 2] {
        let form = self
            .json(&format!("horses/{}/form", self.horse_no(horse)))
            .await;
        ["form", "unplaced"].map(|list| {
            let rows = form[list].as_array().unwrap().iter();
            rows.map(|row| {
                let day = row["date"].as_str().unwrap().split_once('-').unwrap().1;
                let race = format!("{day} {} {}", word(row, "venue_code"), row["race_number"]);
                format!("{race}: {}", placing(row))
            })
            .collect()
        })
    }

    /// Whether a horse is known.
    pub(super) async fn knows(&self, horse: &str) -> bool {
        let reply = self.get(&format!("horses/{}", self.horse_no(horse))).await;
        assert!([200, 404].contains(&reply.status), "{}", reply.text());
        reply.status == 200
    }

    /// A registration of a horse.
    pub(super) fn registered(&self, horse: &str) -> Value {
        registered(&self.horse_no(horse), &format!("HORSE {horse}"))
    }

    /// A horse's number without the year.
    fn short(&self, horse_no: &str) -> String {
        horse_no
            .strip_prefix(&format!("{}_", self.year))
            .unwrap_or(horse_no)
            .to_owned()
    }

    /// The runners of a list, such as `A 1, B 1, C 3`.
    fn listed(&self, runners: &Value, what: impl Fn(&Value) -> String) -> String {
        let runner =
            |runner: &Value| format!("{} {}", self.short(word(runner, "horse_no")), what(runner));
        let listed: Vec<String> = runners.as_array().unwrap().iter().map(runner).collect();
        listed.join(", ")
    }
}

/// A race in the year of a test. Results are written in the form that is read back: `A 1, B 1, C 3, D PU`.
#[derive(Clone)]
pub(super) struct Race {
    year: Year,
    day: String,
    venue: &'static str,
    number: u16,
}

impl Race {
    fn fact(&self, kind: &str, more: Value) -> Value {
        let data = of_race(&self.date(), self.venue, self.number, more);
        event(kind, &format!("{}T06:00:00Z", self.date()), data)
    }

    pub(super) fn date(&self) -> String {
        self.year.date(&self.day)
    }

    /// A card of some horses: `A B C`.
    pub(super) fn card(&self, horses: &str) -> Value {
        let runners = horses.split(' ').zip(1_u16..);
        let runners: Vec<Value> = runners
            .map(|(horse, n)| json!({
                "horse_no": self.year.horse_no(horse), "horse_name": format!("HORSE {horse}"), "number": n,
                "jockey": format!("Jockey {horse}"), "trainer": format!("Trainer {horse}"), "draw": n, "weight": 110 + n,
            }))
            .collect();
        let name = format!("THE {} PLATE {}", self.venue, self.number);
        self.fact(
            "race.declared",
            json!({ "race_name": name, "distance": 1200, "class": "Class 4", "going": "GOOD", "runners": runners }),
        )
    }

    /// A result: `A 1, B 1, C 3, D PU`. A placed runner has stakes of 1,000 divided by the position, a time and a
    /// price.
    pub(super) fn result(&self, revision: u32, placings: &str) -> Value {
        let runner = |placing: &str| {
            let (horse, placing) = placing.split_once(' ').unwrap();
            let mut runner = json!({
                "horse_no": self.year.horse_no(horse), "horse_name": format!("HORSE {horse}"), "jockey": format!("Jockey {horse}"),
                "trainer": format!("Trainer {horse}"),
            });
            match placing.parse::<u16>() {
                Ok(position) => {
                    runner["position"] = json!(position);
                    runner["stakes"] = json!(1000 / position);
                    runner["finish_time"] = json!(format!("1:09.{:02}", 30 + position));
                    runner["win_odds"] = json!(2.5);
                }
                Err(_) => runner["outcome"] = json!(placing),
            }
            runner
        };
        let runners: Vec<Value> = placings.split(", ").map(runner).collect();
        let name = format!("THE {} PLATE {}", self.venue, self.number);
        self.fact(
            "result.declared",
            json!({
                "race_name": name, "distance": 1200, "going": "GOOD", "revision": revision, "status": "official", "runners": runners,
            }),
        )
    }

    pub(super) fn void(&self, revision: u32) -> Value {
        let more = json!({ "revision": revision, "reason": "In error" });
        self.fact("result.voided", more)
    }

    pub(super) fn status(&self, status: &str) -> Value {
        self.fact("race.status_changed", json!({ "status": status }))
    }

    pub(super) fn withdrawn(&self, horse: &str) -> Value {
        let more = json!({ "horse_no": self.year.horse_no(horse) });
        self.fact("runner.withdrawn", more)
    }

    /// Prices: `A 3.5, B 4.0`.
    pub(super) fn odds(&self, prices: &str) -> Value {
        let runner = |price: &str| {
            let (horse, price) = price.split_once(' ').unwrap();
            json!({ "horse_no": self.year.horse_no(horse), "win": price.parse::<f64>().unwrap() })
        };
        let runners: Vec<Value> = prices.split(", ").map(runner).collect();
        self.fact("odds.quoted", json!({ "runners": runners }))
    }

    /// The odds of the first two runners together, in a market.
    pub(super) fn market(&self, market: &str, odds: f64) -> Value {
        let prices = json!([{ "combination": [1, 2], "odds": odds }]);
        self.fact(
            "market.quoted",
            json!({ "market": market, "prices": prices }),
        )
    }

    /// The path of a view of this race, by its venue.
    pub(super) fn path(&self, view: &str) -> String {
        let race = format!("{}/{}", self.date(), self.number);
        let path = match view.split_once('/') {
            Some((view, of_it)) => format!("{view}/{race}/{of_it}"),
            None => format!("{view}/{race}"),
        };
        format!("{path}?venue={}", self.venue)
    }

    /// The result as it is served.
    pub(super) async fn served(&self) -> Value {
        self.year.json(&self.path("results")).await
    }

    /// The placings as they are served, placed runners first.
    pub(super) async fn placings(&self) -> String {
        let result = self.served().await;
        let lists = ["runners", "unplaced"].map(|list| self.year.listed(&result[list], placing));
        let lists = lists.into_iter().filter(|list| !list.is_empty());
        lists.collect::<Vec<_>>().join(", ")
    }

    /// The prices as they are served.
    pub(super) async fn prices(&self) -> String {
        let board = self.year.json(&self.path("odds")).await;
        self.year
            .listed(&board["runners"], |runner| runner["win"].to_string())
    }

    /// Every statement of the result, such as `1 official` or `2 official stale`.
    pub(super) async fn revisions(&self) -> Vec<String> {
        let answer = self.year.json(&self.path("results/revisions")).await;
        let statements = answer["revisions"].as_array().unwrap().iter();
        statements
            .map(|row| {
                let stale = if row["stale"] == true { " stale" } else { "" };
                format!("{} {}{stale}", row["revision"], word(row, "status"))
            })
            .collect()
    }

    /// This race of the card of its meeting.
    pub(super) async fn on_card(&self) -> Value {
        let path = format!("racecards/{}?venue={}", self.date(), self.venue);
        let races = self.year.json(&path).await["races"].clone();
        let mut races = races.as_array().unwrap().iter();
        let race = races.find(|race| race["race_number"] == self.number);
        race.expect("the race is on the card").clone()
    }
}

fn word<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap()
}

/// The position or the outcome of a row. A row with both or neither fails the test.
fn placing(row: &Value) -> String {
    match (row.get("position"), row.get("outcome")) {
        (Some(position), None) => position.to_string(),
        (None, Some(outcome)) => outcome.as_str().unwrap().to_owned(),
        both => panic!("{both:?} in {row}"),
    }
}

/// Changes to a fact before it is published.
pub(super) trait Change {
    /// With another value in a field of the data, such as `/runners/0/stakes`.
    fn with(self, pointer: &str, value: Value) -> Self;
    /// With another attribute of the envelope, such as `time`, `source` or `id`.
    fn under(self, attribute: &str, value: &str) -> Self;
}

impl Change for Value {
    fn with(mut self, pointer: &str, value: Value) -> Self {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        self["data"].pointer_mut(parent).unwrap()[field] = value;
        self
    }

    fn under(mut self, attribute: &str, value: &str) -> Self {
        self[attribute] = json!(value);
        self
    }
}
