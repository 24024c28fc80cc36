//! `railbird import rpscrape`: from files of invented racing to the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use crate::support::*;

async fn import(nats: &Nats, folder: &Path) -> Output {
    let folder = folder.display().to_string();
    railbird([
        "import",
        "rpscrape",
        &folder,
        "--nats",
        &nats.url_of("feeder"),
    ])
    .await
}

fn pick(answer: &Value, fields: &[&str]) -> Value {
    fields.iter().map(|field| answer[*field].clone()).collect()
}

fn rows(answer: &Value, list: &str, fields: &[&str]) -> Value {
    let rows = answer[list].as_array().unwrap().iter();
    rows.map(|row| pick(row, fields)).collect()
}

/// The expected answers were worked out by hand from `rpscrape/newest.csv`.
#[tokio::test]
async fn two_venues_on_a_day_are_served_as_they_were_run() {
    let nats = Nats::start();
    let service = Railbird::start(&nats).await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/importers/rpscrape");
    let output = import(&nats, &folder.join("newest.csv")).await;
    assert_eq!(output.code, 0, "{}", output.all);
    let summary = "16 read, 16 published, 0 duplicates, 0 refused, 0 notes";
    assert!(output.summary.starts_with(summary), "{}", output.all);
    service.until_seq(nats.last_seq().await).await;
    check_harbour_park(&service).await;
    check_milltown(&service).await;
    check_card(&service).await;
    check_profiles(&service).await;
}

async fn get(service: &Railbird, path: &str) -> Value {
    service.get(path).await.json()
}

const UNPLACED: [&str; 4] = ["outcome", "horse_no", "finish_time", "win_odds"];

async fn check_harbour_park(service: &Railbird) {
    let harbour = get(service, "/api/v1/results/2024-05-11?venue=Harbour%20Park").await;
    assert_eq!(harbour["venue"], "Harbour Park");
    let [chase, handicap] = &harbour["races"].as_array().unwrap()[..] else {
        panic!("two races: {harbour}")
    };
    let race = ["race_number", "race_name", "distance", "class", "going"];
    assert_eq!(
        pick(chase, &race),
        json!([1, "Anchor Novices Chase", 4124, "Class 3, Grade 2", "Good"])
    );
    assert_eq!(
        pick(handicap, &race),
        json!([2, "Lantern Handicap", 1609, "Class 4", "Good To Firm"])
    );
    let fields = "position horse_no horse_name jockey finish_time win_odds stakes number";
    let fields: Vec<&str> = fields.split(' ').collect();
    #[rustfmt::skip]
    assert_eq!(
        rows(handicap, "runners", &fields),
        json!([
            [1, "RP_9000001", "Quiet River", "A Quill", "1:40.15", 5.5, 5234, 3],
            [2, "RP_9000002", "Slow Tide", "B Rook", "1:40.27", 2.4, 2457, 1],
            [2, "RP_9000003", "L'Étoile Filante", "C Finch", "1:40.27", 2.0, 2457, 2],
            [4, "RP_9000004", "Paper Lantern", "D Wren", "2:00.00", 34.0, 0, 4],
        ])
    );
    assert_eq!(
        rows(handicap, "unplaced", &UNPLACED),
        json!([["DISQ", "RP_9000005", "1:41.15", 13.0]])
    );
    assert_eq!(
        rows(chase, "unplaced", &UNPLACED),
        json!([["FE", "RP_9000007", "", 4.333], ["UR", "RP_9000008", "", 0]])
    );
    assert_eq!(chase["runners"][0]["win_odds"], json!(1.615));
}

async fn check_milltown(service: &Railbird) {
    let milltown = get(service, "/api/v1/results/2024-05-11/1?venue=Milltown").await;
    assert_eq!(
        pick(&milltown, &["venue", "distance", "class"]),
        json!(["Milltown", 3319, ""])
    );
    assert_eq!(
        rows(&milltown, "unplaced", &UNPLACED),
        json!([["PU", "RP_9000010", "", 2.75]])
    );
}

async fn check_card(service: &Railbird) {
    let cards = get(service, "/api/v1/racecards/2024-05-11?venue=Harbour%20Park").await;
    let card = &cards["races"][1];
    assert_eq!(
        rows(card, "runners", &["number", "draw", "weight", "trainer"]),
        json!([
            [3, 7, 131, "T Marlowe"],
            [1, 2, 133, "S Penhaligon"],
            [2, 1, 133, "T Marlowe"],
            [4, 3, 126, "S Penhaligon"],
            [5, 4, 120, "S Penhaligon"]
        ])
    );
    assert_eq!(card["off_time"], "2024-05-11T13:10:00Z");
}

