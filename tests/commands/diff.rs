//! `railbird diff`: over an amendment, a withdrawal, and a race that is new.

use serde_json::{Value, json};

use crate::support::*;

const CARD: &str = "/api/v1/racecards/2026-10-03?venue=ST";
const RESULT: &str = "/api/v1/results/2026-10-03/1?venue=ST";
const HISTORY: &str = "/api/v1/odds/2026-10-03/1/history?venue=ST";

async fn diff(railbird: &Railbird, args: &[&str]) -> Output {
    let url = format!("http://{}", railbird.http);
    let all = [&["diff", "--url", &url, "--api-key", &railbird.key], args].concat();
    crate::support::railbird(all).await
}

/// The changes that are printed as JSON: resource, path, value before and after.
async fn changes(railbird: &Railbird, a: &str, b: &str) -> Vec<[Value; 4]> {
    let output = diff(railbird, &[a, b, "--json"]).await;
    assert_eq!(output.code, 0, "{}", output.all);
    let lines = output
        .all
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .map(|change| ["resource", "path", "before", "after"].map(|name| change[name].clone()))
        .collect()
}

/// A service, and the places before and after what happens to its races.
async fn amended() -> (Nats, Railbird, u64, u64) {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let before = [
        card(DAY, "ST", 1, 4),
        odds("ST", 1, &second(0), &[3.5, 4.0, 12.34, 7.0]),
        result(DAY, "ST", 1, 3, 1),
        card(DAY, "ST", 2, 4),
    ];
    let a = nats.publish(before).await;
    let mut amended = result(DAY, "ST", 1, 3, 2);
    for (row, position) in [(0, 2), (1, 1)] {
        amended["data"]["runners"][row]["position"] = json!(position);
    }
    let after = [
        withdrawn("ST", 2, &second(1), "H2"),
        amended,
        odds("ST", 2, &second(2), &[2.5]),
        card(DAY, "ST", 3, 2),
    ];
    let b = nats.publish(after).await;
    railbird.until_seq(b).await;
    (nats, railbird, a, b)
}

#[tokio::test]
async fn an_amendment_and_a_withdrawal_are_shown_field_by_field() {
    let (nats, railbird, a, b) = amended().await;
    let (first, last) = (a.to_string(), b.to_string());
    let found = changes(&railbird, &first, &last).await;
    let has = |resource: &str, path: &str, before: Value, after: Value| {
        let change = [json!(resource), json!(path), before, after];
        assert!(found.contains(&change), "{change:?}\n{found:#?}");
    };
    has(RESULT, "/revision", json!(1), json!(2));
    has(RESULT, "/runners/H1/position", json!(1), json!(2));
    has(RESULT, "/runners/H2/position", json!(2), json!(1));
    let at = |path: &str| {
        let mut changes = found.iter();
        let change = changes.find(|[resource, of, ..]| *resource == CARD && *of == path);
        change.unwrap_or_else(|| panic!("{path}\n{found:#?}"))
    };
    let [.., gone, none] = at("/races/2/runners/H2");
    assert_eq!((&gone["number"], none), (&json!(2), &Value::Null));
    let [.., none, new] = at("/races/2/withdrawn/H2");
    assert_eq!((none, &new["horse_no"]), (&Value::Null, &json!("H2")));
    assert_eq!(at("/races/3")[3]["race_number"], 3);
    // What did not change is not shown.
    assert!(
        !found.iter().any(|[resource, ..]| *resource == HISTORY),
        "{found:#?}"
    );
    let runner = json!("/runners/H3/position");
    assert!(
        !found.iter().any(|[_, path, ..]| *path == runner),
        "{found:#?}"
    );
    // Resources are new or gone as a whole.
    let of_race_3 = json!("/api/v1/results/2026-10-03/3?venue=ST");
    assert!(!found.iter().any(|[resource, ..]| *resource == of_race_3));
    has_new_odds(&found);

    let text = diff(&railbird, &[&first, &nats.recorded_at(b).await]).await;
    assert_eq!(text.code, 0, "{}", text.all);
    let expected = format!("{RESULT}\n");
    let of_result = text.all.split_once(&expected).expect(&text.all).1;
    assert!(
        of_result.contains("  /runners/H1/position: 1 -> 2\n"),
        "{of_result}"
    );
    assert!(
        text.all.contains("/odds/2026-10-03/2?venue=ST\n"),
        "{}",
        text.all
    );

    assert_eq!(diff(&railbird, &[&last, &last]).await.all, "");
    let backwards = diff(&railbird, &[&last, &first]).await;
    assert!(
        backwards.code == 2 && backwards.all.contains("is after"),
        "{}",
        backwards.all
    );
}

fn has_new_odds(found: &[[Value; 4]]) {
    let history = json!("/api/v1/odds/2026-10-03/2/history?venue=ST");
    let quotes = found.iter().filter(|[resource, path, ..]| {
        *resource == history
            && path
                .as_str()
                .is_some_and(|path| path.starts_with("/history/"))
    });
    let quotes: Vec<_> = quotes.collect();
    assert_eq!(quotes.len(), 1, "{found:#?}");
    assert_eq!(quotes[0][3]["runners"][0]["win"], 2.5);
}

#[tokio::test]
async fn each_new_row_of_a_list_of_many_pages_is_shown_once() {
    const QUOTES: u64 = 2_300;
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let quote = |n: u64| odds("ST", 1, &second(n), &[2.0 + n as f64 / 100.0]);
    nats.publish([card(DAY, "ST", 1, 2)]).await;
    let a = nats.publish((0..QUOTES / 2).map(quote)).await;
    let b = nats.publish((QUOTES / 2..QUOTES).map(quote)).await;
    railbird.until_seq(b).await;
    let found = changes(&railbird, &a.to_string(), &b.to_string()).await;
    let of_history = found.iter().filter(|[resource, ..]| *resource == HISTORY);
    let (rows, other): (Vec<_>, Vec<_>) =
        of_history.partition(|[_, path, ..]| path.as_str().unwrap().starts_with("/history/"));
    let seqs: Vec<u64> = rows
        .iter()
        .map(|[.., after]| after["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs.len() as u64, QUOTES - QUOTES / 2);
    assert_eq!(seqs.iter().min(), Some(&(a + 1)));
    assert_eq!(seqs.iter().max(), Some(&b));
    let paths: Vec<_> = other.iter().map(|[_, path, ..]| path.to_string()).collect();
    let unique: std::collections::BTreeSet<_> = paths.iter().collect();
    assert_eq!(unique.len(), paths.len(), "{paths:?}");
}
