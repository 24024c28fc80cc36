//! `/account`: signing in with a link, and what someone does who is signed in.

use events::Text;
use futures::future::join_all;
use jiff::SignedDuration;
use railbird::accounts::{
    KeyState, MailAttempted, RESEND_AFTER, SubscriptionRequested, new_link, random_secret,
};
use railbird::http::UNAUTHORIZED_BODY;

use super::*;

const EMAIL: &str = "rail.bird@racing.example";

#[tokio::test]
async fn opening_a_link_changes_nothing() {
    let site = Site::start().await;
    let token = site.link_by(EMAIL, site.subscribe(EMAIL, "free")).await;
    let before = events(&site.nats).await;
    let path = format!("/account?token={token}");
    for method in ["GET", "HEAD"].repeat(3) {
        let reply = request(site.http(), method, &path, &[]).await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("cache-control"), "no-store");
        assert_eq!(reply.header("x-robots-tag"), "noindex");
        assert_eq!(reply.header("set-cookie"), "");
    }
    assert_eq!(events(&site.nats).await, before);
    let page = html(&site.open(&token).await, 200);
    assert!(page.contains("Confirm and sign in"), "{page}");
    site.sign_in(&token).await;
}

#[tokio::test]
async fn a_link_starts_one_session_which_a_double_click_shows_again() {
    let site = Site::start_with(2, |_| ()).await;
    let token = site.link_by(EMAIL, site.subscribe(EMAIL, "free")).await;
    site.until_folded().await;
    let page = html(&site.open(&token).await, 200);
    let presses = (0..6).map(|n| press_link(site.replicas[n % 2].http, &page, "sign-in"));
    let cookies: Vec<_> = join_all(presses).await.iter().map(cookie_of).collect();
    assert!(cookies.iter().all(|cookie| *cookie == cookies[0]));
    // A redirection may lead to any replica, at once.
    for replica in &site.replicas {
        let headers = [("cookie", &*cookies[0])];
        let reply = request(replica.http, "GET", "/account", &headers).await;
        assert!(html(&reply, 200).contains("sign-out"), "{}", reply.text());
    }
    html(&site.open(&token).await, 404);
    // The link cannot start another session.
    let nonce = random_secret().unwrap();
    let fields = [("token", &*token), ("nonce", &*nonce), ("do", "sign-in")];
    let reply = post(site.http(), "/account", &fields).await;
    html(&reply, 404);
    assert_eq!(reply.header("set-cookie"), "");
}

#[tokio::test]
async fn one_of_two_people_with_the_same_link_signs_in() {
    let site = Site::start_with(2, |_| ()).await;
    let token = site.link_by(EMAIL, site.subscribe(EMAIL, "free")).await;
    site.until_folded().await;
    let presses = (0..6).map(async |n| {
        let page = html(&site.open(&token).await, 200);
        (n, page)
    });
    let pages = join_all(presses).await;
    let presses = pages
        .iter()
        .map(|(n, page)| press_link(site.replicas[n % 2].http, page, "sign-in"));
    let replies = join_all(presses).await;
    let (started, refused): (Vec<_>, Vec<_>) =
        replies.iter().partition(|reply| reply.status == 303);
    assert_eq!(started.len(), 1);
    for reply in refused {
        html(reply, 404);
        assert_eq!(reply.header("set-cookie"), "");
    }
    cookie_of(started[0]);
}

/// Appends an attempt of the only open mail, with a link that was made some time ago.
async fn attempt(nats: &Nats, attempt: u32, age: SignedDuration) -> String {
    let token = random_secret().unwrap();
    let made = jiff::Timestamp::now() - age;
    let attempted = MailAttempted {
        mail_id: ledger(nats).await.open_mails().next().unwrap().0.clone(),
        attempt,
        link: Some(new_link(&token, made.into())),
    };
    let log = nats.log().await;
    log.append(account_event(attempted)).await.unwrap();
    token
}

