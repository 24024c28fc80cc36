//! Odds trends of the betting pages, JSON: a file has some win prices of a race with their times, and the place prices.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use events::{HorseNo, Moment, Odds, ParseError, PriceState, QuotedRunner, RaceKey, race_event};
use serde_json::{Map, Value};

use super::hong_kong::time_of_meeting;
use super::json::{JsonRace, race_key};
use crate::input::fields::Fields;
use crate::input::race_heading::known;
use crate::input::{files, json_array};
use crate::item::{Item, Items, LineItems, Omitted, Result};
use crate::units::whole;

const FORMAT: &str = "hkjc-odds";
/// What stands in the place of the jockey of a scratched runner.
const SCRATCHED: &str = "退出";

/// Reads odds trends: a quote for each time. `ids` are JSON files of results or cards of the same races, which map the
/// numbers of the runners to horses.
pub fn hkjc_odds(paths: &[PathBuf], ids: &[PathBuf]) -> Items {
    let ids = ids.to_vec();
    files::import(paths, &["json"], move |files| {
        let (starters, items) = Starters::read(&ids);
        let quotes = json_array::elements(files).flat_map(move |(location, race)| {
            let mut out = LineItems::new(location);
            if let Err(reason) = race.and_then(|race| starters.quote(&race, &mut out)) {
                out.reject(reason);
            }
            out.items
        });
        items.into_iter().chain(quotes)
    })
}

/// The runners of races by their numbers.
struct Starters(HashMap<RaceKey, HashMap<u16, HorseNo>>);

/// Prices by time.
type Quotes = BTreeMap<Moment, Vec<QuotedRunner>>;

impl Starters {
    fn read(paths: &[PathBuf]) -> (Self, Vec<Item>) {
        let (files, mut items) = files::find(paths, &["json"]);
        let mut races: HashMap<_, HashMap<_, _>> = HashMap::new();
        for (location, race) in json_array::elements(files) {
            match race.and_then(|race| JsonRace::read(&race, &location)) {
                Ok(JsonRace { rows, .. }) => {
                    let runners = rows.runners.into_iter();
                    let numbered = runners.filter_map(|(_, r)| Some((r.number?, r.horse_no)));
                    races.entry(rows.key).or_default().extend(numbered);
                }
                Err(reason) => items.push(location.rejected(reason)),
            }
        }
        (Self(races), items)
    }

    /// Makes the quotes of a file. One invalid field rejects it.
    fn quote(&self, file: &Map<String, Value>, out: &mut LineItems) -> Result<()> {
        let file = Fields::root(file);
        let info = file.object("race_info")?.ok_or("race_info: is missing")?;
        let key = race_key(&info, ["race_date", "venue", "race_number"])?;
        // Instead of a race without betting the site shows another one.
        let page = info.text("source_url")?;
        let own_path = format!("/{}/{}/{}", key.date, key.venue, key.race_number);
        let is_page = page.as_str().ends_with(&own_path);
        if !page.is_empty() && !is_page {
            let reason = format!("{page} is the page of another race than {key}");
            return Err(info.error("source_url", reason));
        }
        let starters = self.0.get(&key);
        let starters = starters.ok_or_else(|| format!("no file of --ids has the race {key}"))?;
        let mut omitted = Omitted::new();
        let mut quotes = Quotes::new();
        let mut scratched = Vec::new();
        for horse in file.objects("horses_data")? {
            let number = horse.parsed("horse_number", number)?;
            let horse_no = starters.get(&number).ok_or_else(|| {
                let reason = format!("no file of --ids has number {number} of {key}");
                horse.error("horse_number", reason)
            })?;
            let runner = QuotedRunner {
                horse_no: horse_no.clone(),
                horse_name: known(horse.text("horse_name")?),
                number: Some(number),
                win: None,
                place: None,
                state: Some(PriceState::Scratched),
            };
            if horse.is("jockey", SCRATCHED) {
                scratched.push(runner);
            } else {
                trend(&horse, runner, &key, &mut quotes, &mut omitted)?;
            }
            horse.omit(&mut omitted);
        }
        let mut first = quotes.first_entry().ok_or("horses_data: has no prices")?;
        first.get_mut().append(&mut scratched);
        for (time, runners) in quotes {
            let quote = race_event!(key.clone() => OddsQuoted { runners });
            out.event(FORMAT, time, quote);
        }
        file.omit(&mut omitted);
        info.omit(&mut omitted);
        out.omit(omitted);
        Ok(())
    }
}

