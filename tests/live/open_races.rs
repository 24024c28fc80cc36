//! Which races new clients are sent, whatever a feeder quotes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::races;
use crate::support::*;

const YESTERDAY: &str = "2026-10-02";
const RACES: u16 = 10;

/// Quotes of 64 races at each of so many venues that nobody has. It is the morning of [`DAY`] in UTC.
fn quotes(date: &str, venue: char, venues: u16) -> Vec<Value> {
    let races = (0..venues).flat_map(|n| (1..=64).map(move |race| (n, race)));
    races
        .map(|(n, race)| odds_on(date, &format!("{venue}{n:02}"), race, &second(0), &[2.0]))
        .collect()
}

/// The races that a new client is sent, of which all on the card are that have quotes.
async fn opened(railbird: &Railbird, quoted: u16) -> BTreeSet<String> {
    let opened = races(&railbird.live("").await.1);
    let of_card = (1..=quoted).map(|race| format!("ST {race}"));
    let missing: Vec<String> = of_card.filter(|race| !opened.contains(race)).collect();
    assert!(missing.is_empty(), "{missing:?} of {}", opened.len());
    opened
}

async fn left_out(railbird: &Railbird) -> u64 {
    let metrics = railbird.get_admin("/metrics").await.text();
    let name = "railbird_feed_open_races_left_out_total ";
    let value = metrics.lines().find_map(|line| line.strip_prefix(name));
    value.map_or(0, |value| value.parse().unwrap())
}

#[tokio::test]
async fn quotes_of_races_that_are_on_no_card_take_no_image_from_those_that_are() {
    let nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    let railbird = Railbird::start_in(&nats, data.path()).await;
    nats.publish((1..=RACES).map(|race| card(DAY, "ST", race, 2)))
        .await;
    let mut quoted = 5;
    nats.publish((1..=quoted).map(|race| odds("ST", race, &second(0), &[2.0, 3.0])))
        .await;
    let far = [quotes("2300-01-01", 'F', 9), quotes("2999-01-01", 'G', 9)].concat();
    let own = (11..=90).map(|race| odds("ST", race, &second(0), &[2.0]));
    let attacks = [
        far,
        quotes(YESTERDAY, 'Y', 17),
        quotes(DAY, 'A', 9),
        quotes(DAY, 'Z', 9),
        own.collect(),
    ];
    let (before, mut attempts) = (left_out(&railbird).await, 0);
    for attack in attacks {
        attempts += attack.len() as u64;
        nats.publish(attack).await;
        quoted += 1;
        let seq = nats
            .publish([odds("ST", quoted, &second(1), &[2.0, 3.0])])
            .await;
        railbird.until_published(seq).await;
        assert!(opened(&railbird, quoted).await.len() <= 1_024);
    }
    let left_out = left_out(&railbird).await - before;
    assert!(
        left_out >= attempts + 10 - 1_024,
        "{left_out} of {attempts}"
    );
    let last = opened(&railbird, quoted).await;
    railbird.stop().await;
    // The same ones after a restart, and on a replica that folds the log anew.
    let railbird = Railbird::start_in(&nats, data.path()).await;
    assert_eq!(opened(&railbird, quoted).await, last);
    railbird.stop().await;
    let railbird = Railbird::start(&nats).await;
    assert_eq!(opened(&railbird, quoted).await, last);
}
