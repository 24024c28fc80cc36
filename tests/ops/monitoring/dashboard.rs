//! The queries of the dashboard and of the rules, against a Prometheus that scrapes real services.

use std::collections::BTreeSet;

use serde_json::Value;

use super::prometheus::{Prometheus, read, shipped};
use crate::support::*;

const TOKEN: &str = "a-token-of-the-admin-address";
const JOB: &str = "railbird";

/// Queries of the dashboard that have no result while all is well, with the reason.
const EMPTY: [(&str, &str); 1] = [("ALERTS{", "no alert fires")];

/// The queries of the dashboard, without variables.
fn queries() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&read(&shipped("grafana/railbird.json"))).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array());
    let queries = targets.flatten().map(|target| {
        let query = target["expr"].as_str().unwrap();
        let query = query.replace("$job", JOB).replace("$instance", ".+");
        let query = query.replace("$__rate_interval", "10s");
        assert!(!query.contains('$'), "a variable in {query}");
        query
    });
    queries.collect()
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The metrics in a query.
fn metrics(query: &str) -> BTreeSet<&str> {
    let names = query.split(|c| !is_name(c));
    let own = ["railbird_", "process_"];
    let found = names.filter(|name| own.iter().any(|own| name.starts_with(own)));
    // The command for backups writes these: tests/log/backup.rs.
    let found = found.filter(|name| !name.starts_with("railbird_backup_"));
    found
        .filter(|name| *name != "railbird_" && *name != JOB)
        .collect()
}

/// The labels in a query: those that it selects by, and those that it groups by.
fn labels(query: &str) -> BTreeSet<&str> {
    let matchers = query.split('{').skip(1).flat_map(|rest| {
        let matchers = rest.split('}').next().unwrap().split("\", ");
        matchers.flat_map(|matcher| {
            matcher
                .split(',')
                .filter_map(|m| m.split(['=', '!']).next())
        })
    });
    let groups = ["by (", "on (", "without (", "group_left ("];
    let grouped = groups.iter().flat_map(|group| query.split(group).skip(1));
    let grouped = grouped.flat_map(|rest| rest.split(')').next().unwrap().split(','));
    let labels = matchers.chain(grouped).map(str::trim);
    labels
        .filter(|label| !label.is_empty() && label.chars().all(is_name))
        .collect()
}

/// The labels of the series of metrics, and those that `count_values` makes.
async fn known_labels(prometheus: &Prometheus, query: &str) -> BTreeSet<String> {
    let mut known: BTreeSet<String> = query.split('"').map(str::to_owned).collect();
    for metric in metrics(query) {
        for series in prometheus.query(metric).await {
            known.extend(series["metric"].as_object().unwrap().keys().cloned());
        }
    }
    known
}

/// A number in the result of a query: without requests, a quantile is none.
fn has_number(result: &[Value]) -> bool {
    let values = result
        .iter()
        .filter_map(|sample| sample["value"][1].as_str());
    values.into_iter().any(|value| value != "NaN")
}

/// Requests, events, an invalid message and a socket, again and again.
async fn traffic(nats: &Nats, serving: &Serving) {
    let key = issue_key(nats).await;
    until_valid(serving.http, &key).await;
    let mut socket = Socket::open(serving.http, &key).await;
    for n in 0.. {
        nats.publish([odds("ST", 1, &second(n), &[2.0, 3.0])]).await;
        nats.publish_raw("racing.x", b"garbage").await;
        socket.until("odds_update").await;
        let path = format!("/api/v1/odds/{DAY}/1");
        for headers in [&[("x-api-key", &*key)][..], &[]] {
            request(serving.http, "GET", &path, headers).await;
        }
    }
}

/// Waits until both replicas are ready, and know a source that is alive.
async fn until_ready(prometheus: &Prometheus, nats: &Nats) {
    eventually("the replicas are ready", || async {
        prometheus.query("railbird_ready == 1").await.len() == 2
    })
    .await;
    let is_known = async || {
        nats.show_alive("tote").await;
        prometheus.query("railbird_source_alive == 1").await.len() == 2
    };
    eventually("a source is known", is_known).await;
}

#[tokio::test]
async fn each_query_of_the_dashboard_and_the_rules_finds_what_a_service_has() {
    let rules = read(&shipped("prometheus/alerts.yml"));
    let Some(prometheus) = Prometheus::start(&rules, Some(TOKEN)).await else {
        return;
    };
    let (nats, folder, other) = (
        Nats::start(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    let url = nats.url();
    let flags = [
        "--http",
        "127.0.0.1:0",
        "--nats",
        &url,
        "--admin-token",
        TOKEN,
    ];
    let serving = Serving::start_with(&flags, &folder.path().join("data"));
    // Another replica has what only a service with TLS has.
    let tls = Authority::new().issue().write(other.path()).flags();
    let flags = flags.into_iter().chain(tls.iter().map(String::as_str));
    let with_tls = Serving::start_with(&flags.collect::<Vec<_>>(), &other.path().join("data"));
    prometheus
        .watch(JOB, &[serving.admin, with_tls.admin])
        .await;
    until_ready(&prometheus, &nats).await;
    let check = async {
        for query in queries() {
            if EMPTY.iter().any(|(start, _)| query.starts_with(start)) {
                assert_eq!(prometheus.query(&query).await, Vec::<Value>::new());
                continue;
            }
            eventually(&format!("a result of {query}"), || async {
                has_number(&prometheus.query(&query).await)
            })
            .await;
        }
        let rules = prometheus.rules().await;
        let rules = rules
            .iter()
            .map(|rule| rule["query"].as_str().unwrap().to_owned());
        for query in queries().into_iter().chain(rules) {
            for metric in metrics(&query) {
                assert!(
                    has_number(&prometheus.query(metric).await),
                    "no {metric}: {query}"
                );
            }
            let known = known_labels(&prometheus, &query).await;
            let unknown = labels(&query)
                .into_iter()
                .filter(|label| !known.contains(*label));
            let is_own = !metrics(&query).is_empty();
            assert!(
                !is_own || unknown.count() == 0,
                "{:?} in {query}",
                labels(&query)
            );
        }
    };
    tokio::select! {
        () = traffic(&nats, &serving) => {}
        () = check => {}
    }
}
