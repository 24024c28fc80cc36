//! `/pricing`: from the form to the log.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::future::join_all;
use railbird::mail::{Folder, Mailing, Sender, Transport};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::*;

const EMAIL: &str = "rail.bird+odds@racing.example";

/// A service that writes its mails to a folder.
async fn start(nats: &Nats, mails: &TempDir) -> Railbird {
    Railbird::start_with(nats, |config| config.mailing = Some(mailing(mails))).await
}

fn mailing(mails: &TempDir) -> Mailing {
    Mailing {
        transport: Transport::Folder(Folder::new(mails.path().join("mail"))),
        from: Sender::parse("Railbird <keys@racing.example>").unwrap(),
        public_url: None,
        key_env: "test",
    }
}

/// Waits until a number of mails was delivered.
async fn until_delivered(mails: &TempDir, count: usize) {
    eventually("the mails are there", || async {
        let mails = std::fs::read_dir(mails.path().join("mail"));
        let is_mail = |name: &std::ffi::OsString| !name.to_string_lossy().starts_with('.');
        let names = mails
            .into_iter()
            .flatten()
            .map(|mail| mail.unwrap().file_name());
        names.filter(is_mail).count() == count
    })
    .await;
}

async fn subscribe(railbird: &Railbird, email: &str, plan: &str) -> Reply {
    post(
        railbird.http,
        "/pricing",
        &[("email", email), ("plan", plan), ("website", "")],
    )
    .await
}

fn id(email: &str, plan: &str) -> SubscriptionId {
    SubscriptionId::of(&Email::parse(email).unwrap(), &text(plan))
}

#[tokio::test]
async fn the_plans_are_shown_on_a_page_without_scripts() {
    let nats = Nats::start();
    let mails = tempfile::tempdir().unwrap();
    let railbird = start(&nats, &mails).await;
    let reply = railbird.get_open("/pricing").await;
    let page = html(&reply, 200);
    for shown in [
        "US$ 29 a month",
        "2,000 requests a day",
        "2,000,000 requests a day",
        "Live odds, 5 connections",
        "No live odds",
    ] {
        assert!(page.contains(shown), "{shown} in\n{page}");
    }
    let values = page.matches("name=\"plan\" id=").count();
    assert_eq!(values, 3, "the plans open to sign-up");
    assert!(
        !page.contains("By arrangement"),
        "other plans are not shown"
    );
    assert_eq!(reply.header("cache-control"), "no-cache");

    let (_, style) = page.split_once("<style>").unwrap();
    let (style, _) = style.split_once("</style>").unwrap();
    let hash = BASE64_STANDARD.encode(Sha256::digest(style));
    let policy = reply.header("content-security-policy");
    assert!(
        policy.contains(&format!("style-src 'sha256-{hash}'")),
        "{policy}"
    );

    let head = request(railbird.http, "HEAD", "/pricing", &[]).await;
    assert_eq!((head.status, head.body.as_slice()), (200, b"".as_slice()));
    for name in [
        "content-type",
        "content-length",
        "content-security-policy",
        "cache-control",
    ] {
        assert_eq!(head.header(name), reply.header(name), "{name}");
    }
    let put = request(railbird.http, "PUT", "/pricing", &[]).await;
    html(&put, 405);
    assert_eq!(put.header("allow"), "GET, HEAD, POST");
}

#[tokio::test]
async fn a_form_sent_to_several_replicas_creates_one_subscription() {
    let nats = Nats::start();
    let mails = tempfile::tempdir().unwrap();
    let replicas = [start(&nats, &mails).await, start(&nats, &mails).await];
    let pressed = (0..4).map(|n| subscribe(&replicas[n % 2], EMAIL, "free"));
    for reply in join_all(pressed).await {
        html(&reply, 200);
    }
    // Another spelling of the same address.
    html(
        &subscribe(&replicas[0], " Rail.Bird+odds@RACING.example ", "free").await,
        200,
    );

    let ledger = ledger(&nats).await;
    let found: Vec<_> = ledger.subscriptions().collect();
    assert_eq!(found.len(), 1);
    let (found, subscription) = found[0];
    assert_eq!(
        (found, subscription.email.reveal()),
        (&id(EMAIL, "free"), EMAIL)
    );
    assert!(subscription.approved_at.is_some());
    assert_eq!(ledger.awaiting_mail().count(), 0);
    until_delivered(&mails, 1).await;
}

