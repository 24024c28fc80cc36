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
    examples.insert("RaceResult".to_owned(), merged(meeting, race));
    let history = merged(
        examples["OddsBoard"].clone(),
        examples["OddsHistory"].take(),
    );
    examples.insert("OddsHistory".to_owned(), history);
    examples
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
