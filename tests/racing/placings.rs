//! Dead heats, disqualifications, and runners without a position.

use serde_json::{Value, json};

use super::year::{Change, Year};
use crate::support::*;

/// Every code without a position, and whether it is a start: 1 or 0.
const CODES: [(&str, u64); 12] = [
    ("WV", 0),
    ("WV-A", 0),
    ("WX", 0),
    ("WX-A", 0),
    ("WXNR", 0),
    ("PU", 1),
    ("UR", 1),
    ("FE", 1),
    ("DNF", 1),
    ("TNP", 1),
    ("DISQ", 1),
    ("VOID", 0),
];

#[tokio::test]
async fn after_a_dead_heat_for_third_comes_fifth() {
    let year = Year::new();
    let race = year.race("11-21", "ST", 3);
    let declared = "A 1, B 2, C 3, D 3, E 5";
    year.publish([race.result(1, declared)]).await;
    assert_eq!(race.placings().await, declared);
    assert_eq!(
        year.careers("A B C D E").await,
        [[1, 1, 0], [1, 0, 1], [1, 0, 1], [1, 0, 1], [1, 0, 0]]
    );
    assert_eq!(year.form("D").await, [vec!["11-21 ST 3: 3"], vec![]]);
}

#[tokio::test]
async fn a_winner_that_shares_first_place_has_won() {
    let year = Year::new();
    let race = year.race("11-21", "ST", 3);
    year.publish([race.result(1, "A 1, B 1, C 3")]).await;
    assert_eq!(race.placings().await, "A 1, B 1, C 3");
    assert_eq!(
        year.careers("A B C").await,
        [[1, 1, 0], [1, 1, 0], [1, 0, 1]]
    );
}

#[tokio::test]
async fn three_runners_may_share_a_place() {
    let year = Year::new();
    let first = year.race("11-21", "ST", 1);
    let third = year.race("11-21", "ST", 2);
    year.publish([
        first.result(1, "A 1, B 1, C 1, D 4"),
        third.result(1, "D 1, E 2, A 3, B 3, C 3, F 6"),
    ])
    .await;
    assert_eq!(first.placings().await, "A 1, B 1, C 1, D 4");
    assert_eq!(third.placings().await, "D 1, E 2, A 3, B 3, C 3, F 6");
    assert_eq!(
        year.careers("A B C D").await,
        [[2, 1, 1], [2, 1, 1], [2, 1, 1], [2, 1, 0]]
    );
    assert_eq!(
        year.form("A").await[0],
        ["11-21 ST 2: 3", "11-21 ST 1: 1"],
        "the later race first"
    );
}

#[tokio::test]
async fn runners_in_a_dead_heat_are_in_the_order_of_the_feeder() {
    let year = Year::new();
    let race = year.race("11-21", "ST", 3);
    year.publish([race.result(1, "D 4, C 1, A 3, B 1")]).await;
    assert_eq!(race.placings().await, "C 1, B 1, A 3, D 4");
}

#[tokio::test]
async fn a_disqualification_moves_the_runners_that_shared_third() {
    let year = Year::new();
    let race = year.race("11-21", "ST", 3);
    year.publish([race.result(1, "A 1, B 2, C 3, D 3, E 3, F 6")])
        .await;
    assert_eq!(
        year.careers("B C D E F").await,
        [[1, 0, 1], [1, 0, 1], [1, 0, 1], [1, 0, 1], [1, 0, 0]]
    );

    year.publish([race.result(2, "A 1, C 2, D 2, E 2, F 5, B DISQ")])
        .await;
    assert_eq!(race.placings().await, "A 1, C 2, D 2, E 2, F 5, B DISQ");
    assert_eq!(
        year.careers("B C D E F").await,
        [[1, 0, 0], [1, 0, 1], [1, 0, 1], [1, 0, 1], [1, 0, 0]]
    );

    // One of the runners that share second is disqualified, too. Two are left, and there is no third.
    year.publish([race.result(3, "A 1, C 2, E 2, F 4, B DISQ, D DISQ")])
        .await;
    assert_eq!(race.placings().await, "A 1, C 2, E 2, F 4, B DISQ, D DISQ");
    assert_eq!(year.careers("D E").await, [[1, 0, 0], [1, 0, 1]]);
    assert_eq!(
        year.form("D").await,
        [vec![], vec!["11-21 ST 3: DISQ"]],
        "it is unplaced now"
    );
    assert_eq!(year.career("D").await, [1, 0, 0, 0], "without its stakes");
}

