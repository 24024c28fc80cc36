use events::{LanguageTag, VenueCode};
use projections::json::JsonObject;
use projections::{Translation, keys};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::{
    Fact, Fixture, Race, card, day, dump, key, pick, registered, result, rider, void,
};

const RACE: Race = ("2026-11-21", "ST", 3);

/// An answer in a language.
fn translated(fixture: &Fixture, answer: &[u8], language: &str) -> Vec<u8> {
    let language = LanguageTag::parse(language).expect("a tag");
    let names = Translation::of(answer, &language, fixture.projection.store());
    names.expect("a healthy store").apply(answer)
}

/// A view of the race in a language, as an answer has it: with its meeting.
fn of_race(fixture: &Fixture, view: &str, language: &str) -> Value {
    let view = fixture.bytes(view).expect("a view");
    let answer = JsonObject::of(&json!({ "date": RACE.0, "venue_code": RACE.1 })).fields_of(&view);
    serde_json::from_slice(&translated(fixture, &answer.finish(), language)).expect("JSON")
}

fn card_in(fixture: &Fixture, language: &str) -> Value {
    of_race(fixture, &keys::card(&key(RACE)), language)
}

fn result_in(fixture: &Fixture, language: &str) -> Value {
    of_race(fixture, &keys::result(&key(RACE)), language)
}

fn profile_in(fixture: &Fixture, horse_no: &str, language: &str) -> Value {
    let profile = fixture.profile(horse_no).to_string();
    serde_json::from_slice(&translated(fixture, profile.as_bytes(), language)).expect("JSON")
}

fn chinese(text: &str) -> Value {
    json!({ "zh-Hant": text })
}

/// The fact as a file in Chinese states it: its names are Chinese, and say so.
fn in_chinese(mut fact: Fact) -> Fact {
    fn translate(object: &mut Value, field: &str, names: &str) {
        if let Some(text) = object[field].as_str().filter(|text| !text.is_empty()) {
            let text = format!("中{text}");
            (object[field], object[names]) = (json!(text), chinese(&text));
        }
    }
    translate(&mut fact.data, "race_name", "names");
    translate(&mut fact.data, "horse_name", "names");
    translate(&mut fact.data, "trainer", "trainer_names");
    translate(&mut fact.data, "owner", "owner_names");
    for runner in fact.data["runners"].as_array_mut().into_iter().flatten() {
        translate(runner, "horse_name", "names");
        translate(runner, "jockey", "jockey_names");
        translate(runner, "trainer", "trainer_names");
    }
    fact.from("chinese")
}

fn people(race: &Value) -> Value {
    pick(&race["runners"], &["horse_name", "jockey", "trainer"])
}

#[test]
fn a_chinese_file_after_an_english_one_adds_names() {
    let english = [
        card(RACE, &["A"]),
        result(RACE, 1, &[("A", "1")]),
        registered("A"),
    ];
    let mut fixture = Fixture::given(english.clone());
    let before = [fixture.card(RACE), fixture.profile("A")];
    english
        .into_iter()
        .for_each(|fact| drop(fixture.when(in_chinese(fact))));
    assert_eq!([fixture.card(RACE), fixture.profile("A")], before);
    for race in [
        card_in(&fixture, "zh-Hant-HK"),
        result_in(&fixture, "zh-Hant"),
    ] {
        assert_eq!(race["race_name"], "中THE PLATE");
        assert_eq!(
            people(&race),
            json!([["中NAME A", "中Jockey A", "中Trainer A"]])
        );
        assert_eq!(race["going"], "GOOD", "it is no name");
    }
    assert_eq!(
        card_in(&fixture, "fr")["runners"],
        fixture.card(RACE)["runners"]
    );
    let profile = profile_in(&fixture, "A", "zh-Hant");
    let names = ["horse_name", "trainer", "owner"].map(|field| &profile[field]);
    assert_eq!(names, ["中REGISTERED A", "中Her trainer", "中Her owner"]);
}