#[tokio::test]
async fn the_response_does_not_reveal_whether_an_address_is_known() {
    let nats = Nats::start();
    let mails = tempfile::tempdir().unwrap();
    let railbird = start(&nats, &mails).await;
    for plan in ["free", "standard"] {
        let first = subscribe(&railbird, EMAIL, plan).await;
        let again = subscribe(&railbird, EMAIL, plan).await;
        let page = html(&first, 200);
        assert_eq!(page, html(&again, 200));
        assert!(page.contains("rail.bird+odds@racing.example"), "{page}");
        assert_eq!(first.header("cache-control"), "no-store");
        let but_date = |reply: &Reply| {
            let mut headers = reply.headers.clone();
            headers.remove("date");
            headers.remove("x-request-id");
            headers
        };
        assert_eq!(but_date(&first), but_date(&again));
    }
}

/// The status, the page without the address, and the time of a response.
async fn timed(railbird: &Railbird, email: &str) -> (u16, String, Duration) {
    let start = Instant::now();
    let reply = subscribe(railbird, email, "free").await;
    let page = reply.text().replace(email, "");
    (reply.status, page, start.elapsed())
}

#[tokio::test]
async fn the_response_does_not_reveal_whether_an_address_is_known_while_the_log_is_away() {
    let mut nats = Nats::start();
    let mails = tempfile::tempdir().unwrap();
    let railbird = start(&nats, &mails).await;
    html(&subscribe(&railbird, EMAIL, "free").await, 200);
    until_delivered(&mails, 1).await;
    let compare = async |what: &str, expected: u16| {
        let both = join_all([EMAIL, "new@racing.example"].map(|email| timed(&railbird, email)));
        let both = both.await;
        assert_eq!(both[0].0, expected, "{what}: the known address");
        assert_eq!(both[1].0, expected, "{what}: the unknown address");
        assert_eq!(both[0].1, both[1].1, "{what}");
        let apart = both[0].2.abs_diff(both[1].2);
        assert!(apart < Duration::from_secs(1), "{what}: {apart:?} apart");
    };
    nats.freeze();
    compare("a server that does not answer", 503).await;
    nats.thaw();
    nats.kill();
    compare("a server that is gone", 503).await;
    nats.start_again();
    eventually("the service is connected again", || async {
        railbird.get_open("/readyz").await.json()["log"]["connected"] == true
    })
    .await;
    eventually("sign-up works again", || async {
        subscribe(&railbird, EMAIL, "free").await.status == 200
    })
    .await;
    compare("a server that is back", 200).await;
}

#[tokio::test]
async fn an_input_error_is_shown_beside_its_field_and_the_input_is_kept() {
    let nats = Nats::start();
    let mails = tempfile::tempdir().unwrap();
    let railbird = start(&nats, &mails).await;
    let page = html(
        &subscribe(&railbird, "rail bird@racing.example", "standard").await,
        422,
    );
    assert!(page.contains("<title>Error: "), "{page}");
    assert!(page.contains("role=\"alert\""), "{page}");
    assert!(
        page.contains("<a href=\"#email\">An e-mail address has no spaces"),
        "{page}"
    );
    assert!(
        page.contains("<p class=\"wrong\" id=\"email-wrong\">An e-mail address has no spaces"),
        "{page}"
    );
    assert!(
        page.contains("aria-describedby=\"email-hint email-wrong\" aria-invalid=\"true\""),
        "{page}"
    );
    assert!(
        page.contains("value=\"rail bird@racing.example\""),
        "{page}"
    );
    let chosen = page
        .split("<input")
        .find(|input| input.contains(" checked"));
    assert!(chosen.unwrap().contains("value=\"standard\""), "{page}");

    for plan in ["", "default", "gold", "free\r\nX: y"] {
        let page = html(&subscribe(&railbird, EMAIL, plan).await, 422);
        assert!(page.contains("<a href=\"#plan\">Choose "), "{page}");
        assert!(page.contains("id=\"plan-wrong\">Choose "), "{page}");
        assert!(page.contains(&format!("value=\"{EMAIL}\"")), "{page}");
        let (_, form) = page.split_once("<main>").unwrap();
        assert!(!form.contains("aria-invalid"), "{page}");
    }
    let page = html(&post(railbird.http, "/pricing", &[]).await, 422);
    assert!(
        page.contains("Choose a plan.") && page.contains("Enter your e-mail"),
        "{page}"
    );
    assert_eq!(ledger(&nats).await.subscriptions().count(), 0);
}

