//! `/pricing` and the form for a link: from a form to the log and to a mailbox.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use events::Text;
use futures::future::{join, join_all};
use jiff::{SignedDuration, Timestamp};
use railbird::accounts::{
    AccountEvent, Actor, RESEND_AFTER, SubscriptionRequested, SubscriptionState, UNCONFIRMED_KEPT,
};
use railbird::limits::Proxies;
use sha2::{Digest, Sha256};

use super::*;

const EMAIL: &str = "rail.bird@racing.example";
/// Another spelling of the same mailbox.
const TAGGED: &str = "Rail.Bird+odds@racing.example";

fn of(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

#[tokio::test]
async fn the_plans_are_shown_on_a_page_without_scripts() {
    let site = Site::start().await;
    let reply = site.replicas[0].get_open("/pricing").await;
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

    let head = request(site.http(), "HEAD", "/pricing", &[]).await;
    assert_eq!((head.status, head.body.as_slice()), (200, b"".as_slice()));
    for name in [
        "content-type",
        "content-length",
        "content-security-policy",
        "cache-control",
    ] {
        assert_eq!(head.header(name), reply.header(name), "{name}");
    }
    let put = request(site.http(), "PUT", "/pricing", &[]).await;
    html(&put, 405);
    assert_eq!(put.header("allow"), "GET, HEAD, POST");
}

#[tokio::test]
async fn spellings_of_one_mailbox_are_one_subscription_with_one_mail_and_no_key() {
    let site = Site::start_with(2, |_| ()).await;
    for (first, others) in [
        (
            "victim+1@racing.example",
            &["victim+2@racing.example", " VICTIM@RACING.example "][..],
        ),
        (
            "a.victim@gmail.com",
            &["avictim@gmail.com", "A.Vic.Tim+news@googlemail.com"],
        ),
    ] {
        html(&site.subscribe(first, "free").await, 200);
        site.until_mails(first, 1).await;
        let forms = others.iter().cycle().take(6).enumerate().map(|(n, email)| {
            let fields = [("email", *email), ("plan", ["free", "professional"][n % 2])];
            let http = site.replicas[n % 2].http;
            async move { post(http, "/pricing", &fields).await }
        });
        for reply in join_all(forms).await {
            html(&reply, 200);
        }
        // What is sent after them has arrived.
        let later = format!("after.{first}");
        site.link_by(&later, site.subscribe(&later, "free")).await;
        assert_eq!(site.mails_to(first).len(), 1);
        for other in others {
            assert!(site.mails_to(other.trim()).is_empty(), "{other}");
        }
    }
    let ledger = ledger(&site.nats).await;
    let found: Vec<_> = ledger
        .subscriptions
        .values()
        .map(|known| known.state())
        .collect();
    assert_eq!(found, [SubscriptionState::Unconfirmed; 4]);
    assert_eq!(ledger.open_mails().count(), 0);
    assert_eq!(subscribers_keys(&site.nats).await, 0);
}

/// A response, but for its date and id.
fn comparable(reply: &Reply) -> (u16, String, String) {
    let mut headers = reply.headers.clone();
    headers.remove("date");
    headers.remove("x-request-id");
    (reply.status, format!("{headers:?}"), reply.text())
}

#[tokio::test]
async fn the_response_does_not_reveal_whether_an_address_is_known() {
    let site = Site::start().await;
    // As long as the other.
    let other = site.ask_for_link("unknowner@racing.example").await;
    let mut unknown = comparable(&other);
    unknown.2 = unknown.2.replace("unknowner@racing.example", EMAIL);
    let first = comparable(&site.subscribe(EMAIL, "free").await);
    assert_eq!((unknown.0, first.0), (200, 200));
    assert!(first.2.contains(EMAIL) && unknown.2.contains(EMAIL));
    assert!(first.1.contains("no-store"), "{}", first.1);
    site.until_mails(EMAIL, 1).await;
    let compare = async |what: &str| {
        assert_eq!(
            comparable(&site.subscribe(EMAIL, "free").await),
            first,
            "{what}"
        );
        assert_eq!(
            comparable(&site.ask_for_link(EMAIL).await),
            unknown,
            "{what}"
        );
    };
    compare("not confirmed").await;
    let token = site.tokens_to(EMAIL).pop_first().unwrap();
    let account = site.sign_in(&token).await;
    compare("confirmed").await;
    site.until_mails(EMAIL, 2).await;
    html(&account.press("leave", &[("sure", "yes")]).await, 200);
    // The first request subscribes the address again.
    compare("forgotten").await;
    site.until_mails(EMAIL, 3).await;
}

#[tokio::test]
async fn an_address_whose_owner_did_not_subscribe_gets_nothing_again() {
    let site = Site::start().await;
    let token = site.link_by(EMAIL, site.subscribe(EMAIL, "free")).await;
    let page = html(&site.open(&token).await, 200);
    assert!(page.contains("Erase my address"), "{page}");
    let page = html(&press_link(site.http(), &page, "not-me").await, 200);
    assert!(page.contains("Your address is erased"), "{page}");
    html(&site.open(&token).await, 404);

    let other = comparable(&site.subscribe("b@racing.example", "free").await);
    for email in [EMAIL, TAGGED] {
        let again = comparable(&site.subscribe(email, "free").await);
        assert_eq!(again.2.replace(email, "b@racing.example"), other.2);
        html(&site.ask_for_link(email).await, 200);
    }
    // What is sent after them has arrived.
    site.until_mails("b@racing.example", 1).await;
    html(&site.subscribe("c@racing.example", "free").await, 200);
    site.until_mails("c@racing.example", 1).await;
    assert_eq!(site.mails_to(EMAIL).len() + site.mails_to(TAGGED).len(), 1);
    let ledger = ledger(&site.nats).await;
    assert_eq!(ledger.open_mails().count(), 0);
    let id = id_of(&site.nats, EMAIL).await;
    let known = ledger.subscriptions.get(&id).expect("it is remembered");
    assert_eq!(known.state(), SubscriptionState::Suppressed);
    let book = AddressBook::new(site.nats.log().await);
    eventually("the address is erased", || async {
        book.open(&id, 1, &known.email).await.unwrap().is_none()
    })
    .await;
}

/// The status, the page without the address, and the time of a response.
async fn timed(email: &str, form: impl Future<Output = Reply>) -> (u16, String, Duration) {
    let start = Instant::now();
    let reply = form.await;
    let page = reply.text().replace(email, "");
    (reply.status, page, start.elapsed())
}

#[tokio::test]
async fn the_response_does_not_reveal_whether_an_address_is_known_while_the_log_is_away() {
    let mut site = Site::start().await;
    // A mailbox has three links an hour.
    let known = (0..10).map(|n| format!("known{n}@racing.example"));
    let known: Vec<String> = known.collect();
    for email in &known {
        html(&site.subscribe(email, "free").await, 200);
        site.until_mails(email, 1).await;
    }
    let tries = Cell::new(0);
    // A busy machine may delay one of two responses at times. If the address did, it would each time.
    let compare = async |site: &Site, what: &str, status: Option<u16>| {
        eventually(&format!("both come together: {what}"), async || {
            let n = tries.replace(tries.get() + 1);
            let unknown = format!("new{n}@racing.example");
            let emails = [known[n % known.len()].as_str(), &unknown];
            let sign_ups = emails.map(|email| timed(email, site.subscribe(email, "free")));
            let links = emails.map(|email| timed(email, site.ask_for_link(email)));
            let (sign_ups, links) = join(join_all(sign_ups), join_all(links)).await;
            let both = [sign_ups, links].map(|both| <[_; 2]>::try_from(both).unwrap());
            both.iter().all(|[known, unknown]| {
                // The state of the log may change between two requests.
                if known.0 != unknown.0 || status.is_some_and(|status| status != known.0) {
                    return false;
                }
                assert_eq!(known.1, unknown.1, "{what}");
                known.2.abs_diff(unknown.2) < Duration::from_secs(1)
            })
        })
        .await;
    };
    site.nats.freeze();
    compare(&site, "a server that does not answer", None).await;
    site.nats.thaw();
    site.nats.kill();
    eventually("the service has noticed", || async {
        !site.replicas[0].app.health.monitor.connection().up
    })
    .await;
    compare(&site, "a server that is gone", Some(503)).await;
    site.nats.start_again();
    eventually("sign-up works again", || async {
        site.subscribe(EMAIL, "free").await.status == 200
    })
    .await;
    compare(&site, "a server that is back", Some(200)).await;
}

#[tokio::test]
async fn forms_of_other_sites_are_refused_and_change_nothing() {
    let site = Site::start_with(1, |config| {
        let url = PublicUrl::parse("https://racing.example/odds").unwrap();
        config.public_url = Some(url);
    })
    .await;
    let token = site.link_by(EMAIL, site.subscribe(EMAIL, "free")).await;
    let before = events(&site.nats).await;
    let own = format!("http://{}", site.http());
    let other_port = "http://127.0.0.1:1";
    for (headers, is_own) in [
        (&[("sec-fetch-site", "cross-site")][..], false),
        (&[("sec-fetch-site", "same-site")], false),
        (&[("sec-fetch-site", "")], false),
        (&[("sec-fetch-site", "cross-site"), ("origin", &own)], false),
        (&[("origin", "https://evil.example")], false),
        (&[("origin", "http://racing.example")], false),
        (&[("origin", "https://racing.example.evil.example")], false),
        (&[("origin", "null")], false),
        (&[("origin", "")], false),
        (&[("origin", other_port)], false),
        (
            &[("sec-fetch-site", "same-origin"), ("origin", "null")],
            true,
        ),
        (&[("sec-fetch-site", "none")], true),
        (&[("origin", &own)], true),
        (&[("origin", "https://racing.example")], true),
        (&[], true),
    ] {
        let sent = async |path, fields| post_with(site.http(), path, headers, fields).await;
        let sign_up = [("email", "b@racing.example"), ("plan", "free")];
        let ask = [("email", EMAIL), ("do", "link")];
        let not_me = [("token", &*token), ("do", "not-me")];
        if is_own {
            // An unknown plan and button: both are read, and change nothing.
            html(&sent("/pricing", &[("plan", "none")]).await, 422);
            let page = html(&sent("/account", &[("do", "none")]).await, 403);
            assert!(page.contains("not signed in"), "{headers:?}: {page}");
            continue;
        }
        for (path, fields) in [
            ("/pricing", &sign_up),
            ("/account", &ask),
            ("/account", &not_me),
        ] {
            let page = html(&sent(path, fields).await, 403);
            assert!(
                page.contains("This form is not ours"),
                "{headers:?}: {page}"
            );
        }
    }
    assert_eq!(events(&site.nats).await, before);
    html(&site.open(&token).await, 200);
    let subscribed = [("email", "b@racing.example"), ("plan", "free")];
    let headers = [("origin", "https://racing.example")];
    html(
        &post_with(site.http(), "/pricing", &headers, &subscribed).await,
        200,
    );
    site.until_mails("b@racing.example", 1).await;
}

#[tokio::test]
async fn an_input_error_is_shown_beside_its_field_and_the_input_is_kept() {
    let site = Site::start().await;
    let page = html(
        &site.subscribe("rail bird@racing.example", "standard").await,
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
        let page = html(&site.subscribe(EMAIL, plan).await, 422);
        assert!(page.contains("<a href=\"#plan\">Choose "), "{page}");
        assert!(page.contains("id=\"plan-wrong\">Choose "), "{page}");
        assert!(page.contains(&format!("value=\"{EMAIL}\"")), "{page}");
        let (_, form) = page.split_once("<main>").unwrap();
        assert!(!form.contains("aria-invalid"), "{page}");
    }
    let page = html(&post(site.http(), "/pricing", &[]).await, 422);
    assert!(
        page.contains("Choose a plan.") && page.contains("Enter your e-mail"),
        "{page}"
    );
    assert_eq!(ledger(&site.nats).await.subscriptions.len(), 0);
}

#[tokio::test]
async fn input_becomes_neither_a_header_nor_a_tag() {
    let site = Site::start().await;
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
        let page = html(&site.subscribe(email, "free").await, 422);
        assert!(!page.contains("<img") && !page.contains("49@"), "{page}");
    }
    let long = format!("{}@racing.example", "a".repeat(3_000));
    let page = html(&site.subscribe(&long, "free").await, 422);
    assert!(
        page.contains("too long") && !page.contains(&"a".repeat(321)),
        "{page}"
    );
    assert_eq!(ledger(&site.nats).await.subscriptions.len(), 0);

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
        html(&site.subscribe(email, "free").await, 200);
    }
    for email in [
        "o'hara&sons@racing.example",
        "jo@xn--bcher-kva.example",
        &longest,
    ] {
        site.until_mails(email, 1).await;
    }
    assert_eq!(ledger(&site.nats).await.subscriptions.len(), 3);
}

