//! The figures of jockeys, trainers and venues, as an independent program counts them from the events.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use futures::{StreamExt, stream};
use serde_json::{Value, json};

use crate::support::*;

/// Requests at a time.
const REQUESTS: usize = 8;

/// Runs `rides.py` with events on its standard input, a line for each.
fn oracle(args: &[&str], events: &[String]) -> String {
    let python = std::env::var("RAILBIRD_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut oracle = Command::new(python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/rides.py"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = oracle.stdin.take().unwrap();
    let lines = events.join("\n");
    let writing = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = oracle.wait_with_output().unwrap();
    // `facts` does not read it.
    let _ = writing.join().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// Compares all figures of a service with those of the events in its log. Returns how many there are.
async fn compare(nats: &Nats, railbird: &Railbird) -> usize {
    let messages = nats.messages().await;
    let events = messages.iter().map(|message| &message.payload);
    let events = events.filter(|json| !json.is_empty());
    let events: Vec<_> = events
        .map(|json| String::from_utf8_lossy(json).into_owned())
        .collect();
    let expected = tokio::task::spawn_blocking(move || oracle(&["figures"], &events));
    let expected: BTreeMap<String, Value> = serde_json::from_str(&expected.await.unwrap()).unwrap();
    let differences = stream::iter(&expected).map(async |(path, expected)| {
        let answer = railbird.get(path).await.json();
        let groups = answer["groups"].as_array().cloned().unwrap_or_default();
        let groups = groups.into_iter().map(|mut group| {
            let value = group.as_object_mut().unwrap().remove("value").unwrap();
            (value.as_str().unwrap().to_owned(), group)
        });
        let groups: serde_json::Map<_, _> = groups.collect();
        let found = json!({ "totals": answer["totals"], "groups": groups });
        (found != *expected).then(|| format!("{path}: {found}, not {expected}"))
    });
    let differences = differences.buffer_unordered(REQUESTS);
    let differences: Vec<String> = differences.filter_map(async |it| it).collect().await;
    let first = differences.first();
    assert_eq!(
        first,
        None,
        "and {} of {}",
        differences.len(),
        expected.len()
    );
    for list in ["jockeys", "trainers", "venues"] {
        let path = format!("/api/v1/{list}");
        let get = async |path: String| railbird.get(&path).await.json();
        let rows = all_pages(get, &path, list).await;
        let known = expected
            .keys()
            .filter(|key| key.starts_with(&format!("{path}/")));
        let known: std::collections::BTreeSet<_> =
            known.filter_map(|key| key.split('?').next()).collect();
        assert_eq!(rows[list].as_array().unwrap().len(), known.len(), "{list}");
    }
    expected.len()
}

#[tokio::test]
async fn figures_are_those_of_an_independent_count_in_any_order_of_the_facts() {
    let facts = oracle(&["facts", "11"], &[]);
    let facts: Vec<Value> = facts
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // Amendments before the results, results before the cards, and the last season first.
    let reversed: Vec<_> = facts.iter().rev().cloned().collect();
    for facts in [facts, reversed] {
        let nats = Nats::start();
        nats.create_log_that_forgets_ids().await;
        let railbird = Railbird::start(&nats).await;
        nats.publish(facts.clone()).await;
        nats.until_ids_are_forgotten().await;
        nats.publish(facts.into_iter().step_by(5)).await;
        railbird.until_seq(nats.last_seq().await).await;
        let compared = compare(&nats, &railbird).await;
        assert!(compared > 100, "{compared}");
    }
}

/// A real season, with what its files leave out of each other.
#[tokio::test]
async fn figures_of_a_real_season_are_those_of_an_independent_count() {
    let Some(data) = real_data() else { return };
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let files = ["hkjc_en_json/2016-17", "hkjc_en_csv/results_2016-17.csv"];
    let files = files.map(|file| data.join(file).display().to_string());
    let args = ["import", "hkjc-results", "--nats"].map(str::to_owned);
    let args = args.into_iter().chain([nats.url_of("feeder")]).chain(files);
    let output = crate::support::railbird(args).await;
    assert_eq!(output.code, 0, "{}", output.all);
    railbird.until_seq(nats.last_seq().await).await;
    let compared = compare(&nats, &railbird).await;
    assert!(compared > 500, "{compared}");
}
