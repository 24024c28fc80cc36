//! An independent fold of a log of simulated racing, from JSON to the answers of the API. It shares no code with the
//! service, keeps everything, and looks things up the simple way.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// Date, venue and number.
pub(crate) type Key = (String, String, u64);

const NO_STARTS: [&str; 1] = ["WV"];

/// All events of a log.
#[derive(Debug, Default)]
pub(crate) struct RaceDay {
    pub(crate) races: BTreeMap<Key, Race>,
    /// The registration in force, by horse number.
    pub(crate) horses: BTreeMap<String, Value>,
    seen: BTreeSet<String>,
}

/// All events of a race.
#[derive(Debug, Default)]
pub(crate) struct Race {
    card: Value,
    riders: BTreeMap<String, Value>,
    going: Value,
    withdrawn: BTreeMap<String, Value>,
    status: Value,
    status_reason: Value,
    /// Every event about the result.
    results: Vec<Value>,
    /// Every statement of the dividends.
    dividends: Vec<Value>,
    /// Every quote of runners with its sequence.
    quotes: Vec<(u64, Value)>,
    /// The latest prices by combination, of each other market.
    markets: BTreeMap<String, BTreeMap<Vec<u64>, Value>>,
    /// What is invested in each pool.
    pools: BTreeMap<String, Value>,
}

impl RaceDay {
    /// Folds a message. A repeated one counts once.
    pub(crate) fn take(&mut self, seq: u64, message: &[u8]) {
        let event: Value = serde_json::from_slice(message).unwrap();
        if !self.seen.insert(text(&event["id"])) {
            return;
        }
        let data = event["data"].clone();
        let kind = text(&event["type"]);
        if kind == "racing.horse.registered.v1" {
            self.horses.insert(text(&data["horse_no"]), data);
            return;
        }
        let number = data["race_number"].as_u64().unwrap();
        let key = (text(&data["date"]), text(&data["venue"]), number);
        let race = self.races.entry(key).or_default();
        let horse = data["horse_no"].as_str().unwrap_or_default().to_owned();
        match kind.as_str() {
            "racing.race.declared.v1" => {
                race.card = data;
                race.status = json!("scheduled");
            }
            "racing.runner.withdrawn.v1" => {
                race.withdrawn.insert(horse, data["reason"].clone());
            }
            "racing.runner.reinstated.v1" => {
                race.withdrawn.remove(&horse);
            }
            "racing.rider.changed.v1" => {
                race.riders.insert(horse, data);
            }
            "racing.going.changed.v1" => race.going = data["going"].clone(),
            "racing.race.status_changed.v1" => {
                race.status = data["status"].clone();
                race.status_reason = data["reason"].clone();
            }
            "racing.result.declared.v1" | "racing.result.voided.v1" => race.results.push(event),
            "racing.dividends.declared.v1" => race.dividends.push(data),
            "racing.odds.quoted.v1" => race.quotes.push((seq, event)),
            "racing.market.quoted.v1" => {
                let market = race.markets.entry(text(&data["market"])).or_default();
                for price in data["prices"].as_array().unwrap() {
                    let numbers = price["combination"].as_array().unwrap();
                    let numbers = numbers.iter().map(|number| number.as_u64().unwrap());
                    market.insert(numbers.collect(), price.clone());
                }
            }
            "racing.pool.invested.v1" => {
                let pool = text(&data["pool"]);
                race.pools.insert(pool, data["invested"].clone());
            }
            other => panic!("an unknown type {other}"),
        }
    }

    /// The expected `/api/v1/horses/{horse_no}`, without the age, which depends on the day.
    pub(crate) fn profile(&self, horse_no: &str) -> Value {
        let registration = &self.horses[horse_no];
        let mut profile = json!({ "horse_no": horse_no, "registered": true });
        for same in
            "horse_name country_of_origin colour sex trainer owner stakes_currency".split(' ')
        {
            profile[same] = registration[same].clone();
        }
        let (form, unplaced) = self.form(horse_no);
        let rows = || form.iter().chain(&unplaced);
        let count = |name: &str, counts: fn(&Value) -> bool| {
            registration["career"][name].as_u64().unwrap()
                + rows().filter(|row| counts(row)).count() as u64
        };
        profile["starts"] = json!(count("starts", |row| {
            !row["outcome"]
                .as_str()
                .is_some_and(|code| NO_STARTS.contains(&code))
        }));
        profile["wins"] = json!(count("wins", |row| row["position"] == 1));
        profile["places"] =
            json!(count("places", |row| row["position"] == 2 || row["position"] == 3));
        let won: u64 = rows().map(|row| row["stakes"].as_u64().unwrap()).sum();
        let before = registration["career"]["total_stakes"].as_u64().unwrap();
        profile["total_stakes"] = json!(before + won);
        profile["stakes"] =
            json!([{ "currency": profile["stakes_currency"], "total": profile["total_stakes"] }]);
        profile
    }

