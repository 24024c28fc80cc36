use serde_json::{Value, json};

use crate::common::{
    Fact, Fixture, Race, card, going, odds, pick, reinstated, result, rider, status, void,
    withdrawn,
};

const RACE: Race = ("2026-11-21", "ST", 3);

fn horses(fixture: &Fixture, list: &str) -> Value {
    pick(&fixture.card(RACE)[list], &["horse_no"])
}

#[test]
fn a_card_is_served_as_it_was_declared() {
    let fixture = Fixture::given([
        card(RACE, &["A", "B"]).with("/off_time", json!("2026-11-21T14:05:00+08:00"))
    ]);
    assert_eq!(
        fixture.card(RACE),
        json!({
            "race_number": 3, "race_name": "THE PLATE", "distance": 1200, "class": "Class 4", "going": "GOOD", "status": "scheduled",
            "status_reason": "", "off_time": "2026-11-21T06:05:00Z", "time_zone": "Asia/Hong_Kong",
            "runners": [
                { "horse_no": "A", "horse_name": "NAME A", "number": 1, "jockey": "Jockey A", "trainer": "Trainer A", "draw": 10, "weight": 120 },
                { "horse_no": "B", "horse_name": "NAME B", "number": 2, "jockey": "Jockey B", "trainer": "Trainer B", "draw": 11, "weight": 121 },
            ],
            "withdrawn": [],
        })
    );
}

#[test]
fn an_unknown_value_is_empty_and_never_left_out() {
    let bare = card(RACE, &["A"])
        .with("/going", Value::Null)
        .with("/class", json!(""))
        .with("/distance", json!(0));
    let card = Fixture::given([bare]).card(RACE);
    assert_eq!(card["going"], "");
    assert_eq!(card["class"], "");
    assert_eq!(card["distance"], 0);
    assert_eq!(card["off_time"], "");
}

#[test]
fn a_card_has_the_time_zone_of_its_racecourse() {
    let zone = |race: Race, stated: Value| {
        let fixture = Fixture::given([card(race, &["A"]).with("/time_zone", stated)]);
        fixture.card(race)["time_zone"].clone()
    };
    let elsewhere: Race = ("2026-11-21", "S1", 1);
    assert_eq!(zone(("2026-11-21", "CH", 1), Value::Null), "Asia/Shanghai");
    assert_eq!(zone(elsewhere, json!("Europe/London")), "Europe/London");
    assert_eq!(zone(elsewhere, Value::Null), "", "it is unknown");
    assert_eq!(
        zone(RACE, json!("")),
        "Asia/Hong_Kong",
        "an empty text is unknown"
    );
}

#[test]
fn a_new_card_replaces_the_old_one() {
    let mut fixture = Fixture::given([card(RACE, &["A", "B"])]);
    fixture.when(card(RACE, &["B", "C"]).with("/race_name", json!("THE CUP")));
    assert_eq!(horses(&fixture, "runners"), json!([["B"], ["C"]]));
    assert_eq!(fixture.card(RACE)["race_name"], "THE CUP");
    assert!(fixture.form("A").is_empty(), "A is on no card");
    assert_eq!(fixture.profile("A"), Value::Null);
}

#[test]
fn a_withdrawn_runner_is_listed_apart_with_its_reason_until_it_is_reinstated() {
    let mut fixture = Fixture::given([card(RACE, &["A", "B"]), withdrawn(RACE, "A")]);
    assert_eq!(horses(&fixture, "runners"), json!([["B"]]));
    assert_eq!(
        pick(
            &fixture.card(RACE)["withdrawn"],
            &["horse_no", "reason", "draw"]
        ),
        json!([["A", "Lame", 10]])
    );
    fixture.when(reinstated(RACE, "A"));
    assert_eq!(horses(&fixture, "runners"), json!([["A"], ["B"]]));
    assert_eq!(horses(&fixture, "withdrawn"), json!([]));
}

#[test]
fn a_withdrawal_before_the_card_holds_for_the_card() {
    let mut fixture = Fixture::given([withdrawn(RACE, "A")]);
    assert_eq!(
        fixture.card(RACE),
        Value::Null,
        "a withdrawal alone makes no card"
    );
    fixture.when(card(RACE, &["A", "B"]));
    assert_eq!(horses(&fixture, "withdrawn"), json!([["A"]]));

    let fixture = Fixture::given([
        withdrawn(RACE, "A"),
        reinstated(RACE, "A"),
        card(RACE, &["A", "B"]),
    ]);
    assert_eq!(horses(&fixture, "withdrawn"), json!([]));
}

#[test]
fn a_withdrawal_outlives_another_card() {
    let fixture = Fixture::given([
        card(RACE, &["A", "B"]),
        withdrawn(RACE, "A"),
        card(RACE, &["A", "B", "C"]),
    ]);
    assert_eq!(horses(&fixture, "withdrawn"), json!([["A"]]));
}

