//! Horses: which is which, what of them changes, and what is not known.

use serde_json::{Value, json};

use super::year::{Change, Year};

#[tokio::test]
async fn a_reused_brand_is_another_horse() {
    let year = Year::new();
    let race = year.race("11-21", "ST", 3);
    // The brand is A123; the year of the import makes the number lasting.
    let name = |horse: &str, name: &str| year.registered(horse).with("/horse_name", json!(name));
    year.say([
        name("HK_2001_A123", "THE FIRST"),
        name("HK_2016_A123", "THE SECOND"),
        name("A123", "THE BRAND ALONE"),
        race.result(1, "HK_2016_A123 1, A123 2"),
    ])
    .await;
    for (horse, name, career) in [
        ("HK_2001_A123", "THE FIRST", [0, 0, 0, 0]),
        ("HK_2016_A123", "THE SECOND", [1, 1, 0, 1000]),
        ("A123", "THE BRAND ALONE", [1, 0, 1, 500]),
    ] {
        assert_eq!(year.profile(horse).await["horse_name"], name);
        assert_eq!(year.career(horse).await, career);
    }
    assert_eq!(
        year.form("HK_2001_A123").await,
        [Vec::<&str>::new(), vec![]]
    );
}

#[tokio::test]
async fn a_name_may_be_shared_even_in_one_race() {
    let year = Year::new();
    let race = year.race("11-21", "ST", 3);
    let shared = race
        .result(1, "A 1, B 2")
        .with("/runners/0/horse_name", json!("TWICE"))
        .with("/runners/1/horse_name", json!("TWICE"));
    year.say([shared]).await;
    assert_eq!(race.placings().await, "A 1, B 2");
    assert_eq!(year.careers("A B").await, [[1, 1, 0], [1, 0, 1]]);
    for (horse, position) in [("A", 1), ("B", 2)] {
        let form = year
            .json(&format!("horses/{}/form", year.horse_no(horse)))
            .await;
        assert_eq!(
            [&form["horse_name"], &form["form"][0]["position"]],
            [&json!("TWICE"), &json!(position)]
        );
    }
}

#[tokio::test]
async fn a_horse_changes_trainer_owner_sex_and_name_and_its_form_keeps_what_was_true_then() {
    let year = Year::new();
    let [first, second] = [year.race("01-10", "ST", 5), year.race("11-21", "HV", 3)];
    let as_of = |race: &super::year::Race, name: &str, trainer: &str, jockey: &str| {
        race.result(1, "A 1")
            .with("/runners/0/horse_name", json!(name))
            .with("/runners/0/trainer", json!(trainer))
            .with("/runners/0/jockey", json!(jockey))
    };
    let identity = |name: &str, trainer: &str, owner: &str, sex: &str| {
        year.registered("A")
            .with("/horse_name", json!(name))
            .with("/trainer", json!(trainer))
            .with("/owner", json!(owner))
            .with("/sex", json!(sex))
    };
    year.say([
        identity("YOUNG NAME", "First Trainer", "First Owner", "Colt"),
        as_of(&first, "YOUNG NAME", "First Trainer", "First Jockey"),
        identity("NEW NAME", "Second Trainer", "Second Owner", "Gelding"),
        as_of(&second, "NEW NAME", "Second Trainer", "Second Jockey"),
        identity("LAST NAME", "Third Trainer", "Third Owner", "Gelding"),
    ])
    .await;
    let profile = year.profile("A").await;
    assert_eq!(
        ["horse_name", "trainer", "owner", "sex"].map(|field| profile[field].as_str().unwrap()),
        ["LAST NAME", "Third Trainer", "Third Owner", "Gelding"]
    );
    let form = year
        .json(&format!("horses/{}/form", year.horse_no("A")))
        .await;
    assert_eq!(form["horse_name"], "LAST NAME", "as of today");
    let rows: Vec<_> = form["form"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| ["horse_name", "trainer", "jockey"].map(|field| row[field].as_str().unwrap()))
        .collect();
    assert_eq!(
        rows,
        [
            ["NEW NAME", "Second Trainer", "Second Jockey"],
            ["YOUNG NAME", "First Trainer", "First Jockey"]
        ]
    );
    let result = first.served().await;
    assert_eq!(
        result["runners"][0]["horse_name"], "YOUNG NAME",
        "nor does the result change"
    );
    assert_eq!(year.career("A").await, [2, 2, 0, 2000]);
}

