//! The [`Cluster`] of the tests does what it says.

use std::time::Duration;

use async_nats::jetstream::stream::Config;
use async_nats::jetstream::{self, Context};

use crate::support::*;

/// A request fails within this time, so that it can be repeated.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// JetStream for an administrator who knows one server alone.
async fn jetstream_at(cluster: &Cluster, server: usize) -> Context {
    let client = cluster.server(server).client_of("admin").await;
    let mut context = jetstream::new(client);
    context.set_timeout(REQUEST_TIMEOUT);
    context
}

/// Appends an event, and repeats that until it is acknowledged.
async fn append(context: &Context) {
    eventually("an event is acknowledged", || async {
        match context.publish("racing.test", "{}".into()).await {
            Ok(acknowledgement) => acknowledgement.await.is_ok(),
            Err(_) => false,
        }
    })
    .await;
}

/// Creates the log with three replicas, and returns its leader.
async fn create_log(cluster: &Cluster) -> usize {
    let context = jetstream_at(cluster, 0).await;
    let config = Config {
        name: "RACING".to_owned(),
        subjects: vec!["racing.>".to_owned()],
        num_replicas: 3,
        ..Config::default()
    };
    context.create_stream(config).await.unwrap();
    append(&context).await;
    cluster.stream_leader("RACING").await
}

/// Waits until a server has all messages of the log, as it says itself.
async fn until_it_has_all(cluster: &Cluster, server: usize) {
    eventually("the server is current again", || async {
        let mut stream = match jetstream_at(cluster, server)
            .await
            .get_stream("RACING")
            .await
        {
            Ok(stream) => stream,
            Err(_) => return false,
        };
        let Ok(info) = stream.info().await else {
            return false;
        };
        let cluster = info.cluster.clone().unwrap();
        cluster.leader.is_some() && cluster.replicas.iter().all(|replica| replica.current)
    })
    .await;
}

#[tokio::test]
async fn a_killed_leader_is_replaced_and_catches_up() {
    let mut cluster = Cluster::start();
    let leader = create_log(&cluster).await;
    cluster.kill(leader);
    let other = cluster.stream_leader("RACING").await;
    assert_ne!(other, leader);
    append(&jetstream_at(&cluster, other).await).await;
    cluster.restart(leader);
    until_it_has_all(&cluster, leader).await;
}

#[tokio::test]
async fn a_frozen_leader_is_replaced_and_catches_up() {
    let cluster = Cluster::start();
    let leader = create_log(&cluster).await;
    cluster.freeze(leader);
    eventually("another server leads", || async {
        cluster.stream_leader("RACING").await != leader
    })
    .await;
    let other = cluster.stream_leader("RACING").await;
    append(&jetstream_at(&cluster, other).await).await;
    cluster.thaw(leader);
    until_it_has_all(&cluster, leader).await;
}

#[tokio::test]
async fn a_leader_that_is_cut_off_is_replaced_answers_its_clients_and_catches_up() {
    let cluster = Cluster::start();
    let leader = create_log(&cluster).await;
    let client = jetstream_at(&cluster, leader).await;
    cluster.partition(leader);
    eventually("another server leads", || async {
        cluster.stream_leader("RACING").await != leader
    })
    .await;
    let other = cluster.stream_leader("RACING").await;
    append(&jetstream_at(&cluster, other).await).await;
    let lost = client
        .publish("racing.test", "{}".into())
        .await
        .unwrap()
        .await;
    lost.unwrap_err();
    cluster.heal(leader);
    until_it_has_all(&cluster, leader).await;
    append(&client).await;
}