async fn check_profiles(service: &Railbird) {
    let fields = "horse_name country_of_origin sex trainer owner starts wins places total_stakes stakes_currency";
    let fields: Vec<&str> = fields.split(' ').collect();
    #[rustfmt::skip]
    assert_eq!(
        pick(&get(service, "/api/v1/horses/RP_9000002").await, &fields),
        json!(["Slow Tide", "GB", "Filly", "S Penhaligon", "Low Water Racing", 1, 0, 1, 2457, "GBP"])
    );
    #[rustfmt::skip]
    assert_eq!(
        pick(&get(service, "/api/v1/horses/RP_9000009").await, &fields),
        json!(["Peat Smoke", "IRE", "Gelding", "P Curragh", "Bog Road Partnership", 1, 1, 0, 5900, "EUR"])
    );
    assert_eq!(
        pick(
            &get(service, "/api/v1/horses/RP_9000010").await,
            &["starts", "wins", "total_stakes"]
        ),
        json!([1, 0, 0])
    );
}

/// An invented season: its races and totals, for which it writes files.
#[derive(Default)]
struct Season {
    races: Vec<Race>,
    horses: BTreeMap<String, Totals>,
}

struct Race {
    date: String,
    course: &'static str,
    number: u64,
    minute: u64,
    /// As it is written, and in metres.
    distance: (String, u64),
    runners: Vec<Runner>,
}

struct Runner {
    name: String,
    /// As it is written, and what it means.
    place: (String, Value),
    hundredths: Option<u64>,
    odds: (String, Value),
    pence: u64,
    weight: u64,
    draw: u64,
}

#[derive(Debug, Default, PartialEq)]
struct Totals {
    starts: u64,
    wins: u64,
    places: u64,
    stakes: u64,
}

/// A pseudo-random sequence, the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

impl Season {
    /// Makes a season and writes it to two files of different forms, each race to one of them.
    fn make(folder: &Path) -> Self {
        let (mut season, mut chance) = (Self::default(), Chance(11));
        let (mut newest, mut older) = (NEWEST.to_owned(), OLDER.to_owned());
        for day in 1..=6 {
            for course in ["Harbour Park", "Milltown", "Ford"] {
                let mut minute = 12 * 60 + 5 + chance.below(60);
                for number in 1..=4 + chance.below(5) {
                    let race = Race {
                        date: format!("2023-11-{day:02}"),
                        course,
                        number,
                        minute,
                        distance: distance(&mut chance),
                        runners: runners(&mut chance, course, number),
                    };
                    match chance.below(2) {
                        0 => newest += &race.in_the_newest_form(),
                        _ => older += &race.in_an_older_form(),
                    }
                    season.count(&race);
                    season.races.push(race);
                    minute += 25 + chance.below(20);
                }
            }
        }
        std::fs::write(folder.join("newest.csv"), newest).unwrap();
        std::fs::write(folder.join("older.csv"), older).unwrap();
        season
    }

    fn count(&mut self, race: &Race) {
        for runner in &race.runners {
            let totals = self.horses.entry(runner.horse_no()).or_default();
            let place = &runner.place.1;
            totals.starts += 1;
            totals.wins += u64::from(*place == json!(1));
            totals.places += u64::from(*place == json!(2) || *place == json!(3));
            totals.stakes += runner.stakes();
        }
    }
}

fn distance(chance: &mut Chance) -> (String, u64) {
    let (miles, furlongs) = (1 + chance.below(3), 1 + chance.below(7));
    let (half, yards) = (chance.below(2), chance.below(3) * 55);
    let metres = miles as f64 * 1609.344
        + (furlongs as f64 + half as f64 / 2.0) * 201.168
        + yards as f64 * 0.9144;
    let half = ["", "½"][half as usize];
    let yards = if yards == 0 {
        String::new()
    } else {
        format!("{yards}y")
    };
    (
        format!("{miles}m{furlongs}{half}f{yards}"),
        metres.round() as u64,
    )
}

