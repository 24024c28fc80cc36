//! Sources that show that they are alive: on the live channel, on `/status`, and in the metrics.

use serde_json::{Value, json};

use crate::support::*;

/// The states of sources in a message.
fn sources(message: &Value) -> &Value {
    &message["feed"]["sources"]
}

/// The next message with this event whose sources are in this state.
async fn until_sources(socket: &mut Socket, event: &str, state: &str) {
    let expected = json!([{ "source": "tote", "state": state }]);
    loop {
        let message = socket
            .next_or_heartbeat()
            .await
            .expect("the socket stays open");
        if message["event"] == event && sources(&message) == &expected {
            return;
        }
    }
}

async fn alive_of_metrics(railbird: &Railbird) -> bool {
    let metrics = railbird.get_admin("/metrics").await.text();
    let is_alive = |n| metrics.contains(&format!("railbird_source_alive{{source=\"tote\"}} {n}\n"));
    assert_ne!(is_alive(0), is_alive(1), "{metrics}");
    is_alive(1)
}

#[tokio::test]
async fn a_source_that_stops_to_show_that_it_is_alive_is_down_everywhere_at_once() {
    let mut nats = Nats::start();
    nats.add_feeder("tote", "racing.odds.>").await;
    let railbird = Railbird::start(&nats).await;
    let mut socket = Socket::open(railbird.http, &railbird.key).await;
    let feeder = nats.client_of("tote").await;
    // A feeder proves its name: it may not show another one.
    for source in ["exchange", "tote"] {
        let sent = feeder.publish(format!("alive.{source}"), "".into()).await;
        sent.unwrap();
    }
    feeder.flush().await.unwrap();
    until_sources(&mut socket, "feed_update", "alive").await;
    until_sources(&mut socket, "heartbeat", "alive").await;
    assert!(alive_of_metrics(&railbird).await);
    until_sources(&mut socket, "feed_update", "down").await;
    let expected = json!([{ "source": "tote", "state": "down" }]);
    eventually("the status has it", async || {
        let status = railbird.get_open("/status.json").await.json();
        sources(&status) == &expected
    })
    .await;
    assert!(!alive_of_metrics(&railbird).await);
}
