use projections::keys;
use serde_json::{Value, json};

use crate::common::{Fact, Fixture, Race, card, registered, result, void};

const OLD: Race = ("2026-10-03", "HV", 9);
const NEW: Race = ("2026-11-21", "ST", 3);

fn with_career(fact: Fact) -> Fact {
    fact.with(
        "/career",
        json!({ "starts": 10, "wins": 2, "places": 3, "total_stakes": 5000 }),
    )
}

#[test]
fn a_profile_joins_the_registration_and_the_results() {
    let fixture = Fixture::given([
        with_career(registered("A")),
        result(NEW, 1, &[("A", "1")]),
        result(OLD, 1, &[("A", "2")]),
    ]);
    assert_eq!(
        fixture.profile("A"),
        json!({
            "horse_no": "A", "horse_name": "REGISTERED A", "country_of_origin": "IRE", "colour": "Bay", "sex": "Gelding", "age": 6,
            "trainer": "Her trainer", "owner": "Her owner", "total_stakes": 6500, "starts": 12, "wins": 3, "places": 4,
            "stakes_currency": "HKD", "stakes": [{ "currency": "HKD", "total": 6500 }], "registered": true,
        })
    );
}

/// The horses in the index of names that have a text in a name.
fn named(fixture: &Fixture, part: &str) -> Vec<String> {
    let rows = fixture.projection.store().scan(keys::HORSE_NAMES);
    let horses = rows.filter_map(|row| {
        let (key, names) = row.expect("a healthy store");
        let mut names = std::str::from_utf8(&names).expect("a text").lines();
        let horse = keys::parse_horse_name(&key).expect("an entry");
        names
            .any(|name| name.contains(&keys::folded(part)))
            .then(|| horse.to_string())
    });
    horses.collect()
}

#[test]
fn a_horse_is_found_by_its_current_name() {
    let mut fixture = Fixture::given([
        result(OLD, 1, &[("A", "1")]).with("/runners/0/horse_name", json!("Star II")),
        registered("B").with("/horse_name", json!("STAR")),
        registered("C").with("/horse_name", json!("ÉTOILE")),
    ]);
    assert_eq!(
        named(&fixture, "sTaR"),
        ["B", "A"],
        "a name is before those that begin with it"
    );
    assert_eq!(named(&fixture, "star "), ["A"]);
    assert_eq!(named(&fixture, "éto"), ["C"]);
    assert_eq!(named(&fixture, "II"), ["A"]);
    fixture.when(registered("A").with("/horse_name", json!("COMET")));
    assert_eq!(
        [named(&fixture, "star"), named(&fixture, "com")],
        [vec!["B"], vec!["A"]]
    );
    let mut fixture = fixture.reopen();
    fixture.when(
        registered("B")
            .with("/horse_name", json!("Star"))
            .at("07:00:00"),
    );
    assert_eq!(named(&fixture, "star"), ["B"], "in another case");
    fixture.when(
        registered("B")
            .with("/horse_name", json!(""))
            .at("08:00:00"),
    );
    assert_eq!(
        named(&fixture, ""),
        ["A", "C"],
        "a horse without a name is not in it"
    );
}

/// A card, a result and a registration may each have a part of the names.
#[test]
fn a_horse_is_found_by_its_names_in_other_languages() {
    let names = |fact: Fact, path: &str, names: Value| fact.with(path, names);
    let [on_card, in_result] = ["/runners/0/names"; 2];
    let mut fixture = Fixture::given([
        names(card(OLD, &["A"]), on_card, json!({ "zh-Hant": "舊名" })),
        names(card(NEW, &["A"]), on_card, json!({ "zh-Hant": "金鎗六十" })),
    ]);
    assert_eq!(
        [named(&fixture, "六十"), named(&fixture, "舊")],
        [vec!["A"], vec![]]
    );
    let japanese = json!({ "ja": "ゴールデン" });
    fixture.when(names(result(NEW, 1, &[("A", "1")]), in_result, japanese));
    assert_eq!([named(&fixture, "鎗"), named(&fixture, "デン")], [["A"]; 2]);
    fixture.when(names(
        registered("A"),
        "/names",
        json!({ "fr": "Étoile d'or" }),
    ));
    assert_eq!(named(&fixture, "D'OR"), ["A"]);
}

#[test]
fn a_horse_that_left_all_races_is_not_found() {
    let mut fixture = Fixture::given([result(NEW, 1, &[("A", "1")])]);
    assert_eq!(named(&fixture, "name"), ["A"]);
    fixture.when(result(NEW, 2, &[("B", "1")]));
    assert_eq!(named(&fixture, "name"), ["B"]);
}

#[test]
fn a_profile_is_the_same_with_the_registration_before_or_after_the_races() {
    let races = || {
        [
            result(NEW, 1, &[("A", "1"), ("B", "2")]),
            result(OLD, 1, &[("A", "3"), ("B", "PU")]),
        ]
    };
    let before = Fixture::given([with_career(registered("A"))].into_iter().chain(races()));
    let after = Fixture::given(races().into_iter().chain([with_career(registered("A"))]));
    assert_eq!(before.profile("A"), after.profile("A"));
    assert_eq!(after.career("A"), [12, 3, 4, 6333]);
    assert_eq!(after.career("B"), [2, 0, 1, 500]);
}

