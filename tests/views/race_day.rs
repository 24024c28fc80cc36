//! Whole simulated race days with failures, compared with an oracle that folds the log in other code.

use std::collections::{BTreeMap, HashSet};
use std::process::Stdio;

use jiff::{Timestamp, ToSpan};
use railbird::log::{Log, Outgoing};
use serde_json::{Value, json};
use simulator::{Pace, RaceDay, script};

use crate::oracle::race_day::RaceDay as Oracle;
use crate::support::*;

const DATE: &str = "2026-11-21";
/// Midnight of that date in the zone of the services.
const MIDNIGHT: &str = "2026-11-20T16:00:00Z";

fn simulate(nats: &Nats, more: &[&str]) -> Vec<String> {
    let args = ["simulate", "--date", DATE, "--speed", "max", "--nats"];
    let args = args
        .into_iter()
        .map(str::to_owned)
        .chain([nats.url_of("feeder")]);
    args.chain(more.iter().map(|arg| (*arg).to_owned()))
        .collect()
}

/// The messages of a log with only this day.
fn as_in_life(races: u16, seed: u64) -> Vec<Vec<u8>> {
    let date = events::RacingDate::parse(DATE).unwrap();
    let day = RaceDay::new(date, races, seed);
    let events = script(&day, &day.as_in_life(MIDNIGHT.parse().unwrap()));
    events.iter().map(events::Envelope::encode).collect()
}

async fn payloads(nats: &Nats) -> Vec<Vec<u8>> {
    let messages = nats.messages().await;
    messages
        .iter()
        .map(|message| message.payload.to_vec())
        .collect()
}

#[tokio::test]
async fn the_same_seed_makes_the_same_log_and_another_one_is_rejected() {
    let nats = Nats::start();
    nats.log().await;
    let output = railbird(simulate(&nats, &["--races", "2", "--seed", "9"])).await;
    assert_eq!(output.code, 0, "{}", output.all);
    assert_eq!(payloads(&nats).await, as_in_life(2, 9));
    let again = railbird(simulate(&nats, &["--races", "2", "--seed", "9"])).await;
    assert!(
        again
            .summary
            .ends_with("nothing changed: the log had all of it"),
        "{}",
        again.all
    );
    for other in [
        ["--seed", "10", "--races", "2"],
        ["--seed", "9", "--races", "3"],
    ] {
        let other = railbird(simulate(&nats, &other)).await;
        assert_eq!(other.code, 1);
        assert!(other.all.contains("choose another --date"), "{}", other.all);
    }
    assert_eq!(payloads(&nats).await, as_in_life(2, 9));
}

