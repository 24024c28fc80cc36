//! [`Oracle`]: the messages that the live channel must send for a log, derived from its events and the documents alone.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value, json};

pub(crate) const KINDS: [&str; 6] = [
    "odds_update",
    "status_update",
    "runner_update",
    "result_update",
    "dividends_update",
    "card_update",
];
pub(crate) const ODDS: usize = 0;
const RESULT: usize = 3;
const DIVIDENDS: usize = 4;
const CARD: usize = 5;

/// A message that must be sent.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) seq: u64,
    /// Its number among the messages of its event, from 0.
    pub(crate) nth: usize,
    /// An index of [`KINDS`].
    pub(crate) kind: usize,
    /// An index of the oracle's races.
    pub(crate) race: usize,
    pub(crate) prev_seq: u64,
    /// Its fields, without `event`, `seq`, `prev_seq` and the clock of the log.
    fields: Map<String, Value>,
}

/// The messages and statuses of a race.
#[derive(Debug, Default)]
pub(crate) struct RaceHistory {
    pub(crate) venue: String,
    pub(crate) number: u64,
    pub(crate) horses: HashSet<String>,
    /// Each status, with the sequence of the event that set it.
    statuses: Vec<(u64, String)>,
    /// Its odds messages.
    odds: Vec<usize>,
}

/// All messages that must be sent.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    pub(crate) races: Vec<RaceHistory>,
    pub(crate) messages: Vec<Expected>,
    index: HashMap<(usize, usize, u64), usize>,
}

/// A race after the events so far.
#[derive(Debug, Default)]
struct Race {
    ids: HashSet<String>,
    card: Option<Value>,
    riders: BTreeMap<String, (Value, Value)>,
    withdrawn: BTreeMap<String, Value>,
    status: Option<String>,
    reason: String,
    result: Option<Value>,
    dividends: Option<Value>,
    /// Of each source, in the order of their first quotes.
    books: Vec<Book>,
    /// The source whose book is shown.
    primary: String,
    published: [u64; 6],
}

/// The prices of a source.
#[derive(Debug)]
struct Book {
    source: String,
    time: jiff::Timestamp,
    /// By horse; sorted by number only in messages.
    prices: BTreeMap<String, Price>,
}

#[derive(Debug, Default, Clone)]
struct Price {
    win: Value,
    place: Value,
    state: Option<Value>,
    opening: Value,
    previous: Value,
}

impl Oracle {
    /// The messages for these events, by log sequence.
    pub(crate) fn of(events: &BTreeMap<u64, Value>) -> Self {
        let mut oracle = Self::default();
        let mut keys: HashMap<String, usize> = HashMap::new();
        let mut races: Vec<Race> = Vec::new();
        let (mut ranking, mut rankings) = (json!([]), HashSet::new());
        let mut ranked_at = jiff::Timestamp::MIN;
        for (seq, event) in events {
            let data = &event["data"];
            if event["type"] == "racing.sources.ranked.v1" {
                let time: jiff::Timestamp = text(&event["time"]).parse().expect("a time");
                if rankings.insert(text(&event["id"])) && ranked_at <= time {
                    ranked_at = time;
                    ranking = data["sources"].clone();
                }
                continue;
            }
            let key = format!("{} {} {}", data["date"], data["venue"], data["race_number"]);
            let at = *keys.entry(key).or_insert_with(|| {
                races.push(Race::default());
                oracle.races.push(RaceHistory {
                    venue: text(&data["venue"]),
                    number: data["race_number"].as_u64().expect("a number"),
                    ..RaceHistory::default()
                });
                races.len() - 1
            });
            let race = &mut races[at];
            let kinds = race.apply(event, &ranking);
            let history = &mut oracle.races[at];
            history.horses.extend(race.horses());
            let status = race.status();
            if history
                .statuses
                .last()
                .is_none_or(|(_, last)| *last != status)
            {
                history.statuses.push((*seq, status));
            }
            for (nth, kind) in kinds.into_iter().enumerate() {
                let index = oracle.messages.len();
                oracle.messages.push(Expected {
                    seq: *seq,
                    nth,
                    kind,
                    race: at,
                    prev_seq: std::mem::replace(&mut race.published[kind], *seq),
                    fields: race.fields(kind, event),
                });
                oracle.index.insert((at, kind, *seq), index);
                if kind == ODDS {
                    history.odds.push(index);
                }
            }
        }
        oracle
    }

