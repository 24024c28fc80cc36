//! docs/feeding.md, and the schemas that it names: their examples work, and the service accepts what they allow.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use events::EVENT_TYPES;
use railbird::log::{Appender, Outgoing};
use serde_json::{Value, json};

use crate::generators::{Oracle, changed, combined, edges};
use crate::support::*;

const DOCUMENTATION: &str = include_str!("../../docs/feeding.md");

/// The indented blocks of the documentation, without their indentation. An empty line does not end a block.
fn blocks() -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in DOCUMENTATION.lines() {
        match (line.strip_prefix("    "), blocks.last_mut()) {
            (Some(line), Some(block)) => block.push_str(&format!("{line}\n")),
            (None, Some(block)) if line.is_empty() && !block.is_empty() => block.push('\n'),
            _ => blocks.push(String::new()),
        }
    }
    blocks
}

/// Where each example is visible, in the order of the types: a path, and a value in its answer.
fn effects() -> [(&'static str, &'static str, Value); 13] {
    [
        (
            "/api/v1/horses/HK_2023_K417",
            "/horse_name",
            json!("PAPER LANTERN"),
        ),
        (
            "/api/v1/racecards/2026-11-21",
            "/races/0/runners/1/horse_no",
            json!("HK_2022_J058"),
        ),
        (
            "/api/v1/racecards/2026-11-21",
            "/races/0/withdrawn/0/horse_no",
            json!("HK_2022_J058"),
        ),
        (
            "/api/v1/racecards/2026-11-21",
            "/races/0/withdrawn",
            json!([]),
        ),
        (
            "/api/v1/racecards/2026-11-21",
            "/races/0/runners/0/jockey",
            json!("C. Finch"),
        ),
        (
            "/api/v1/racecards/2026-11-21",
            "/races/0/going",
            json!("GOOD TO YIELDING"),
        ),
        (
            "/api/v1/racecards/2026-11-21",
            "/races/0/status",
            json!("off"),
        ),
        (
            "/api/v1/results/2026-11-21/3",
            "/runners/1/win_odds",
            json!(12.345),
        ),
        ("/api/v1/results/2026-11-21/3", "/runners", json!([])),
        (
            "/api/v1/results/2026-11-21/3/dividends",
            "/dividends/1/dividend",
            json!(187.5),
        ),
        ("/api/v1/odds/2026-11-21/3", "/runners/1/win", json!(3.5)),
        (
            "/api/v1/odds/2026-11-21/3?market=place_range",
            "/prices/0/high",
            json!(1.9),
        ),
        (
            "/api/v1/odds/2026-11-21/3/sources",
            "/pools/0/invested",
            json!(1_250_400.5),
        ),
    ]
}

#[tokio::test]
async fn every_example_in_the_schemas_is_accepted_and_served() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    for (name, (path, pointer, expected)) in EVENT_TYPES.iter().zip(effects()) {
        let file = format!("{}/schemas/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let schema: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let event = &schema["examples"][0];
        let seq = nats.publish([event.clone()]).await;
        railbird.until_seq(seq).await;
        let answer = railbird.get(path).await.json();
        assert_eq!(
            answer.pointer(pointer),
            Some(&expected),
            "{event}: {answer}"
        );
    }
    let rejections = railbird.get_admin("/rejections").await.json();
    assert_eq!(rejections["rejections"], json!([]));
}