#[tokio::test]
async fn a_body_that_is_not_a_form_or_too_long_is_rejected_with_a_page() {
    let site = Site::start().await;
    for path in ["/pricing", "/account"] {
        for kind in [
            "application/json",
            "multipart/form-data; boundary=x",
            "text/plain",
            "",
        ] {
            let headers = [("content-type", kind)];
            let reply = send(site.http(), "POST", path, &headers, "{}".to_owned()).await;
            html(&reply, 415);
        }
        let headers = [(
            "content-type",
            "Application/X-WWW-Form-Urlencoded; charset=UTF-8",
        )];
        let long = format!("email={}", "a".repeat(5_000));
        html(&send(site.http(), "POST", path, &headers, long).await, 413);
        let short = "email=a".to_owned();
        let status = send(site.http(), "POST", path, &headers, short)
            .await
            .status;
        assert!(matches!(status, 403 | 422), "{status}");
    }
}

#[tokio::test]
async fn a_bot_gets_the_same_response_and_no_key() {
    let site = Site::start().await;
    let fields = [
        ("email", EMAIL),
        ("plan", "free"),
        ("website", "https://spam.example"),
    ];
    let program = html(&post(site.http(), "/pricing", &fields).await, 200);
    let other = "unknowner@racing.example";
    let person = html(&site.subscribe(other, "free").await, 200);
    assert_eq!(program, person.replace(other, EMAIL));
    site.until_mails(other, 1).await;
    assert_eq!(ledger(&site.nats).await.subscriptions.len(), 1);
}

