//! The pages for subscribers: how a key is asked for, and how it is looked after.

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

/// What the stream says by now.
async fn ledger(nats: &Nats) -> Ledger {
    accounts::read(&nats.log().await).await.unwrap()
}

/// Says something.
async fn say(nats: &Nats, fact: impl Into<Fact>) {
    let event = AccountEvent::new(fact, Timestamp::now().into());
    let log = nats.log().await;
    log.append(Outgoing::from(&event)).await.unwrap();
}

/// Waits until a service has heard all that was said.
async fn until_heard(railbird: &Railbird, nats: &Nats) {
    let said = nats.log().await.state(ACCOUNTS).await.unwrap().last_seq;
    eventually("it has heard", || async {
        railbird.app.ledger.borrow().seq() >= said && railbird.app.keys.is_complete()
    })
    .await;
}

/// A mail that was delivered, and what stood in it.
struct Mailed {
    key: ApiKey,
    token: String,
}

impl Mailed {
    /// The first mail to a subscription.
    async fn to(nats: &Nats, subscription_id: SubscriptionId) -> Self {
        let mail_id = MailId::first_to(&subscription_id);
        let (key, token) = (ApiKey::generate("test").unwrap(), random_secret().unwrap());
        let wished = MailRequested {
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
        say(nats, wished).await;
        say(nats, attempted).await;
        say(nats, delivered).await;
        Self { key, token }
    }
}

fn text(text: &str) -> events::Text {
    events::Text::parse(text).unwrap()
}

/// Where a page puts something that it holds in an attribute.
fn attribute<'a>(page: &'a str, before: &str) -> &'a str {
    let found = page.split_once(before);
    let (_, behind) = found.unwrap_or_else(|| panic!("{before} is not there:\n{page}"));
    behind.split_once('"').unwrap().0
}

/// Holds an answer to be a page that may do nothing.
fn is_page(reply: &Reply, status: u16) -> String {
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
