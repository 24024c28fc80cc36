//! Mails with links: from the request to a working link, with a real mail server that fails in every way.

mod canary;
mod crashes;
mod settings;

use std::cell::RefCell;
use std::path::Path;

use events::{Moment, Text};
use jiff::{SignedDuration, Timestamp};
use railbird::accounts::{
    self, AccountEvent, Actor, AddressBook, Email, Fact, Ledger, MailAttempted, MailFailed,
    MailState, SubscriptionId, SubscriptionRequested, new_link,
};
use railbird::log::{ACCOUNTS, ADDRESSES, Outgoing};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::*;

const PUBLIC_URL: &str = "https://racing.example";
/// Short enough for a test to wait for, and long enough for a slow machine to send a mail.
const SHORT: &str = "4s";

/// A NATS server, a mail server, and the settings of a service that uses them.
struct MailFixture {
    nats: Nats,
    server: MailServer,
    data: TempDir,
    timeout: &'static str,
}

impl MailFixture {
    async fn start() -> Self {
        Self::to(MailServer::start().await).await
    }

    async fn to(server: MailServer) -> Self {
        let nats = Nats::start();
        ensure_streams(&nats).await;
        let data = tempfile::tempdir().unwrap();
        Self {
            nats,
            server,
            data,
            timeout: "60s",
        }
    }

    /// A fixture whose service has a short time limit for the mail server.
    async fn with_short_timeout() -> Self {
        let mut fixture = Self::start().await;
        fixture.timeout = SHORT;
        fixture
    }

    async fn serve(&self) -> Serving {
        self.serve_in(self.data.path()).await
    }

    async fn serve_in(&self, data: &Path) -> Serving {
        let url = format!("smtp://{}", self.server.address());
        self.serve_with(command(), &url, data).await
    }

    /// Starts a service with the finest log level, and waits until it is ready.
    async fn serve_with(
        &self,
        command: std::process::Command,
        smtp_url: &str,
        data: &Path,
    ) -> Serving {
        let nats = self.nats.url_of("railbird");
        let flags = [
            ["--http", "127.0.0.1:0"],
            ["--nats", &nats],
            ["--log", "trace"],
            ["--smtp-url", smtp_url],
            ["--smtp-timeout", self.timeout],
            ["--mail-from", "Railbird <keys@racing.example>"],
            ["--public-url", PUBLIC_URL],
        ];
        let service = Serving::start_as(command, &flags.concat(), data);
        service.until_ready().await;
        service
    }

    async fn append(&self, fact: impl Into<Fact>) {
        self.append_at(fact, Timestamp::now().into()).await;
    }

    async fn append_at(&self, fact: impl Into<Fact>, time: Moment) {
        let event = AccountEvent::new(Actor::Service, fact, time);
        let log = self.nats.log().await;
        log.append(Outgoing::from(&event)).await.unwrap();
    }

    /// Requests a subscription to a plan that needs no approval.
    async fn subscribe(&self, name: &str) {
        self.append(self.requested(name, &address(name), true).await)
            .await;
    }

    /// A request for a subscription, with its encrypted address.
    async fn requested(&self, name: &str, email: &str, approved: bool) -> SubscriptionRequested {
        requested(&self.nats.log().await, name, email, approved).await
    }

    async fn ledger(&self) -> Ledger {
        accounts::read(&self.nats.log().await).await.unwrap()
    }

    /// The latest mail of a subscriber with a link.
    async fn mail_of(&self, name: &str) -> Option<accounts::Mail> {
        let ledger = self.ledger().await;
        let subscription = ledger.subscriptions.get(&subscription_id(name))?;
        ledger.mails.get(&subscription.link_mail).cloned()
    }

    /// Waits until the state of a subscriber's mail fulfils a condition.
    async fn until_mail(&self, name: &str, holds: impl Fn(&MailState) -> bool) -> accounts::Mail {
        let found = RefCell::new(None);
        eventually(&format!("the mail of {name} is as expected"), async || {
            let mail = self.mail_of(name).await;
            let mail = mail.filter(|mail| holds(&mail.state));
            *found.borrow_mut() = mail;
            found.borrow().is_some()
        })
        .await;
        found.take().unwrap()
    }

    async fn until_delivered(&self, name: &str) -> accounts::Mail {
        self.until_mail(name, |state| *state == MailState::Delivered)
            .await
    }

