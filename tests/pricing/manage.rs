//! `/keys/manage`: the page of the link in a mail.

use futures::future::join_all;
use railbird::accounts::SubscriptionRequested;
use railbird::http::UNAUTHORIZED_BODY;

use super::*;

/// A subscriber with a delivered mail, and a number of replicas.
struct Subscriber {
    nats: Nats,
    replicas: Vec<Railbird>,
    mail: DeliveredMail,
}

impl Subscriber {
    async fn start(replicas: usize) -> Self {
        let nats = Nats::start();
        let mut services = Vec::new();
        for _ in 0..replicas {
            services.push(Railbird::start(&nats).await);
        }
        let (email, plan) = (Email::parse("a@racing.example").unwrap(), text("free"));
        let subscription_id = SubscriptionId::of(&email, &plan);
        let requested = SubscriptionRequested {
            subscription_id: subscription_id.clone(),
            email,
            plan,
            approved: true,
        };
        append(&nats, requested).await;
        let mail = DeliveredMail::to(&nats, subscription_id).await;
        for service in &services {
            until_folded(service, &nats).await;
        }
        Self {
            nats,
            replicas: services,
            mail,
        }
    }

    fn link(&self) -> String {
        format!("/keys/manage?token={}", self.mail.token)
    }

    /// The page of the link.
    async fn page(&self) -> String {
        html(&self.replicas[0].get_open(&self.link()).await, 200)
    }

    /// Presses a button of a page, at one of the replicas.
    async fn press(&self, button: &str, page: &str, key: &str, replica: usize) -> Reply {
        let fields = [
            ("token", attribute(page, "name=\"token\" value=\"")),
            ("key", key),
            ("nonce", attribute(page, "name=\"nonce\" value=\"")),
            ("do", button),
        ];
        post(self.replicas[replica].http, "/keys/manage", &fields).await
    }

    /// Waits until every replica responds to a key with a status.
    async fn until(&self, status: u16, key: &str) {
        for replica in &self.replicas {
            eventually(&format!("a key gets {status}"), || async {
                let headers = [("x-api-key", key)];
                let reply = request(replica.http, "GET", "/api/v1/meetings", &headers).await;
                assert!(reply.status != 401 || reply.text() == UNAUTHORIZED_BODY);
                reply.status == status
            })
            .await;
        }
    }
}

/// The key that a page shows.
fn shown(page: &str) -> Option<&str> {
    let (_, after) = page.split_once("id=\"key\"")?;
    let (key, _) = after.split_once('>')?.1.split_once('<')?;
    Some(key)
}

fn key_id(key: &str) -> &str {
    key.split('_').nth(2).unwrap()
}

#[tokio::test]
async fn opening_a_link_changes_nothing() {
    let subscriber = Subscriber::start(1).await;
    let before = ledger(&subscriber.nats).await.seq();
    for method in ["GET", "HEAD"] {
        let reply = request(subscriber.replicas[0].http, method, &subscriber.link(), &[]).await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("cache-control"), "no-store");
        assert_eq!(reply.header("x-robots-tag"), "noindex");
    }
    let page = subscriber.page().await;
    let id = subscriber.mail.key.key_id();
    assert!(page.contains(id.as_str()), "{page}");
    assert!(page.contains("24 hours"), "the overlap: {page}");
    assert!(
        !page.contains(subscriber.mail.key.reveal()),
        "the key is not stored"
    );
    assert_eq!(ledger(&subscriber.nats).await.seq(), before);
}

#[tokio::test]
async fn a_link_replaces_its_key_and_works_for_the_new_one() {
    let subscriber = Subscriber::start(2).await;
    let old = subscriber.mail.key.reveal();
    subscriber.until(200, old).await;
    let reply = subscriber
        .press("rotate", &subscriber.page().await, key_id(old), 0)
        .await;
    let page = html(&reply, 200);
    let new = shown(&page).expect("the new key").to_owned();
    assert!(new.starts_with("rb_live_") && new != old, "{page}");
    subscriber.until(200, &new).await;
    subscriber.until(200, old).await;

    let page = subscriber.page().await;
    assert_eq!(shown(&page), None, "the key is shown once");
    assert!(page.contains("replaced, and still valid"), "{page}");
    let reply = subscriber.press("rotate", &page, key_id(&new), 1).await;
    let newest = shown(&html(&reply, 200)).expect("another key").to_owned();
    subscriber.until(200, &newest).await;

    for (key, n) in [(old, 0), (&*new, 1), (&*newest, 0)] {
        let page = subscriber.page().await;
        let page = html(
            &subscriber.press("revoke", &page, key_id(key), n).await,
            200,
        );
        assert!(page.contains("It is revoked."), "{page}");
        subscriber.until(401, key).await;
        // A second revocation appends nothing.
        let seq = ledger(&subscriber.nats).await.seq();
        let again = [
            ("token", &*subscriber.mail.token),
            ("key", key_id(key)),
            ("do", "revoke"),
        ];
        html(
            &post(subscriber.replicas[n].http, "/keys/manage", &again).await,
            200,
        );
        assert_eq!(ledger(&subscriber.nats).await.seq(), seq);
    }
    until_folded(&subscriber.replicas[0], &subscriber.nats).await;
    let page = subscriber.page().await;
    assert!(
        page.contains("Subscribe again") && !page.contains("<form"),
        "{page}"
    );
}

