//! The pages in a browser, with a real mail server.

use std::collections::BTreeSet;
use std::time::Duration;

use railbird::http::UNAUTHORIZED_BODY;
use railbird::mail::Smtp;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;

const EMAIL: &str = "rail.bird@racing.example";

/// The status of a request with a key, which costs a request of the plan.
async fn get_with_key(railbird: &Railbird, key: &str) -> u16 {
    let headers = [("x-api-key", key)];
    let reply = request(railbird.http, "GET", "/api/v1/meetings", &headers).await;
    assert!(reply.status != 401 || reply.text() == UNAUTHORIZED_BODY);
    reply.status
}

async fn until(railbird: &Railbird, status: u16, key: &str) {
    eventually(&format!("a key gets {status}"), || async {
        get_with_key(railbird, key).await == status
    })
    .await;
}

/// Opens a socket with a key, and reads it to its end, as clients do.
async fn follow(railbird: &Railbird, key: &str) -> JoinHandle<(Vec<Value>, Option<u16>)> {
    let mut socket = Socket::open(railbird.http, key).await;
    socket.until("snapshot_complete").await;
    tokio::spawn(async move { socket.until_closed().await })
}

/// Waits until the socket of a key is closed because the key is rejected, and checks that requests are rejected, too.
async fn assert_rejected(
    railbird: &Railbird,
    key: &str,
    following: JoinHandle<(Vec<Value>, Option<u16>)>,
) {
    let (messages, code) = following.await.unwrap();
    assert_eq!(
        (&messages.last().unwrap()["event"], code),
        (&json!("closing"), Some(4401))
    );
    until(railbird, 401, key).await;
}

/// Starts a service with a mail server.
async fn start(nats: &Nats, server: &MailServer) -> Railbird {
    let smtp = format!("smtp://{}", server.address());
    Railbird::start_with(nats, |config| {
        config.mailing = Some(Mailing {
            transport: Transport::Smtp(Smtp::parse(&smtp, Duration::from_secs(30)).unwrap()),
            from: Sender::parse("Railbird <keys@racing.example>").unwrap(),
            key_env: "test",
        });
    })
    .await
}

/// The next key that the script reports, once it is valid.
async fn next_key(browser: &mut BrowserScript, railbird: &Railbird) -> String {
    let key = browser.done().await["key"].as_str().unwrap().to_owned();
    until(railbird, 200, &key).await;
    key
}

#[tokio::test]
async fn a_person_subscribes_signs_in_uses_replaces_and_revokes_keys_and_leaves() {
    let (nats, server) = (Nats::start(), MailServer::start().await);
    let railbird = start(&nats, &server).await;
    let mut browser = BrowserScript::start("subscribe.mjs", railbird.http, &[EMAIL]);
    assert_eq!(browser.done().await, json!({ "subscribed": "Standard" }));
    let mail = server.until_mails(1).await.remove(0);
    assert_eq!(mail.to(), EMAIL);
    let link = format!("http://{}/account?token={}", railbird.http, mail.token());
    browser.send(&link).await;
    assert_eq!(browser.done().await, json!({ "confirmed": true }));

    let id = id_of(&nats, EMAIL).await.to_string();
    let url = nats.url_of("keys");
    let approve = ["keys", "approve", &id, "--nats", &url].map(str::to_owned);
    assert_eq!(crate::support::railbird(approve).await.code, 0);
    server.until_mails(2).await;
    browser.send("go on").await;
    let first = next_key(&mut browser, &railbird).await;
    let of_first = follow(&railbird, &first).await;
    for _ in 0..2 {
        assert_eq!(get_with_key(&railbird, &first).await, 200);
    }
    browser.send("go on").await;
    let second = next_key(&mut browser, &railbird).await;
    assert_eq!(get_with_key(&railbird, &first).await, 200, "both work");
    let of_second = follow(&railbird, &second).await;
    browser.send("go on").await;
    let third = next_key(&mut browser, &railbird).await;
    let created = BTreeSet::from([&first, &second, &third]);
    assert_eq!((created.len(), subscribers_keys(&nats).await), (3, 3));

    browser.send("go on").await;
    assert_eq!(browser.done().await, json!({ "revoked": true }));
    assert_rejected(&railbird, &second, of_second).await;
    assert_eq!(get_with_key(&railbird, &third).await, 200);
    assert_eq!(get_with_key(&railbird, &first).await, 200, "until its end");
    // Each change was announced.
    let mails = server.until_mails(6).await;
    let mut subjects: Vec<_> = mails.iter().map(|mail| mail.header("Subject")).collect();
    subjects.sort_unstable();
    assert_eq!(
        subjects,
        [
            "A Railbird key was created",
            "A Railbird key was created",
            "A Railbird key was replaced",
            "A Railbird key was revoked",
            "Confirm your Railbird subscription",
            "Your Railbird subscription is approved",
        ]
    );
    browser.send("go on").await;
    assert_eq!(browser.done().await, json!({ "left": true }));
    assert_rejected(&railbird, &first, of_first).await;
    until(&railbird, 401, &third).await;
    browser.send("go on").await;
    assert_eq!(browser.done().await, json!({ "asked": true }));
    browser.finished().await;

    // A mail that is sent after it has arrived.
    let fields = [("email", "b@racing.example"), ("plan", "free")];
    html(&post(railbird.http, "/pricing", &fields).await, 200);
    let mails = server.until_mails(7).await;
    assert_eq!(mails.len(), 7);
    assert_eq!(mails[6].to(), "b@racing.example");
}