#[tokio::test]
async fn a_link_that_is_unknown_expired_or_of_an_earlier_attempt_does_not_work() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let log = nats.log().await;
    let (email, id) = (Email::parse(EMAIL).unwrap(), id_of(&nats, EMAIL).await);
    let book = AddressBook::new(log.clone());
    let requested = SubscriptionRequested {
        email: book.seal(&id, 1, &email).await.unwrap(),
        subscription_id: id,
        generation: 1,
        plan: Text::parse("free").unwrap(),
        approved: true,
    };
    log.append(account_event(requested)).await.unwrap();
    let just_now = SignedDuration::from_secs(1);
    let earlier = attempt(&nats, 1, just_now).await;
    let expired = attempt(&nats, 2, SignedDuration::from_mins(30)).await;
    let folded = async || {
        let last = events(&nats).await;
        eventually("the event is folded", || async {
            railbird.app.health.ledger.borrow().seq >= last
        })
        .await;
    };
    folded().await;
    let (unknown, nonce) = (random_secret().unwrap(), random_secret().unwrap());
    let before = events(&nats).await;
    for token in [&*earlier, &expired, &unknown, "", "x", "%00"] {
        let path = format!("/account?token={token}");
        html(&railbird.get_open(&path).await, 404);
        for button in ["sign-in", "not-me"] {
            let fields = [("token", token), ("nonce", &*nonce), ("do", button)];
            let reply = post(railbird.http, "/account", &fields).await;
            html(&reply, 404);
            assert_eq!(reply.header("set-cookie"), "");
        }
    }
    assert_eq!(events(&nats).await, before);
    let works = attempt(&nats, 3, SignedDuration::from_mins(29)).await;
    folded().await;
    let path = format!("/account?token={works}");
    let page = html(&railbird.get_open(&path).await, 200);
    cookie_of(&press_link(railbird.http, &page, "sign-in").await);
}

#[tokio::test]
async fn the_cookie_is_only_for_this_host_its_pages_and_its_forms() {
    for (url, name, end) in [
        (
            None,
            "railbird=",
            "Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict",
        ),
        (
            Some("https://racing.example"),
            "__Host-railbird=",
            "Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict; Secure",
        ),
    ] {
        let site = Site::start_with(1, |config| {
            config.public_url = url.map(|url| PublicUrl::parse(url).unwrap());
        })
        .await;
        let token = site.link_by(EMAIL, site.subscribe(EMAIL, "free")).await;
        let page = html(&site.open(&token).await, 200);
        let reply = press_link(site.http(), &page, "sign-in").await;
        let cookie = reply.header("set-cookie");
        let (pair, attributes) = cookie.split_once("; ").unwrap();
        assert_eq!(attributes, end);
        let secret = pair.strip_prefix(name).unwrap();
        assert!(secret.len() >= 26, "130 bits: {secret}");
        assert!(!token.contains(secret) && !secret.contains(&token));
        // No other name is accepted.
        let wrong = ["railbird=", "__Host-railbird=", "railbird2="];
        for other in wrong.into_iter().filter(|other| *other != name) {
            let headers = [("cookie", &*format!("{other}{secret}"))];
            let reply = request(site.http(), "GET", "/account", &headers).await;
            assert!(html(&reply, 200).contains("Send me a link"));
        }
        let headers = [("cookie", &*format!("a=b; {pair}; c=d"))];
        let reply = request(site.http(), "GET", "/account", &headers).await;
        assert!(html(&reply, 200).contains("sign-out"));
    }
}

#[tokio::test]
async fn a_rotation_retires_every_open_link_and_all_other_sessions() {
    let site = Site::start().await;
    let account = site.subscriber(EMAIL, "free").await;
    let key = account.create("").await;
    // Somebody who saw the mails: with a session, and with a link that was not used.
    let intruder = site.sign_in_again(EMAIL).await;
    let link = site.link_by(EMAIL, site.ask_for_link(EMAIL)).await;
    html(&site.open(&link).await, 200);
    assert!(intruder.is_signed_in().await);

    let reply = account.rotate(&key, "24h").await;
    let key = shown(&html(&reply, 200)).unwrap().to_owned();
    assert!(!intruder.is_signed_in().await);
    html(&site.open(&link).await, 404);
    assert!(account.is_signed_in().await, "who rotated it");
    let fields = [("key", key_id(&key))];
    let reply = intruder.press_at(0, "", "revoke", &fields).await;
    let page = html(&reply, 403);
    assert!(page.contains("not signed in any more"), "{page}");

    // The link of the mail cannot be asked for again at once, but it does not follow the new key either.
    let other = site.link_by(EMAIL, site.ask_for_link(EMAIL)).await;
    html(&site.open(&other).await, 200);
    site.keys_command(&["rotate", key_id(&key)]).await;
    assert!(!account.is_signed_in().await);
    html(&site.open(&other).await, 404);
}