    /// The rows of `form` and of `unplaced`, newest first.
    pub(crate) fn form(&self, horse_no: &str) -> (Vec<Value>, Vec<Value>) {
        let mut rows = Vec::new();
        for ((date, venue, number), race) in self.races.iter().rev() {
            let Some(result) = race.result() else {
                continue;
            };
            let lists = [&result["runners"], &result["unplaced"]];
            let runners = lists.into_iter().flat_map(|list| list.as_array().unwrap());
            for runner in runners.filter(|runner| runner["horse_no"] == *horse_no) {
                let mut row = runner.clone();
                let fields = row.as_object_mut().unwrap();
                fields.remove("horse_no");
                fields.remove("number");
                let card = &race.card;
                row["date"] = json!(date);
                row["venue"] = card["venue_name"].clone();
                row["venue_code"] = json!(venue);
                row["race_number"] = json!(number);
                row["race_name"] = card["race_name"].clone();
                row["distance"] = card["distance"].clone();
                row["class"] = card["class"].clone();
                row["going"] = result["going"].clone();
                rows.push(row);
            }
        }
        rows.into_iter().partition(|row| row["position"].is_u64())
    }
}

impl Race {
    /// The expected lines of `/dividends`, pool by pool.
    pub(crate) fn dividends(&self) -> Option<Vec<Value>> {
        let in_force = (self.dividends.iter()).max_by_key(|data| data["revision"].as_u64())?;
        let lines = in_force["dividends"].as_array().unwrap();
        let of = |pool: &'static str| lines.iter().filter(move |line| line["pool"] == pool);
        let pools = ["win", "place", "quinella", "quinella_place"];
        Some(pools.into_iter().flat_map(of).cloned().collect())
    }

    /// The expected totals of `/sources`, by pool.
    pub(crate) fn pools(&self) -> &BTreeMap<String, Value> {
        &self.pools
    }

    /// The expected `prices` of `?market=`, by market.
    pub(crate) fn markets(&self) -> impl Iterator<Item = (&String, Vec<&Value>)> {
        let markets = self.markets.iter();
        markets.map(|(market, prices)| (market, prices.values().collect()))
    }

    /// The result in force: the highest revision, and of equal ones the later.
    fn in_force(&self) -> Option<&Value> {
        let revision = |event: &&Value| event["data"]["revision"].as_u64().unwrap();
        self.results.iter().max_by_key(revision)
    }

    fn declared(&self) -> Option<&Value> {
        let declared = |event: &&Value| event["data"]["runners"].is_array();
        self.in_force().filter(declared).map(|event| &event["data"])
    }

    fn going(&self) -> Value {
        let declared = self.declared().map(|result| result["going"].clone());
        let changed = Some(self.going.clone()).filter(Value::is_string);
        declared
            .or(changed)
            .unwrap_or_else(|| self.card["going"].clone())
    }

    fn on_card(&self) -> &[Value] {
        self.card["runners"].as_array().unwrap()
    }

    fn runner_on_card(&self, horse_no: &Value) -> &Value {
        let mut rows = self.on_card().iter();
        rows.find(|row| row["horse_no"] == *horse_no).unwrap()
    }

    /// The draw of a horse, and the weight that it carries with its rider.
    fn draw_and_weight(&self, horse_no: &Value) -> (Value, Value) {
        let on_card = self.runner_on_card(horse_no);
        let rider = self.riders.get(horse_no.as_str().unwrap());
        let weight = rider
            .map(|rider| &rider["weight"])
            .filter(|weight| weight.is_u64());
        let weight = weight.unwrap_or(&on_card["weight"]);
        (on_card["draw"].clone(), weight.clone())
    }

    /// The race in `/api/v1/racecards/{date}`.
    pub(crate) fn card(&self) -> Value {
        let (mut runners, mut withdrawn) = (Vec::new(), Vec::new());
        for row in self.on_card() {
            let (mut row, horse_no) = (row.clone(), text(&row["horse_no"]));
            if let Some(rider) = self.riders.get(&horse_no) {
                row["jockey"] = rider["jockey"].clone();
                if rider["weight"].is_u64() {
                    row["weight"] = rider["weight"].clone();
                }
            }
            match self.withdrawn.get(&horse_no) {
                None => runners.push(row),
                Some(reason) => {
                    row["reason"] = reason.clone();
                    withdrawn.push(row);
                }
            }
        }
        let status = if self.declared().is_some() {
            json!("result")
        } else {
            self.status.clone()
        };
        let mut race = json!({
            "status": status, "status_reason": self.status_reason.as_str().unwrap_or_default(), "going": self.going(),
            "runners": runners, "withdrawn": withdrawn,
        });
        for same in [
            "race_number",
            "race_name",
            "distance",
            "class",
            "off_time",
            "prize",
        ] {
            race[same] = self.card[same].clone();
        }
        race["time_zone"] = json!(self.card["time_zone"].as_str().unwrap_or_default());
        race
    }

