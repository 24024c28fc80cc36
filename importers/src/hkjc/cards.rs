//! Race cards as JSON: a file is an array of races.

use std::path::PathBuf;

use events::{Event, race_event};
use serde_json::{Map, Value};

use super::hong_kong::{CARDS, card_of_result, midnight};
use super::json::JsonRace;
use crate::input::{files, json_array};
use crate::item::{Item, Items, LineItems, Location};

/// Reads race cards: a declaration for each race, and the withdrawals of scratched runners.
pub fn hkjc_cards(paths: &[PathBuf]) -> Items {
    files::import(paths, &["json"], |files| {
        json_array::elements(files).flat_map(|(location, race)| match race {
            Ok(race) => card(&race, &location),
            Err(reason) => vec![location.rejected(reason)],
        })
    })
}

fn card(race: &Map<String, Value>, location: &Location) -> Vec<Item> {
    let race = match JsonRace::read(race, location) {
        Ok(race) => race,
        Err(reason) => return vec![location.rejected(reason)],
    };
    let key = race.rows.key.clone();
    let omitted = race.omitted();
    let mut out = LineItems::new(location.clone());
    let (format, time) = if race.is_result() {
        card_of_result()
    } else {
        (CARDS, midnight(key.date))
    };
    out.event(format, time, Event::RaceDeclared(race.rows.card()));
    if let [Item::Rejected(_)] = out.items[..] {
        return out.items;
    }
    for horse_no in race.scratched {
        let withdrawn = race_event!(key.clone() => RunnerWithdrawn { horse_no, reason: None });
        out.event(format, time, withdrawn);
    }
    out.omit(omitted);
    out.items
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use events::{Event, Moment};
    use serde_json::{Value, json};

    use super::{card, hkjc_cards};
    use crate::item::{Item, Location};
    use crate::testing::{Imported, folder_of};

    fn race() -> Value {
        json!({
            "date": "2026-06-24", "racecourse": "HV", "raceNo": 1, "raceName": "EXAMPLE HANDICAP", "startTime": "18:40",
            "raceClass": 5, "distance": 2200, "going": null,
            "runners": [{"horseNo": 1, "horseId": "HK_2021_G001", "horseName": "QUIET RIVER", "actualWeight": 134,
                         "jockey": "A Rider", "draw": 4, "trainer": "B Trainer"}],
        })
    }

    fn read(race: &Value) -> Item {
        let location = Location::file(Path::new("card.json")).at(7);
        let mut items = card(race.as_object().expect("an object"), &location);
        assert_eq!(items.len(), 1, "{items:?}");
        items.remove(0)
    }

    fn check_off_time(clock: Value, expected: Option<&str>) {
        let mut race = race();
        race["startTime"] = clock;
        let Item::Event(envelope) = read(&race) else {
            panic!("{race}")
        };
        let Event::RaceDeclared(card) = envelope.event else {
            panic!("a card")
        };
        let moment = |text| Moment::parse(text).expect(text);
        assert_eq!(card.off_time, expected.map(moment));
        assert_eq!(envelope.time, moment("2026-06-24T00:00:00+08:00"));
    }

    #[test]
    fn the_off_time_is_in_hong_kong_and_after_midnight_on_the_next_day() {
        check_off_time(json!("18:40"), Some("2026-06-24T18:40:00+08:00"));
        check_off_time(json!("00:20"), Some("2026-06-25T00:20:00+08:00"));
        check_off_time(json!(null), None);
    }

    #[test]
    fn unknown_values_are_zero_or_empty() {
        let mut race = race();
        race["raceClass"] = json!(null);
        race["distance"] = json!(null);
        race["runners"][0]["draw"] = json!(null);
        let Item::Event(envelope) = read(&race) else {
            panic!("{race}")
        };
        let Event::RaceDeclared(card) = envelope.event else {
            panic!("a card")
        };
        assert_eq!(
            (card.class.as_str(), card.distance, card.going),
            ("", 0, None)
        );
        assert_eq!((card.runners[0].draw, card.runners[0].weight), (0, 134));
    }

    #[test]
    fn a_scratched_runner_is_withdrawn() {
        for (field, value) in [
            ("jockey", "Scratched"),
            ("draw", "Scratched"),
            ("status", "SCRATCHED"),
        ] {
            let mut race = race();
            race["runners"][0][field] = json!(value);
            let (_folder, paths) =
                folder_of(&[("card.json", json!([race]).to_string().as_bytes())]);
            let read = Imported::all(hkjc_cards(&paths));
            assert_eq!((read.cards.len(), &read.rejected), (1, &vec![]), "{field}");
            let withdrawn = read.withdrawals.iter().map(|w| w.horse_no.as_str());
            assert_eq!(withdrawn.collect::<Vec<_>>(), ["HK_2021_G001"], "{field}");
            assert!(!read.cards[0].runners[0].jockey.as_str().contains("Scr"));
        }
    }

    #[test]
    fn an_invalid_card_is_rejected_with_its_line() {
        for (field, value, part) in [
            (
                "startTime",
                json!("24:00"),
                "card.json:7: startTime: a time is HH:MM",
            ),
            ("startTime", json!("+1:00"), "startTime"),
            ("runners", json!([]), "data.runners: 0 runners"),
            (
                "runners",
                json!([
                    {"horseNo": 1, "horseId": "A1", "horseName": "ONE"},
                    {"horseNo": 1, "horseId": "A2", "horseName": "TWO"},
                ]),
                "card.json:7: runners[1].horseNo: 1 is the number of A1 too",
            ),
            (
                "runners",
                json!([{"horseNo": 1, "horseId": "A1", "horseName": "() (S259)"}]),
                "card.json:7: runners[0].horseName: a name",
            ),
            ("distance", json!(999_999_999), "data.distance"),
        ] {
            let mut race = race();
            race[field] = value;
            let Item::Rejected(rejected) = read(&race) else {
                panic!("{race}")
            };
            assert!(rejected.to_string().contains(part), "{rejected}");
        }
    }
}