    /// The race that a message is about.
    pub(crate) fn race(&self, message: &Value) -> Option<usize> {
        let venue = message["venue_code"].as_str()?;
        let number = message["race_number"].as_u64()?;
        self.races
            .iter()
            .position(|race| race.venue == venue && race.number == number)
    }

    /// The message of this kind about this race for the event at this sequence.
    pub(crate) fn find(&self, race: usize, kind: usize, seq: u64) -> Option<usize> {
        self.index.get(&(race, kind, seq)).copied()
    }

    /// The race's board after everything up to a sequence, if the race was open then.
    pub(crate) fn image(&self, race: usize, at: u64) -> Option<usize> {
        let published = &self.races[race];
        let behind = published
            .odds
            .partition_point(|index| self.messages[*index].seq <= at);
        let over = ["finished", "result", "abandoned"].contains(&self.status(race, at));
        (behind > 0 && !over).then(|| published.odds[behind - 1])
    }

    /// The sequence of the race's board after everything up to a sequence, if there is one.
    pub(crate) fn board_seq(&self, race: usize, at: u64) -> Option<u64> {
        let odds = self.races[race].odds.iter();
        let mut seqs = odds.map(|index| self.messages[*index].seq);
        seqs.rfind(|seq| *seq <= at)
    }

    /// The placed horses, the status and the revision of the latest result of a race, if there is one.
    pub(crate) fn result(&self, venue: &str, number: u64) -> Option<(Vec<Value>, Value, Value)> {
        let mut results = self.messages.iter().filter(|message| {
            let race = &self.races[message.race];
            message.kind == RESULT && race.venue == venue && race.number == number
        });
        let fields = &results.next_back()?.fields;
        let placed = fields["placed"].as_array().expect("a list").clone();
        Some((placed, fields["status"].clone(), fields["revision"].clone()))
    }

    fn status(&self, race: usize, at: u64) -> &str {
        let statuses = &self.races[race].statuses;
        let behind = statuses.partition_point(|(seq, _)| *seq <= at);
        &statuses[behind.max(1) - 1].1
    }

    /// Finds what is wrong with a message. An image that was made later may have a later status: the one at `made_at`,
    /// or any later one if that is not known.
    pub(crate) fn compare(&self, index: usize, message: &Value, made_at: MadeAt) -> Option<String> {
        let expected = &self.messages[index];
        for (name, value) in &expected.fields {
            if name == "status" && expected.kind == ODDS {
                continue;
            }
            if name == "declared" {
                let mut declared =
                    [horses(&message["runners"]), horses(&message["withdrawn"])].concat();
                declared.sort();
                if json!(declared) != *value {
                    return Some(format!("declared are {declared:?}, not {value}"));
                }
            } else if name == "placed" {
                let placed = message["runners"].as_array().into_iter().flatten();
                let placed: Vec<Value> = placed.map(|runner| runner["horse_no"].clone()).collect();
                if *value != Value::Array(placed) {
                    return Some(format!("placed are {}, not {value}", message["runners"]));
                }
            } else if message[name] != *value {
                return Some(format!("{name} is {}, not {value}", message[name]));
            }
        }
        if expected.kind != ODDS {
            return None;
        }
        let stated = message["status"].as_str().unwrap_or_default();
        let right = match made_at {
            MadeAt::Once => self.status(expected.race, expected.seq) == stated,
            MadeAt::Place(at) => self.status(expected.race, at) == stated,
            MadeAt::Later => {
                let later = self.races[expected.race].statuses.iter();
                self.status(expected.race, expected.seq) == stated
                    || later
                        .filter(|(seq, _)| *seq > expected.seq)
                        .any(|(_, status)| status == stated)
            }
        };
        (!right).then(|| format!("the status is {stated}, {made_at:?}"))
    }
}

/// When an image was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MadeAt {
    /// With its event.
    Once,
    /// When the log was read up to this sequence.
    Place(u64),
    /// At some time after its event.
    Later,
}

impl Book {
    fn add(&mut self, quote: &Value) {
        for line in quote["runners"].as_array().expect("runners") {
            let price = self.prices.entry(text(&line["horse_no"])).or_default();
            if line["win"] != price.win {
                if !price.win.is_null() {
                    price.previous = price.win.clone();
                }
                price.win = line["win"].clone();
            }
            if price.opening.is_null() {
                price.opening = line["win"].clone();
            }
            if !line["place"].is_null() || line["win"].is_null() {
                price.place = line["place"].clone();
            }
            price.state = line.get("state").cloned();
        }
    }
}