#[tokio::test]
async fn an_address_a_network_and_all_sign_ups_have_separate_limits() {
    let site = Site::start_with(1, |config| {
        config.sign_ups_per_email = of(2);
        config.sign_ups_per_network = of(4);
        config.sign_ups_per_hour = of(5);
        config.proxies = Proxies::new(vec![Proxies::parse("127.0.0.1").unwrap()]);
    })
    .await;
    let from = async |client: &str, email: &str| {
        let fields = [("email", email), ("plan", "free")];
        let headers = [("x-forwarded-for", client)];
        post_with(site.http(), "/pricing", &headers, &fields).await
    };
    let limited = |reply: &Reply, why: &str, within: u32| {
        let page = html(reply, 429);
        assert!(page.contains(why), "{page}");
        let wait: u32 = reply.header("retry-after").parse().unwrap();
        assert!((1..=within).contains(&wait), "{wait}");
    };
    let one = "2001:db8:1:1::1";
    for email in [EMAIL, TAGGED] {
        html(&from(one, email).await, 200);
    }
    let reply = from(one, EMAIL).await;
    limited(&reply, "id=\"email-wrong\">This address was", 12 * 60 * 60);
    let kept = format!("value=\"{EMAIL}\"");
    assert!(reply.text().contains(&kept), "{}", reply.text());
    // An invalid form does not count.
    html(&from(one, "nobody").await, 422);
    // Another network of the same customer, who has a /48.
    html(&from("2001:db8:1:2::1", "b@racing.example").await, 200);
    let reply = from("2001:db8:1:ffff::1", "c@racing.example").await;
    limited(&reply, "from your network", 15 * 60);
    for (client, email) in [
        ("2001:db8:2::1", "c@racing.example"),
        ("192.0.2.1", "d@racing.example"),
    ] {
        html(&from(client, email).await, 200);
    }
    // Of five in an hour, three are the first of a network, and three are not.
    html(&from("192.0.2.2", "e@racing.example").await, 200);
    let reply = from("192.0.2.3", "f@racing.example").await;
    limited(&reply, "people are subscribing", 20 * 60);
    eventually("five are subscribed", || async {
        ledger(&site.nats).await.subscriptions.len() == 5
    })
    .await;
    // Others' sign-ups delay nobody who asks for a link.
    html(&site.ask_for_link(EMAIL).await, 200);
}

