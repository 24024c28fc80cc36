//! `/api/v1/exports`: files of whole meetings. tests/commands/export.rs reads what they have.

use railbird::limits::plans::Plans;
use serde_json::json;

use crate::support::*;

const PARQUET: &str = "application/vnd.apache.parquet";

async fn get(railbird: &Railbird, path: &str, accept: &str) -> Reply {
    let path = format!("/api/v1/exports/{path}");
    railbird.get_with(&path, &[("accept", accept)]).await
}

#[tokio::test]
async fn a_file_has_the_format_that_is_accepted() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let seq = nats.publish([result(DAY, "ST", 1, 3, 1)]).await;
    railbird.until_seq(seq).await;
    let path = format!("results/{DAY}/ST");
    for accept in ["*/*", PARQUET, "text/csv;q=0.5, application/*"] {
        let file = get(&railbird, &path, accept).await;
        assert_eq!((file.status, file.header("content-type")), (200, PARQUET));
        assert!(file.body.starts_with(b"PAR1") && file.body.ends_with(b"PAR1"));
        assert_eq!(file.header("railbird-seq"), seq.to_string());
    }
    let csv = get(&railbird, &path, "text/csv").await;
    assert!(csv.header("content-type").starts_with("text/csv"));
    assert_eq!(csv.header("content-length"), csv.body.len().to_string());
    let text = csv.text();
    let lines: Vec<&str> = text.lines().collect();
    let begin = "date,venue_code,venue,race_number,list,position,horse_no,";
    assert!(lines[0].starts_with(begin), "{}", lines[0]);
    assert_eq!(lines.len(), 1 + 4, "{text}");
    let first = format!("{DAY},ST,Sha Tin,1,runners,1,H1,");
    assert!(lines[1].starts_with(&first), "{text}");
    let tag = [
        ("accept", "text/csv"),
        ("if-none-match", csv.header("etag")),
    ];
    let again = railbird
        .get_with(&format!("/api/v1/exports/{path}"), &tag)
        .await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    let lines = get(&railbird, &path, "application/x-ndjson").await;
    assert_eq!(lines.text().lines().count(), 4);
    assert_eq!(get(&railbird, &path, "application/json").await.status, 406);
}

#[tokio::test]
async fn a_file_as_of_an_event_never_changes() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let first = [card(DAY, "ST", 1, 3), result(DAY, "ST", 1, 3, 1)];
    let seq = nats.publish(first).await;
    railbird.until_seq(seq).await;
    let path = format!("form/{DAY}/ST");
    let then = get(&railbird, &path, "text/csv").await;
    let seq_after = nats.publish([result(DAY, "ST", 1, 2, 2)]).await;
    railbird.until_seq(seq_after).await;
    let now = get(&railbird, &path, "text/csv").await;
    assert_ne!(now.text(), then.text());
    let other = Railbird::start(&nats).await;
    other.until_seq(seq_after).await;
    for replica in [&railbird, &other] {
        let as_of = get(replica, &format!("{path}?as_of={seq}"), "text/csv").await;
        assert_eq!(as_of.text(), then.text());
        assert!(as_of.header("cache-control").contains("immutable"));
    }
}

#[tokio::test]
async fn what_cannot_be_exported_is_explained() {
    let nats = Nats::start();
    let live = "live_odds = true\nconnections = 1";
    let plans = [
        plan("default", &format!("{live}\nexports = true")),
        plan("results", "exports = true"),
        plan("live", live),
    ];
    let plans = Plans::parse(&plans.concat()).unwrap();
    let railbird = Railbird::start_with(&nats, |config| config.plans = plans).await;
    railbird
        .until_seq(nats.publish([result(DAY, "ST", 1, 3, 1)]).await)
        .await;
    for (path, status, error) in [
        (format!("results/{DAY}/HV"), 404, "not_found"),
        (format!("jockeys/{DAY}/ST"), 404, "not_found"),
        ("results/2026-13-01/ST".to_owned(), 400, "invalid_date"),
        (format!("results/{DAY}/!"), 400, "invalid_parameter"),
        (format!("results/{DAY}/ST?race=1"), 400, "invalid_parameter"),
    ] {
        let reply = get(&railbird, &path, "*/*").await;
        let found = (reply.status, reply.json()["error"].clone());
        assert_eq!(found, (status, json!(error)), "{path}: {}", reply.text());
    }
    for (plan, kind, error) in [
        ("results", "results", None),
        ("results", "odds", Some("live_odds_not_included")),
        ("live", "results", Some("exports_not_included")),
    ] {
        let key = railbird.issue_key_on(&nats, plan).await;
        let path = format!("/api/v1/exports/{kind}/{DAY}/ST");
        let reply = request(railbird.http, "GET", &path, &[("x-api-key", &key)]).await;
        match error {
            None => assert_eq!(reply.status, 200, "{}", reply.text()),
            Some(error) => {
                let found = (reply.status, reply.json()["error"].clone());
                assert_eq!(found, (403, json!(error)), "{plan}: {kind}");
            }
        }
    }
}