#[tokio::test]
async fn input_becomes_neither_a_header_nor_a_tag() {
    let nats = Nats::start();
    let mails = tempfile::tempdir().unwrap();
    let railbird = start(&nats, &mails).await;
    for email in [
        "a@racing.example\r\nBcc: b@racing.example",
        "a@racing.example\nBcc: b@racing.example",
        "a@racing.example%0d%0aBcc:b@racing.example",
        "a@racing.example,b@racing.example",
        "a@racing.example;b@racing.example",
        "\"><script>alert(1)</script>\"@racing.example",
        "<img src=x>@racing.example",
        "{{ 7 * 7 }}@racing.example",
        "a@racing.example\0",
    ] {
        let page = html(&subscribe(&railbird, email, "free").await, 422);
        assert!(!page.contains("<img") && !page.contains("49@"), "{page}");
    }
    let long = format!("{}@racing.example", "a".repeat(3_000));
    let page = html(&subscribe(&railbird, &long, "free").await, 422);
    assert!(
        page.contains("too long") && !page.contains(&"a".repeat(321)),
        "{page}"
    );
    assert_eq!(ledger(&nats).await.subscriptions().count(), 0);

    // Unusual but valid addresses are accepted.
    let domain = ["d".repeat(60).as_str(); 3].join(".");
    let longest = format!(
        "{}@{domain}.example",
        "a".repeat(254 - 1 - domain.len() - 8)
    );
    assert_eq!(longest.len(), 254);
    for email in [
        "o'hara&sons@racing.example",
        "jo@b\u{fc}cher.example",
        &longest,
    ] {
        html(&subscribe(&railbird, email, "free").await, 200);
    }
    until_delivered(&mails, 3).await;
    let ledger = ledger(&nats).await;
    let mut found: Vec<_> = ledger
        .subscriptions()
        .map(|(_, known)| known.email.reveal())
        .collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [
            longest.as_str(),
            "jo@xn--bcher-kva.example",
            "o'hara&sons@racing.example"
        ]
    );
}

#[tokio::test]
async fn a_body_that_is_not_a_form_or_too_long_is_rejected_with_a_page() {
    let nats = Nats::start();
    let mails = tempfile::tempdir().unwrap();
    let railbird = start(&nats, &mails).await;
    for path in ["/pricing", "/keys/manage"] {
        for kind in [
            "application/json",
            "multipart/form-data; boundary=x",
            "text/plain",
            "",
        ] {
            let headers = [("content-type", kind)];
            let reply = send(railbird.http, "POST", path, &headers, "{}".to_owned()).await;
            html(&reply, 415);
        }
        let headers = [(
            "content-type",
            "Application/X-WWW-Form-Urlencoded; charset=UTF-8",
        )];
        let long = format!("email={}", "a".repeat(5_000));
        html(
            &send(railbird.http, "POST", path, &headers, long).await,
            413,
        );
        let short = "email=a".to_owned();
        let status = send(railbird.http, "POST", path, &headers, short)
            .await
            .status;
        assert!(matches!(status, 404 | 422), "{status}");
    }
}

#[tokio::test]
async fn a_bot_gets_the_same_response_and_no_key() {
    let nats = Nats::start();
    let mails = tempfile::tempdir().unwrap();
    let railbird = start(&nats, &mails).await;
    let fields = [
        ("email", EMAIL),
        ("plan", "free"),
        ("website", "https://spam.example"),
    ];
    let program = html(&post(railbird.http, "/pricing", &fields).await, 200);
    assert_eq!(ledger(&nats).await.subscriptions().count(), 0);
    let person = html(&subscribe(&railbird, EMAIL, "free").await, 200);
    assert_eq!(program, person);
}