#[tokio::test]
async fn an_interrupted_day_resumes() {
    let nats = Nats::start();
    for killed_at in [300, 900] {
        let mut command = command();
        command.args(simulate(&nats, &[])).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        nats.until_logged(killed_at).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let output = railbird(simulate(&nats, &[])).await;
    assert_eq!(output.code, 0, "{}", output.all);
    assert_eq!(payloads(&nats).await, as_in_life(8, 1));
}

#[tokio::test]
async fn a_day_is_published_once_also_where_the_server_has_forgotten_its_ids() {
    let nats = Nats::start();
    nats.create_log_that_forgets_ids().await;
    let mut command = command();
    command.args(simulate(&nats, &[])).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    nats.until_logged(900).await;
    child.kill().unwrap();
    child.wait().unwrap();
    // Another feeder quotes each race that was quoted: the last message about it is not of the simulator.
    let (log, mut others) = (nats.log().await, HashSet::new());
    for message in nats.messages().await {
        let mut event: Value = serde_json::from_slice(&message.payload).unwrap();
        if event["type"] == "racing.odds.quoted.v1" && others.insert(message.subject().to_owned()) {
            event["source"] = json!("another");
            let subject = message.subject().to_owned();
            let (id, payload) = (uuid::Uuid::now_v7().to_string(), event.to_string().into());
            let quote = Outgoing {
                subject,
                id,
                payload,
            };
            log.append(quote).await.unwrap();
        }
    }
    nats.until_ids_are_forgotten().await;
    for summary in ["published", "nothing changed: the log had all of it"] {
        let output = railbird(simulate(&nats, &[])).await;
        assert_eq!(output.code, 0, "{}", output.all);
        assert!(output.summary.contains(summary), "{}", output.all);
        nats.until_ids_are_forgotten().await;
    }
    let mut payloads = payloads(&nats).await;
    payloads.retain(|payload| {
        let event = serde_json::from_slice::<Value>(payload);
        event.is_ok_and(|event| event["source"] != "another")
    });
    assert_eq!(payloads.len(), as_in_life(8, 1).len(), "each event once");
    assert_eq!(payloads, as_in_life(8, 1));
}

#[tokio::test]
async fn a_whole_day_with_killed_services_and_a_killed_log_is_served_as_an_oracle_folds_it() {
    let mut nats = Nats::start();
    let key = issue_key(&nats).await;
    let folder = tempfile::tempdir().unwrap();
    let mut service = Serving::start(&nats, folder.path());
    nats.log().await;
    let playing = tokio::spawn(railbird(simulate(&nats, &["--races", "12"])));
    for (seq, service_too) in [(400, true), (1_200, false), (2_000, true), (3_000, true)] {
        nats.until_logged(seq).await;
        nats.kill();
        if service_too {
            service.kill();
            service = Serving::start(&nats, folder.path());
        }
        nats.start_again();
    }
    let output = playing.await.unwrap();
    assert_eq!(output.code, 0, "{}", output.all);

    let (mut oracle, mut payloads, mut ids) = (Oracle::default(), Vec::new(), HashSet::new());
    let messages = nats.messages().await;
    for message in &messages {
        oracle.take(message.seq, &message.payload);
        let event: Value = serde_json::from_slice(&message.payload).unwrap();
        if ids.insert(event["id"].to_string()) {
            payloads.push(message.payload.to_vec());
        }
    }
    assert_eq!(by_race(&payloads), by_race(&as_in_life(12, 1)));
    let last = messages.last().unwrap().seq;
    eventually("the views reflect it all", || async {
        let ready = request(service.http, "GET", "/readyz", &[]).await.status == 200;
        let digest = request(service.admin, "GET", "/digest", &[]).await;
        ready && digest.status == 200 && digest.json()["seq"] == last
    })
    .await;
    let served = Served { service, key };
    served.check_races(&oracle).await;
    served.check_horses(&oracle).await;
    let admin = served.service.admin.to_string();
    let verified = railbird(["verify", "--admin", &admin, "--nats", &nats.url()]).await;
    assert_eq!(verified.code, 0, "{}", verified.all);
}

#[tokio::test]
async fn dev_finishes_a_day_that_was_begun_and_then_plays_other_races() {
    let folder = tempfile::tempdir().unwrap();
    let zone = where_yesterday_is_over();
    let clock = railbird::clock::Clock::new(zone).unwrap();
    let date = |days: i64| events::RacingDate::from(clock.today().civil() - days.days());
    let (today, earlier) = (RaceDay::new(date(0), 8, 1), RaceDay::new(date(3), 8, 1));
    let an_hour_ago = Pace {
        begins: Timestamp::from_second(Timestamp::now().as_second() - 3_600).unwrap(),
        speed: 10.0,
    };
    let dev = Dev::start(folder.path(), &["--no-demo", "--timezone", zone]);
    let log = Log::connect(dev.nats(), "test").await.unwrap();
    let mut appender = log.appender();
    let in_life = earlier.as_in_life(clock.midnight(date(3)));
    let (begun, over) = (script(&earlier, &in_life), script(&today, &an_hour_ago));
    for envelope in begun.iter().take(500).chain(over.iter().take(1_000)) {
        appender.append(Outgoing::from(envelope)).await.unwrap();
    }
    appender.finish().await.unwrap();
    dev.interrupt();

    let dev = Dev::start(folder.path(), &["--timezone", zone]);
    eventually("the begun day is over, and more races are open", || async {
        let card = dev.get("/api/v1/racecards/today").await;
        let status = |race: &Value| race["status"].as_str().unwrap().to_owned();
        let statuses: Vec<String> = card["races"]
            .as_array()
            .unwrap()
            .iter()
            .map(status)
            .collect();
        statuses.get(..7) == Some(&["result"; 7].map(str::to_owned))
            && statuses.get(7..11)
                == Some(&["abandoned", "open", "open", "scheduled"].map(str::to_owned))
    })
    .await;
    let meetings = dev.get("/api/v1/meetings").await;
    let of = |row: &Value| {
        json!([
            row["date"],
            row["venue_code"],
            row["race_count"],
            row["status"]
        ])
    };
    let expected = [(3, 8, "finished"), (1, 8, "finished"), (0, 16, "scheduled")];
    let expected = expected.into_iter().flat_map(|(days, races, status)| {
        ["RB", "SM"].map(|venue| json!([date(days).to_string(), venue, races, status]))
    });
    assert_eq!(
        rows(&meetings["meetings"], of),
        expected.collect::<Vec<_>>()
    );
    dev.interrupt();
}

/// A zone in which it is not about midnight: yesterday's last race is run after midnight, and its result is amended
/// later.
fn where_yesterday_is_over() -> &'static str {
    match Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).hour() {
        4..20 => "Etc/UTC",
        _ => "Etc/GMT+12",
    }
}