#[tokio::test]
async fn a_revocation_locks_out_others_too() {
    let site = Site::start().await;
    let account = site.subscriber(EMAIL, "free").await;
    let (one, other) = (account.create("one").await, account.create("other").await);
    let intruder = site.sign_in_again(EMAIL).await;
    assert!(intruder.is_signed_in().await);
    let page = html(&account.revoke(&one).await, 200);
    let (_, ended) = page.split_once("Keys that have ended").unwrap();
    assert!(
        ended.contains(key_id(&one)) && ended.contains("<li>Revoked "),
        "{page}"
    );
    let title = format!("<title>Key {} is revoked", key_id(&one));
    assert!(page.contains(&title), "{page}");
    assert!(!intruder.is_signed_in().await);
    assert!(account.is_signed_in().await);
    site.until(401, &one).await;
    let headers = [("x-api-key", &*one)];
    let reply = request(site.http(), "GET", "/api/v1/meetings", &headers).await;
    assert_eq!(reply.text(), UNAUTHORIZED_BODY);
    // A second revocation appends nothing.
    let before = events(&site.nats).await;
    html(&account.revoke(&one).await, 200);
    assert_eq!(events(&site.nats).await, before);
    site.keys_command(&["revoke", key_id(&other)]).await;
    assert!(!account.is_signed_in().await);
}

#[tokio::test]
async fn keys_of_others_cannot_be_named_and_an_invalid_form_changes_nothing() {
    let site = Site::start().await;
    let stranger = site.subscriber("b@racing.example", "free").await;
    let others = stranger.create("theirs").await;
    let account = site.subscriber(EMAIL, "free").await;
    let own = account.create("mine").await;
    assert!(!account.page().await.contains(key_id(&others)));
    site.until_mails(EMAIL, 2).await;
    site.until_mails("b@racing.example", 2).await;
    let before = events(&site.nats).await;
    let (own, others, operators) = (key_id(&own), key_id(&others), key_id(&site.replicas[0].key));
    for key in [others, operators, "", "zzzzzzzz", "../../x"] {
        html(&account.press("revoke", &[("key", key)]).await, 422);
        let fields = [("key", key), ("overlap", "none")];
        html(&account.press("rotate", &fields).await, 422);
    }
    for (button, fields) in [
        ("delete", &[("key", own)][..]),
        ("", &[("key", own)]),
        ("rotate", &[("key", own)]),
        ("rotate", &[("key", own), ("overlap", "100d")]),
        ("leave", &[]),
        ("leave", &[("sure", "no")]),
    ] {
        html(&account.press(button, fields).await, 422);
    }
    for name in ["n".repeat(61), "two\nlines".to_owned()] {
        let page = html(&account.press("create", &[("name", &name)]).await, 422);
        assert!(page.contains("at most 60 characters"), "{page}");
    }
    // Without the nonce of a page.
    let headers = [("cookie", &*account.cookie)];
    for nonce in ["", "a"] {
        for button in ["create", "rotate"] {
            let fields = [
                ("do", button),
                ("key", own),
                ("overlap", "1h"),
                ("nonce", nonce),
            ];
            html(
                &post_with(site.http(), "/account", &headers, &fields).await,
                422,
            );
        }
    }
    // Without a session, and with one that is not known.
    let unknown = format!("railbird={}", random_secret().unwrap());
    for headers in [&[][..], &[("cookie", &*unknown)]] {
        let fields = [("do", "revoke"), ("key", own)];
        html(
            &post_with(site.http(), "/account", headers, &fields).await,
            403,
        );
    }
    html(
        &request(site.http(), "DELETE", "/account", &headers).await,
        405,
    );
    assert_eq!(events(&site.nats).await, before);
}