#[test]
fn a_new_registration_replaces_the_whole_of_the_old_one() {
    let second = registered("A")
        .with("/horse_name", json!("RENAMED"))
        .with("/foaled", Value::Null);
    let fixture = Fixture::given([
        with_career(registered("A")),
        result(NEW, 1, &[("A", "1")]),
        second,
    ]);
    let profile = fixture.profile("A");
    assert_eq!(profile["horse_name"], "RENAMED");
    assert_eq!(profile["age"], 0, "the new registration has no age");
    assert_eq!(fixture.career("A"), [1, 1, 0, 1000]);
}

#[test]
fn an_unregistered_horse_has_the_names_of_its_latest_race() {
    let races = [
        card(OLD, &["A"]).with("/runners/0/horse_name", json!("OLD NAME")),
        result(NEW, 1, &[("A", "1")])
            .with("/runners/0/horse_name", json!("NEW NAME"))
            .with("/runners/0/trainer", json!("New trainer")),
    ];
    let [first, second] = races.clone();
    for fixture in [Fixture::given(races), Fixture::given([second, first])] {
        let profile = fixture.profile("A");
        assert_eq!(
            profile["horse_name"], "NEW NAME",
            "the race's date counts, not the order of arrival"
        );
        assert_eq!(profile["trainer"], "New trainer");
        assert_eq!(profile["registered"], false);
        for (field, unknown) in [
            ("age", json!(0)),
            ("owner", json!("")),
            ("sex", json!("")),
            ("colour", json!("")),
            ("country_of_origin", json!("")),
        ] {
            assert_eq!(profile[field], unknown);
        }
    }
}

#[test]
fn the_name_falls_back_when_the_latest_race_is_voided() {
    let name = |race, name: &str| {
        result(race, 1, &[("A", "1")]).with("/runners/0/horse_name", json!(name))
    };
    let mut fixture = Fixture::given([name(OLD, "OLD NAME"), name(NEW, "NEW NAME"), void(NEW, 2)]);
    assert_eq!(fixture.profile("A")["horse_name"], "OLD NAME");
    assert_eq!(fixture.career("A"), [1, 1, 0, 1000]);
    fixture.when(void(OLD, 2));
    assert_eq!(
        fixture.profile("A"),
        Value::Null,
        "nothing else is known of it"
    );
    assert_eq!(fixture.bytes("state/horse/A"), None);
    fixture.when(name(OLD, "ANOTHER NAME").with("/revision", json!(3)));
    assert_eq!(fixture.profile("A")["horse_name"], "ANOTHER NAME");
    assert_eq!(fixture.career("A"), [1, 1, 0, 1000]);
}

#[test]
fn a_race_that_leaves_out_the_name_or_the_trainer_does_not_hide_them() {
    let between: Race = ("2026-11-01", "S1", 2);
    let blank = |fact: Fact, field: &str| fact.with(&format!("/runners/0/{field}"), json!(""));
    let races = [
        card(OLD, &["A"]).with("/runners/0/horse_name", json!("OLD NAME")),
        blank(result(between, 1, &[("A", "1")]), "trainer")
            .with("/runners/0/horse_name", json!("NEW NAME")),
        blank(
            blank(result(NEW, 1, &[("A", "WV-A")]), "horse_name"),
            "trainer",
        ),
    ];
    let words = |fixture: &Fixture| {
        let profile = fixture.profile("A");
        [profile["horse_name"].clone(), profile["trainer"].clone()]
    };
    let mut fixture = Fixture::given(races.clone());
    assert_eq!(words(&fixture), ["NEW NAME", "Trainer A"]);
    let backwards = Fixture::given(races.into_iter().rev());
    assert_eq!(words(&backwards), ["NEW NAME", "Trainer A"]);
    fixture.when(void(between, 2));
    assert_eq!(words(&fixture), ["OLD NAME", "Trainer A"]);
}

#[test]
fn a_registration_hides_no_name_and_no_trainer_that_it_leaves_empty() {
    let known = |fixture: &Fixture| {
        let profile = fixture.profile("A");
        ["horse_name", "trainer", "owner"].map(|field| profile[field].clone())
    };
    let empty = || {
        ["/horse_name", "/trainer", "/owner"]
            .into_iter()
            .fold(registered("A"), |fact, field| fact.with(field, json!("")))
    };
    let trained = |race, trainer: &str| {
        result(race, 1, &[("A", "1")]).with("/runners/0/trainer", json!(trainer))
    };
    let races = [
        trained(NEW, "Of the latest race"),
        trained(OLD, "Of an old race"),
    ];
    for facts in [
        [&[registered("A"), empty()][..], &races].concat(),
        [&races, &[registered("A"), empty()][..]].concat(),
    ] {
        let mut fixture = Fixture::given(facts);
        assert_eq!(
            known(&fixture),
            ["NAME A", "Of the latest race", ""],
            "not those of the replaced registration"
        );
        assert_eq!(fixture.profile("A")["registered"], true);
        assert_eq!(named(&fixture, "name a"), ["A"]);
        fixture = fixture.reopen();
        fixture.when(void(NEW, 2));
        assert_eq!(known(&fixture), ["NAME A", "Of an old race", ""]);
        fixture.when(registered("A"));
        assert_eq!(
            known(&fixture),
            ["REGISTERED A", "Her trainer", "Her owner"]
        );
    }
}

