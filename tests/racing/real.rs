//! The dead heats of a real season.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::support::*;

/// A race of the files: date, venue code, number, and the placings of horses.
struct RealRace {
    date: String,
    venue: String,
    number: u64,
    placings: Vec<(u64, String)>,
}

impl RealRace {
    fn read(race: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let runners = race["runners"].as_array().unwrap().iter();
        Self {
            date: text(&race["date"]),
            venue: text(&race["racecourse"]),
            number: race["raceNo"].as_u64().unwrap(),
            placings: runners
                .map(|runner| {
                    (
                        runner["placing"].as_u64().unwrap(),
                        text(&runner["horseId"]),
                    )
                })
                .collect(),
        }
    }

    /// The positions that several horses share, each with their number.
    fn shared(&self) -> Vec<(u64, usize)> {
        let mut horses = BTreeMap::new();
        for (position, _) in &self.placings {
            *horses.entry(*position).or_default() += 1;
        }
        horses.into_iter().filter(|(_, n)| *n > 1).collect()
    }
}

/// The races of each file of a season with a dead heat.
fn meetings_with_dead_heats(season: &Path) -> Vec<(String, Vec<RealRace>)> {
    let files = std::fs::read_dir(season)
        .unwrap()
        .map(|file| file.unwrap().path());
    let meetings = files.map(|file| {
        let races: Vec<Value> = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let races: Vec<RealRace> = races.iter().map(RealRace::read).collect();
        (file.display().to_string(), races)
    });
    let mut meetings: Vec<_> = meetings
        .filter(|(_, races)| races.iter().any(|race| !race.shared().is_empty()))
        .collect();
    meetings.sort_by(|(one, _), (other, _)| one.cmp(other));
    meetings
}

/// Starts, wins and places of all horses.
fn count(races: &[RealRace]) -> BTreeMap<&str, [u64; 3]> {
    let mut careers: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
    for (position, horse) in races.iter().flat_map(|race| &race.placings) {
        let [starts, wins, places] = careers.entry(horse).or_default();
        *starts += 1;
        match position {
            1 => *wins += 1,
            2 | 3 => *places += 1,
            _ => {}
        }
    }
    careers
}

/// The season has 29 dead heats, each of two horses. `placings.rs` tests one of three.
#[tokio::test]
async fn the_dead_heats_of_a_real_season_are_placed_and_counted_as_they_were_run() {
    let Some(data) = real_data() else { return };
    let meetings = meetings_with_dead_heats(&data.join("hkjc_en_json/2016-17"));
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let files = meetings.iter().map(|(file, _)| file.clone());
    let args = ["import", "hkjc-results", "--nats"].map(str::to_owned);
    let args = args.into_iter().chain([nats.url_of("feeder")]).chain(files);
    let output = crate::support::railbird(args).await;
    assert_eq!(output.code, 0, "{}", output.all);
    railbird.until_seq(nats.last_seq().await).await;

    let races: Vec<RealRace> = meetings.into_iter().flat_map(|(_, races)| races).collect();
    let (mut dead_heats, mut sharing) = (0, BTreeSet::new());
    for race in races.iter().filter(|race| !race.shared().is_empty()) {
        let (date, number, venue) = (&race.date, race.number, &race.venue);
        let path = format!("/api/v1/results/{date}/{number}?venue={venue}");
        let answer = railbird.get(&path).await.json();
        let served = answer["runners"].as_array().unwrap().iter();
        let served: Vec<u64> = served
            .map(|row| row["position"].as_u64().unwrap())
            .collect();
        for (position, horses) in race.shared() {
            dead_heats += 1;
            assert_eq!(
                served.iter().filter(|p| **p == position).count(),
                horses,
                "{path}"
            );
            let next = position + u64::try_from(horses).unwrap();
            let skipped = served.iter().all(|p| *p <= position || *p >= next);
            assert!(skipped && served.is_sorted(), "{path}: {served:?}");
            let sharers = race.placings.iter().filter(|(p, _)| *p == position);
            sharing.extend(sharers.map(|(_, horse)| horse.as_str()));
        }
        for (position, horse) in &race.placings {
            let at = |row: &&Value| row["horse_no"] == horse.as_str();
            let row = answer["runners"]
                .as_array()
                .unwrap()
                .iter()
                .find(at)
                .unwrap();
            assert_eq!(row["position"], *position, "{path}: {horse}");
        }
    }
    assert_eq!(dead_heats, 29);
    let careers = count(&races);
    for horse in sharing {
        let profile = railbird
            .get(&format!("/api/v1/horses/{horse}"))
            .await
            .json();
        let served = ["starts", "wins", "places"].map(|field| profile[field].as_u64().unwrap());
        assert_eq!(served, careers[horse], "{horse}");
    }
}