/// A field, sometimes with a dead heat, whose last runner may not have finished. Some horses run every day.
fn runners(chance: &mut Chance, course: &str, number: u64) -> Vec<Runner> {
    let field = 2 + chance.below(9);
    let dead_heat = (chance.below(6) == 0).then(|| 2 + chance.below(field - 1));
    let first = chance.below(20);
    let runner = |at: u64| {
        let position = if dead_heat == Some(at) { at - 1 } else { at };
        let finished = at < field || chance.below(3) > 0;
        let codes = [
            ("PU", "PU"),
            ("F", "FE"),
            ("UR", "UR"),
            ("BD", "BD"),
            ("RO", "RO"),
        ];
        let (written, meant) = chance.one_of(&codes);
        let (gain, stake) = (
            1 + chance.below(40),
            chance.one_of(&[1, 2, 4, 5, 8, 11, 30]),
        );
        let thousandths = ((gain as f64 / stake as f64 + 1.0) * 1000.0).round();
        let (sign, favourite) = (
            chance.one_of(&["/", "-"]),
            chance.one_of(&["", "F", "J", "C"]),
        );
        Runner {
            name: format!("{course} No {} {number}", (first + at) % 20),
            place: if finished {
                (position.to_string(), json!(position))
            } else {
                (written.to_owned(), json!(meant))
            },
            hundredths: finished.then_some(9_000 + number * 700 + at * 37),
            odds: (
                format!("{gain}{sign}{stake}{favourite}"),
                json!(thousandths / 1000.0),
            ),
            pence: if finished && position <= 3 {
                100_000 / position + 50
            } else {
                0
            },
            weight: 110 + chance.below(60),
            draw: chance.below(field) + 1,
        }
    };
    (1..=field).map(runner).collect()
}

impl Runner {
    fn horse_no(&self) -> String {
        format!("{}_IRE", self.name.to_uppercase().replace(' ', "-"))
    }

    fn stakes(&self) -> u64 {
        (self.pence as f64 / 100.0).round() as u64
    }

    fn prize(&self) -> String {
        if self.pence == 0 {
            String::new()
        } else {
            format!("{}.{:02}", self.pence / 100, self.pence % 100)
        }
    }

    fn time(&self) -> String {
        let padded = |h: u64| format!("{}:{:02}.{:02}", h / 6000, h / 100 % 60, h % 100);
        self.hundredths.map(padded).unwrap_or_default()
    }

    fn unpadded_time(&self) -> String {
        let unpadded = |h: u64| format!("{}:{}.{:02}", h / 6000, h / 100 % 60, h % 100);
        self.hundredths.map_or("-".to_owned(), unpadded)
    }
}

const NEWEST: &str = "date,region,course,off,race_name,class,dist,going,num,pos,draw,horse,age,sex,lbs,time,sp,dec,jockey,trainer,prize,owner,comment\n";
const OLDER: &str = "Date,Course,Off,Name,Class,Dist,Dist_M,Going,Num,Pos,Draw,Horse,SP,Dec,Age,Sex,Wgt,Time,Jockey,Trainer,Prize,Owner,Comment\n";

impl Race {
    fn in_the_newest_form(&self) -> String {
        let Self {
            date,
            course,
            number,
            minute,
            distance: (dist, _),
            runners,
        } = self;
        let rows = (1..).zip(runners).map(|(line, r)| {
            format!(
                "{date},GB,{course},{:02}:{:02},Race {number},Class {number},{dist},Good,{line},{},{},{} (IRE),4,G,{},{},{},9.99,\
                A Rider,A Trainer,{},An Owner,\"Slow - away\n",
                minute / 60, minute % 60, r.place.0, r.draw, r.name, r.weight, r.time(), r.odds.0, r.prize()
            )
        });
        rows.collect()
    }

    fn in_an_older_form(&self) -> String {
        let Self {
            date,
            course,
            number,
            minute,
            distance: (dist, _),
            runners,
        } = self;
        let hour = if *minute >= 13 * 60 {
            minute / 60 - 12
        } else {
            minute / 60
        };
        let rows = (1..).zip(runners).map(|(line, r)| {
            format!(
                "{date},{course},{hour}:{:02},Race {number},Class {number},{dist},,Good,{line},{},{},{} (IRE),{},9.99,4,G,{}-{},{},\
                A Rider,A Trainer,{},An Owner,\n",
                minute % 60, r.place.0, r.draw, r.name, r.odds.0, r.weight / 14, r.weight % 14, r.unpadded_time(), r.prize()
            )
        });
        rows.collect()
    }

