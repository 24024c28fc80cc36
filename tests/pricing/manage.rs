//! `/keys/manage`: where the link in a mail leads.

use futures::future::join_all;
use railbird::accounts::SubscriptionRequested;
use railbird::http::UNAUTHORIZED_BODY;

use super::*;

/// A subscriber with a mail, at some replicas.
struct Subscriber {
    nats: Nats,
    replicas: Vec<Railbird>,
    mailed: Mailed,
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
        say(&nats, requested).await;
        let mailed = Mailed::to(&nats, subscription_id).await;
        for service in &services {
            until_heard(service, &nats).await;
        }
        Self {
            nats,
            replicas: services,
            mailed,
        }
    }

    fn link(&self) -> String {
        format!("/keys/manage?token={}", self.mailed.token)
    }

    /// The page of the link.
    async fn page(&self) -> String {
        is_page(&self.replicas[0].get_open(&self.link()).await, 200)
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

    /// The status that every replica comes to answer a key with.
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
    let (_, behind) = page.split_once("id=\"key\"")?;
    let (key, _) = behind.split_once('>')?.1.split_once('<')?;
    Some(key)
}

fn key_id(key: &str) -> &str {
    key.split('_').nth(2).unwrap()
}

#[tokio::test]
async fn to_open_a_link_changes_nothing() {
    let subscriber = Subscriber::start(1).await;
    let before = ledger(&subscriber.nats).await.seq();
    for method in ["GET", "HEAD"] {
        let reply = request(subscriber.replicas[0].http, method, &subscriber.link(), &[]).await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("cache-control"), "no-store");
        assert_eq!(reply.header("x-robots-tag"), "noindex");
    }
    let page = subscriber.page().await;
    let id = subscriber.mailed.key.key_id();
    assert!(page.contains(id.as_str()), "{page}");
    assert!(
        page.contains("24 hours"),
        "for how long the old one stays: {page}"
    );
    assert!(
        !page.contains(subscriber.mailed.key.reveal()),
        "it is not known here"
    );
    assert_eq!(ledger(&subscriber.nats).await.seq(), before);
}

#[tokio::test]
async fn a_link_replaces_its_key_and_goes_on_working_for_the_new_one() {
    let subscriber = Subscriber::start(2).await;
    let old = subscriber.mailed.key.reveal();
    subscriber.until(200, old).await;
    let reply = subscriber
        .press("rotate", &subscriber.page().await, key_id(old), 0)
        .await;
    let page = is_page(&reply, 200);
    let new = shown(&page).expect("the new key").to_owned();
    assert!(new.starts_with("rb_live_") && new != old, "{page}");
    subscriber.until(200, &new).await;
    subscriber.until(200, old).await;

    let page = subscriber.page().await;
    assert_eq!(shown(&page), None, "it is shown once");
    assert!(page.contains("replaced, and still valid"), "{page}");
    let reply = subscriber.press("rotate", &page, key_id(&new), 1).await;
    let newest = shown(&is_page(&reply, 200))
        .expect("another key")
        .to_owned();
    subscriber.until(200, &newest).await;

    for (key, n) in [(old, 0), (&*new, 1), (&*newest, 0)] {
        let page = subscriber.page().await;
        let page = is_page(
            &subscriber.press("revoke", &page, key_id(key), n).await,
            200,
        );
        assert!(page.contains("It is revoked."), "{page}");
        subscriber.until(401, key).await;
        // Said twice it is taken back once.
        let seq = ledger(&subscriber.nats).await.seq();
        let again = [
            ("token", &*subscriber.mailed.token),
            ("key", key_id(key)),
            ("do", "revoke"),
        ];
        is_page(
            &post(subscriber.replicas[n].http, "/keys/manage", &again).await,
            200,
        );
        assert_eq!(ledger(&subscriber.nats).await.seq(), seq);
    }
    until_heard(&subscriber.replicas[0], &subscriber.nats).await;
    let page = subscriber.page().await;
    assert!(
        page.contains("Subscribe again") && !page.contains("<form"),
        "{page}"
    );
}

