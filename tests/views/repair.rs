//! Views that are rebuilt or repaired while events arrive.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;

use crate::support::*;

/// Publishes so many quotes of one race each second, until dropped.
async fn traffic(nats: &Nats, per_second: u32) -> AbortOnDropHandle<()> {
    let log = nats.log().await;
    AbortOnDropHandle::new(tokio::spawn(async move {
        let (mut appender, mut tick) = (
            log.appender(),
            interval(Duration::from_secs(1) / per_second),
        );
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for n in 0.. {
            tick.tick().await;
            let quote = odds("HV", 1, &second(n % 50_000), &[2.0, 3.0]);
            appender.append(outgoing(&quote)).await.unwrap();
        }
    }))
}

#[tokio::test]
async fn rebuilds_beside_the_live_views_succeed_while_events_arrive() {
    const REBUILDS: usize = 8;
    let nats = Nats::start();
    let seq = nats
        .publish((0..3_000).map(|n| odds("ST", 1, &second(n), &[2.0, 3.0])))
        .await;
    let railbird = Railbird::start(&nats).await;
    railbird.until_seq(seq).await;
    let _traffic = traffic(&nats, 400).await;
    let connections = nats.connections();
    let mut status = railbird.app.projector.status.clone();
    let mut failed = 0;
    for _ in 0..REBUILDS {
        let before = status.borrow().rebuilds;
        assert!(railbird.app.projector.rebuild());
        let begun = status.wait_for(|s| s.rebuild.is_some() || s.rebuilds > before);
        drop(begun.await.unwrap());
        let ended = status.wait_for(|status| status.rebuild.is_none()).await;
        failed += usize::from(ended.unwrap().rebuilds == before);
    }
    assert_eq!(failed, 0, "of {REBUILDS}");
    // A connection of the service itself may have come late.
    eventually("the connections of the rebuilds end", || async {
        nats.connections() < connections + REBUILDS
    })
    .await;
}

#[tokio::test]
async fn damaged_views_are_restored_while_other_events_arrive() {
    let nats = Nats::start();
    let days = (1..=15).map(|day| format!("2026-09-{day:02}"));
    let races: Vec<_> = days
        .flat_map(|date| (1..=9).map(move |race| (date.clone(), race)))
        .collect();
    let results = races.iter();
    let results = results.map(|(date, race)| result(date, "ST", *race, 14, 1));
    let seq = nats.publish(results).await;
    let railbird = Railbird::start(&nats).await;
    railbird.until_seq(seq).await;
    let sound = railbird.get("/api/v1/results/2026-09-01/1").await.body;
    let views = || railbird.app.views.current().unwrap();
    let keys = races.iter();
    let keys: Vec<_> = keys
        .map(|(date, race)| format!("result/{date}/ST/{race:03}"))
        .collect();
    keys.iter().for_each(|key| views().flip_bit(key));
    let _traffic = traffic(&nats, 20).await;
    eventually("all views are restored", || async {
        let reply = railbird.get("/api/v1/results/2026-09-01/1").await;
        let is_sound = reply.status == 200 && reply.body == sound;
        assert!(is_sound || reply.status == 503, "{}", reply.text());
        is_sound && keys.iter().all(|key| views().get(key).is_ok())
    })
    .await;
}

#[tokio::test]
async fn damage_that_a_commit_meets_takes_no_other_view_away() {
    let nats = Nats::start();
    nats.publish((0..5_000).map(|n| odds("ST", 1, &second(n), &[2.0, 3.0])))
        .await;
    let seq = nats
        .publish(["H1", "H2"].map(|horse| registered(horse, "A HORSE")))
        .await;
    let railbird = Railbird::start(&nats).await;
    railbird.until_seq(seq).await;
    let views = railbird.app.views.current().unwrap();
    views.flip_bit("horse/H1");
    drop(views);
    let last = nats.publish([registered("H1", "ANOTHER NAME")]).await;
    let mut replies = BTreeSet::new();
    while railbird.seq() < last || railbird.get_open("/readyz").await.status != 200 {
        let reply = railbird.get("/api/v1/horses/H2").await;
        replies.insert((
            reply.status,
            reply.header("railbird-feed").to_owned(),
            reply.header("railbird-seq").to_owned(),
        ));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(
        replies.iter().all(|(status, ..)| *status == 200),
        "{replies:?}"
    );
    assert!(
        replies.iter().any(|(_, feed, _)| feed == "stale"),
        "{replies:?}"
    );
    let restored = railbird.get("/api/v1/horses/H1").await.json();
    assert_eq!(restored["horse_name"], "ANOTHER NAME");
}

#[tokio::test]
async fn after_a_commit_that_failed_halfway_not_all_of_the_log_is_folded_again() {
    let nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    let seq = nats
        .publish((0..3_000).map(|n| odds("ST", 1, &second(n), &[2.0, 3.0])))
        .await;
    let railbird = Railbird::start_in(&nats, data.path()).await;
    railbird.until_seq(seq).await;
    // What a failed commit has left on disk may be no whole views.
    railbird.app.health.snapshots.create().await.unwrap();
    let views = railbird.app.views.current().unwrap();
    views.flush().unwrap();
    let name = fs::read_to_string(data.path().join("views/CURRENT")).unwrap();
    // Without the folder of large values, their commits fail.
    fs::remove_dir(data.path().join("views").join(name.trim()).join("blobs")).unwrap();
    let folded = || railbird.app.projector.status.borrow().tally.folded;
    let before = folded();
    let last = nats
        .publish((1..=40).map(|race| large_card("HV", race)))
        .await;
    // sled may also write, and fail, in a read.
    let has_failed = async || views.is_torn() || views.damage().is_some();
    eventually("the views cannot be written", has_failed).await;
    drop(views);
    railbird.until_seq(last).await;
    railbird.until_ready().await;
    assert!(folded() - before < 3_000, "all of the log is folded again");
    let fresh = Railbird::start(&nats).await;
    fresh.until_seq(last).await;
    assert_eq!(railbird.digest(), fresh.digest());
}