#[tokio::test]
async fn an_unregistered_horse_keeps_a_name_that_a_later_race_leaves_out() {
    let year = Year::new();
    let [named, nameless, older] = [
        year.race("11-01", "ST", 5),
        year.race("11-21", "HV", 3),
        year.race("10-01", "ST", 1),
    ];
    let blank = nameless
        .result(1, "A WV-A")
        .with("/runners/0/horse_name", json!(""))
        .with("/runners/0/trainer", json!(""));
    let only_name = named.result(1, "A 1").with("/runners/0/trainer", json!(""));
    year.say([
        blank,
        only_name,
        older
            .card("A")
            .with("/runners/0/horse_name", json!("OLD NAME")),
    ])
    .await;
    let profile = year.profile("A").await;
    assert_eq!(
        [
            &profile["horse_name"],
            &profile["trainer"],
            &profile["registered"]
        ],
        [&json!("HORSE A"), &json!("Trainer A"), &json!(false)],
        "of each the latest word"
    );
    year.say([named.void(2)]).await;
    assert_eq!(year.profile("A").await["horse_name"], "OLD NAME");
}

#[tokio::test]
async fn missing_distance_and_class_keep_the_types_and_the_race() {
    let year = Year::new();
    let [carded, stated] = [1, 2].map(|number| year.race("11-21", "ST", number));
    year.say([
        carded
            .card("A B")
            .with("/distance", json!(0))
            .with("/class", json!(""))
            .with("/going", Value::Null),
        carded
            .result(1, "A 1, B 2")
            .with("/distance", Value::Null)
            .with("/going", Value::Null),
        stated
            .result(1, "A 1, B 2")
            .with("/distance", json!(0))
            .with("/going", json!(""))
            .with("/race_name", Value::Null),
    ])
    .await;
    for race in [&carded, &stated] {
        let result = race.served().await;
        assert_eq!(
            [&result["distance"], &result["class"], &result["going"]],
            [&json!(0), &json!(""), &json!("")]
        );
        assert_eq!(race.placings().await, "A 1, B 2");
    }
    let card = carded.on_card().await;
    assert_eq!(
        [&card["distance"], &card["class"], &card["going"]],
        [&json!(0), &json!(""), &json!("")]
    );
    let form = year
        .json(&format!("horses/{}/form", year.horse_no("A")))
        .await;
    for row in form["form"].as_array().unwrap() {
        assert_eq!([&row["distance"], &row["going"]], [&json!(0), &json!("")]);
    }
    assert_eq!(year.careers("A B").await, [[2, 2, 0], [2, 0, 2]]);
    // The distance becomes known.
    year.say([carded.card("A B")]).await;
    assert_eq!(carded.served().await["distance"], 1200);
}

/// The official age today in Hong Kong of a horse of the season 2018: by the calendar, and by nothing of the code.
fn age_today(southern: bool) -> i64 {
    let today = jiff::Timestamp::now()
        .in_tz("Asia/Hong_Kong")
        .unwrap()
        .date();
    let birthday_to_come = southern && today.month() < 8;
    (i64::from(today.year()) - 2018 - i64::from(birthday_to_come)).max(0)
}

#[tokio::test]
async fn a_horse_has_its_birthday_by_the_hemisphere_in_which_it_was_bred() {
    let year = Year::new();
    let bred = |horse: &str, country: &str, foaled: Value| {
        let horse = year
            .registered(horse)
            .with("/country_of_origin", json!(country));
        horse.with("/foaled", foaled)
    };
    let aged = |horse: &str, country: &str, as_of: &str, age: u8| {
        bred(horse, country, Value::Null)
            .with("/age", json!(age))
            .with("/age_as_of", json!(as_of))
    };
    year.say([
        bred("NORTH", "IRE", json!("2018-04-11")),
        bred("NORTH_YEAR", "JPN", json!("2018")),
        bred("SOUTH", "NZ", json!("2018-09-03")),
        bred("SOUTH_YEAR", "AUS", json!("2018")),
        // Foaled before August: of the season that began the year before.
        bred("SOUTH_EARLY", "SAF", json!("2019-07-31")),
        aged("NORTH_AGED", "GB", "2022-12-31", 4),
        aged("SOUTH_AGED", "ARG", "2022-07-31", 3),
        bred("UNKNOWN", "NZ", Value::Null),
    ])
    .await;
    for (horse, southern) in [
        ("NORTH", false),
        ("NORTH_YEAR", false),
        ("NORTH_AGED", false),
        ("SOUTH", true),
        ("SOUTH_YEAR", true),
        ("SOUTH_EARLY", true),
        ("SOUTH_AGED", true),
    ] {
        let (before, age, after) = (
            age_today(southern),
            year.profile(horse).await["age"].clone(),
            age_today(southern),
        );
        assert!(
            age == before || age == after,
            "{horse} is {age}, not {before}"
        );
    }
    assert_eq!(year.profile("UNKNOWN").await["age"], 0);
}