#[tokio::test]
async fn neither_a_few_networks_nor_programs_close_sign_up_for_others() {
    let site = Site::start_with(1, |config| {
        config.sign_ups_per_hour = of(40);
        config.proxies = Proxies::new(vec![Proxies::parse("127.0.0.1").unwrap()]);
    })
    .await;
    let from = async |network: u32, email: &str, website: &str| {
        let fields = [("email", email), ("plan", "free"), ("website", website)];
        let client = format!("198.18.{network}.1");
        let headers = [("x-forwarded-for", &*client)];
        let reply = post_with(site.http(), "/pricing", &headers, &fields).await;
        reply.status
    };
    for n in 0..60 {
        let email = format!("p{n}@racing.example");
        let status = from(n, &email, "https://spam.example").await;
        assert_eq!(status, 200, "{n}");
    }
    // Sixteen networks send as many as they can.
    let mut taken = 0;
    for n in 0..100 {
        let status = from(n % 16, &format!("a{n}@racing.example"), "").await;
        taken += u32::from(status == 200);
    }
    assert!((36..40).contains(&taken), "{taken}");
    assert_eq!(from(100, "b@racing.example", "").await, 200);
}

#[tokio::test]
async fn an_address_that_nobody_confirms_is_forgotten_after_days() {
    let nats = Nats::start();
    let log = nats.log().await;
    for stream in [ACCOUNTS, ADDRESSES] {
        log.ensure(stream).await.unwrap();
    }
    let book = AddressBook::new(log.clone());
    let requested = async |email: &str, ago: SignedDuration| {
        let email = Email::parse(email).unwrap();
        let id = book.id_of(&email).await.unwrap();
        let fact = SubscriptionRequested {
            email: book.seal(&id, 1, &email).await.unwrap(),
            subscription_id: id.clone(),
            generation: 1,
            plan: Text::parse("free").unwrap(),
            approved: true,
        };
        let at = Timestamp::now() - ago;
        let event = AccountEvent::new(Actor::Service, fact, at.into());
        log.append((&event).into()).await.unwrap();
        id
    };
    let hour = SignedDuration::from_hours(1);
    let old = requested(EMAIL, UNCONFIRMED_KEPT + hour).await;
    let new = requested("b@racing.example", UNCONFIRMED_KEPT - hour).await;
    let _site = Site::on(nats, 2, |_| ()).await;
    let known = async |id| {
        let ledger = accounts::read(&log).await.unwrap();
        ledger.subscriptions.get(id).unwrap().clone()
    };
    eventually("the address is erased", || async {
        let sealed = known(&old).await.email;
        book.open(&old, 1, &sealed).await.unwrap().is_none()
    })
    .await;
    assert_eq!(known(&old).await.state(), SubscriptionState::Forgotten);
    let kept = known(&new).await;
    assert_eq!(kept.state(), SubscriptionState::Unconfirmed);
    assert!(book.open(&new, 1, &kept.email).await.unwrap().is_some());
}