#[tokio::test]
async fn a_plan_allows_a_number_of_keys_and_a_name_is_escaped() {
    let site = Site::start().await;
    let account = site.subscriber(EMAIL, "free").await;
    let page = account.page().await;
    assert!(page.contains("You have no valid key") && page.contains("allows 2 valid keys"));
    let one = account.create("<b>mine</b>").await;
    let page = account.page().await;
    assert!(
        page.contains("&#60;b&#62;mine") && !page.contains("<b>mine"),
        "{page}"
    );
    assert_eq!(shown(&page), None, "a key is shown once");
    account.create("n".repeat(60).as_str()).await;
    let page = account.page().await;
    assert!(!page.contains("value=\"create\""), "{page}");
    let third = account.press("create", &[("name", "")]).await;
    let page = html(&third, 409);
    assert!(
        page.contains("<title>Error: ") && page.contains("allows no more"),
        "{page}"
    );
    assert!(
        page.contains("role=\"alert\"") && page.contains("autofocus"),
        "{page}"
    );

    // Keys that were replaced take no place while they overlap, and are bounded, too.
    let mut last = one;
    for _ in 0..2 {
        let reply = account.rotate(&last, "7d").await;
        last = shown(&html(&reply, 200)).unwrap().to_owned();
    }
    html(&account.rotate(&last, "1h").await, 409);
    let reply = account.rotate(&last, "none").await;
    shown(&html(&reply, 200)).expect("without an overlap");
    assert_eq!(subscribers_keys(&site.nats).await, 5);
}

#[tokio::test]
async fn pressing_a_button_again_creates_one_key_and_shows_it_each_time() {
    let site = Site::start_with(2, |_| ()).await;
    let account = site.subscriber(EMAIL, "standard").await;
    let id = id_of(&site.nats, EMAIL).await;
    site.keys_command(&["approve", &id.to_string()]).await;
    let page = account.page().await;
    let pressed = (0..6).map(|n| account.press_at(n % 2, &page, "create", &[("name", "x")]));
    let replies = join_all(pressed).await;
    let one = shown(&html(&replies[0], 200)).unwrap().to_owned();
    assert!(one.starts_with("rb_test_"), "{one}");
    for reply in &replies {
        assert_eq!(shown(&html(reply, 200)), Some(&*one));
    }
    site.until(200, &one).await;
    site.until_folded().await;
    let page = account.page().await;
    let fields = [("key", key_id(&one)), ("overlap", "24h")];
    let pressed = (0..6).map(|n| account.press_at(n % 2, &page, "rotate", &fields));
    let replies = join_all(pressed).await;
    let new = shown(&html(&replies[0], 200)).unwrap().to_owned();
    assert_ne!(new, one);
    for reply in &replies {
        assert_eq!(shown(&html(reply, 200)), Some(&*new));
    }
    assert_eq!(subscribers_keys(&site.nats).await, 2);
    // Another page does not replace it again.
    let reply = account.rotate(&one, "24h").await;
    assert!(html(&reply, 409).contains("replaced or revoked before"));
    assert_eq!(subscribers_keys(&site.nats).await, 2);
}

#[tokio::test]
async fn an_overlap_is_as_chosen() {
    let site = Site::start().await;
    let account = site.subscriber(EMAIL, "free").await;
    let mut old = account.create("program").await;
    for (chosen, hours) in [("24h", 24), ("7d", 168), ("1h", 1), ("none", 0)] {
        let before = jiff::Timestamp::now();
        let reply = account.rotate(&old, chosen).await;
        let page = html(&reply, 200);
        let after = jiff::Timestamp::now();
        let new = shown(&page).expect("the new key").to_owned();
        site.until(200, &new).await;
        let ledger = ledger(&site.nats).await;
        let id = id_of(&site.nats, EMAIL).await;
        let holder = Holder::Subscription(id);
        let find = |key: &str| {
            let mut keys = ledger.keys_of(&holder);
            keys.find(|(id, _)| id.as_str() == key_id(key))
                .unwrap()
                .1
                .clone()
        };
        let until = find(&old).valid_until().unwrap().timestamp();
        let overlap = SignedDuration::from_hours(hours);
        assert!(
            before + overlap <= until && until <= after + overlap,
            "{chosen}: {until}"
        );
        assert_eq!(find(&new).name.as_str(), "program");
        assert_eq!(find(&new).state(now()), KeyState::Valid);
        if hours == 0 {
            site.until(401, &old).await;
        } else {
            site.until(200, &old).await;
            let shown = page.contains("replaced, and still valid");
            assert!(shown && page.contains("Valid until"), "{page}");
            // Makes room for the next one.
            html(&account.revoke(&old).await, 200);
        }
        old = new;
    }
    let page = account.page().await;
    assert!(page.contains("Keys that have ended"), "{page}");
}