#[tokio::test]
async fn pressing_a_button_repeatedly_creates_one_key_and_shows_it_each_time() {
    let subscriber = Subscriber::start(2).await;
    let old = subscriber.mail.key.reveal();
    let page = subscriber.page().await;
    let pressed = (0..6).map(|n| subscriber.press("rotate", &page, key_id(old), n % 2));
    let shown: Vec<String> = join_all(pressed)
        .await
        .iter()
        .map(|reply| shown(&html(reply, 200)).expect("the new key").to_owned())
        .collect();
    assert!(shown.iter().all(|key| *key == shown[0]), "one key");
    subscriber.until(200, &shown[0]).await;
    let found = ledger(&subscriber.nats).await;
    let of_subscriber = found
        .keys()
        .filter(|(_, key)| matches!(key.holder, accounts::Holder::Subscription(_)));
    assert_eq!(of_subscriber.count(), 2);
}

#[tokio::test]
async fn one_of_two_pages_with_the_same_key_replaces_it() {
    let subscriber = Subscriber::start(2).await;
    let old = subscriber.mail.key.reveal();
    let (one, other) = (subscriber.page().await, subscriber.page().await);
    let replies = tokio::join!(
        subscriber.press("rotate", &one, key_id(old), 0),
        subscriber.press("rotate", &other, key_id(old), 1),
    );
    let pages = [html(&replies.0, 200), html(&replies.1, 200)];
    let keys: Vec<&str> = pages.iter().filter_map(|page| shown(page)).collect();
    assert_eq!(keys.len(), 1, "the other page shows a notice");
    assert!(
        pages
            .iter()
            .any(|page| page.contains("replaced or revoked before"))
    );
    subscriber.until(200, keys[0]).await;
}

#[tokio::test]
async fn an_invalid_form_changes_nothing() {
    let subscriber = Subscriber::start(1).await;
    let railbird = &subscriber.replicas[0];
    let before = ledger(&subscriber.nats).await.seq();
    let (token, id) = (
        &*subscriber.mail.token,
        key_id(subscriber.mail.key.reveal()),
    );
    let nonce = random_secret().unwrap();
    let others = key_id(&railbird.key);
    for (status, token, key, action, nonce) in [
        (404, "", id, "revoke", ""),
        (404, &*nonce, id, "revoke", ""),
        (422, token, others, "revoke", ""),
        (422, token, "", "revoke", ""),
        (422, token, id, "delete", ""),
        (422, token, id, "rotate", ""),
        (422, token, id, "rotate", "a"),
    ] {
        let fields = [
            ("token", token),
            ("key", key),
            ("do", action),
            ("nonce", nonce),
        ];
        html(&post(railbird.http, "/keys/manage", &fields).await, status);
    }
    for path in [
        "/keys/manage",
        "/keys/manage?token=",
        "/keys/manage?token=x",
        "/keys/manage?token=%00",
    ] {
        html(&railbird.get_open(path).await, 404);
    }
    let delete = request(railbird.http, "DELETE", &subscriber.link(), &[]).await;
    html(&delete, 405);
    assert_eq!(ledger(&subscriber.nats).await.seq(), before);
}

#[tokio::test]
async fn the_link_of_a_failed_attempt_does_not_work() {
    let subscriber = Subscriber::start(1).await;
    let railbird = &subscriber.replicas[0];
    let mail_id = MailId::parse("a-mail").unwrap();
    let found = ledger(&subscriber.nats).await;
    let (subscription_id, _) = found.subscriptions().next().unwrap();
    let requested = MailRequested {
        mail_id: mail_id.clone(),
        subscription_id: subscription_id.clone(),
        purpose: text("requested again"),
    };
    append(&subscriber.nats, requested).await;
    let mut tokens = Vec::new();
    for attempt in 1..=2 {
        let (key, token) = (ApiKey::generate("test").unwrap(), random_secret().unwrap());
        let attempted = MailAttempted {
            mail_id: mail_id.clone(),
            attempt,
            key_id: key.key_id(),
            sha256: key.hash(),
            manage_sha256: SecretHash::of(&token),
        };
        append(&subscriber.nats, attempted).await;
        tokens.push(token);
    }
    until_folded(railbird, &subscriber.nats).await;
    for (token, status) in tokens.iter().zip([404, 200]) {
        let path = format!("/keys/manage?token={token}");
        html(&railbird.get_open(&path).await, status);
    }
}