    /// The rows of `railbird keys subscriptions`.
    async fn subscriptions(&self) -> Vec<Value> {
        let nats = self.nats.url_of("keys");
        let args = ["keys", "subscriptions", "--json", "--nats", &nats];
        let listed = railbird(args.into_iter().chain(["--log", "error"])).await;
        let rows = listed.all.lines().map(serde_json::from_str);
        rows.collect::<Result<_, _>>().unwrap()
    }

    /// The number of attempts of all mails with links.
    async fn attempts(&self) -> u32 {
        let ledger = self.ledger().await;
        let subscriptions = ledger.subscriptions.iter();
        let mails = subscriptions.filter_map(|(_, known)| ledger.mails.get(&known.link_mail));
        mails.map(|mail| mail.attempts).sum()
    }
}

async fn ensure_streams(nats: &Nats) {
    let log = nats.log().await;
    for stream in [ACCOUNTS, ADDRESSES] {
        log.ensure(stream).await.unwrap();
    }
}

/// The status of a request with a key.
async fn status_of(service: &Serving, key: &str) -> u16 {
    let headers = [("x-api-key", key)];
    request(service.http, "GET", "/api/v1/meetings", &headers)
        .await
        .status
}

/// The status of the page of a mail's link.
async fn link_status(service: &Serving, mail: &ReceivedMail) -> u16 {
    let path = format!("/account?token={}", mail.token());
    request(service.http, "GET", &path, &[]).await.status
}

/// Waits until a service has folded the attempt of a mail.
async fn until_link_works(service: &Serving, mail: &ReceivedMail) {
    eventually("the link works", || async {
        link_status(service, mail).await == 200
    })
    .await;
}

/// The value of a metric with its labels; 0 before it exists.
async fn metric(service: &Serving, name: &str) -> f64 {
    let metrics = request(service.admin, "GET", "/metrics", &[]).await.text();
    let value = metrics
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map_or(0.0, |value| value.parse().unwrap())
}

async fn until_metric(service: &Serving, name: &str, least: f64) {
    eventually(&format!("{name} is {least}"), || async {
        metric(service, name).await >= least
    })
    .await;
}

fn subscription_id(name: &str) -> SubscriptionId {
    SubscriptionId::parse(name).unwrap()
}

fn address(name: &str) -> String {
    format!("{name}@subscriber.example")
}

async fn requested(
    log: &railbird::log::Log,
    name: &str,
    email: &str,
    approved: bool,
) -> SubscriptionRequested {
    let (book, subscription_id) = (AddressBook::new(log.clone()), subscription_id(name));
    let email = Email::parse(email).unwrap();
    SubscriptionRequested {
        email: book.seal(&subscription_id, 1, &email).await.unwrap(),
        subscription_id,
        generation: 1,
        plan: text("default"),
        approved,
    }
}

fn text(text: &str) -> Text {
    Text::parse(text).unwrap()
}

#[tokio::test]
async fn a_subscriber_is_mailed_a_working_link() {
    let fixture = MailFixture::start().await;
    let service = fixture.serve().await;
    let begun = Timestamp::now() - SignedDuration::from_secs(1);
    fixture.subscribe("anna").await;
    let mails = fixture.server.until_mails(1).await;
    let mail = &mails[0];
    fixture.until_delivered("anna").await;
    assert_eq!(link_status(&service, mail).await, 200);
    assert_eq!(fixture.attempts().await, 1);

    assert_eq!(mail.to(), address("anna"));
    assert_eq!(mail.parsed["sender"], "keys@racing.example");
    assert_eq!(mail.parsed["defects"], json!([]));
    assert_eq!(mail.header("To"), address("anna"));
    assert_eq!(mail.header("From"), "Railbird <keys@racing.example>");
    assert_eq!(mail.header("Auto-Submitted"), "auto-generated");
    let message_id = format!("<{}.1@racing.example>", mail_id(&fixture, "anna").await);
    assert_eq!(mail.header("Message-ID"), message_id);
    let date = jiff::fmt::rfc2822::parse(mail.header("Date")).unwrap();
    let sent = begun..=Timestamp::now();
    assert!(sent.contains(&date.timestamp()), "{date}");
    let lines = mail.raw.split(|byte| *byte == b'\n');
    assert!(
        lines.into_iter().all(|line| line.len() < 998),
        "RFC 5322, 2.1.1"
    );

    for part in ["text", "html"] {
        let words = mail.parsed[part].as_str().unwrap().to_lowercase();
        for expected in [
            "the plan default",
            "https://racing.example/account?token=",
            "works once, for 30 minutes",
            "if it was not you",
        ] {
            let words = words.replace('\n', " ");
            assert!(words.contains(expected), "{part}: {expected}");
        }
        assert!(!words.contains("rb_"), "no key: {words}");
    }
    for (name, value) in [
        ("railbird_mails_delivered_total", 1.0),
        ("railbird_mails_waiting", 0.0),
        ("railbird_mails_oldest_seconds", 0.0),
    ] {
        until_metric(&service, name, value).await;
        assert_eq!(metric(&service, name).await, value, "{name}");
    }
}

