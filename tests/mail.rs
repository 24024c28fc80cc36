//! Mails with keys: from the wish to the key that works, against a real mail server that fails in every way.

mod canary;
mod crashes;
mod settings;

use std::path::Path;

use events::{Moment, Text};
use jiff::{SignedDuration, Timestamp};
use railbird::accounts::{
    self, AccountEvent, ApiKey, Email, Fact, Ledger, MailAttempted, MailFailed, MailId,
    MailRequested, MailState, SecretHash, SubscriptionId, SubscriptionRequested,
};
use railbird::log::{ACCOUNTS, Outgoing};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::*;

const PUBLIC_URL: &str = "https://racing.example";
/// So short that a test can wait for what an attempt may take, and so long that a slow machine does in it what it has to.
const SHORT: &str = "4s";

/// A service that sends mails to a server.
struct Post {
    nats: Nats,
    server: MailServer,
    data: TempDir,
    timeout: &'static str,
}

impl Post {
    async fn start() -> Self {
        Self::to(MailServer::start().await).await
    }

    async fn to(server: MailServer) -> Self {
        let nats = Nats::start();
        nats.log().await.ensure(ACCOUNTS).await.unwrap();
        let data = tempfile::tempdir().unwrap();
        Self {
            nats,
            server,
            data,
            timeout: "60s",
        }
    }

    /// The same, with a server that is not waited for long.
    async fn start_impatient() -> Self {
        let mut post = Self::start().await;
        post.timeout = SHORT;
        post
    }

    async fn serve(&self) -> Serving {
        self.serve_in(self.data.path()).await
    }

    async fn serve_in(&self, data: &Path) -> Serving {
        let url = format!("smtp://{}", self.server.address());
        self.serve_with(command(), &url, data).await
    }

    /// A service that is ready, and logs all that it can.
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
        until_ready(&service).await;
        service
    }

    async fn say(&self, fact: impl Into<Fact>) {
        self.say_at(fact, Timestamp::now().into()).await;
    }

    async fn say_at(&self, fact: impl Into<Fact>, time: Moment) {
        let event = AccountEvent::new(fact, time);
        let log = self.nats.log().await;
        log.append(Outgoing::from(&event)).await.unwrap();
    }

    /// Subscribes as a page does, to a plan that needs no approval.
    async fn subscribe(&self, name: &str) {
        self.say(requested(name, true)).await;
    }

    async fn ledger(&self) -> Ledger {
        accounts::read(&self.nats.log().await).await.unwrap()
    }

    /// Where the mail to a subscriber stands.
    async fn mail_of(&self, name: &str) -> Option<accounts::Mail> {
        let ledger = self.ledger().await;
        let subscription = ledger.subscription(&subscription_id(name))?;
        ledger.mail(subscription.mail.as_ref()?).cloned()
    }

    /// Waits until the log says of a subscriber's mail what is asked for.
    async fn until_mail(&self, name: &str, holds: impl Fn(&MailState) -> bool) -> accounts::Mail {
        let mut found = None;
        for _ in 0..1_000 {
            found = self.mail_of(name).await;
            if found.as_ref().is_some_and(|mail| holds(&mail.state)) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        let mail = found.expect("a mail is wished");
        assert!(holds(&mail.state), "waited in vain: {mail:?}");
        mail
    }

    async fn until_delivered(&self, name: &str) -> accounts::Mail {
        self.until_mail(name, |state| *state == MailState::Delivered)
            .await
    }

    /// The rows of `railbird keys subscriptions`.
    async fn subscriptions(&self) -> Vec<Value> {
        let nats = self.nats.url_of("railbird");
        let args = ["keys", "subscriptions", "--json", "--nats", &nats];
        let said = railbird(args.into_iter().chain(["--log", "error"])).await;
        let rows = said.all.lines().map(serde_json::from_str);
        rows.collect::<Result<_, _>>().unwrap()
    }

    /// How many keys are valid, and how many there ever were.
    async fn keys(&self) -> (usize, usize) {
        let (ledger, now) = (self.ledger().await, Timestamp::now().into());
        let valid = ledger.keys().filter(|(_, key)| key.is_valid(now));
        (valid.count(), ledger.keys().count())
    }
}

async fn until_ready(service: &Serving) {
    let http = service.http;
    eventually("the service is ready", || async move {
        request(http, "GET", "/readyz", &[]).await.status == 200
    })
    .await;
}

/// The answer to a request with a key.
async fn status_of(service: &Serving, key: &str) -> u16 {
    let headers = [("x-api-key", key)];
    request(service.http, "GET", "/api/v1/meetings", &headers)
        .await
        .status
}

/// A metric, with its labels; 0 before there is one.
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

