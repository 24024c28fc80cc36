//! The pages in a browser, with a real mail server.

use std::time::Duration;

use jiff::SignedDuration;
use railbird::http::UNAUTHORIZED_BODY;
use railbird::mail::{Mailing, Sender, Smtp, Transport};
use serde_json::json;

use super::*;

const EMAIL: &str = "rail.bird@racing.example";
/// Long enough for a slow machine to use the old key, and short enough to wait for its end.
const OVERLAP: SignedDuration = SignedDuration::from_secs(20);

/// The response to a request with a key.
async fn get_with_key(railbird: &Railbird, key: &str) -> Reply {
    request(
        railbird.http,
        "GET",
        "/api/v1/meetings",
        &[("x-api-key", key)],
    )
    .await
}

async fn until(railbird: &Railbird, status: u16, key: &str) {
    eventually(&format!("a key gets {status}"), || async {
        get_with_key(railbird, key).await.status == status
    })
    .await;
}

async fn open(railbird: &Railbird, key: &str) -> Socket {
    let mut socket = Socket::open(railbird.http, key).await;
    socket.until("snapshot_complete").await;
    socket
}

/// Waits until the socket of a key is closed because the key is rejected, and checks that requests are rejected, too.
///
/// Requests until then would use up the quota, which all keys of the subscriber share.
async fn assert_rejected(railbird: &Railbird, key: &str, mut socket: Socket) {
    let (messages, code) = socket.until_closed().await;
    assert_eq!(
        (&messages.last().unwrap()["event"], code),
        (&json!("closing"), Some(4401))
    );
    until(railbird, 401, key).await;
    assert_eq!(get_with_key(railbird, key).await.text(), UNAUTHORIZED_BODY);
}

#[tokio::test]
async fn a_person_subscribes_and_uses_replaces_and_revokes_the_key() {
    let nats = Nats::start();
    let server = MailServer::start().await;
    let smtp = format!("smtp://{}", server.address());
    let railbird = Railbird::start_with(&nats, |config| {
        config.rotation_overlap = OVERLAP;
        config.mailing = Some(Mailing {
            transport: Transport::Smtp(Smtp::parse(&smtp, Duration::from_secs(30)).unwrap()),
            from: Sender::parse("Railbird <keys@racing.example>").unwrap(),
            public_url: None,
            key_env: "test",
        });
    })
    .await;
    let mut browser = BrowserScript::start("subscribe.mjs", railbird.http, &[EMAIL]);
    assert_eq!(browser.done().await, json!({ "subscribed": "Standard" }));

    let waiting = ledger(&nats).await;
    let (id, _) = waiting
        .subscriptions()
        .next()
        .expect("the subscription is recorded");
    let approve = [
        "keys",
        "approve",
        &id.to_string(),
        "--nats",
        &nats.url_of("keys"),
    ]
    .map(str::to_owned);
    assert_eq!(crate::support::railbird(approve).await.code, 0);
    let mail = server.until_mails(1).await.remove(0);
    assert_eq!(mail.to(), EMAIL);
    let old = mail.key();
    until(&railbird, 200, &old).await;
    let of_old = open(&railbird, &old).await;

    let link = format!(
        "http://{}/keys/manage?token={}",
        railbird.http,
        mail.token()
    );
    browser.send(&link).await;
    let new = browser.done().await["key"].as_str().unwrap().to_owned();
    assert_ne!(new, old);
    until(&railbird, 200, &new).await;
    let of_new = open(&railbird, &new).await;
    assert_eq!(
        get_with_key(&railbird, &old).await.status,
        200,
        "both work for now"
    );
    let made = ledger(&nats).await.keys().count();
    assert_eq!(made, 3, "one of the test, and two of the subscriber");
    assert_rejected(&railbird, &old, of_old).await;
    assert_eq!(get_with_key(&railbird, &new).await.status, 200);

    browser.send("go on").await;
    assert_eq!(browser.done().await, json!({ "revoked": true }));
    assert_rejected(&railbird, &new, of_new).await;
    browser.finished().await;
    assert_eq!(server.mails().len(), 1);
}