#[tokio::test]
async fn an_approval_is_mailed_after_the_address_is_confirmed() {
    let fixture = MailFixture::start().await;
    let service = fixture.serve().await;
    let waits = fixture.requested("waits", &address("waits"), false).await;
    fixture.append(waits).await;
    let mail = fixture.server.until_mails(1).await.remove(0);
    fixture.until_delivered("waits").await;
    until_link_works(&service, &mail).await;
    sign_in(&service, &mail.token()).await;
    let nats = fixture.nats.url_of("keys");
    let approve = ["keys", "approve", "waits", "--nats", &nats];
    assert_eq!(railbird(approve).await.code, 0);
    let mails = fixture.server.until_mails(2).await;
    assert_eq!(mails[1].to(), address("waits"));
    assert!(mails[1].header("Subject").contains("is approved"));
    let rows = fixture.subscriptions().await;
    let shown = ["state", "mail", "mail_attempts", "valid_keys"].map(|name| &rows[0][name]);
    assert_eq!(
        shown,
        [&json!("active"), &json!("delivered"), &json!(1), &json!(0)]
    );
}

/// The mail of a subscriber with a link.
async fn mail_id(fixture: &MailFixture, name: &str) -> String {
    let ledger = fixture.ledger().await;
    let subscription = ledger.subscriptions.get(&subscription_id(name)).unwrap();
    subscription.link_mail.to_string()
}