fn requested(name: &str, approved: bool) -> SubscriptionRequested {
    SubscriptionRequested {
        subscription_id: subscription_id(name),
        email: Email::parse(&address(name)).unwrap(),
        plan: text("basic"),
        approved,
    }
}

fn text(text: &str) -> Text {
    Text::parse(text).unwrap()
}

#[tokio::test]
async fn who_subscribes_is_mailed_a_key_that_works() {
    let post = Post::start().await;
    let service = post.serve().await;
    post.subscribe("anna").await;
    let mails = post.server.until_mails(1).await;
    let mail = &mails[0];
    let stands = post.until_delivered("anna").await;
    assert_eq!(status_of(&service, &mail.key()).await, 200);
    assert_eq!(post.keys().await, (1, 1));
    let attempt = stands.attempt.unwrap();
    assert_eq!(mail.key().split('_').nth(2), Some(attempt.key_id.as_str()));
    assert!(attempt.manage_hash == SecretHash::of(&mail.token()));

    assert_eq!(mail.to(), address("anna"));
    assert_eq!(mail.parsed["sender"], "keys@racing.example");
    assert_eq!(mail.parsed["defects"], json!([]));
    assert_eq!(mail.header("To"), address("anna"));
    assert_eq!(mail.header("From"), "Railbird <keys@racing.example>");
    assert_eq!(mail.header("Auto-Submitted"), "auto-generated");
    assert_eq!(mail.header("Message-ID"), "<anna.1@racing.example>");
    let date = jiff::fmt::rfc2822::parse(mail.header("Date")).unwrap();
    let age = Timestamp::now().duration_since(date.timestamp());
    assert!(age < SignedDuration::from_mins(1), "{age}");
    let lines = mail.raw.split(|byte| *byte == b'\n');
    assert!(
        lines.into_iter().all(|line| line.len() < 998),
        "RFC 5322, 2.1.1"
    );

    for part in ["text", "html"] {
        let words = mail.parsed[part].as_str().unwrap().to_lowercase();
        for said in [
            "plan",
            "basic",
            "curl -h ",
            "x-api-key",
            "https://racing.example/api/v1/",
            "wss://racing.example/ws/live/odds",
            "environment variable",
            "on a server",
            "version control",
            "web page",
            "replace",
        ] {
            assert!(words.contains(said), "{part}: {said}");
        }
    }
    for (name, value) in [
        ("railbird_mails_requested_total", 1.0),
        ("railbird_mails_delivered_total", 1.0),
        ("railbird_mails_waiting", 0.0),
        ("railbird_mails_oldest_seconds", 0.0),
    ] {
        until_metric(&service, name, value).await;
        assert_eq!(metric(&service, name).await, value, "{name}");
    }
}

#[tokio::test]
async fn a_plan_that_needs_approval_is_mailed_after_it() {
    let post = Post::start().await;
    let _service = post.serve().await;
    post.say(requested("waits", false)).await;
    post.subscribe("anna").await;
    post.until_delivered("anna").await;
    assert_eq!(post.mail_of("waits").await, None);
    let nats = post.nats.url_of("railbird");
    let approve = ["keys", "approve", "waits", "--nats", &nats];
    assert_eq!(railbird(approve).await.code, 0);
    post.until_delivered("waits").await;
    let to: Vec<_> = post
        .server
        .mails()
        .iter()
        .map(|mail| mail.to().to_owned())
        .collect();
    assert_eq!(to, [address("anna"), address("waits")]);
    for row in post.subscriptions().await {
        let shown = [
            &row["state"],
            &row["mail"],
            &row["mail_attempts"],
            &row["valid_keys"],
        ];
        assert_eq!(
            shown,
            [
                &json!("approved"),
                &json!("delivered"),
                &json!(1),
                &json!(1)
            ]
        );
    }
}

#[tokio::test]
async fn a_server_that_is_down_costs_no_attempt_and_loses_no_mail() {
    let mut post = Post::start().await;
    post.server.go_down().await;
    let service = post.serve().await;
    for name in ["anna", "bob", "carl"] {
        post.subscribe(name).await;
    }
    until_metric(
        &service,
        "railbird_mails_failed_total{reason=\"unreachable\"}",
        2.0,
    )
    .await;
    assert_eq!(post.keys().await, (0, 0), "nothing to take back");
    until_metric(&service, "railbird_mails_waiting", 3.0).await;
    assert!(metric(&service, "railbird_mails_oldest_seconds").await > 0.0);
    post.server.come_up().await;
    for name in ["anna", "bob", "carl"] {
        post.until_delivered(name).await;
    }
    for mail in post.server.until_mails(3).await {
        assert_eq!(status_of(&service, &mail.key()).await, 200);
    }
    assert_eq!((post.server.mails().len(), post.keys().await), (3, (3, 3)));
    // Nor does one that sends everybody away.
    post.server.at("connect", "421 too many", 1).await;
    post.subscribe("dora").await;
    let sent_away = "railbird_mails_failed_total{reason=\"deferred\"}";
    until_metric(&service, sent_away, 1.0).await;
    assert_eq!(post.until_delivered("dora").await.attempts(), 1);
}