/// Adds the prices of a runner. Its place price has no time: it is as late as the last win price.
fn trend(
    horse: &Fields<'_>,
    runner: QuotedRunner,
    key: &RaceKey,
    quotes: &mut Quotes,
    omitted: &mut Omitted,
) -> Result<()> {
    let mut last = None;
    for point in horse.objects("win_odds_trend")? {
        let time = point.parsed("time", |clock| time_of_meeting(key.date, clock))?;
        if last.is_some_and(|last| time <= last) {
            return Err(point.error("time", "it is not later than the one before"));
        }
        let runner = QuotedRunner {
            win: Some(point.parsed("odds", Odds::parse)?),
            state: None,
            ..runner.clone()
        };
        quotes.entry(time).or_default().push(runner);
        last = Some(time);
        point.omit(omitted);
    }
    let places = horse.objects("place_odds_trend")?;
    let (Some(last), [place]) = (last, &places[..]) else {
        let reason = "a runner has win prices and one place price";
        return Err(horse.error("place_odds_trend", reason));
    };
    let runners = quotes.get_mut(&last).and_then(|runners| runners.last_mut());
    runners.expect("its last price").place = Some(place.parsed("odds", Odds::parse)?);
    place.omit(omitted);
    Ok(())
}

fn number(text: &str) -> Result<u16, ParseError> {
    whole(text).ok_or_else(|| ParseError::new("a saddle-cloth number", text))
}

#[cfg(test)]
mod tests {
    use events::{Envelope, Event, PriceState};
    use serde_json::{Value, json};

    use super::hkjc_odds;
    use crate::item::{Item, Omitted};
    use crate::testing::folder_of;

    fn file() -> Value {
        json!({
            "race_info": {
                "race_date": "2026-06-24", "venue": "HV", "race_number": 1, "scraped_at": "2026-06-25T01:36:21",
                "source_url": "https://bet.example/ch/racing/pwin/2026-06-24/HV/1",
            },
            "horses_data": [
                { "horse_number": "1", "horse_name": "靜河", "gate": "4", "jockey": "騎師甲", "trainer": "練馬師乙",
                  "win_odds_trend": [{ "time": "18:15", "odds": "12" }, { "time": "18:40", "odds": "9.5" }],
                  "place_odds_trend": [{ "odds": "3.9" }] },
                { "horse_number": "2", "horse_name": "遲鳥", "gate": "2", "jockey": "騎師乙", "trainer": "練馬師乙",
                  "win_odds_trend": [{ "time": "18:15", "odds": "3.0" }, { "time": "00:05", "odds": "3.1" }],
                  "place_odds_trend": [{ "odds": "1.2" }] },
                { "horse_number": "3", "horse_name": "高浪", "jockey": "退出", "trainer": "退出", "win_odds_trend": [] },
            ],
        })
    }

    /// The events, the rejections and the counts of a file.
    fn read(file: &Value) -> (Vec<Envelope>, Vec<String>, Omitted) {
        let runner = |n: u16| json!({ "horseNo": n, "horseId": format!("HK_2021_G00{n}"), "horseName": "X" });
        let card = json!([{
            "date": "2026-06-24", "racecourse": "HV", "raceNo": 1, "runners": [runner(1), runner(2), runner(3)],
        }]);
        let [card, file] = [&card, file].map(|file| file.to_string().into_bytes());
        let (_folder, paths) = folder_of(&[("card.json", &card), ("odds.json", &file)]);
        let mut read = (Vec::new(), Vec::new(), Omitted::new());
        for item in hkjc_odds(&paths[1..], &paths[..1]) {
            match item {
                Item::Event(envelope) => read.0.push(*envelope),
                Item::Rejected(rejected) => read.1.push(rejected.reason),
                Item::Omitted(omitted) => read.2.extend(omitted),
                Item::Note(note) => panic!("{note}"),
            }
        }
        read
    }

