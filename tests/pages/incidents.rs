//! Incidents and planned maintenance: in the log, so that restarts, crashes and replicas do not change the list.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use railbird::log::ACCOUNTS;
use serde_json::{Value, json};

use super::status::incident;
use crate::support::*;

const URL: &str = "https://racing.example/odds";

fn serve(nats: &Nats, data: &Path) -> Serving {
    let flags = [
        "--http",
        "127.0.0.1:0",
        "--nats",
        &nats.url(),
        "--public-url",
        URL,
    ];
    Serving::start_with(&flags, data)
}

async fn status(http: SocketAddr) -> Value {
    request(http, "GET", "/status.json", &[]).await.json()
}

/// Waits until a list of the status fulfils a condition, and returns it.
async fn until(http: SocketAddr, list: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    eventually(what, || async { holds(&status(http).await[list]) }).await;
    status(http).await[list].clone()
}

/// The entries of the feed, as a reader of feeds sees them.
async fn feed(http: SocketAddr) -> Value {
    let reply = request(http, "GET", "/status.atom", &[]).await;
    assert_eq!(reply.header("content-type"), "application/atom+xml");
    let python = std::env::var("RAILBIRD_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut reader = Command::new(python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages/atom.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    reader.stdin.take().unwrap().write_all(&reply.body).unwrap();
    let output = reader.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", reply.text());
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn maintenance(nats: &Nats, args: &[&str]) -> Vec<Value> {
    let mut command = command();
    command.arg("maintenance").args(args);
    command.args(["--nats", &nats.url_of("keys")]);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let lines = String::from_utf8(output.stdout).unwrap();
    // An id may have digits alone.
    let parse = |line: &str| match line.starts_with('{') {
        true => serde_json::from_str(line).unwrap(),
        false => json!(line),
    };
    lines.lines().map(parse).collect()
}

/// The latest that the log has of an incident.
async fn recorded(nats: &Nats, kind: &str) -> Option<Value> {
    let jetstream = async_nats::jetstream::new(nats.client_of("admin").await);
    let stream = jetstream.get_stream(ACCOUNTS.name).await.ok()?;
    let subject = format!("accounts.incident.{kind}");
    let message = stream
        .get_last_raw_message_by_subject(&subject)
        .await
        .ok()?;
    let event: Value = serde_json::from_slice(&message.payload).unwrap();
    Some(event["data"].clone())
}

/// It is noted when it begins: nobody is there to note its end.
#[tokio::test]
async fn an_incident_in_which_the_service_was_killed_ends_when_it_works_again() {
    let mut nats = Nats::start();
    nats.publish([registered("H1", "HORSE 1")]).await;
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let mut railbird = serve(&nats, folders[0].path());
    railbird.until_ready().await;
    nats.kill();
    nats.lose("RACING");
    nats.start_again();
    eventually("the log has the beginning", || async {
        recorded(&nats, "diverged").await.is_some()
    })
    .await;
    let begun = recorded(&nats, "diverged").await.unwrap();
    assert!(begun.get("ended_at").is_none(), "{begun}");
    // On a slow machine there are others: the data gets stale.
    let diverged = async |http| {
        let status = status(http).await;
        incident(&status, "diverged").cloned().unwrap_or_default()
    };
    let before = diverged(railbird.http).await;
    railbird.kill();

    // A data folder without views has no other history.
    let railbird = serve(&nats, folders[1].path());
    railbird.until_ready().await;
    eventually("the incident is over", || async {
        diverged(railbird.http).await["ended_at"].is_string()
    })
    .await;
    let after = diverged(railbird.http).await;
    assert_eq!(after["kind"], "diverged");
    assert_eq!(
        [&after["id"], &after["started_at"]],
        [&before["id"], &before["started_at"]]
    );
    assert_eq!(begun["started_at"], after["started_at"]);
    assert!(after["started_at"].as_str() < after["ended_at"].as_str());
    let entries = feed(railbird.http).await;
    let id = format!("{URL}/status#{}", after["id"].as_str().unwrap());
    let mut entries = entries.as_array().unwrap().iter();
    let entry = entries.find(|entry| entry["id"] == id).unwrap();
    assert_eq!(entry["updated"], after["ended_at"]);
    railbird.stop().await;
    let railbird = serve(&nats, folders[1].path());
    railbird.until_ready().await;
    eventually("it is as before", || async {
        diverged(railbird.http).await == after
    })
    .await;
}

#[tokio::test]
async fn replicas_list_the_same_incidents_and_maintenance_also_after_a_restart() {
    let nats = Nats::start();
    nats.publish([registered("H1", "HORSE 1")]).await;
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [first, second] = folders.each_ref().map(|folder| serve(&nats, folder.path()));
    first.until_ready().await;
    second.until_ready().await;
    assert_eq!(feed(first.http).await, json!([]));
    let rebuild = request(first.admin, "POST", "/rebuild", &[]).await;
    assert_eq!(rebuild.status, 202);
    let over = |incidents: &Value| incidents[0]["ended_at"].is_string();
    until(second.http, "incidents", "the other replica lists it", over).await;

    let at = ["--at", "2999-01-31T02:00:00Z", "--lasts", "90m"];
    let [upgrade, move_] = ["The log is upgraded.", "The service <moves> & is away."];
    let mut ids = Vec::new();
    for text in [upgrade, move_] {
        ids.extend(maintenance(&nats, &[&["plan", text], &at[..]].concat()).await);
    }
    let cancelled = ids[1].as_str().unwrap();
    maintenance(&nats, &["cancel", cancelled]).await;
    let is_cancelled = |known: &Value| known[1]["cancelled_at"].is_string();
    let mut lists = Vec::new();
    for replica in [&first, &second] {
        until(replica.http, "maintenance", "it is cancelled", is_cancelled).await;
        let status = status(replica.http).await;
        lists.push([
            status["incidents"].clone(),
            status["maintenance"].clone(),
            feed(replica.http).await,
        ]);
    }
    assert_eq!(lists[0], lists[1]);
    let [incidents, planned, entries] = &lists[0];
    let listed = maintenance(&nats, &["list", "--json"]).await;
    assert_eq!(*planned, json!(listed));
    let known: Vec<_> = listed.iter().map(|it| it["id"].clone()).collect();
    assert_eq!(known, ids);
    assert_eq!(planned[0]["ends_at"], "2999-01-31T03:30:00Z");
    let all = planned.as_array().unwrap().iter().rev();
    let all = all.chain(incidents.as_array().unwrap());
    let all: Vec<_> = all
        .map(|it| format!("{URL}/status#{}", it["id"].as_str().unwrap()))
        .collect();
    let found = entries.as_array().unwrap().iter();
    assert_eq!(found.map(|it| it["id"].clone()).collect::<Vec<_>>(), all);
    assert!(
        entries[0]["summary"].as_str().unwrap().ends_with(move_),
        "{entries}"
    );
    assert!(
        entries[0]["title"]
            .as_str()
            .unwrap()
            .starts_with("Cancelled"),
        "{entries}"
    );
    let page = request(first.http, "GET", "/status", &[]).await.text();
    assert!(page.contains(upgrade) && !page.contains("moves"), "{page}");

    first.stop().await;
    let first = serve(&nats, folders[0].path());
    first.until_ready().await;
    for (list, before) in [("incidents", incidents), ("maintenance", planned)] {
        until(first.http, list, "it is as before", |known| known == before).await;
    }
    assert_eq!(feed(first.http).await, *entries);
}