#[tokio::test]
async fn a_button_that_is_pressed_again_and_again_makes_one_key_and_shows_it_each_time() {
    let subscriber = Subscriber::start(2).await;
    let old = subscriber.mailed.key.reveal();
    let page = subscriber.page().await;
    let pressed = (0..6).map(|n| subscriber.press("rotate", &page, key_id(old), n % 2));
    let shown: Vec<String> = join_all(pressed)
        .await
        .iter()
        .map(|reply| shown(&is_page(reply, 200)).expect("the new key").to_owned())
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
async fn of_two_pages_with_one_key_one_replaces_it() {
    let subscriber = Subscriber::start(2).await;
    let old = subscriber.mailed.key.reveal();
    let (one, other) = (subscriber.page().await, subscriber.page().await);
    let replies = tokio::join!(
        subscriber.press("rotate", &one, key_id(old), 0),
        subscriber.press("rotate", &other, key_id(old), 1),
    );
    let pages = [is_page(&replies.0, 200), is_page(&replies.1, 200)];
    let keys: Vec<&str> = pages.iter().filter_map(|page| shown(page)).collect();
    assert_eq!(keys.len(), 1, "and the other one is told so");
    assert!(
        pages
            .iter()
            .any(|page| page.contains("replaced or revoked before"))
    );
    subscriber.until(200, keys[0]).await;
}

#[tokio::test]
async fn what_does_not_come_from_the_page_of_the_link_changes_nothing() {
    let subscriber = Subscriber::start(1).await;
    let railbird = &subscriber.replicas[0];
    let before = ledger(&subscriber.nats).await.seq();
    let (token, id) = (
        &*subscriber.mailed.token,
        key_id(subscriber.mailed.key.reveal()),
    );
    let nonce = random_secret().unwrap();
    let others = key_id(&railbird.key);
    for (status, fields) in [
        (
            404,
            [("token", ""), ("key", id), ("do", "revoke"), ("nonce", "")],
        ),
        (
            404,
            [
                ("token", &*nonce),
                ("key", id),
                ("do", "revoke"),
                ("nonce", ""),
            ],
        ),
        (
            422,
            [
                ("token", token),
                ("key", others),
                ("do", "revoke"),
                ("nonce", ""),
            ],
        ),
        (
            422,
            [
                ("token", token),
                ("key", ""),
                ("do", "revoke"),
                ("nonce", ""),
            ],
        ),
        (
            422,
            [
                ("token", token),
                ("key", id),
                ("do", "delete"),
                ("nonce", ""),
            ],
        ),
        (
            422,
            [
                ("token", token),
                ("key", id),
                ("do", "rotate"),
                ("nonce", ""),
            ],
        ),
        (
            422,
            [
                ("token", token),
                ("key", id),
                ("do", "rotate"),
                ("nonce", "a"),
            ],
        ),
    ] {
        is_page(&post(railbird.http, "/keys/manage", &fields).await, status);
    }
    for path in [
        "/keys/manage",
        "/keys/manage?token=",
        "/keys/manage?token=x",
        "/keys/manage?token=%00",
    ] {
        is_page(&railbird.get_open(path).await, 404);
    }
    let delete = request(railbird.http, "DELETE", &subscriber.link(), &[]).await;
    is_page(&delete, 405);
    assert_eq!(ledger(&subscriber.nats).await.seq(), before);
}

#[tokio::test]
async fn the_link_of_an_attempt_that_failed_opens_nothing() {
    let subscriber = Subscriber::start(1).await;
    let railbird = &subscriber.replicas[0];
    let mail_id = MailId::parse("a-mail").unwrap();
    let found = ledger(&subscriber.nats).await;
    let (subscription_id, _) = found.subscriptions().next().unwrap();
    let wished = MailRequested {
        mail_id: mail_id.clone(),
        subscription_id: subscription_id.clone(),
        purpose: text("asked again"),
    };
    say(&subscriber.nats, wished).await;
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
        say(&subscriber.nats, attempted).await;
        tokens.push(token);
    }
    until_heard(railbird, &subscriber.nats).await;
    for (token, status) in tokens.iter().zip([404, 200]) {
        let path = format!("/keys/manage?token={token}");
        is_page(&railbird.get_open(&path).await, status);
    }
}
