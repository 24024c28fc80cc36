//! A rolling upgrade from an earlier version to this one, and the roll back, behind HAProxy under GETs and sockets: no
//! GET fails, no socket misses a message, and replicas of both versions answer equally, or say that they have another
//! schema. `script/upgrade-test` builds the earlier version.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::Value;

use super::load::{Get, Load};
use super::proxy::{Proxy, ProxyKind, client};
use super::rolling::{Replica, this_version};
use crate::conformance::client::{Follow, Plan, Stage};
use crate::conformance::clients::ClientGroup;
use crate::live::delivery::Publishing;
use crate::support::*;

/// Of another day than the events that are published meanwhile.
const CARD: &str = "/api/v1/racecards/2026-11-21";
/// Answers that these events change, and one that they do not.
const COMPARED: [&str; 4] = [
    "/api/v1/odds/2026-10-03/1?venue=HV",
    "/api/v1/odds/2026-10-03/1/history?venue=HV",
    "/api/v1/meetings",
    CARD,
];
/// Answers of both versions as of one event that are compared, for each path.
const COMPARISONS: usize = 10;

const SOCKETS: usize = 30;
const CONNECTIONS: u32 = 8;
const GETS_PER_SECOND: u32 = 200;
const EVENTS_PER_SECOND: u32 = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_from_the_previous_version_and_back_loses_nothing() {
    if let Some(previous) = version_in("RAILBIRD_PREVIOUS") {
        loses_nothing(previous).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_from_another_schema_and_back_loses_nothing() {
    if let Some(previous) = version_in("RAILBIRD_PREVIOUS_SCHEMA") {
        let schemas = loses_nothing(previous).await;
        assert_ne!(schemas[0], schemas[1], "this version has another schema");
    }
}

/// The binary that a variable names. Prints a note and returns `None` without it, or without HAProxy.
fn version_in(variable: &str) -> Option<PathBuf> {
    program("haproxy")?;
    let program = std::env::var_os(variable).map(PathBuf::from);
    if program.is_none() {
        eprintln!(
            "SKIPPED: {variable} names no binary of an earlier version; script/upgrade-test builds it"
        );
    }
    program
}

/// Upgrades two replicas one after the other and rolls both back. Returns the schemas of both versions.
async fn loses_nothing(previous: PathBuf) -> [u64; 2] {
    let (nats, folder, authority) = (
        Nats::start(),
        tempfile::tempdir().unwrap(),
        Authority::new(),
    );
    let key = issue_key(&nats).await;
    nats.publish([card("2026-11-21", "ST", 1, 3)]).await;
    let publishing = Publishing::start_at(&nats, EVENTS_PER_SECOND).await;
    let a = Replica::start(&nats, &previous).await;
    let b = Replica::start(&nats, &previous).await;
    let other = Replica::start(&nats, this_version()).await;
    let replicas = [a.http, b.http];
    let proxy = Proxy::start(ProxyKind::Haproxy, folder.path(), &authority, replicas).await;
    let proxy = proxy.expect("its program was found");
    let get = Get {
        path: CARD,
        key: key.clone(),
        bodies: vec![card_of(&a, &key).await, card_of(&other, &key).await],
    };
    drop(other);
    let tunnel = proxy.tunnel(&authority).await;
    let mut sockets = ClientGroup::new(&[tunnel.address], &key, Stage::Calm);
    for n in 0..SOCKETS {
        let follow = [Follow::All, Follow::Venue("ST"), Follow::Race("HV", 1)];
        sockets.join(Plan {
            follow: follow[n % 3].clone(),
            ..Plan::default()
        });
    }
    assert!(sockets.reconnected_since(&[0; SOCKETS], PATIENCE).await);
    let client = client(&authority);
    let load = Load::start(proxy.address, &client, &get, CONNECTIONS, GETS_PER_SECOND);

    let before = sockets.connections();
    let b = b.restart_as(&nats, this_version()).await;
    let schemas = compare([&a, &b], &key).await;
    let a = a.restart_as(&nats, this_version()).await;
    // Each was on one of the two.
    assert!(sockets.reconnected_since(&before, PATIENCE).await);

    let before = sockets.connections();
    let a = a.restart_as(&nats, &previous).await;
    assert_eq!(compare([&a, &b], &key).await, schemas);
    let b = b.restart_as(&nats, &previous).await;
    assert!(sockets.reconnected_since(&before, PATIENCE).await);

    let gets = load.stop().await;
    let publisher = publishing.end().await;
    let checked = sockets.check(publisher.oracle(), publisher.last(), PATIENCE);
    let verdict = checked.await;
    eprintln!(
        "schemas {schemas:?}: {} GETs, {} failed, max {:.1?}; {} events, {} violations, {:?}",
        gets.gets(),
        gets.failures.len(),
        gets.latency(1_000),
        publisher.last(),
        verdict.violations.len(),
        verdict.tally
    );
    assert!(gets.failures.is_empty(), "{}", gets.summary());
    assert!(verdict.violations.is_empty(), "{}", verdict.summary());
    let tally = verdict.tally;
    assert_eq!((tally.not_recovered, tally.resyncs), (0, 0), "{tally:?}");
    drop((a, b));
    schemas
}

async fn card_of(replica: &Replica, key: &str) -> Vec<u8> {
    let reply = request(replica.http, "GET", CARD, &[("x-api-key", key)]).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.body
}

/// Compares the answers of a replica of the previous version and one of this version as of the same events, and their
/// digests. They are equal where the schema is. Returns both schemas.
async fn compare(replicas: [&Replica; 2], key: &str) -> [u64; 2] {
    let [previous, this] = replicas;
    let digests_before = digests(replicas).await;
    let schemas = digests_before.map(|digest| digest["schema"].as_u64().unwrap());
    for path in COMPARED {
        let (mut answers, mut compared) = (HashMap::new(), 0);
        let until = Instant::now() + PATIENCE;
        while compared < COMPARISONS {
            assert!(
                Instant::now() < until,
                "{path}: few answers as of one event"
            );
            let headers = [("x-api-key", key)];
            let of_previous = request(previous.http, "GET", path, &headers);
            let (of_previous, of_this) =
                tokio::join!(of_previous, request(this.http, "GET", path, &headers));
            // Versions before this header have one schema.
            assert!(
                ["", &*schemas[0].to_string()].contains(&of_previous.header("railbird-schema"))
            );
            assert_eq!(of_this.header("railbird-schema"), schemas[1].to_string());
            for (version, reply) in [of_previous, of_this].into_iter().enumerate() {
                assert_eq!(reply.status, 200, "{path}: {}", reply.text());
                let seq = reply.header("railbird-seq").to_owned();
                answers.insert((version, seq.clone()), reply.body);
                let both = [0, 1].map(|version| answers.get(&(version, seq.clone())));
                if let [Some(of_previous), Some(of_this)] = both {
                    assert!(
                        of_previous == of_this || schemas[0] != schemas[1],
                        "{path} at {seq}"
                    );
                    compared += 1;
                }
            }
        }
    }
    let [of_previous, of_this] = digests(replicas).await;
    assert_eq!(of_previous["history"], of_this["history"]);
    assert!(of_previous["digest"] == of_this["digest"] || schemas[0] != schemas[1]);
    schemas
}

/// The digests of both as of one event, once they have read the same.
async fn digests([previous, this]: [&Replica; 2]) -> [Value; 2] {
    let until = Instant::now() + PATIENCE;
    loop {
        let digest = |replica: &Replica| {
            let admin = replica.serving.admin;
            async move { request(admin, "GET", "/digest", &[]).await.json() }
        };
        let (of_previous, of_this) = tokio::join!(digest(previous), digest(this));
        if of_previous["seq"] == of_this["seq"] {
            return [of_previous, of_this];
        }
        assert!(Instant::now() < until, "they never are at one event");
    }
}