#[test]
fn a_rider_change_is_in_force_until_a_different_card() {
    let riders = |fixture: &Fixture| pick(&fixture.card(RACE)["runners"], &["jockey", "weight"]);
    let change = || rider(RACE, "A", "Other").with("/weight", json!(118));
    let mut fixture = Fixture::given([card(RACE, &["A", "B"]), change()]);
    let changed = json!([["Other", 118], ["Jockey B", 121]]);
    assert_eq!(riders(&fixture), changed);

    fixture.when(card(RACE, &["A", "B"]));
    assert_eq!(riders(&fixture), changed, "an equal card changes nothing");
    fixture = fixture.reopen();
    fixture.when(card(RACE, &["A", "B"]));
    assert_eq!(riders(&fixture), changed, "nor does it after a restart");

    fixture.when(card(RACE, &["A", "B", "C"]));
    assert_eq!(
        riders(&fixture),
        json!([["Jockey A", 120], ["Jockey B", 121], ["Jockey C", 122]])
    );
}

#[test]
fn the_same_card_is_the_same_to_the_last_digit_of_its_off_time() {
    let fine = || card(RACE, &["A"]).with("/off_time", json!("2026-11-21T06:05:00.123456789Z"));
    let mut fixture = Fixture::given([fine(), rider(RACE, "A", "Other")]).reopen();
    fixture.when(fine());
    assert_eq!(fixture.card(RACE)["runners"][0]["jockey"], "Other");
}

#[test]
fn a_rider_without_a_weight_keeps_the_weight_of_the_card() {
    let fixture = Fixture::given([rider(RACE, "A", "Other"), going(RACE, "SOFT")]);
    assert_eq!(fixture.card(RACE), Value::Null);
    let fixture = Fixture::given([card(RACE, &["A"]), rider(RACE, "A", "Other")]);
    assert_eq!(
        pick(&fixture.card(RACE)["runners"], &["jockey", "weight"]),
        json!([["Other", 120]])
    );
}

#[test]
fn the_going_is_the_latest_one() {
    let mut fixture = Fixture::given([card(RACE, &["A"]), going(RACE, "YIELDING")]);
    assert_eq!(fixture.card(RACE)["going"], "YIELDING");
    fixture.when(card(RACE, &["A"]));
    assert_eq!(fixture.card(RACE)["going"], "YIELDING");
    fixture.when(card(RACE, &["A", "B"]));
    assert_eq!(fixture.card(RACE)["going"], "GOOD");
}

#[test]
fn the_status_is_the_latest_one_until_there_is_a_result() {
    let mut fixture = Fixture::given([status(RACE, "open")]);
    assert_eq!(fixture.card(RACE), Value::Null);
    fixture.when(card(RACE, &["A"]));
    assert_eq!(fixture.card(RACE)["status"], "open");
    fixture.when(status(RACE, "abandoned").with("/reason", json!("Fog")));
    assert_eq!(fixture.card(RACE)["status"], "abandoned");
    assert_eq!(fixture.card(RACE)["status_reason"], "Fog");
    fixture.when(status(RACE, "off"));
    assert_eq!(fixture.card(RACE)["status"], "off");
    assert_eq!(fixture.card(RACE)["status_reason"], "");
    fixture.when(result(RACE, 1, &[("A", "1")]));
    assert_eq!(fixture.card(RACE)["status"], "result");
    fixture.when(status(RACE, "finished"));
    assert_eq!(fixture.card(RACE)["status"], "result");
    fixture.when(void(RACE, 2));
    assert_eq!(fixture.card(RACE)["status"], "finished");
}

#[test]
fn a_void_race_without_a_status_is_abandoned() {
    let fixture = Fixture::given([card(RACE, &["A"]), void(RACE, 1)]);
    assert_eq!(fixture.card(RACE)["status"], "abandoned");
}

#[test]
fn the_number_of_horses_in_a_race_is_bounded() {
    let horses: Vec<String> = (0..300).map(|n| format!("N{n}")).collect();
    let mut fixture = Fixture::given([card(RACE, &["A"])]);
    for horse in &horses {
        fixture.when(withdrawn(RACE, horse));
        fixture.when(odds(RACE, &[(horse, json!(3))]));
    }
    assert_eq!(
        fixture.board(RACE)["runners"]
            .as_array()
            .expect("runners")
            .len(),
        256
    );
    fixture.when(withdrawn(RACE, "N7"));
    fixture.when(odds(RACE, &[("N7", json!(9))]));
    assert_eq!(
        fixture.board(RACE)["runners"]
            .as_array()
            .expect("runners")
            .len(),
        256
    );
}