#[tokio::test]
async fn an_address_and_a_network_have_separate_limits() {
    let nats = Nats::start();
    let mails = tempfile::tempdir().unwrap();
    let railbird = Railbird::start_with(&nats, |config| {
        config.mailing = Some(mailing(&mails));
        config.sign_ups_per_email = NonZeroU32::new(2).unwrap();
        config.sign_ups_per_network = NonZeroU32::new(4).unwrap();
    })
    .await;
    for email in [EMAIL, "RAIL.bird+odds@racing.example"] {
        html(&subscribe(&railbird, email, "free").await, 200);
    }
    let reply = subscribe(&railbird, EMAIL, "free").await;
    let page = html(&reply, 429);
    assert!(page.contains("id=\"email-wrong\">Too many keys"), "{page}");
    assert!(
        page.contains(&format!("value=\"{EMAIL}\"")),
        "it is kept: {page}"
    );
    let wait: u32 = reply.header("retry-after").parse().unwrap();
    assert!((1..=12 * 60 * 60).contains(&wait), "{wait}");

    // An invalid form does not count.
    html(&subscribe(&railbird, "nobody", "free").await, 422);
    html(&subscribe(&railbird, "b@racing.example", "free").await, 200);
    let reply = subscribe(&railbird, "c@racing.example", "free").await;
    let page = html(&reply, 429);
    assert!(page.contains("from your network"), "{page}");
    let wait: u32 = reply.header("retry-after").parse().unwrap();
    assert!((1..=15 * 60).contains(&wait), "{wait}");
    assert_eq!(ledger(&nats).await.subscriptions().count(), 2);
}

#[tokio::test]
async fn a_subscription_to_a_plan_with_approval_waits_for_it() {
    let nats = Nats::start();
    let mails = tempfile::tempdir().unwrap();
    let railbird = start(&nats, &mails).await;
    let page = html(&subscribe(&railbird, EMAIL, "standard").await, 200);
    assert!(page.contains("confirms"), "{page}");
    let id = id(EMAIL, "standard");
    let found = ledger(&nats).await;
    let waiting = found.subscription(&id).expect("it was requested");
    assert!(waiting.approved_at.is_none());
    html(&subscribe(&railbird, EMAIL, "standard").await, 200);
    assert_eq!(found.awaiting_mail().count(), 0);

    let url = nats.url_of("keys");
    let approved =
        crate::support::railbird(["keys", "approve", &id.to_string(), "--nats", &url]).await;
    assert_eq!(approved.code, 0, "{}", approved.all);
    until_delivered(&mails, 1).await;
}

#[tokio::test]
async fn while_the_log_is_unreachable_the_page_says_so_and_keeps_the_input() {
    let mut nats = Nats::start();
    let mails = tempfile::tempdir().unwrap();
    let railbird = start(&nats, &mails).await;
    nats.kill();
    let reply = subscribe(&railbird, EMAIL, "free").await;
    let page = html(&reply, 503);
    assert!(
        page.contains("Try again") && page.contains(&format!("value=\"{EMAIL}\"")),
        "{page}"
    );
    assert_eq!(reply.header("retry-after"), "5");
    nats.start_again();
    eventually("the subscription is accepted", || async {
        subscribe(&railbird, EMAIL, "free").await.status == 200
    })
    .await;
    until_delivered(&mails, 1).await;
    assert_eq!(ledger(&nats).await.subscriptions().count(), 1);
}

#[tokio::test]
async fn without_a_mail_server_the_plans_are_shown_and_sign_up_is_closed() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let page = html(&railbird.get_open("/pricing").await, 200);
    assert!(page.contains("Sign-up is closed"), "{page}");
    assert!(
        page.contains("US$ 149 a month") && !page.contains("Choose a plan"),
        "{page}"
    );
    assert!(
        !page.contains("<form") && !page.contains("<input"),
        "{page}"
    );
    let page = html(&subscribe(&railbird, EMAIL, "free").await, 403);
    assert!(page.contains("Sign-up is closed"), "{page}");
    assert_eq!(ledger(&nats).await.subscriptions().count(), 0);
}

#[tokio::test]
async fn the_page_and_the_documentation_name_the_same_wait_for_another_mail() {
    let nats = Nats::start();
    let mails = tempfile::tempdir().unwrap();
    let railbird = start(&nats, &mails).await;
    let page = html(&subscribe(&railbird, EMAIL, "free").await, 200).replace('\n', " ");
    let wait = format!(
        "{} minutes after the last",
        railbird::accounts::RESEND_AFTER.as_mins()
    );
    assert!(page.contains(&wait), "{wait} in\n{page}");
    let documentation = include_str!("../../docs/keys.md").replace('\n', " ");
    assert!(documentation.contains(&wait), "{wait}");
}