#[test]
fn names_in_chinese_alone_are_those_of_the_contract_until_there_are_others() {
    let mut fixture = Fixture::given([in_chinese(result(RACE, 1, &[("A", "1")]))]);
    assert_eq!(
        people(&fixture.result(RACE)),
        json!([["中NAME A", "中Jockey A", "中Trainer A"]])
    );
    assert_eq!(fixture.profile("A")["horse_name"], "中NAME A");
    fixture.when(card(RACE, &["A"]));
    assert_eq!(
        people(&fixture.result(RACE)),
        json!([["NAME A", "中Jockey A", "Trainer A"]]),
        "another may ride than the card says"
    );
    assert_eq!(fixture.profile("A")["horse_name"], "NAME A");
    assert_eq!(people(&result_in(&fixture, "zh-Hant"))[0][0], "中NAME A");
    fixture.when(result(RACE, 1, &[("A", "1")]).from("english"));
    assert_eq!(people(&fixture.result(RACE))[0][1], "Jockey A");
    assert_eq!(
        people(&card_in(&fixture, "zh-Hant"))[0][1],
        "中Jockey A",
        "of the result"
    );
}

#[test]
fn another_rider_does_not_get_the_names_of_the_one_before() {
    let mut fixture =
        Fixture::given([card(RACE, &["A", "B"]), in_chinese(card(RACE, &["A", "B"]))]);
    fixture.when(rider(RACE, "A", "New rider"));
    assert_eq!(people(&card_in(&fixture, "zh-Hant"))[0][1], "New rider");
    fixture.when(rider(RACE, "A", "Jockey B"));
    assert_eq!(
        people(&card_in(&fixture, "zh-Hant"))[0][1],
        "中Jockey B",
        "of the other horse"
    );
    let same = in_chinese(card(RACE, &["A", "B"]));
    fixture.when(same.clone());
    assert_eq!(
        people(&fixture.card(RACE))[0][1],
        "Jockey B",
        "the card is the same"
    );
    let rode = "/runners/0/jockey";
    fixture.when(in_chinese(
        card(RACE, &["A", "B"]).with(rode, json!("Other")),
    ));
    assert_eq!(people(&fixture.card(RACE))[0][1], "中Other");
    fixture.when(card(RACE, &["A", "B"]).with(rode, json!("Other")));
    assert_eq!(people(&fixture.card(RACE))[0][1], "Other");
    assert_eq!(people(&card_in(&fixture, "zh-Hant"))[0][1], "中Other");
}

#[test]
fn the_registration_of_a_horse_names_it_in_its_races() {
    let named = registered("A")
        .with("/horse_name", json!("NAME A"))
        .with("/names", json!({ "ja": "エー" }));
    let fixture = Fixture::given([card(RACE, &["A", "B"]), named]);
    let names = pick(&card_in(&fixture, "ja")["runners"], &["horse_name"]);
    assert_eq!(names, json!([["エー"], ["NAME B"]]));
}

#[test]
fn a_meeting_has_the_names_of_its_venue() {
    let named = card(("2026-11-21", "ST", 1), &["A"]).with("/venue_names", chinese("沙田"));
    let fixture = Fixture::given([card(RACE, &["A"]), named]);
    let venue = VenueCode::parse("ST").expect("a code");
    let view = fixture.bytes(&keys::meeting_view(day("2026-11-21"), &venue));
    let meeting = translated(&fixture, &view.expect("a view"), "zh-Hant");
    let meeting: Value = serde_json::from_slice(&meeting).expect("JSON");
    assert_eq!(
        (&meeting["venue"], &meeting["venue_code"]),
        (&json!("沙田"), &json!("ST"))
    );
}

