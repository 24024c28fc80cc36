//! `railbird log status` on one server: space, streams and consumers, for the administrator alone.

use async_nats::jetstream::stream::Config;
use serde_json::Value;

use crate::support::*;

async fn status(nats: &Nats, user: &str, more: &[&str]) -> Output {
    let url = nats.url_of(user);
    railbird([&["log", "status", "--nats", &url], more].concat()).await
}

#[tokio::test]
async fn an_administrator_sees_space_streams_and_consumers() {
    let nats = Nats::start();
    let service = Railbird::start(&nats).await;
    let seq = nats.publish([registered("H1", "HORSE 1")]).await;
    service.until_published(seq).await;
    let jetstream = patient_jetstream(nats.client_of("admin").await);
    let other = Config {
        name: "OTHER".to_owned(),
        subjects: vec!["other".to_owned()],
        max_bytes: 2_000_000,
        ..Config::default()
    };
    jetstream.create_stream(other).await.unwrap();

    let shown = status(&nats, "admin", &[]).await;
    assert_eq!(shown.code, 0, "{}", shown.all);
    assert!(
        shown.all.starts_with("1 of 1 nats-servers answer\nSERVER "),
        "{}",
        shown.all
    );
    let row = |name: &str| -> Vec<&str> {
        let row = shown.all.lines().find(|line| line.starts_with(name));
        row.unwrap_or_default().split_whitespace().collect()
    };
    assert_eq!(
        row("OTHER")[2..],
        ["-", "0", "0", "0", "B", "2.00", "MB", "0"],
        "{}",
        shown.all
    );
    assert_eq!(row("RACING")[3..5], ["1", "1"], "{}", shown.all);

    let shown = status(&nats, "admin", &["--json"]).await;
    let shown: Value = serde_json::from_str(&shown.all).unwrap();
    let servers = shown["servers"].as_object().unwrap();
    assert!(
        servers.len() == 1 && shown["servers_expected"] == 1,
        "{shown}"
    );
    let streams = shown["streams"].as_array().unwrap();
    let racing = streams
        .iter()
        .find(|stream| stream["name"] == "RACING")
        .unwrap();
    assert_eq!(
        racing["created"],
        service.get_admin("/digest").await.json()["log"]["created"]
    );
    assert_eq!(
        (&racing["last_seq"], &racing["bytes_max"].is_u64()),
        (&seq.into(), &true)
    );
    // That of the views of another log, and that of these.
    let mut consumers = racing["consumers"].as_array().unwrap().iter();
    assert!(consumers.any(|of| of["last_seq"] == seq), "{shown}");

    let denied = status(&nats, "railbird", &[]).await;
    assert_eq!(denied.code, 77, "{}", denied.all);
    assert!(denied.all.contains("log.STREAM.NAMES"), "{}", denied.all);
}