#[tokio::test]
async fn a_disqualified_horse_keeps_its_time_and_its_price() {
    let year = Year::new();
    let race = year.race("11-21", "ST", 3);
    let declared = race
        .result(1, "A 1, B DISQ")
        .with("/runners/1/finish_time", json!("1:09.29"))
        .with("/runners/1/win_odds", json!(2.2));
    year.publish([declared]).await;
    let row = &race.served().await["unplaced"][0];
    let form = format!("horses/{}/form", year.horse_no("B"));
    let beside_form = &year.json(&form).await["unplaced"][0];
    for row in [row, beside_form] {
        assert_eq!(
            [&row["outcome"], &row["finish_time"], &row["win_odds"]],
            [&json!("DISQ"), &json!("1:09.29"), &json!(2.2)]
        );
    }
}

#[tokio::test]
async fn every_outcome_code_is_unplaced_and_either_a_start_or_not() {
    let year = Year::new();
    let race = year.race("11-21", "ST", 3);
    let coded: Vec<String> = CODES
        .iter()
        .map(|(code, _)| format!("{code}-HORSE {code}"))
        .collect();
    let declared = format!("A 1, {}", coded.join(", "));
    year.publish([race.result(1, &declared)]).await;
    assert_eq!(race.placings().await, declared);
    for row in race.served().await["unplaced"].as_array().unwrap() {
        assert_eq!(
            [&row["finish_time"], &row["win_odds"], &row["stakes"]],
            [&json!(""), &json!(0), &json!(0)],
            "the result does not have it: {row}"
        );
    }
    for (code, starts) in CODES {
        let horse = format!("{code}-HORSE");
        assert_eq!(year.career(&horse).await, [starts, 0, 0, 0], "{code}");
        let row = format!("11-21 ST 3: {code}");
        assert_eq!(year.form(&horse).await, [vec![], vec![row]], "{code}");
    }
}

#[tokio::test]
async fn a_void_outcome_counts_for_nothing_not_even_stakes() {
    let year = Year::new();
    let race = year.race("11-21", "ST", 3);
    let stakes = |declared: Value| declared.with("/runners/1/stakes", json!(700));
    year.publish([stakes(race.result(1, "A 1, B VOID"))]).await;
    assert_eq!(year.career("B").await, [0, 0, 0, 0]);
    assert_eq!(
        race.served().await["unplaced"][0]["stakes"],
        700,
        "served as declared"
    );
    year.publish([stakes(race.result(2, "A 1, B DISQ"))]).await;
    assert_eq!(
        year.career("B").await,
        [1, 0, 0, 700],
        "a disqualified horse keeps the stakes that the feeder declares"
    );
}

#[tokio::test]
async fn a_withdrawn_runner_that_the_result_leaves_out_is_unplaced_in_its_form() {
    let year = Year::new();
    let race = year.race("11-21", "ST", 3);
    year.publish([
        race.card("A B C"),
        race.withdrawn("B"),
        race.result(1, "A 1, C 2"),
    ])
    .await;
    assert_eq!(race.placings().await, "A 1, C 2, B SCR");
    assert_eq!(year.form("B").await, [vec![], vec!["11-21 ST 3: SCR"]]);
    assert_eq!(year.career("B").await, [0, 0, 0, 0]);
    // The horse ran.
    year.publish([race.result(2, "A 1, C 2, B 3")]).await;
    assert_eq!(race.placings().await, "A 1, C 2, B 3");
    assert_eq!(year.form("B").await, [vec!["11-21 ST 3: 3"], vec![]]);
    year.publish([race.void(3)]).await;
    assert_eq!(year.form("B").await, [Vec::<&str>::new(), vec![]]);
}