impl Race {
    /// Applies an event. Returns the kinds of the messages for it, in order.
    fn apply(&mut self, event: &Value, ranking: &Value) -> Vec<usize> {
        const STATUS: usize = 1;
        const RUNNER: usize = 2;
        if !self.ids.insert(text(&event["id"])) {
            return Vec::new();
        }
        let (data, before) = (&event["data"], (self.status(), self.reason.clone()));
        let horse = data["horse_no"].as_str().unwrap_or_default().to_owned();
        let reason = data.get("reason").cloned().unwrap_or_else(|| json!(""));
        let mut kinds = Vec::new();
        let mut in_image = false;
        match event["type"].as_str().expect("a type") {
            "racing.odds.quoted.v1" => {
                return if self.quote(event, ranking) {
                    vec![ODDS]
                } else {
                    Vec::new()
                };
            }
            "racing.race.declared.v1" => {
                if self.card.as_ref() == Some(data) {
                    return Vec::new();
                }
                kinds.push(CARD);
                self.card = Some(data.clone());
                self.riders.clear();
                in_image = true;
            }
            "racing.runner.withdrawn.v1" => {
                if self.withdrawn.insert(horse, reason.clone()) == Some(reason) {
                    return Vec::new();
                }
                kinds.push(RUNNER);
                in_image = true;
            }
            "racing.runner.reinstated.v1" => {
                if self.withdrawn.remove(&horse).is_none() {
                    return Vec::new();
                }
                kinds.push(RUNNER);
                in_image = true;
            }
            "racing.rider.changed.v1" => {
                let rider = (data["jockey"].clone(), data["weight"].clone());
                if self.riders.insert(horse, rider.clone()) == Some(rider) {
                    return Vec::new();
                }
                kinds.push(RUNNER);
            }
            "racing.race.status_changed.v1" => {
                self.status = Some(text(&data["status"]));
                self.reason = text(&reason);
            }
            "racing.result.declared.v1" | "racing.result.voided.v1" => {
                kinds.extend(replace(&mut self.result, data).then_some(RESULT));
            }
            "racing.dividends.declared.v1" => {
                kinds.extend(replace(&mut self.dividends, data).then_some(DIVIDENDS));
            }
            other => panic!("the oracle does not know {other}"),
        }
        if before != (self.status(), self.reason.clone()) {
            kinds.push(STATUS);
        }
        if in_image && !self.books.is_empty() {
            kinds.push(ODDS);
        }
        kinds
    }

    /// Applies a quote. Returns whether it changes the board.
    fn quote(&mut self, event: &Value, ranking: &Value) -> bool {
        let time: jiff::Timestamp = text(&event["time"]).parse().expect("a time");
        let source = text(&event["source"]);
        if !self.books.iter().any(|book| book.source == source) {
            self.books.push(Book {
                source: source.clone(),
                time,
                prices: BTreeMap::new(),
            });
        }
        let mut books = self.books.iter_mut();
        let book = books
            .find(|book| book.source == source)
            .expect("it is there");
        if time < book.time {
            return false;
        }
        book.time = time;
        book.add(&event["data"]);
        let has_quoted = |source: &&Value| self.books.iter().any(|book| book.source == **source);
        let ranked = ranking.as_array().expect("a list").iter().find(has_quoted);
        let primary = ranked.map_or_else(|| self.books[0].source.clone(), text);
        let was = std::mem::replace(&mut self.primary, primary);
        self.primary == source || self.primary != was
    }

    /// The prices that are shown.
    fn prices(&self) -> impl Iterator<Item = (&String, &Price)> {
        let shown = self.books.iter().filter(|book| book.source == self.primary);
        shown.flat_map(|book| &book.prices)
    }

    fn status(&self) -> String {
        let stated = self.status.as_deref();
        match &self.result {
            Some(result) if result.get("runners").is_some() => "result",
            Some(_) => stated.unwrap_or("abandoned"),
            None => stated.unwrap_or("scheduled"),
        }
        .to_owned()
    }