#[test]
fn a_repeated_fact_does_not_undo_later_facts() {
    let first = || card(RACE, &["A"]).id("first");
    let out = || withdrawn(RACE, "A").id("out");
    let soft = || going(RACE, "SOFT").id("soft");
    let open = || status(RACE, "open").id("open");
    let mut fixture = Fixture::given([
        first(),
        out(),
        soft(),
        open(),
        card(RACE, &["A", "B"]),
        reinstated(RACE, "A"),
        going(RACE, "GOOD"),
        status(RACE, "off"),
    ]);
    let card = fixture.card(RACE);
    for again in [first(), out(), soft(), open()] {
        fixture.when(again);
        assert_eq!(fixture.card(RACE), card);
    }
}

#[test]
fn facts_never_undo_later_ones_however_many_came_between() {
    let facts = || {
        let seconds = 0..300_u32;
        seconds.flat_map(|n| {
            let facts = [
                card(RACE, &["A", "B"]).with("/runners/0/weight", json!(n)),
                withdrawn(RACE, "A"),
                reinstated(RACE, "A"),
                rider(RACE, "A", &format!("Rider {n}")),
                going(RACE, &format!("GOING {n}")),
                status(RACE, ["open", "closed"][n as usize % 2]),
            ];
            let named = move |(index, fact): (usize, Fact)| {
                let at = format!("06:{:02}:{:02}", n / 60, n % 60);
                fact.id(&format!("{n} {index}")).at(&at)
            };
            facts.into_iter().enumerate().map(named)
        })
    };
    let mut fixture = Fixture::given(facts().chain([
        odds(RACE, &[("A", json!(3))]),
        status(RACE, "finished").at("06:30:00"),
    ]));
    let views = |fixture: &Fixture| {
        (
            fixture.card(RACE),
            fixture.board(RACE),
            fixture.is_open(RACE),
        )
    };
    let before = views(&fixture);
    assert!(!before.2);
    for again in facts() {
        let name = again.id.clone();
        assert_eq!(fixture.when(again).updates.len(), 0, "{name:?}");
    }
    assert_eq!(views(&fixture), before);
}

#[test]
fn a_feeder_whose_clock_is_behind_that_of_another_loses_no_fact() {
    let fixture = Fixture::given([
        card(RACE, &["A"]).at("06:00:10").from("one"),
        status(RACE, "open").at("06:00:10").from("one"),
        rider(RACE, "A", "Other").at("06:00:05").from("other"),
        status(RACE, "closed").at("06:00:05").from("other"),
    ]);
    assert_eq!(fixture.card(RACE)["runners"][0]["jockey"], "Other");
    assert_eq!(fixture.card(RACE)["status"], "closed");
}

#[test]
fn an_equal_card_with_another_id_does_not_change_the_board() {
    let prices = crate::common::odds(RACE, &[("A", json!(3))]);
    let mut fixture = Fixture::given([card(RACE, &["A"]), prices]);
    let board = fixture.board(RACE);
    let step = fixture.when(card(RACE, &["A"]));
    assert_eq!((step.updates.len(), fixture.board(RACE)), (0, board));
}

#[test]
fn further_fields_are_served_where_they_are_known() {
    let known = json!({
        "rating": 78, "body_weight": 1124, "gear": "B/TT", "age": 6, "reserve": false, "jockey_id": "QA",
        "trainer_id": "MT", "owner": "The Lamplighter Syndicate",
    });
    let of_race = json!({
        "surface": "TURF", "course": "C+3", "rating_band": "80-60", "prize": 1_235_000, "prize_currency": "HKD",
        "each_way": { "places": 3, "divisor": 5 },
    });
    let add = |fact: Fact, at: &str, fields: &Value| {
        let fields = fields.as_object().expect("an object").iter();
        fields.fold(fact, |fact, (name, value)| {
            fact.with(&format!("{at}/{name}"), value.clone())
        })
    };
    let plain = Fixture::given([card(RACE, &["A", "B"])]);
    let declared = add(card(RACE, &["A", "B"]), "/runners/0", &known);
    let mut fixture = Fixture::given([add(declared, "", &of_race)]);
    let mut expected = plain.card(RACE);
    for (at, fields) in [("", of_race), ("/runners/0", known)] {
        let object = expected.pointer_mut(at).and_then(Value::as_object_mut);
        object
            .expect("an object")
            .extend(fields.as_object().expect("an object").clone());
    }
    assert_eq!(fixture.card(RACE), expected);

    // The identifier of a jockey is not that of another one.
    fixture.when(rider(RACE, "A", "Other"));
    let runner = &fixture.card(RACE)["runners"][0];
    assert_eq!(
        (runner.get("jockey_id"), &runner["trainer_id"]),
        (None, &json!("MT"))
    );
}