/// Uses a link, and returns the session's cookie.
async fn sign_in(service: &Serving, token: &str) -> String {
    let nonce = railbird::accounts::random_secret().unwrap();
    let fields = [("do", "sign-in"), ("token", token), ("nonce", &nonce)];
    let reply = post(service.http, "/account", &fields).await;
    assert_eq!(reply.status, 303, "{}", reply.text());
    let cookie = reply.header("set-cookie");
    cookie.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_server_that_is_down_costs_no_attempt_and_loses_no_mail() {
    let mut fixture = MailFixture::start().await;
    fixture.server.go_down().await;
    let service = fixture.serve().await;
    for name in ["anna", "bob", "carl"] {
        fixture.subscribe(name).await;
    }
    until_metric(
        &service,
        "railbird_mails_failed_total{reason=\"unreachable\"}",
        2.0,
    )
    .await;
    assert_eq!(fixture.attempts().await, 0);
    until_metric(&service, "railbird_mails_waiting", 3.0).await;
    assert!(metric(&service, "railbird_mails_oldest_seconds").await > 0.0);
    fixture.server.come_up().await;
    for name in ["anna", "bob", "carl"] {
        fixture.until_delivered(name).await;
    }
    for mail in fixture.server.until_mails(3).await {
        assert_eq!(link_status(&service, &mail).await, 200);
    }
    assert_eq!(
        (fixture.server.mails().len(), fixture.attempts().await),
        (3, 3)
    );
    // The same for a server that rejects connections.
    fixture.server.at("connect", "421 too many", 1).await;
    fixture.subscribe("dora").await;
    let deferred = "railbird_mails_failed_total{reason=\"deferred\"}";
    until_metric(&service, deferred, 1.0).await;
    assert_eq!(fixture.until_delivered("dora").await.attempts, 1);
}

#[tokio::test]
async fn a_deferred_mail_is_sent_again_with_another_link() {
    for (stage, reply) in [
        ("mail", "450 later"),
        ("rcpt", "421 closing"),
        ("data", "452 full"),
    ] {
        let mut fixture = MailFixture::start().await;
        fixture.server.at(stage, reply, 2).await;
        let service = fixture.serve().await;
        fixture.subscribe("anna").await;
        let failed = fixture
            .until_mail("anna", |state| state.reason().is_some())
            .await;
        let words = format!("deferred: {reply}");
        assert_eq!(
            failed.state.reason().map(Text::as_str),
            Some(words.as_str())
        );
        let delivered = fixture.until_delivered("anna").await;
        assert_eq!(delivered.attempts, 3, "{stage}");
        let mails = fixture.server.mails();
        let (last, earlier) = mails.split_last().unwrap();
        assert_eq!(link_status(&service, last).await, 200);
        let message_id = format!("<{}.3@racing.example>", mail_id(&fixture, "anna").await);
        assert_eq!(last.header("Message-ID"), message_id);
        for mail in earlier {
            assert_eq!(link_status(&service, mail).await, 404, "{stage}");
        }
        let name = "railbird_mails_failed_total{reason=\"deferred\"}";
        assert_eq!(metric(&service, name).await, 2.0);
    }
}

/// Anybody can subscribe an address of a domain that accepts nothing for now.
#[tokio::test]
async fn a_recipient_that_is_rejected_for_now_does_not_make_mails_late() {
    let mut fixture = MailFixture::start().await;
    let service = fixture.serve().await;
    for (name, reply) in [
        ("anna", "450 4.2.1 busy"),
        ("bob", "451 4.7.1 greylisted"),
        ("carl", "452 4.2.2 full"),
    ] {
        fixture.server.at("rcpt", reply, 1).await;
        fixture.subscribe(name).await;
        let failed = fixture
            .until_mail(name, |state| state.reason().is_some())
            .await;
        let words = format!("mailbox_deferred: {reply}");
        assert_eq!(
            failed.state.reason().map(Text::as_str),
            Some(words.as_str())
        );
    }
    let failed = "railbird_mails_failed_total{reason=\"mailbox_deferred\"}";
    until_metric(&service, failed, 3.0).await;
    assert_eq!(metric(&service, "railbird_mails_waiting").await, 3.0);
    assert_eq!(metric(&service, "railbird_mails_oldest_seconds").await, 0.0);
}

#[tokio::test]
async fn a_mail_to_an_unknown_address_is_given_up() {
    let mut fixture = MailFixture::start().await;
    let service = fixture.serve().await;
    let reply = format!(
        "550 5.1.1 <{}> unknown; see https://racing.example/{}",
        address("anna"),
        "x".repeat(60)
    );
    fixture.server.at("rcpt", &reply, 1).await;
    fixture.subscribe("anna").await;
    let mail = fixture
        .until_mail("anna", |state| matches!(state, MailState::GivenUp(_)))
        .await;
    let reason = mail.state.reason().unwrap();
    assert_eq!(reason.as_str(), "refused: 550 5.1.1 ... unknown; see ...");
    assert_eq!(fixture.attempts().await, 1);
    fixture.subscribe("bob").await;
    fixture.until_delivered("bob").await;
    let first = &fixture.subscriptions().await[0];
    let shown = [&first["state"], &first["mail"], &first["mail_reason"]];
    assert_eq!(
        shown,
        [&json!("unconfirmed"), &json!("given_up"), &json!(reason)]
    );
    until_metric(&service, "railbird_mails_given_up_total", 1.0).await;
    let (log, mail_id) = (service.stop().await, mail_id(&fixture, "anna").await);
    let is_of_anna = |line: &&String| line.contains("given up") && line.contains(&mail_id);
    assert!(
        log.iter().any(|line| is_of_anna(&line)),
        "operators are informed"
    );
    assert!(!log.iter().any(|line| line.contains("@subscriber.example")));
}

#[tokio::test]
async fn a_rejection_that_is_not_about_the_address_is_retried() {
    let mut fixture = MailFixture::start().await;
    fixture
        .server
        .at("rcpt", "554 5.7.1 relay access denied", 2)
        .await;
    let service = fixture.serve().await;
    fixture.subscribe("anna").await;
    let failed = fixture
        .until_mail("anna", |state| state.reason().is_some())
        .await;
    let reason = failed.state.reason().map(Text::as_str);
    assert_eq!(reason, Some("refused: 554 5.7.1 relay access denied"));
    assert_eq!(fixture.until_delivered("anna").await.attempts, 3);
    let mails = fixture.server.mails();
    assert_eq!(mails.len(), 1);
    assert_eq!(link_status(&service, &mails[0]).await, 200);
}

#[tokio::test]
async fn a_mail_is_sent_again_after_a_timeout() {
    let mut fixture = MailFixture::with_short_timeout().await;
    let service = fixture.serve().await;
    // The server has the mail and may deliver it, but the service cannot know.
    fixture.server.at("data", "hold", 1).await;
    fixture.subscribe("anna").await;
    let failed = fixture
        .until_mail("anna", |state| state.reason().is_some())
        .await;
    assert_eq!(
        failed.state.reason().map(Text::as_str),
        Some("timeout: no reply in time")
    );
    assert_eq!(fixture.until_delivered("anna").await.attempts, 2);
    let mails = fixture.server.mails();
    assert_eq!(mails.len(), 2);
    assert_eq!(link_status(&service, &mails[0]).await, 404);
    assert_eq!(link_status(&service, &mails[1]).await, 200);

    // The same while connecting: that costs no attempt.
    fixture.server.at("connect", "hold", 1).await;
    fixture.subscribe("bob").await;
    until_metric(
        &service,
        "railbird_mails_failed_total{reason=\"timeout\"}",
        2.0,
    )
    .await;
    assert_eq!(fixture.until_delivered("bob").await.attempts, 1);
}

#[tokio::test]
async fn a_cut_connection_leaves_no_second_link() {
    for stage in ["mail", "rcpt", "body", "data"] {
        let mut fixture = MailFixture::start().await;
        fixture.server.at(stage, "cut", 1).await;
        let service = fixture.serve().await;
        fixture.subscribe("anna").await;
        let delivered = fixture.until_delivered("anna").await;
        assert_eq!(delivered.attempts, 2, "{stage}");
        let mails = fixture.server.mails();
        assert_eq!(mails.len(), if stage == "data" { 2 } else { 1 }, "{stage}");
        let (last, earlier) = mails.split_last().unwrap();
        assert_eq!(link_status(&service, last).await, 200);
        for mail in earlier {
            assert_eq!(link_status(&service, mail).await, 404);
        }
        let name = "railbird_mails_failed_total{reason=\"cut_off\"}";
        assert_eq!(metric(&service, name).await, 1.0, "{stage}");
    }
}

#[tokio::test]
async fn a_mail_is_given_up_after_a_day() {
    let mut fixture = MailFixture::start().await;
    fixture.server.at("mail", "451 later", 2).await;
    for (name, hours) in [("patient", 23), ("over", 25)] {
        fixture.subscribe(name).await;
        let began = Timestamp::now() - SignedDuration::from_hours(hours);
        let ledger = fixture.ledger().await;
        let subscription = ledger.subscriptions.get(&subscription_id(name)).unwrap();
        let mail_id = subscription.link_mail.clone();
        let attempted = MailAttempted {
            mail_id: mail_id.clone(),
            attempt: 1,
            link: Some(new_link(name, began.into())),
        };
        fixture.append_at(attempted, began.into()).await;
        let failed = MailFailed {
            mail_id,
            attempt: 1,
            reason: text("deferred: 451"),
            is_final: false,
        };
        fixture.append_at(failed, began.into()).await;
    }
    let _service = fixture.serve().await;
    let over = fixture
        .until_mail("over", |state| matches!(state, MailState::GivenUp(_)))
        .await;
    assert_eq!(over.attempts, 2);
    let patient = fixture.until_delivered("patient").await;
    assert_eq!(patient.attempts, 3);
}

#[tokio::test]
async fn a_mail_to_an_invalid_address_is_given_up() {
    let fixture = MailFixture::start().await;
    let _service = fixture.serve().await;
    let odd = fixture.requested("odd", "a..b@subscriber..example", true);
    fixture.append(odd.await).await;
    let mail = fixture
        .until_mail("odd", |state| matches!(state, MailState::GivenUp(_)))
        .await;
    assert_eq!(mail.attempts, 0);
    // An address that is not ASCII is sent to servers that support it.
    let joerg = fixture.requested("joerg", "j\u{f6}rg@subscriber.example", true);
    fixture.append(joerg.await).await;
    fixture.until_delivered("joerg").await;
    assert_eq!(
        fixture.server.mails()[0].to(),
        "j\u{f6}rg@subscriber.example"
    );
}

#[tokio::test]
async fn one_of_two_replicas_sends_a_mail() {
    let mut fixture = MailFixture::start().await;
    let names = ["anna", "bob", "carl", "dora"];
    // Both replicas are released at the same moment, before either has recorded an attempt.
    fixture.server.at("connect", "hold", 2 * names.len()).await;
    let other = tempfile::tempdir().unwrap();
    let services = [fixture.serve().await, fixture.serve_in(other.path()).await];
    for name in names {
        fixture.subscribe(name).await;
    }
    fixture.server.until_at("connect", 2 * names.len()).await;
    fixture.server.release("connect").await;
    for name in names {
        let mail = fixture.until_delivered(name).await;
        assert_eq!(mail.attempts, 1, "{name}");
    }
    let mails = fixture.server.mails();
    let mut to: Vec<_> = mails.iter().map(|mail| mail.to().to_owned()).collect();
    to.sort();
    assert_eq!(to, names.map(address), "each once");
    for service in &services {
        for mail in &mails {
            until_link_works(service, mail).await;
        }
    }
}