#[test]
fn a_void_outcome_adds_nothing_to_the_career_not_even_stakes() {
    let paid = |outcome| result(NEW, 1, &[("A", outcome)]).with("/runners/0/stakes", json!(700));
    assert_eq!(Fixture::given([paid("VOID")]).career("A"), [0, 0, 0, 0]);
    assert_eq!(Fixture::given([paid("DISQ")]).career("A"), [1, 0, 0, 700]);
}

#[test]
fn stakes_are_summed_by_currency_in_any_order_of_the_races() {
    let won = |day, number, currency: &str, stakes: u64| {
        result((day, "ST", number), 1, &[("A", "1")])
            .with("/runners/0/stakes", json!(stakes))
            .with("/runners/0/stakes_currency", json!(currency))
    };
    let races = [
        won("2026-10-01", 1, "EUR", 700),
        won("2026-10-02", 1, "GBP", 100),
        won("2026-10-03", 1, "GBP", 200),
        won("2026-10-04", 1, "AED", 900),
    ];
    let stakes = |fixture: &Fixture| {
        let profile = fixture.profile("A");
        ["stakes_currency", "total_stakes", "stakes"].map(|field| profile[field].clone())
    };
    let sum = |currency: &str, total: u64| json!({ "currency": currency, "total": total });
    let expected = [
        json!("GBP"),
        json!(300),
        json!([sum("GBP", 300), sum("AED", 900), sum("EUR", 700)]),
    ];
    assert_eq!(stakes(&Fixture::given(races.clone())), expected);
    let mut fixture = Fixture::given(races.into_iter().rev());
    assert_eq!(stakes(&fixture), expected);
    fixture.when(with_career(registered("A")));
    assert_eq!(stakes(&fixture)[..2], [json!("HKD"), json!(5000)]);
    fixture.when(result(NEW, 1, &[("A", "1")]));
    assert_eq!(
        stakes(&fixture)[..2],
        [json!("HKD"), json!(6000)],
        "stakes without a currency are in the registered one"
    );
}

#[test]
fn a_horse_on_a_card_alone_has_a_profile_without_a_start() {
    let fixture = Fixture::given([card(NEW, &["A"])]);
    assert_eq!(fixture.profile("A")["horse_name"], "NAME A");
    assert_eq!(fixture.career("A"), [0, 0, 0, 0]);
}

#[test]
fn every_outcome_but_a_withdrawal_is_a_start() {
    for (outcome, starts) in [
        ("PU", 1),
        ("UR", 1),
        ("FE", 1),
        ("DNF", 1),
        ("TNP", 1),
        ("DISQ", 1),
        ("WV", 0),
        ("WV-A", 0),
        ("WX", 0),
        ("WX-A", 0),
        ("WXNR", 0),
        ("SCR", 0),
        ("NR", 0),
        ("VOID", 0),
    ] {
        let fixture = Fixture::given([result(NEW, 1, &[("A", outcome)])]);
        assert_eq!(fixture.career("A"), [starts, 0, 0, 0], "{outcome}");
    }
}

#[test]
fn the_age_is_that_of_the_day_of_the_request() {
    let fixture = Fixture::given([registered("A")
        .with("/country_of_origin", json!("AUS"))
        .with("/foaled", json!("2020-09-03"))]);
    let view = fixture
        .bytes(&projections::keys::profile(&crate::common::horse("A")))
        .expect("a profile");
    let age = |on: &str| {
        let body =
            projections::horse_profile::serve(&view, crate::common::day(on)).expect("a profile");
        serde_json::from_slice::<Value>(&body).expect("JSON")["age"].clone()
    };
    assert_eq!(age("2026-07-31"), 5);
    assert_eq!(age("2026-08-01"), 6);
    assert_eq!(
        projections::horse_profile::serve(b"", crate::common::day("2026-08-01")),
        None
    );
}

#[test]
fn a_repeated_registration_does_not_undo_a_later_one() {
    let first = || registered("A").id("first");
    let mut fixture = Fixture::given([first(), registered("A").with("/owner", json!("New owner"))]);
    fixture.when(first());
    assert_eq!(fixture.profile("A")["owner"], "New owner");
}

#[test]
fn an_old_registration_never_returns_however_many_came_between() {
    let owner = |n: u32| {
        registered("A")
            .id(&n.to_string())
            .with("/owner", json!(format!("Owner {n}")))
    };
    let mut fixture = Fixture::given((0..300).map(owner));
    for n in 0..300 {
        fixture.when(owner(n));
        assert_eq!(fixture.profile("A")["owner"], "Owner 299", "{n}");
    }
}