#[tokio::test]
async fn links_are_limited_by_mailbox_whether_or_not_it_is_known() {
    let site = Site::start().await;
    html(&site.subscribe(EMAIL, "free").await, 200);
    for email in [EMAIL, "unknown@racing.example"] {
        for _ in 0..3 {
            html(&site.ask_for_link(email).await, 200);
        }
        let reply = site.ask_for_link(email).await;
        let page = html(&reply, 429);
        assert!(
            page.contains("<title>Error: ") && page.contains("Too many links"),
            "{page}"
        );
        let wait: u32 = reply.header("retry-after").parse().unwrap();
        assert!((1..=20 * 60).contains(&wait), "{wait}");
    }
}

#[tokio::test]
async fn a_subscription_to_a_plan_with_approval_waits_for_it() {
    let site = Site::start().await;
    let page = html(&site.subscribe(EMAIL, "standard").await, 200);
    assert!(page.contains("approves"), "{page}");
    site.until_mails(EMAIL, 1).await;
    let token = site.tokens_to(EMAIL).pop_first().unwrap();
    let account = site.sign_in(&token).await;
    let page = account.page().await;
    assert!(
        page.contains("has to approve") && !page.contains("Create a key"),
        "{page}"
    );
    let nonce = railbird::accounts::random_secret().unwrap();
    let headers = [("cookie", &*account.cookie)];
    let fields = [("do", "create"), ("nonce", &*nonce)];
    let page = html(
        &post_with(site.http(), "/account", &headers, &fields).await,
        409,
    );
    assert!(
        page.contains("<title>Error: Nothing was changed") && shown(&page).is_none(),
        "{page}"
    );
    assert_eq!(subscribers_keys(&site.nats).await, 0);

    let id = id_of(&site.nats, EMAIL).await.to_string();
    site.keys_command(&["approve", &id]).await;
    site.until_mails(EMAIL, 2).await;
    let approved = site.mails_to(EMAIL);
    assert!(
        approved.iter().any(|mail| mail.contains("is approved")),
        "{approved:?}"
    );
    account.create("").await;

    // An operator who revokes the last key withdraws the approval.
    let ledger = ledger(&site.nats).await;
    let (key, _) = ledger
        .keys_of(&Holder::Subscription(id_of(&site.nats, EMAIL).await))
        .next()
        .unwrap();
    site.keys_command(&["revoke", key.as_str()]).await;
    assert!(!account.is_signed_in().await);
    let account = site.sign_in_again(EMAIL).await;
    assert!(account.page().await.contains("has to approve"));
}