    /// Compares a race with the answers.
    async fn check(&self, service: &Railbird) {
        let venue = self.course.replace(' ', "%20");
        let at = format!("{}/{}?venue={venue}", self.date, self.number);
        let result = service.get(&format!("/api/v1/results/{at}")).await.json();
        let name = format!("Race {}", self.number);
        assert_eq!(
            pick(&result, &["race_name", "distance"]),
            json!([name, self.distance.1]),
            "{at}"
        );
        let mut served = BTreeSet::new();
        for (list, place) in [("runners", "position"), ("unplaced", "outcome")] {
            for row in result[list].as_array().unwrap() {
                let row = pick(
                    row,
                    &["horse_no", place, "finish_time", "win_odds", "stakes"],
                );
                served.insert(row.to_string());
            }
        }
        let expected = self.runners.iter();
        let expected = expected
            .map(|r| json!([r.horse_no(), r.place.1, r.time(), r.odds.1, r.stakes()]).to_string());
        assert_eq!(served, expected.collect(), "{at}");
        let cards = service
            .get(&format!("/api/v1/racecards/{}?venue={venue}", self.date))
            .await
            .json();
        let mut cards = cards["races"].as_array().unwrap().iter();
        let card = cards
            .find(|card| card["race_number"] == self.number)
            .unwrap();
        let expected: Value = self
            .runners
            .iter()
            .map(|r| json!([r.horse_no(), r.weight, r.draw]))
            .collect();
        assert_eq!(
            rows(card, "runners", &["horse_no", "weight", "draw"]),
            expected,
            "{at}"
        );
    }
}

#[tokio::test]
async fn a_season_in_two_forms_of_file_is_served_as_it_was_made_and_a_second_import_changes_no_byte()
 {
    let folder = tempfile::tempdir().unwrap();
    let season = Season::make(folder.path());
    let nats = Nats::start();
    let service = Railbird::start(&nats).await;
    let output = import(&nats, folder.path()).await;
    let events = 2 * season.races.len() + season.horses.len();
    let summary = |published: usize, duplicates: usize| {
        format!("{events} read, {published} published, {duplicates} duplicates, 0 refused, 0 notes")
    };
    assert!(
        output.summary.starts_with(&summary(events, 0)),
        "{}",
        output.all
    );
    let last = nats.last_seq().await;
    service.until_seq(last).await;
    for race in &season.races {
        race.check(&service).await;
    }
    for (horse_no, totals) in &season.horses {
        totals.check(&service, horse_no).await;
    }
    let digest = service.digest();
    let output = import(&nats, folder.path()).await;
    assert!(
        output.summary.starts_with(&summary(0, events)),
        "{}",
        output.all
    );
    assert_eq!(nats.last_seq().await, last);
    assert_eq!(service.digest(), digest);
}

impl Totals {
    /// Compares the totals with a profile.
    async fn check(&self, service: &Railbird, horse_no: &str) {
        let profile = get(service, &format!("/api/v1/horses/{horse_no}")).await;
        let fields = "starts wins places total_stakes stakes_currency sex owner";
        let fields: Vec<&str> = fields.split(' ').collect();
        let Self {
            starts,
            wins,
            places,
            stakes,
        } = self;
        // A horse that has won nothing has won it in no currency.
        let currency = if *stakes > 0 { "GBP" } else { "" };
        assert_eq!(
            pick(&profile, &fields),
            json!([
                starts, wins, places, stakes, currency, "Gelding", "An Owner"
            ]),
            "{horse_no}"
        );
    }
}

/// A day's race for [`NEWEST`]: the runners in their order, with their prizes.
fn race(region: &str, off: &str, runners: &[(&str, &str)]) -> String {
    let course = if region == "GB" { "York" } else { "Ford" };
    let rows = (1..).zip(runners).map(|(place, (horse, prize))| {
        format!(
            "2025-03-27,{region},{course},{off},The {off},Class 4,1m,Good,{place},{place},{place},{horse} (IRE),4,G,130,,2/1,,\
            A Rider,A Trainer,{prize},An Owner,\n"
        )
    });
    rows.collect()
}

/// Imports a file of races.
async fn import_races(nats: &Nats, races: &[&String]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let races = races.iter().map(|race| race.as_str());
    let file: String = [NEWEST].into_iter().chain(races).collect();
    std::fs::write(folder.path().join("races.csv"), file).unwrap();
    import(nats, folder.path()).await
}

/// The horses of each race of the day, in the order of their numbers.
async fn served_races(service: &Railbird, nats: &Nats) -> Value {
    service.until_seq(nats.last_seq().await).await;
    let day = get(service, "/api/v1/results/2025-03-27").await;
    let races = day["races"].as_array().unwrap().iter();
    races
        .map(|race| rows(race, "runners", &["horse_name"]))
        .collect()
}