#[tokio::test]
async fn the_use_of_the_plan_is_shown_with_the_time_when_it_comes_back() {
    let site = Site::start().await;
    let account = site.subscriber(EMAIL, "free").await;
    let key = account.create("").await;
    let page = account.page().await;
    assert!(page.contains("<strong>0</strong> of 2,000"), "{page}");
    assert_eq!(page.matches("All are left.").count(), 2, "{page}");
    let get = async || {
        let headers = [("x-api-key", &*key)];
        request(site.http(), "GET", "/api/v1/meetings", &headers)
            .await
            .status
    };
    assert_eq!(get().await, 200);
    let page = account.page().await;
    assert!(page.contains("1,999 left. All are back: "), "{page}");
    eventually("the minute is used up", || async { get().await == 429 }).await;
    let page = account.page().await;
    let (_, after) = page.split_once("None is left. The next one: ").unwrap();
    let time = jiff::civil::Time::strptime("%H:%M:%S UTC", &after[..12]).unwrap();
    let now = jiff::Timestamp::now()
        .to_zoned(jiff::tz::TimeZone::UTC)
        .time();
    let wait = (now.duration_until(time).as_secs() + 86_400) % 86_400;
    assert!(wait <= 2 || wait >= 86_400 - 10, "{time} at {now}");
}

#[tokio::test]
async fn whoever_signs_out_is_out_at_every_replica() {
    let site = Site::start_with(2, |_| ()).await;
    let account = site.subscriber(EMAIL, "free").await;
    let other = site.sign_in_again(EMAIL).await;
    let reply = account.press("sign-out", &[]).await;
    assert!(html(&reply, 200).contains("You are signed out"));
    let cookie = reply.header("set-cookie");
    assert!(
        cookie.starts_with("railbird=; ") && cookie.contains("Max-Age=0"),
        "{cookie}"
    );
    site.until_folded().await;
    for replica in &site.replicas {
        let headers = [("cookie", &*account.cookie)];
        let reply = request(replica.http, "GET", "/account", &headers).await;
        assert!(html(&reply, 200).contains("Send me a link"));
    }
    assert!(other.is_signed_in().await, "another session stays");
}

#[tokio::test]
async fn whoever_leaves_is_forgotten_and_may_come_back() {
    let site = Site::start().await;
    let account = site.subscriber(EMAIL, "free").await;
    let key = account.create("").await;
    site.until_mails(EMAIL, 2).await;
    let reply = account.press("leave", &[("sure", "yes")]).await;
    assert!(html(&reply, 200).contains("You have left"));
    assert!(reply.header("set-cookie").contains("Max-Age=0"));
    site.until(401, &key).await;
    assert!(!account.is_signed_in().await);
    let (id, now_known) = (id_of(&site.nats, EMAIL).await, ledger(&site.nats).await);
    let book = AddressBook::new(site.nats.log().await);
    let sealed = &now_known.subscriptions.get(&id).unwrap().email;
    assert_eq!(
        book.open(&id, 1, sealed).await.unwrap(),
        None,
        "the address is erased"
    );

    // Nothing is sent, and the address may be subscribed again, without the earlier key.
    html(&site.ask_for_link(EMAIL).await, 200);
    html(&site.subscribe("b@racing.example", "free").await, 200);
    site.until_mails("b@racing.example", 1).await;
    assert_eq!(site.mails_to(EMAIL).len(), 2);
    let account = site.subscriber(EMAIL, "free").await;
    account.create("").await;
    site.until(401, &key).await;
}