    #[test]
    fn each_time_is_a_quote() {
        let (events, rejected, omitted) = read(&file());
        assert_eq!(rejected, Vec::<String>::new());
        let shown = events.iter().map(|envelope| {
            let Event::OddsQuoted(quote) = &envelope.event else {
                panic!("{envelope:?}")
            };
            let runners = quote.runners.iter().map(|r| {
                assert_eq!(r.horse_name.is_some(), r.number.is_some());
                let price = |price: Option<_>| {
                    price.map_or("-".to_owned(), |p: events::Odds| p.to_string())
                };
                let state = r
                    .state
                    .map(|state| assert_eq!(state, PriceState::Scratched));
                let state = state.map_or("", |()| " scratched");
                format!("{} {} {}{state}", r.horse_no, price(r.win), price(r.place))
            });
            format!(
                "{}: {}",
                envelope.time,
                runners.collect::<Vec<_>>().join(", ")
            )
        });
        let expected = [
            "2026-06-24T10:15:00Z: HK_2021_G001 12.0 -, HK_2021_G002 3.0 -, HK_2021_G003 - - scratched",
            "2026-06-24T10:40:00Z: HK_2021_G001 9.5 3.9",
            "2026-06-24T16:05:00Z: HK_2021_G002 3.1 1.2",
        ];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
        let omitted: Vec<String> = omitted
            .iter()
            .map(|(name, n)| format!("{name} {n}"))
            .collect();
        assert_eq!(
            omitted.join(", "),
            "gate 2, jockey 2, scraped_at 1, trainer 3"
        );
        assert_eq!(read(&file()).0, events, "the ids are the same");
    }

    #[test]
    fn a_file_with_an_invalid_field_is_rejected_whole() {
        for (pointer, value, reason) in [
            ("/race_info", json!(7), "race_info: an object"),
            (
                "/race_info/race_number",
                json!(2),
                "race_info.source_url: https://bet.example/ch/",
            ),
            (
                "/race_info/source_url",
                json!("https://x/2026-06-24/HV/11"),
                "race_info.source_url: ",
            ),
            (
                "/race_info/race_date",
                json!("24/06/2026"),
                "race_info.race_date: a date is",
            ),
            ("/horses_data", json!(null), "horses_data: is missing"),
            ("/horses_data", json!([]), "horses_data: has no prices"),
            (
                "/horses_data/0/horse_number",
                json!("9"),
                "horses_data[0].horse_number: no file of --ids has",
            ),
            (
                "/horses_data/0/horse_number",
                json!("2"),
                "data.runners[1].horse_no: ",
            ),
            (
                "/horses_data/0/win_odds_trend/0/odds",
                json!("SCR"),
                "horses_data[0].win_odds_trend[0].odds: ",
            ),
            (
                "/horses_data/0/win_odds_trend/0/time",
                json!("19:00"),
                "horses_data[0].win_odds_trend[1].time: it",
            ),
            (
                "/horses_data/0/win_odds_trend/0/time",
                json!("6pm"),
                "horses_data[0].win_odds_trend[0].time: a time",
            ),
            (
                "/horses_data/0/win_odds_trend",
                json!([]),
                "horses_data[0].place_odds_trend: a runner",
            ),
        ] {
            let mut file = file();
            *file.pointer_mut(pointer).expect(pointer) = value;
            let (_, rejected, _) = read(&file);
            assert!(rejected[0].starts_with(reason), "{pointer}: {rejected:?}");
        }
        let (events, rejected, _) = read(&json!({ "win_odds_trends": [] }));
        assert_eq!(
            (events.len(), &rejected[..]),
            (0, &["race_info: is missing".to_owned()][..])
        );
    }
}
