//! The pages for subscribers: requesting a key, and replacing or revoking it.

mod browser;
mod manage;
mod subscribe;

use jiff::Timestamp;
use railbird::accounts::{
    self, AccountEvent, ApiKey, Email, Fact, Ledger, MailAttempted, MailDelivered, MailId,
    MailRequested, SecretHash, SubscriptionId, random_secret,
};
use railbird::log::{ACCOUNTS, Outgoing};

use crate::support::*;

/// The ledger as of now.
async fn ledger(nats: &Nats) -> Ledger {
    accounts::read(&nats.log().await).await.unwrap()
}

/// Appends an event.
async fn append(nats: &Nats, fact: impl Into<Fact>) {
    let event = AccountEvent::new(fact, Timestamp::now().into());
    let log = nats.log().await;
    log.append(Outgoing::from(&event)).await.unwrap();
}

/// Waits until a service has folded all account events.
async fn until_folded(railbird: &Railbird, nats: &Nats) {
    let last_seq = nats.log().await.state(ACCOUNTS).await.unwrap().last_seq;
    eventually("all events are folded", || async {
        railbird.app.ledger.borrow().seq() >= last_seq && railbird.app.keys.is_complete()
    })
    .await;
}

/// The key and the token of a mail that was delivered.
struct DeliveredMail {
    key: ApiKey,
    token: String,
}

impl DeliveredMail {
    /// Appends the events of the first mail of a subscription.
    async fn to(nats: &Nats, subscription_id: SubscriptionId) -> Self {
        let mail_id = MailId::first_to(&subscription_id);
        let (key, token) = (ApiKey::generate("test").unwrap(), random_secret().unwrap());
        let requested = MailRequested {
            mail_id: mail_id.clone(),
            subscription_id,
            purpose: text("subscription"),
        };
        let attempted = MailAttempted {
            mail_id: mail_id.clone(),
            attempt: 1,
            key_id: key.key_id(),
            sha256: key.hash(),
            manage_sha256: SecretHash::of(&token),
        };
        let delivered = MailDelivered {
            mail_id: mail_id.clone(),
            attempt: 1,
        };
        append(nats, requested).await;
        append(nats, attempted).await;
        append(nats, delivered).await;
        Self { key, token }
    }
}

fn text(text: &str) -> events::Text {
    events::Text::parse(text).unwrap()
}

/// The value of an attribute that follows a text.
fn attribute<'a>(page: &'a str, before: &str) -> &'a str {
    let found = page.split_once(before);
    let (_, after) = found.unwrap_or_else(|| panic!("no {before} in\n{page}"));
    after.split_once('"').unwrap().0
}

/// Checks that a response is a page without scripts and with strict headers. Returns its HTML.
fn html(reply: &Reply, status: u16) -> String {
    let page = reply.text();
    assert_eq!(reply.status, status, "{page}");
    assert_eq!(reply.header("content-type"), "text/html; charset=utf-8");
    assert_eq!(reply.header("referrer-policy"), "no-referrer");
    assert_eq!(reply.header("x-content-type-options"), "nosniff");
    let policy = reply.header("content-security-policy");
    for part in [
        "default-src 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(
        !policy.contains("unsafe") && !policy.contains("script-src"),
        "{policy}"
    );
    for active in [
        "<script",
        "javascript:",
        " style=",
        " onclick",
        " onload",
        "http://",
        "https://",
    ] {
        let page = page.replace("xmlns='http://www.w3.org/2000/svg'", "");
        assert!(!page.contains(active), "{active} in\n{page}");
    }
    page
}