#[tokio::test]
async fn changes_are_limited_by_subscription_and_not_by_sign_ups_of_others() {
    let site = Site::start_with(1, |config| {
        let few = std::num::NonZeroU32::new(2).unwrap();
        config.sign_ups_per_hour = few;
        config.sign_ups_per_network = few;
    })
    .await;
    let account = site.subscriber(EMAIL, "free").await;
    let other = site.subscriber("b@racing.example", "free").await;
    html(&site.subscribe("c@racing.example", "free").await, 429);
    let key = account.create("").await;
    let page = account.page().await;
    let fields = [("key", key_id(&key)), ("overlap", "24h")];
    let mut accepted = 1;
    let limited = loop {
        // The first replaces the key, and the others show the new one.
        let reply = account.press_at(0, &page, "rotate", &fields).await;
        if reply.status != 200 {
            break reply;
        }
        accepted += 1;
    };
    assert!(html(&limited, 429).contains("Too many changes"));
    assert!((60..=65).contains(&accepted), "{accepted} in an hour");
    let wait: u32 = limited.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    html(&account.revoke(&key).await, 200);
    site.until(401, &key).await;
    other.create("").await;
    html(&account.press("leave", &[("sure", "yes")]).await, 200);
}

#[tokio::test]
async fn a_link_that_was_not_meant_for_its_reader_ends_and_the_account_stays() {
    let site = Site::start().await;
    let account = site.subscriber(EMAIL, "free").await;
    let key = account.create("").await;
    let token = site.link_by(EMAIL, site.ask_for_link(EMAIL)).await;
    let page = html(&site.open(&token).await, 200);
    assert!(page.contains("End this link"), "{page}");
    let page = html(&press_link(site.http(), &page, "not-me").await, 200);
    assert!(page.contains("The link is ended"), "{page}");
    html(&site.open(&token).await, 404);
    assert!(account.is_signed_in().await);
    site.until(200, &key).await;
}

#[tokio::test]
async fn a_link_that_was_not_used_is_not_sent_again_at_once() {
    let site = Site::start().await;
    let account = site.subscriber(EMAIL, "free").await;
    let token = site.link_by(EMAIL, site.ask_for_link(EMAIL)).await;
    html(&site.ask_for_link(EMAIL).await, 200);
    html(&site.subscribe(EMAIL, "free").await, 200);
    html(&site.subscribe("b@racing.example", "free").await, 200);
    site.until_mails("b@racing.example", 1).await;
    assert_eq!(site.mails_to(EMAIL).len(), 2, "for {RESEND_AFTER:?}");
    html(&site.open(&token).await, 200);
    assert!(account.is_signed_in().await);
}

#[tokio::test]
async fn pages_read_the_api_with_a_session_and_nothing_else_does() {
    let site = Site::start().await;
    let account = site.subscriber(EMAIL, "free").await;
    let get = async |method: &str, headers: &[(&str, &str)]| {
        let cookie = ("cookie", account.cookie.as_str());
        let headers = [&[cookie], headers].concat();
        request(site.http(), method, "/api/v1/meetings", &headers).await
    };
    let own_page = ("sec-fetch-site", "same-origin");
    let reply = get("GET", &[own_page]).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    // A budget of its own, and no quota of a day.
    assert_eq!(reply.header("x-ratelimit-limit"), "240");
    let origin = format!("http://{}", site.http());
    assert_eq!(get("HEAD", &[("origin", &origin)]).await.status, 200);
    for others in [
        &[][..],
        &[("sec-fetch-site", "none")],
        &[("sec-fetch-site", "same-site")],
        &[("sec-fetch-site", "cross-site"), ("origin", &origin)],
        &[("origin", "https://evil.example")],
        // A key that is wrong is not replaced by the session.
        &[own_page, ("x-api-key", "wrong")],
    ] {
        assert_eq!(get("GET", others).await.status, 401, "{others:?}");
    }
    assert_eq!(get("POST", &[own_page]).await.status, 401);
    account.press("sign-out", &[]).await;
    eventually("the session has ended", async || {
        get("GET", &[own_page]).await.status == 401
    })
    .await;
}