    fn horses(&self) -> Vec<String> {
        let card = self
            .card
            .iter()
            .flat_map(|card| card["runners"].as_array().expect("runners"));
        card.map(|runner| text(&runner["horse_no"]))
            .chain(self.prices().map(|(horse, _)| horse.clone()))
            .collect()
    }

    fn on_card(&self, horse: &str) -> Value {
        let card = self
            .card
            .iter()
            .flat_map(|card| card["runners"].as_array().expect("runners"));
        let mut card = card.filter(|runner| runner["horse_no"] == horse);
        card.next()
            .cloned()
            .unwrap_or_else(|| json!({ "horse_name": "", "number": 0, "jockey": "", "weight": 0 }))
    }

    /// The fields of a message of a kind right after an event.
    fn fields(&self, kind: usize, event: &Value) -> Map<String, Value> {
        let data = &event["data"];
        let fields = match KINDS[kind] {
            "odds_update" => json!({ "runners": self.board(), "source": self.primary }),
            "status_update" => {
                json!({ "status": self.status(), "reason": self.reason, "timestamp": event["time"] })
            }
            "runner_update" => {
                let horse = text(&data["horse_no"]);
                let line = self.on_card(&horse);
                let rider = self.riders.get(&horse);
                let change = event["type"]
                    .as_str()
                    .expect("a type")
                    .split('.')
                    .nth(2)
                    .expect("a name");
                json!({
                    "change": if change == "changed" { "rider_changed" } else { change },
                    "horse_no": horse, "horse_name": line["horse_name"], "number": line["number"],
                    "jockey": rider.map_or(&line["jockey"], |rider| &rider.0),
                    "weight": rider.map_or(&line["weight"], |rider| &rider.1),
                    "reason": data.get("reason").cloned().unwrap_or_else(|| json!("")), "timestamp": event["time"],
                })
            }
            "card_update" => json!({
                "declared": horses(&data["runners"]), "timestamp": event["time"],
            }),
            "dividends_update" => json!({
                "status": data["status"], "revision": data["revision"], "currency": data["currency"],
                "reason": data.get("reason").cloned().unwrap_or_else(|| json!("")), "timestamp": event["time"],
            }),
            _ => json!({
                "placed": data["runners"].as_array().into_iter().flatten().map(|r| r["horse_no"].clone()).collect::<Vec<_>>(),
                "status": data.get("status").cloned().unwrap_or_else(|| json!("void")), "revision": data["revision"],
                "reason": data.get("reason").cloned().unwrap_or_else(|| json!("")), "timestamp": event["time"],
            }),
        };
        let mut fields = fields.as_object().expect("an object").clone();
        for (name, of) in [
            ("date", "date"),
            ("venue_code", "venue"),
            ("race_number", "race_number"),
        ] {
            fields.insert(name.to_owned(), data[of].clone());
        }
        fields
    }

    fn board(&self) -> Vec<Value> {
        let mut lines: Vec<Value> = self
            .prices()
            .map(|(horse, price)| self.line(horse, price))
            .collect();
        lines.sort_by_key(|line| line["number"].as_u64());
        lines
    }

    fn line(&self, horse: &str, price: &Price) -> Value {
        let card = self.on_card(horse);
        let scratched = self.withdrawn.contains_key(horse);
        let mut line = json!({
            "horse_no": horse, "number": card["number"], "horse_name": card["horse_name"],
            "win": if scratched { &Value::Null } else { &price.win },
            "place": if scratched { &Value::Null } else { &price.place },
            "opening": price.opening, "previous": price.previous,
        });
        let state = if scratched {
            Some(json!("scratched"))
        } else {
            price.state.clone()
        };
        if let Some(state) = state {
            line["state"] = state;
        }
        line
    }
}

/// Replaces a statement by another one, unless its revision is lower. Returns whether it is in force.
fn replace(in_force: &mut Option<Value>, data: &Value) -> bool {
    let revision = |data: &Value| data["revision"].as_u64().expect("a revision");
    let is_lower = in_force
        .as_ref()
        .is_some_and(|it| revision(data) < revision(it));
    if !is_lower {
        *in_force = Some(data.clone());
    }
    !is_lower
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// The horses in a list of runners, sorted.
fn horses(runners: &Value) -> Vec<String> {
    let runners = runners.as_array().into_iter().flatten();
    let mut horses: Vec<String> = runners.map(|runner| text(&runner["horse_no"])).collect();
    horses.sort();
    horses
}