/// The events of each race, in order. The order between races may differ if the server of the log was down.
fn by_race(events: &[Vec<u8>]) -> BTreeMap<String, Vec<&[u8]>> {
    let mut races: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for event in events {
        let data = &serde_json::from_slice::<Value>(event).unwrap()["data"];
        let of_race = [&data["venue"], &data["race_number"]];
        races
            .entry(json!(of_race).to_string())
            .or_default()
            .push(event.as_slice());
    }
    // The order of the horses is not defined.
    races.get_mut("[null,null]").unwrap().sort_unstable();
    races
}

/// A service and a key for it.
struct Served {
    service: Serving,
    key: String,
}

impl Served {
    async fn get(&self, path: &str) -> Value {
        let headers = [("x-api-key", self.key.as_str())];
        let reply = request(self.service.http, "GET", path, &headers).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply.json()
    }

    async fn check_races(&self, oracle: &Oracle) {
        for venue in ["RB", "SM"] {
            let races = || oracle.races.iter().filter(|((_, at, _), _)| at == venue);
            let cards: Vec<Value> = races().map(|(_, race)| race.card()).collect();
            let results: Vec<Value> = races().filter_map(|(_, race)| race.result()).collect();
            assert_eq!(cards.len(), 12);
            let card = self
                .get(&format!("/api/v1/racecards/{DATE}?venue={venue}"))
                .await;
            assert_eq!(card["races"], json!(cards));
            assert_eq!(card["meeting_status"], "finished");
            let result = self
                .get(&format!("/api/v1/results/{DATE}?venue={venue}"))
                .await;
            assert_eq!(result["races"], json!(results));
            for ((_, _, number), race) in races() {
                let of_race = format!("{DATE}/{number}");
                let path = format!("/api/v1/odds/{of_race}/history?venue={venue}");
                let get = async |path: String| self.get(&path).await;
                let odds = all_pages(get, &path, "history").await;
                let sources = race.sources();
                assert_eq!((&odds["source"], sources.len()), (&json!(sources[0]), 3));
                assert_eq!(odds["runners"], json!(race.board(&sources[0])), "{path}");
                assert_eq!(rows(&odds["history"], tick), race.history(), "{path}");
                for source in &sources {
                    let path = format!("/api/v1/odds/{of_race}?venue={venue}&source={source}");
                    let board = self.get(&path).await;
                    assert_eq!(board["runners"], json!(race.board(source)), "{path}");
                }
                let path = format!("/api/v1/odds/{of_race}/sources?venue={venue}");
                let totals = self.get(&path).await["pools"].clone();
                let totals = totals.as_array().unwrap().iter();
                let totals = totals.map(|total| {
                    (
                        total["pool"].as_str().unwrap().to_owned(),
                        total["invested"].clone(),
                    )
                });
                assert_eq!(totals.collect::<BTreeMap<_, _>>(), *race.pools(), "{path}");
                for (market, prices) in race.markets() {
                    let path = format!("/api/v1/odds/{of_race}?venue={venue}&market={market}");
                    assert_eq!(self.get(&path).await["prices"], json!(prices), "{path}");
                }
                if race.result().is_some() {
                    let path = format!("/api/v1/results/{of_race}/revisions?venue={venue}");
                    let revisions = self.get(&path).await;
                    assert_eq!(rows(&revisions["revisions"], revision), race.revisions());
                }
                let path = format!("/api/v1/results/{of_race}/dividends?venue={venue}");
                if let Some(dividends) = race.dividends() {
                    assert_eq!(self.get(&path).await["dividends"], json!(dividends));
                } else if race.result().is_some() {
                    assert_eq!(self.get(&path).await["status"], "pending");
                }
            }
        }
    }

    async fn check_horses(&self, oracle: &Oracle) {
        for horse_no in oracle.horses.keys() {
            let mut profile = self.get(&format!("/api/v1/horses/{horse_no}")).await;
            profile.as_object_mut().unwrap().remove("age");
            assert_eq!(profile, oracle.profile(horse_no));
            let form = self.get(&format!("/api/v1/horses/{horse_no}/form")).await;
            let (placed, unplaced) = oracle.form(horse_no);
            assert_eq!(
                (&form["form"], &form["unplaced"]),
                (&json!(placed), &json!(unplaced))
            );
        }
    }
}

fn rows(list: &Value, row: fn(&Value) -> Value) -> Vec<Value> {
    list.as_array().unwrap().iter().map(row).collect()
}

fn tick(tick: &Value) -> Value {
    let runners = tick["runners"].as_array().unwrap();
    let prices: Vec<_> = runners
        .iter()
        .map(|r| json!([r["horse_no"], r["win"], r["place"], r["state"]]))
        .collect();
    json!([tick["seq"], tick["time"], tick["stale"], prices])
}

fn revision(r: &Value) -> Value {
    json!([
        r["revision"],
        r["status"],
        r["reason"],
        r["time"],
        r["event_id"],
        r["stale"]
    ])
}
