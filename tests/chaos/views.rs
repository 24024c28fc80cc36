//! The views of a replica after all events: results, and the quotes of each race, each once.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;

use serde_json::Value;

use super::feeders::{RACES, VENUES};
use crate::conformance::oracle::Oracle;
use crate::conformance::scenario::DATE;
use crate::support::*;

/// Compares the results and the histories of all races with the events. Returns what differs.
pub(super) async fn wrong_views(
    replica: SocketAddr,
    key: &str,
    events: &BTreeMap<u64, Value>,
    oracle: &Oracle,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for venue in VENUES {
        for number in 1..=RACES {
            let quotes = quotes_of(events, venue, number);
            let path = format!("/api/v1/odds/{DATE}/{number}/history?venue={venue}&limit=1000");
            let history = history(replica, key, path).await;
            if history != quotes {
                wrong.push(format!(
                    "{venue} {number} has {} quotes, not {}",
                    history.len(),
                    quotes.len()
                ));
            }
            let path = format!("/api/v1/results/{DATE}/{number}?venue={venue}");
            let reply = request(replica, "GET", &path, &[("x-api-key", key)]).await;
            let (served, stated) = (result(&reply), oracle.result(venue, number.into()));
            if served != stated {
                wrong.push(format!("{path}: {served:?}, not {stated:?}"));
            }
        }
    }
    wrong
}

/// The sequences of the quotes of a race, each id once.
fn quotes_of(events: &BTreeMap<u64, Value>, venue: &str, number: u16) -> Vec<u64> {
    let mut ids = HashSet::new();
    let of_race = events.iter().filter(|(_, event)| {
        event["type"] == "racing.odds.quoted.v1"
            && event["data"]["venue"] == venue
            && event["data"]["race_number"] == number
    });
    let first = of_race.filter(|(_, event)| ids.insert(event["id"].as_str().unwrap()));
    first.map(|(seq, _)| *seq).collect()
}

/// The sequences in a history, page by page.
async fn history(replica: SocketAddr, key: &str, path: String) -> Vec<u64> {
    let (mut seqs, mut next) = (Vec::new(), Some(path));
    while let Some(path) = next {
        let reply = request(replica, "GET", &path, &[("x-api-key", key)]).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        let page = reply.json();
        let history = page["history"].as_array().unwrap();
        seqs.extend(history.iter().map(|quote| quote["seq"].as_u64().unwrap()));
        next = page["next"]
            .as_str()
            .map(str::to_owned)
            .filter(|next| !next.is_empty());
    }
    seqs
}

/// The placed horses, the status and the revision of a result, if there is one.
fn result(reply: &Reply) -> Option<(Vec<Value>, Value, Value)> {
    if reply.status == 404 {
        return None;
    }
    let body = reply.json();
    let placed = body["runners"].as_array().unwrap().iter();
    let placed = placed.map(|runner| runner["horse_no"].clone()).collect();
    Some((placed, body["status"].clone(), body["revision"].clone()))
}