    /// The race in `/api/v1/results/{date}`, also one that was abandoned.
    pub(crate) fn result(&self) -> Option<Value> {
        let abandoned =
            json!({ "status": "abandoned", "revision": 0, "reason": self.status_reason });
        let result = match self.in_force() {
            Some(event) => &event["data"],
            None if self.status == "abandoned" => &abandoned,
            None => return None,
        };
        let (mut runners, mut unplaced) = (Vec::new(), Vec::new());
        for runner in result["runners"].as_array().into_iter().flatten() {
            let mut row = json!({ "finish_time": runner["finish_time"].as_str().unwrap_or_default(), "stakes_currency": "" });
            for same in [
                "horse_no",
                "horse_name",
                "number",
                "jockey",
                "trainer",
                "stakes",
            ] {
                row[same] = runner[same].clone();
            }
            let (draw, weight) = self.draw_and_weight(&runner["horse_no"]);
            (row["draw"], row["weight"]) = (draw, weight);
            row["win_odds"] = if runner["win_odds"].is_null() {
                json!(0)
            } else {
                runner["win_odds"].clone()
            };
            for known in ["margin", "sectionals"] {
                if !runner[known].is_null() {
                    row[known] = runner[known].clone();
                }
            }
            if runner["position"].is_u64() {
                let all = result["runners"].as_array().into_iter().flatten();
                let shared = all.filter(|other| other["position"] == runner["position"]);
                let shared = shared.count();
                if shared > 1 {
                    row["dead_heat"] = json!(shared);
                }
                row["position"] = runner["position"].clone();
                runners.push(row);
            } else {
                row["outcome"] = runner["outcome"].clone();
                unplaced.push(row);
            }
        }
        let mut race = json!({
            "status": result["status"].as_str().unwrap_or("void"), "revision": result["revision"],
            "reason": result["reason"].as_str().unwrap_or_default(), "going": self.going(),
            "runners": runners, "unplaced": unplaced,
        });
        for same in ["race_number", "race_name", "distance", "class", "prize"] {
            race[same] = self.card[same].clone();
        }
        if !result["sectionals"].is_null() {
            race["sectionals"] = result["sectionals"].clone();
        }
        Some(race)
    }

    /// Revision, status, reason, time and id of every statement, as in
    /// `/api/v1/results/{date}/{race_number}/revisions`.
    pub(crate) fn revisions(&self) -> Vec<Value> {
        let row = |event: &Value| {
            let data = &event["data"];
            json!([
                data["revision"],
                data["status"].as_str().unwrap_or("void"),
                data["reason"].as_str().unwrap_or_default(),
                event["time"],
                event["id"],
                false
            ])
        };
        self.results.iter().map(row).collect()
    }

    /// The sources, in the order of their first quotes.
    pub(crate) fn sources(&self) -> Vec<String> {
        let mut sources = Vec::new();
        for (_, event) in &self.quotes {
            let source = text(&event["source"]);
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
        sources
    }

    /// The runners of `/api/v1/odds/{date}/{race_number}?source=`.
    pub(crate) fn board(&self, source: &str) -> Vec<Value> {
        let mut rows: BTreeMap<u64, Value> = BTreeMap::new();
        let of_source = (self.quotes.iter()).filter(|(_, event)| event["source"] == source);
        let runners = of_source.flat_map(|(_, event)| event["data"]["runners"].as_array().unwrap());
        for quoted in runners {
            let row = rows
                .entry(quoted["number"].as_u64().unwrap())
                .or_insert_with(|| {
                    json!({
                        "horse_no": quoted["horse_no"], "number": quoted["number"],
                        "horse_name": self.runner_on_card(&quoted["horse_no"])["horse_name"],
                        "win": null, "place": null, "opening": null, "previous": null,
                    })
                });
            let before = row["win"].clone();
            if !before.is_null() && before != quoted["win"] {
                row["previous"] = before;
            }
            if row["opening"].is_null() {
                row["opening"] = quoted["win"].clone();
            }
            row["win"] = quoted["win"].clone();
            row["place"] = quoted["place"].clone();
            row.as_object_mut().unwrap().remove("state");
            if quoted["state"].is_string() {
                row["state"] = quoted["state"].clone();
            }
        }
        rows.into_values().collect()
    }

    /// Sequence, time and prices of every quote, as in the history of the board.
    pub(crate) fn history(&self) -> Vec<Value> {
        let row = |(seq, event): &(u64, Value)| {
            let runners = event["data"]["runners"].as_array().unwrap();
            let prices: Vec<_> = runners
                .iter()
                .map(|r| json!([r["horse_no"], r["win"], r["place"], r["state"]]))
                .collect();
            json!([seq, event["time"], false, prices])
        };
        self.quotes.iter().map(row).collect()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