/// The rows of a CSV file: a winner, and a runner for each code, with dashes for unknown values.
fn csv(date: &str, brand: impl Fn(usize) -> String) -> String {
    let header = "plc,horseno,horse,jockey,trainer,finishtime,winodds,date,raceno,distance,going,handicap,venue";
    let row = |(n, placing, time, odds): (usize, &str, &str, &str)| {
        format!(
            "{placing},{n},MADE UP {n}({}),A Rider,B Trainer,{time},{odds},{date},3,1200,GOOD,MADE UP PLATE,Sha Tin",
            brand(n)
        )
    };
    let winner = row((0, "1", "1.09.30", "2.5"));
    let coded = (1..).zip(CODES).map(|(n, (code, starts))| match code {
        "DISQ" => row((n, code, "1.09.29", "2.2")),
        _ if starts == 1 => row((n, code, "---", "14")),
        _ => row((n, code, "---", "---")),
    });
    let rows: Vec<String> = [header.to_owned(), winner]
        .into_iter()
        .chain(coded)
        .collect();
    rows.join("\n")
}

#[tokio::test]
async fn times_and_odds_written_as_dashes_are_unknown() {
    let year = Year::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results.csv");
    // A brand has up to two letters and four digits. Here the digits are the year.
    let brand = |n: usize| {
        let letter = char::from(b'A' + u8::try_from(n).unwrap());
        format!("X{letter}{}", year.date("").trim_end_matches('-'))
    };
    std::fs::write(&file, csv(&year.date("11-21"), brand)).unwrap();
    let file = file.display().to_string();
    let output = railbird([
        "import",
        "hkjc-results",
        &file,
        "--nats",
        &year.nats().url_of("feeder"),
    ])
    .await;
    assert_eq!(output.code, 0, "{}", output.all);
    let last = year.nats().last_seq().await;
    year.railbird().until_seq(last).await;
    let result = year.race("11-21", "ST", 3).served().await;
    assert_eq!(result["runners"][0]["finish_time"], "1:09.30");
    let unplaced = result["unplaced"].as_array().unwrap().iter();
    let unplaced: Vec<_> = unplaced
        .map(|row| {
            (
                &row["outcome"],
                &row["finish_time"],
                row["win_odds"].as_f64().unwrap(),
            )
        })
        .collect();
    let expected: Vec<_> = CODES
        .iter()
        .map(|(code, starts)| match *code {
            "DISQ" => (json!(code), json!("1:09.29"), 2.2),
            _ => (
                json!(code),
                json!(""),
                if *starts == 1 { 14.0 } else { 0.0 },
            ),
        })
        .collect();
    let expected: Vec<_> = expected
        .iter()
        .map(|(code, time, odds)| (code, time, *odds))
        .collect();
    assert_eq!(unplaced, expected);
    for (n, (code, starts)) in (1..).zip(CODES) {
        let profile = year.json(&format!("horses/{}", brand(n))).await;
        assert_eq!(profile["starts"], starts, "{code}");
    }
}

#[tokio::test]
async fn dashes_in_an_event_are_rejected_with_the_field_and_stop_nothing() {
    let year = Year::new();
    let race = year.race("11-21", "ST", 3);
    let subject = format!("racing.result.{}.ST.3", race.date());
    for field in ["finish_time", "win_odds"] {
        let declared = race
            .result(1, "A PU")
            .with(&format!("/runners/0/{field}"), json!("---"));
        let seq = year
            .nats()
            .publish_raw(&subject, declared.to_string().as_bytes())
            .await;
        year.railbird().until_seq(seq).await;
        let rejections = year
            .railbird()
            .get_admin(&format!("/rejections?after={}", seq - 1))
            .await;
        let reason = rejections.json()["rejections"][0]["reason"].clone();
        let starts = format!("data.runners[0].{field}: ");
        assert!(reason.as_str().unwrap().starts_with(&starts), "{reason}");
    }
    year.publish([race.result(1, "A PU")]).await;
    assert_eq!(race.placings().await, "A PU");
}
