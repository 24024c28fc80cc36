//! `examples/mirror.py`: a copy of the answers that stays exact, however often it is cut off.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use simulator::{RaceDay, script};
use tokio::time::{interval, sleep};

use crate::conformance::rng::Rng;
use crate::support::*;

const DATE: &str = "2026-11-21";

/// A simulated week of two meetings a day. On the way, a third one begins, a card loses a horse, the sources are
/// ranked.
fn events() -> Vec<Value> {
    let mut events = Vec::new();
    for day in 15..=21 {
        let date = format!("2026-11-{day}");
        let date = events::RacingDate::parse(&date).unwrap();
        let simulated = RaceDay::new(date, 1, 11);
        let midnight = format!("2026-11-{}T16:00:00Z", day - 1);
        let midnight: Timestamp = midnight.parse().unwrap();
        let script = script(&simulated, &simulated.as_in_life(midnight));
        let of_day = script.iter().map(events::Envelope::encode);
        events.extend(of_day.map(|event| serde_json::from_slice::<Value>(&event).unwrap()));
    }
    let third = events.len() / 3;
    let going = json!({ "going": "YIELDING" });
    let ranking = json!({ "sources": ["simulated-exchange", "simulated-bookmaker"] });
    let extra = [
        card(DATE, "CH", 1, 4),
        card(DATE, "CH", 1, 3),
        result(DATE, "CH", 1, 3, 1),
        event("going.changed", &second(1), of_race(DATE, "HV", 9, going)),
        event("sources.ranked", &second(2), ranking),
        result(DATE, "CH", 1, 2, 2),
    ];
    for (n, fact) in extra.into_iter().enumerate() {
        events.insert(third + 40 * n, fact);
    }
    events
}

/// Publishes events, a few hundred in a second.
async fn publish(nats: &Nats, events: Vec<Value>) {
    let (log, mut pace) = (nats.log().await, interval(Duration::from_millis(3)));
    for event in events {
        log.append(outgoing(&event)).await.unwrap();
        pace.tick().await;
    }
}

fn start(railbird: &Railbird, folder: &Path, more: &[&str]) -> Example {
    let url = format!("http://{}", railbird.http);
    let variables = [
        ("RAILBIRD_URL", url.as_str()),
        ("RAILBIRD_API_KEY", &railbird.key),
    ];
    let args = [&[folder.to_str().unwrap()], more].concat();
    Example::run("mirror.py", &args, &variables)
}

/// The paths of the files in a folder.
fn copied(folder: &Path, below: &str) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for entry in std::fs::read_dir(folder.join(below)).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let name = format!("{below}{name}");
        if let Some(path) = name.strip_suffix(".json") {
            paths.insert(match path.rsplit_once('/') {
                Some((path, query)) if query.contains('=') => format!("/api/v1/{path}?{query}"),
                _ => format!("/api/v1/{path}"),
            });
        } else if folder.join(&name).is_dir() {
            paths.extend(copied(folder, &format!("{name}/")));
        }
    }
    paths
}

fn file_of(folder: &Path, path: &str) -> Vec<u8> {
    let path = path.strip_prefix("/api/v1/").unwrap().replace('?', "/");
    std::fs::read(folder.join(path + ".json")).unwrap_or_default()
}

/// All paths that the changes name.
async fn named(railbird: &Railbird) -> BTreeSet<String> {
    let (mut paths, mut next) = (BTreeSet::new(), "/api/v1/changes".to_owned());
    loop {
        let page = railbird.get(&next).await.json();
        for change in page["changes"].as_array().unwrap() {
            let resources = change["resources"].as_array().unwrap().iter();
            paths.extend(resources.map(|path| path.as_str().unwrap().to_owned()));
        }
        if page["more"] == false {
            return paths;
        }
        page["next"].as_str().unwrap().clone_into(&mut next);
    }
}

#[tokio::test]
async fn the_copy_is_exact_after_it_was_cut_off_at_random() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let folder = tempfile::tempdir().unwrap();
    let mut rng = Rng::new(29);
    let mut cut_off = 0;
    let publishing = publish(&nats, events());
    tokio::pin!(publishing);
    loop {
        let _mirror = start(&railbird, folder.path(), &[]);
        tokio::select! {
            () = &mut publishing => break,
            () = sleep(Duration::from_millis(200 + rng.below(2_000))) => cut_off += 1,
        }
    }
    assert!(cut_off > 2, "{cut_off}");
    railbird.until_seq(nats.last_seq().await).await;
    let mut mirror = start(&railbird, folder.path(), &["--until-end"]);
    assert_eq!(mirror.ended().await, Some(0), "{:?}", mirror.lines);

    let (copied, named) = (copied(folder.path(), ""), named(&railbird).await);
    assert!(copied.is_subset(&named), "{:?}", copied.difference(&named));
    let mut statuses = BTreeSet::new();
    for path in &named {
        let reply = railbird.get(path).await;
        let copy = file_of(folder.path(), path);
        let expected = if reply.status == 200 {
            reply.text()
        } else {
            String::new()
        };
        assert_eq!(String::from_utf8(copy).unwrap(), expected, "{path}");
        statuses.insert(reply.status);
    }
    assert_eq!(statuses, BTreeSet::from([200, 404]));
}
