//! An example of each response.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

/// The examples, by the names of their schemas.
pub(super) static EXAMPLES: LazyLock<Map<String, Value>> = LazyLock::new(examples);

/// Those of the file, and those that are made of them.
fn examples() -> Map<String, Value> {
    let mut examples: Map<String, Value> =
        serde_json::from_str(include_str!("examples.json")).expect("the examples are an object");
    let list = json!({ "horses": [examples["HorseProfile"]], "next": "" });
    examples.insert("HorseList".to_owned(), list);
    let [(meeting, race), (card, carded)] = ["MeetingResults", "Racecard"].map(|schema| {
        let mut meeting = examples[schema].clone();
        let race = meeting["races"][0].take();
        without(&mut meeting, "races");
        (meeting, race)
    });
    for (schema, meeting, race) in [
        ("ResultList", &meeting, &race),
        ("RacecardList", &card, &carded),
    ] {
        let mut row = meeting.clone();
        for field in ["meeting_status", "other_venues"] {
            without(&mut row, field);
        }
        let list = json!({ "races": [merged(row, race.clone())], "next": "" });
        examples.insert(schema.to_owned(), list);
    }
    let moves = json!({ "moves": examples["OddsMoves"]["moves"] });
    let result = merged(merged(meeting, race), moves);
    examples.insert("RaceResult".to_owned(), result);
    let history = merged(
        examples["OddsBoard"].clone(),
        examples["OddsHistory"].take(),
    );
    examples.insert("OddsHistory".to_owned(), history);
    let moves = json!({ "moves": examples["OddsMoves"]["moves"], "next": "" });
    let moves = merged(examples["OddsBoard"].clone(), moves);
    examples.insert("OddsMoves".to_owned(), moves);
    let next = json!({ "races": examples["RacecardList"]["races"] });
    examples.insert("NextRaces".to_owned(), next);
    let races = |schema: &str| examples[schema]["races"].clone();
    let day = json!({ "racecards": races("Racecard"), "results": races("MeetingResults") });
    let meeting = merged(examples["MeetingList"]["meetings"][0].clone(), day);
    let day = json!({ "date": meeting["date"], "meetings": [meeting] });
    examples.insert("RacingDay".to_owned(), day);
    add_rides(&mut examples);
    examples
}

/// Those of jockeys, trainers, owners and venues, and of two horses.
fn add_rides(examples: &mut Map<String, Value>) {
    let row = examples["HorseForm"]["form"][0].clone();
    let figures = examples.remove("Figures").expect("figures");
    let horse_no = examples["HorseForm"]["horse_no"].clone();
    let compared = merged(row.clone(), json!({ "other": row.clone() }));
    let ride = merged(json!({ "horse_no": horse_no }), row);
    let compared = json!({
        "horse_no": horse_no, "other_horse_no": "HK_2022_J058", "ahead": 0, "behind": 0, "races": [compared],
    });
    examples.insert("HorsesCompared".to_owned(), compared);
    for (one, field, name, key, area) in [
        (
            "Jockey",
            "jockey",
            "C. Finch",
            "Asia-Hong_Kong:C. Finch",
            "Asia/Hong_Kong",
        ),
        (
            "Trainer",
            "trainer",
            "T. Marlowe",
            "Asia-Hong_Kong;MT",
            "Asia/Hong_Kong",
        ),
        (
            "Owner",
            "owner",
            "The Lamplighter Syndicate",
            "Asia-Hong_Kong:The Lamplighter Syndicate",
            "Asia/Hong_Kong",
        ),
        ("Venue", "venue", "Sha Tin", "ST", "Asia/Hong_Kong"),
    ] {
        let id = key.split_once(';').map_or("", |(_, id)| id);
        let identity = json!({ "key": key, field: name, "id": id, "area": area });
        let listed = merged(identity.clone(), json!({ "last_on": "2026-11-21" }));
        let list = json!({ format!("{field}s"): [listed], "next": "" });
        examples.insert(format!("{one}List"), list);
        examples.insert(
            format!("{one}Figures"),
            merged(identity.clone(), figures.clone()),
        );
        let rides = merged(identity, json!({ "rides": [ride], "next": "" }));
        examples.insert(format!("{one}Rides"), rides);
    }
}

fn without(object: &mut Value, field: &str) {
    object.as_object_mut().map(|fields| fields.remove(field));
}

/// The fields of two objects.
fn merged(mut object: Value, other: Value) -> Value {
    if let (Value::Object(fields), Value::Object(others)) = (&mut object, other) {
        fields.extend(others);
    }
    object
}