#[tokio::test]
async fn the_subscriber_in_the_documentation_prints_each_rejection_once() {
    let nats = Nats::start();
    let (one, other) = (Railbird::start(&nats).await, Railbird::start(&nats).await);
    let listener = blocks()
        .into_iter()
        .find(|block| block.starts_with("import asyncio"));
    let python = std::env::var("RAILBIRD_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut child = Command::new(python)
        .args(["-c", &listener.unwrap()])
        .env("RAILBIRD_NATS", nats.url_of("feeder"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let printed = tokio::task::spawn_blocking(move || lines.take(10).map(Result::unwrap).collect());
    // The script does not report when it has subscribed.
    let mut last = 0;
    while !printed.is_finished() {
        last = nats.publish_raw("racing.odds.x", b"garbage").await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let printed: Vec<String> = printed.await.unwrap();
    assert_eq!(
        printed.len(),
        10,
        "script/test finds or makes a python with nats-py"
    );
    let mut seqs: BTreeSet<u64> = BTreeSet::new();
    for line in &printed {
        let (seq, reason) = line.split_once(' ').unwrap();
        assert!(
            seqs.insert(seq.parse().unwrap()),
            "{line} was printed twice"
        );
        let expected = "not_cloud_event not a CloudEvents 1.0 JSON object: ";
        assert!(reason.starts_with(expected), "{line}");
    }
    assert!(seqs.range(..=last).count() == 10);
    child.kill().unwrap();
    child.wait().unwrap();
    drop((one, other));
}

/// The subject that the data of a valid event requires.
fn subject(event: &Value) -> String {
    let data = &event["data"];
    let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
    let race = || format!("{}.{}.{}", text("date"), text("venue"), data["race_number"]);
    match event["type"]
        .as_str()
        .and_then(|name| name.split('.').nth(1))
    {
        Some("horse") => format!("racing.horse.{}", text("horse_no")),
        Some(kind @ ("odds" | "result")) => format!("racing.{kind}.{}", race()),
        Some("dividends") => format!("racing.result.{}", race()),
        Some("market" | "pool") => format!("racing.odds.{}", race()),
        Some("sources") => "racing.sources".to_owned(),
        _ => format!("racing.race.{}", race()),
    }
}

/// Publishes an event on a subject, with a message id of its own.
async fn publish(appender: &mut Appender, subject: String, event: &Value) {
    let outgoing = Outgoing {
        subject,
        id: uuid::Uuid::now_v7().to_string(),
        payload: event.to_string().into_bytes(),
    };
    appender.append(outgoing).await.unwrap();
}

/// The code of each rejection, by sequence.
async fn rejected_codes(service: &Serving) -> BTreeMap<u64, String> {
    let (mut found, mut after, mut more) = (BTreeMap::new(), 0, true);
    while more {
        let page = request(
            service.admin,
            "GET",
            &format!("/rejections?after={after}"),
            &[],
        )
        .await
        .json();
        for rejection in page["rejections"].as_array().unwrap() {
            let code = rejection["code"].as_str().unwrap().to_owned();
            found.insert(rejection["seq"].as_u64().unwrap(), code);
        }
        (after, more) = (page["next"].as_u64().unwrap(), page["more"] == true);
    }
    found
}

#[tokio::test]
async fn the_service_accepts_what_the_schemas_allow_and_rejects_the_rest_with_the_right_code() {
    /// Tries one in so many edge cases of each type; the test of the schemas tries all of them.
    const EVERY: usize = 17;
    const COMBINED: usize = 60;
    let nats = Nats::start();
    let folder = tempfile::tempdir().unwrap();
    let service = Serving::start(&nats, folder.path());
    let log = nats.log().await;
    let mut appender = log.appender();
    let oracle = Oracle::new();
    let (mut refused, mut seq, mut by_rule) = (BTreeMap::new(), 0, 0);
    for (_, schema) in oracle.schemas() {
        let edges = edges(schema);
        let combined = combined(&edges, COMBINED);
        for changes in edges.iter().step_by(EVERY).chain(&combined) {
            let event = changed(schema, changes);
            let refusal = oracle.rejection(&event);
            seq += 1;
            let subject_of_event = if let Some(refusal) = &refusal {
                refused.insert(seq, refusal.code);
                by_rule += u32::from(refusal.rule.is_some());
                "racing.x".to_owned()
            } else {
                subject(&event)
            };
            publish(&mut appender, subject_of_event, &event).await;
            if refusal.is_none() && seq % 10 == 0 {
                seq += 1;
                refused.insert(seq, "subject_mismatch");
                publish(&mut appender, format!("racing.odds.{DAY}.ZZ.9"), &event).await;
            }
        }
    }
    appender.finish().await.unwrap();
    eventually("all events are folded", || async {
        service.metric("railbird_log_seq").await == seq
    })
    .await;

    let found = rejected_codes(&service).await;
    let wrong =
        (1..=seq).find(|seq| found.get(seq).map(String::as_str) != refused.get(seq).copied());
    let at = |seq: u64| (seq, found.get(&seq), refused.get(&seq));
    assert_eq!(wrong.map(at), None, "sequence, code found, code expected");
    let accepted = seq - found.len() as u64;
    assert_eq!(
        service.metric("railbird_events_folded_total").await,
        accepted
    );
    assert!(
        accepted > 300 && found.len() > 600 && by_rule > 10,
        "{accepted} accepted, {} rejected, {by_rule} by a rule",
        found.len()
    );
}