#[tokio::test]
async fn forms_that_were_answered_are_carried_out_although_the_log_goes_away() {
    let mut site = Site::start().await;
    let emails: Vec<_> = (0..20).map(|n| format!("p{n}@racing.example")).collect();
    let forms = emails.iter().map(|email| site.subscribe(email, "free"));
    for reply in join_all(forms).await {
        html(&reply, 200);
    }
    // Most of them are under way.
    site.nats.kill();
    site.nats.start_again();
    for email in &emails {
        site.until_mails(email, 1).await;
    }
}

#[tokio::test]
async fn while_the_log_is_unreachable_the_page_says_so_and_keeps_the_input() {
    let mut site = Site::start().await;
    site.nats.kill();
    let reply = site.subscribe(EMAIL, "free").await;
    let page = html(&reply, 503);
    assert!(
        page.contains("Try again") && page.contains(&format!("value=\"{EMAIL}\"")),
        "{page}"
    );
    assert_eq!(reply.header("retry-after"), "5");
    site.nats.start_again();
    eventually("the subscription is accepted", || async {
        site.subscribe(EMAIL, "free").await.status == 200
    })
    .await;
    site.until_mails(EMAIL, 1).await;
    assert_eq!(ledger(&site.nats).await.subscriptions.len(), 1);
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
    let page = html(
        &post(
            railbird.http,
            "/pricing",
            &[("email", EMAIL), ("plan", "free")],
        )
        .await,
        403,
    );
    assert!(page.contains("Sign-up is closed"), "{page}");
    let page = html(&railbird.get_open("/account").await, 200);
    assert!(
        page.contains("cannot send mail") && !page.contains("<form"),
        "{page}"
    );
    let ask = [("email", EMAIL), ("do", "link")];
    html(&post(railbird.http, "/account", &ask).await, 403);
    assert_eq!(ledger(&nats).await.subscriptions.len(), 0);
}

#[tokio::test]
async fn the_page_and_the_documentation_name_the_same_wait_for_another_mail() {
    let site = Site::start().await;
    let page = html(&site.subscribe(EMAIL, "free").await, 200).replace('\n', " ");
    let wait = format!("{} minutes after the last", RESEND_AFTER.as_mins());
    assert!(page.contains(&wait), "{wait} in\n{page}");
    let documentation = include_str!("../../../docs/keys.md").replace('\n', " ");
    assert!(documentation.contains(&wait), "{wait}");
}