#[tokio::test]
async fn a_mail_that_is_put_off_is_sent_again_with_another_key() {
    for (stage, reply) in [
        ("mail", "450 later"),
        ("rcpt", "451 greylisted"),
        ("data", "452 full"),
    ] {
        let mut post = Post::start().await;
        post.server.at(stage, reply, 2).await;
        let service = post.serve().await;
        post.subscribe("anna").await;
        let failed = post
            .until_mail("anna", |state| state.reason().is_some())
            .await;
        let words = format!("deferred: {reply}");
        assert_eq!(
            failed.state.reason().map(Text::as_str),
            Some(words.as_str())
        );
        let delivered = post.until_delivered("anna").await;
        assert_eq!(
            (delivered.attempts(), post.keys().await),
            (3, (1, 3)),
            "{stage}"
        );
        let mails = post.server.mails();
        let (last, earlier) = mails.split_last().unwrap();
        assert_eq!(status_of(&service, &last.key()).await, 200);
        assert_eq!(last.header("Message-ID"), "<anna.3@racing.example>");
        for mail in earlier {
            assert_eq!(status_of(&service, &mail.key()).await, 401, "{stage}");
        }
        let name = "railbird_mails_failed_total{reason=\"deferred\"}";
        assert_eq!(metric(&service, name).await, 2.0);
    }
}

#[tokio::test]
async fn a_mail_to_nobody_is_given_up_and_the_next_one_sent() {
    let mut post = Post::start().await;
    let service = post.serve().await;
    let reply = format!(
        "550 5.1.1 <{}> unknown; see https://racing.example/{}",
        address("anna"),
        "x".repeat(60)
    );
    post.server.at("rcpt", &reply, 1).await;
    post.subscribe("anna").await;
    let mail = post
        .until_mail("anna", |state| matches!(state, MailState::GivenUp(_)))
        .await;
    let reason = mail.state.reason().unwrap();
    assert_eq!(reason.as_str(), "refused: 550 5.1.1 ... unknown; see ...");
    assert_eq!(post.keys().await, (0, 1));
    post.subscribe("bob").await;
    post.until_delivered("bob").await;
    let first = &post.subscriptions().await[0];
    let shown = [&first["mail"], &first["mail_reason"], &first["valid_keys"]];
    assert_eq!(shown, [&json!("given_up"), &json!(reason), &json!(0)]);
    until_metric(&service, "railbird_mails_given_up_total", 1.0).await;
    let log = service.stop().await;
    let is_of_anna = |line: &&String| line.contains("given up") && line.contains("anna");
    assert!(log.iter().any(|line| is_of_anna(&line)), "operators see it");
    assert!(!log.iter().any(|line| line.contains("@subscriber.example")));
}

#[tokio::test]
async fn a_refusal_that_is_not_about_the_address_may_be_over_soon() {
    let mut post = Post::start().await;
    post.server
        .at("rcpt", "554 5.7.1 relay access denied", 2)
        .await;
    let service = post.serve().await;
    post.subscribe("anna").await;
    let failed = post
        .until_mail("anna", |state| state.reason().is_some())
        .await;
    let reason = failed.state.reason().map(Text::as_str);
    assert_eq!(reason, Some("refused: 554 5.7.1 relay access denied"));
    assert_eq!(post.until_delivered("anna").await.attempts(), 3);
    let mails = post.server.mails();
    assert_eq!((mails.len(), post.keys().await), (1, (1, 3)));
    assert_eq!(status_of(&service, &mails[0].key()).await, 200);
}

#[tokio::test]
async fn a_server_that_says_nothing_is_left_and_the_mail_sent_again() {
    let mut post = Post::start_impatient().await;
    let service = post.serve().await;
    // It has the mail, and may deliver it; whoever waits for its word does not know.
    post.server.at("data", "hold", 1).await;
    post.subscribe("anna").await;
    let failed = post
        .until_mail("anna", |state| state.reason().is_some())
        .await;
    assert_eq!(
        failed.state.reason().map(Text::as_str),
        Some("timeout: no answer in time")
    );
    assert_eq!(post.until_delivered("anna").await.attempts(), 2);
    let keys: Vec<_> = post.server.mails().iter().map(ReceivedMail::key).collect();
    assert_eq!(keys.len(), 2);
    assert_eq!(status_of(&service, &keys[0]).await, 401);
    assert_eq!(status_of(&service, &keys[1]).await, 200);

    // The same before it takes any mail: no key is made for it.
    post.server.at("connect", "hold", 1).await;
    post.subscribe("bob").await;
    until_metric(
        &service,
        "railbird_mails_failed_total{reason=\"timeout\"}",
        2.0,
    )
    .await;
    assert_eq!(post.until_delivered("bob").await.attempts(), 1);
    assert_eq!(post.keys().await, (2, 3));
}