#[test]
fn values_that_are_no_names_keep_their_bytes() {
    let fixture = Fixture::given([in_chinese(card(RACE, &["A"])), card(RACE, &["A"])]);
    let race = r#""date":"2026-11-21","venue_code":"ST","race_number":3"#;
    let in_chinese = |json: &str| {
        let json = format!("{{{race},{json}}}");
        String::from_utf8(translated(&fixture, json.as_bytes(), "zh-Hant")).expect("UTF-8")
    };
    for json in [
        r#""class":"Jockey A","jockey":"Jockey B","list":["jockey","Jockey A"],"n":1.50"#,
        r#""a":"\"jockey\":\"Jockey A\"","jockey":null,"trainer":"Trainer \"A\\""#,
        r#""a":"x\\","jockey":"Jockey A\\","owner":"Jockey A""#,
    ] {
        assert_eq!(in_chinese(json), format!("{{{race},{json}}}"));
    }
    let json = r#""jockey":"Jockey A","z":2.0,"a":{"trainer":"Trainer A"}"#;
    let expected = r#""jockey":"中Jockey A","z":2.0,"a":{"trainer":"中Trainer A"}"#;
    assert_eq!(in_chinese(json), format!("{{{race},{expected}}}"));
    for json in ["[]", "", "{", "\"x"] {
        assert_eq!(
            translated(&fixture, json.as_bytes(), "zh-Hant"),
            json.as_bytes()
        );
    }
}

/// The facts of a file about a race: its card, its result, and the registrations of its horses, some of which share
/// people. `unknown` says which names are left out.
fn file(people: &[u8], unknown: &[bool]) -> Vec<Fact> {
    let horses = &["A", "B", "C", "D"][..people.len()];
    let places = ["1", "2", "3", "PU"];
    let placings: Vec<_> = horses.iter().copied().zip(places).collect();
    let race = [card(RACE, horses), result(RACE, 1, &placings)];
    let race = race.map(|mut fact| {
        for (index, person) in people.iter().enumerate() {
            let runner = &mut fact.data["runners"][index];
            runner["trainer"] = json!(format!("Trainer {person}"));
            runner["jockey"] = json!(format!("Jockey {person}"));
            if unknown[index] {
                runner["horse_name"] = json!("");
            }
        }
        fact
    });
    race.into_iter()
        .chain(horses.iter().map(|horse| registered(horse)))
        .collect()
}

proptest! {
    #[test]
    fn the_order_of_an_english_and_a_chinese_file_does_not_matter(
        people in prop::collection::vec(0..3_u8, 1..=4),
        unknown in prop::array::uniform4(any::<bool>()),
        is_mixed in any::<bool>(),
    ) {
        let english = file(&people, &unknown);
        let foreign: Vec<Fact> = file(&people, &[false; 4]).into_iter().map(in_chinese).collect();
        let fold = |first: &[Fact], second: &[Fact]| {
            let facts: Vec<Fact> = if is_mixed {
                first.iter().zip(second).flat_map(|(a, b)| [a.clone(), b.clone()]).collect()
            } else {
                first.iter().chain(second).cloned().collect()
            };
            let fixture = Fixture::given(facts);
            let in_chinese = ["A", "B"].map(|horse| match fixture.profile(horse) {
                Value::Null => Value::Null,
                _ => profile_in(&fixture, horse, "zh-Hant"),
            });
            let races = [card_in(&fixture, "zh-Hant"), result_in(&fixture, "zh-Hant")];
            let views = dump(fixture.projection.store()).into_iter().filter(|(key, _)| {
                ["card/", "result/", "form/", "horse/"].iter().any(|kind| key.starts_with(kind))
            });
            (views.collect::<Vec<_>>(), in_chinese, races)
        };
        let (views, profiles, races) = fold(&english, &foreign);
        prop_assert_eq!(&races[0]["race_name"], "中THE PLATE");
        prop_assert_eq!((views, profiles, races), fold(&foreign, &english));
    }
}

#[test]
fn a_voided_result_keeps_no_names_but_the_card_does() {
    let facts = [
        card(RACE, &["A"]),
        in_chinese(card(RACE, &["A"])),
        void(RACE, 1),
    ];
    let mut fixture = Fixture::given(facts);
    fixture.when(result(RACE, 2, &[("A", "1")]));
    let expected = json!([["中NAME A", "中Jockey A", "中Trainer A"]]);
    assert_eq!(people(&result_in(&fixture, "zh-Hant")), expected);
}