#[tokio::test]
async fn a_file_that_is_imported_again_after_another_one_is_in_force_again() {
    let nats = Nats::start();
    let service = Railbird::start(&nats).await;
    let right = race(
        "GB",
        "13:45",
        &[("Quiet River", "100"), ("Slow Tide", "50")],
    );
    let swapped = race(
        "GB",
        "13:45",
        &[("Slow Tide", "50"), ("Quiet River", "100")],
    );
    let wins = async |file: &String| {
        let output = import_races(&nats, &[file]).await;
        assert_eq!(output.code, 0, "{}", output.all);
        service.until_seq(nats.last_seq().await).await;
        let mut wins = Vec::new();
        for horse in ["QUIET-RIVER_IRE", "SLOW-TIDE_IRE"] {
            wins.push(get(&service, &format!("/api/v1/horses/{horse}")).await["wins"].clone());
        }
        (wins, output)
    };
    assert_eq!(wins(&right).await.0, [1, 0]);
    for _ in 0..2 {
        assert_eq!(wins(&swapped).await.0, [0, 1]);
        let (after, output) = wins(&right).await;
        assert_eq!(after, [1, 0], "{}", output.all);
        assert!(output.all.contains("stated again"), "{}", output.all);
        let last = nats.last_seq().await;
        let (after, output) = wins(&right).await;
        assert_eq!(after, [1, 0]);
        assert!(
            output
                .summary
                .ends_with("nothing changed: the log had all of it"),
            "{}",
            output.all
        );
        assert_eq!(nats.last_seq().await, last);
    }
}

#[tokio::test]
async fn a_race_is_refused_under_the_number_of_another_one() {
    let nats = Nats::start();
    let service = Railbird::start(&nats).await;
    let [first, second, third] = [
        ("13:45", "Anchor"),
        ("14:20", "Lantern"),
        ("15:20", "Harbour"),
    ]
    .map(|(off, horse)| {
        race(
            "IRE",
            off,
            &[(horse, "100"), (&format!("{horse} Too"), "50")],
        )
    });
    let output = import_races(&nats, &[&first, &second]).await;
    assert_eq!(output.code, 0, "{}", output.all);
    let two = json!([[["Anchor"], ["Anchor Too"]], [["Lantern"], ["Lantern Too"]]]);
    assert_eq!(served_races(&service, &nats).await, two);

    let output = import_races(&nats, &[&third]).await;
    assert_eq!(output.code, 1, "{}", output.all);
    let reason = "race 1 of Ford on 2025-03-27 is the 13:45 (The 13:45) in the log, and the 15:20 (The 15:20) in this \
                  import";
    assert!(output.all.contains(reason), "{}", output.all);
    assert_eq!(served_races(&service, &nats).await, two);

    let output = import_races(&nats, &[&second, &third]).await;
    assert_eq!(output.code, 1, "{}", output.all);
    let reason = "the 14:20 (The 14:20) is race 2 of Ford on 2025-03-27 in the log, and race 1 in this import";
    assert!(output.all.contains(reason), "{}", output.all);
    assert_eq!(served_races(&service, &nats).await, two);

    let output = import_races(&nats, &[&first, &second, &third]).await;
    assert_eq!(output.code, 0, "{}", output.all);
    let three = json!([two[0], two[1], [["Harbour"], ["Harbour Too"]]]);
    assert_eq!(served_races(&service, &nats).await, three);
}

#[tokio::test]
async fn stakes_in_two_currencies_are_not_added() {
    let nats = Nats::start();
    let service = Railbird::start(&nats).await;
    let irish = race("IRE", "13:45", &[("Anchor", "7080")]);
    let british = race("GB", "14:20", &[("Anchor", "11157")]);
    for race in [&irish, &british] {
        let output = import_races(&nats, &[race]).await;
        assert_eq!(output.code, 0, "{}", output.all);
    }
    service.until_seq(nats.last_seq().await).await;
    let profile = get(&service, "/api/v1/horses/ANCHOR_IRE").await;
    assert_eq!(
        pick(
            &profile,
            &["total_stakes", "stakes_currency", "stakes", "wins"]
        ),
        json!([7080, "EUR", [
            { "currency": "EUR", "total": 7080 },
            { "currency": "GBP", "total": 11157 },
        ], 2])
    );
    let form = get(&service, "/api/v1/horses/ANCHOR_IRE/form").await;
    let mut stakes = rows(&form, "form", &["stakes", "stakes_currency"]);
    stakes.as_array_mut().unwrap().sort_by_key(Value::to_string);
    assert_eq!(stakes, json!([[11157, "GBP"], [7080, "EUR"]]));
}