#[tokio::test]
async fn a_connection_that_is_cut_leaves_no_second_key() {
    for stage in ["mail", "rcpt", "body", "data"] {
        let mut post = Post::start().await;
        post.server.at(stage, "cut", 1).await;
        let service = post.serve().await;
        post.subscribe("anna").await;
        let delivered = post.until_delivered("anna").await;
        assert_eq!(
            (delivered.attempts(), post.keys().await),
            (2, (1, 2)),
            "{stage}"
        );
        let mails = post.server.mails();
        assert_eq!(mails.len(), if stage == "data" { 2 } else { 1 }, "{stage}");
        assert_eq!(
            status_of(&service, &mails[mails.len() - 1].key()).await,
            200
        );
        let name = "railbird_mails_failed_total{reason=\"cut_off\"}";
        assert_eq!(metric(&service, name).await, 1.0, "{stage}");
    }
}

#[tokio::test]
async fn a_mail_that_nobody_takes_for_a_day_is_given_up() {
    let mut post = Post::start().await;
    post.server.at("rcpt", "451 later", 2).await;
    for (name, hours) in [("patient", 23), ("over", 25)] {
        post.say(requested(name, true)).await;
        let began = Timestamp::now() - SignedDuration::from_hours(hours);
        let mail_id = MailId::first_to(&subscription_id(name));
        let (subscription_id, purpose) = (subscription_id(name), text("welcome"));
        let wished = MailRequested {
            mail_id: mail_id.clone(),
            subscription_id,
            purpose,
        };
        post.say_at(wished, began.into()).await;
        let key = ApiKey::generate("test").unwrap();
        let attempted = MailAttempted {
            mail_id: mail_id.clone(),
            attempt: 1,
            key_id: key.key_id(),
            sha256: key.hash(),
            manage_sha256: SecretHash::of(name),
        };
        post.say_at(attempted, began.into()).await;
        let failed = MailFailed {
            mail_id,
            attempt: 1,
            reason: text("deferred: 451"),
            is_final: false,
        };
        post.say_at(failed, began.into()).await;
    }
    let _service = post.serve().await;
    let over = post
        .until_mail("over", |state| matches!(state, MailState::GivenUp(_)))
        .await;
    assert_eq!(over.attempts(), 2);
    let patient = post.until_delivered("patient").await;
    assert_eq!((patient.attempts(), post.keys().await.0), (3, 1));
}

#[tokio::test]
async fn an_address_that_is_none_is_given_up() {
    let post = Post::start().await;
    let _service = post.serve().await;
    let email = Email::parse("a..b@subscriber..example").unwrap();
    post.say(SubscriptionRequested {
        email,
        ..requested("odd", true)
    })
    .await;
    let mail = post
        .until_mail("odd", |state| matches!(state, MailState::GivenUp(_)))
        .await;
    assert_eq!((mail.attempts(), post.keys().await), (0, (0, 0)));
    // One that is not ASCII goes to servers that know such.
    let email = Email::parse("j\u{f6}rg@subscriber.example").unwrap();
    post.say(SubscriptionRequested {
        email,
        ..requested("joerg", true)
    })
    .await;
    post.until_delivered("joerg").await;
    assert_eq!(post.server.mails()[0].to(), "j\u{f6}rg@subscriber.example");
}

#[tokio::test]
async fn of_two_replicas_one_sends() {
    let mut post = Post::start().await;
    let names = ["anna", "bob", "carl", "dora"];
    // Both are let go at the same moment, when both are about to say that they send.
    post.server.at("connect", "hold", 2 * names.len()).await;
    let other = tempfile::tempdir().unwrap();
    let services = [post.serve().await, post.serve_in(other.path()).await];
    for name in names {
        post.subscribe(name).await;
    }
    post.server.until_at("connect", 2 * names.len()).await;
    post.server.go("connect").await;
    for name in names {
        let mail = post.until_delivered(name).await;
        assert_eq!(mail.attempts(), 1, "{name}");
    }
    let mails = post.server.mails();
    let mut to: Vec<_> = mails.iter().map(|mail| mail.to().to_owned()).collect();
    to.sort();
    assert_eq!(to, names.map(address), "each once");
    assert_eq!(post.keys().await, (names.len(), names.len()));
    for service in &services {
        for mail in &mails {
            assert_eq!(status_of(service, &mail.key()).await, 200);
        }
    }
}
