//! The board and the API of someone who is signed in.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::pages::board::{FIRST_WIN, PHASE};

const EMAIL: &str = "rail.bird@racing.example";
const OWN_PAGE: (&str, &str) = ("sec-fetch-site", "same-origin");
const LIVE: &str = "/ws/live/odds";
const EVENTS: &str = "/sse/live/odds";

/// Someone with a plan that has live odds.
async fn subscriber(site: &Site) -> Account<'_> {
    let account = site.subscriber(EMAIL, "standard").await;
    let id = id_of(&site.nats, EMAIL).await;
    site.keys_command(&["approve", &id.to_string()]).await;
    account
}

/// A race with prices.
async fn publish_prices(site: &Site) {
    let quoted = odds("ST", 1, &second(2), &[3.5, 4.0, 6.2, 9.9]);
    let opened = status("ST", 1, &second(1), "open");
    let last = site
        .nats
        .publish([card(DAY, "ST", 1, 4), opened, quoted])
        .await;
    site.replicas[0].until_seq(last).await;
}

/// A stream of events that a page reads, up to its end.
async fn read_events(site: &Site, cookie: &str) -> impl Future<Output = String> + use<> {
    let mut stream = TcpStream::connect(site.http()).await.unwrap();
    let request = format!(
        "GET {EVENTS} HTTP/1.0\r\nHost: railbird\r\nCookie: {cookie}\r\nSec-Fetch-Site: same-origin\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut beginning = [0; 12];
    stream.read_exact(&mut beginning).await.unwrap();
    assert_eq!(&beginning, b"HTTP/1.0 200");
    async move {
        let mut rest = String::new();
        stream.read_to_string(&mut rest).await.unwrap();
        rest
    }
}

#[tokio::test]
async fn a_page_follows_the_live_channel_with_a_session_until_the_sign_out() {
    let site = Site::start().await;
    let account = subscriber(&site).await;
    let cookie = ("cookie", account.cookie.as_str());
    let origin = format!("http://{}", site.http());
    let mut sockets = Vec::new();
    for own in [OWN_PAGE, ("origin", &*origin)] {
        let mut socket = Socket::connect_with(site.http(), LIVE, &[cookie, own]).await;
        socket.until("snapshot_complete").await;
        sockets.push(socket);
    }
    let events = read_events(&site, cookie.1).await;
    for others in [
        &[][..],
        &[
            ("sec-fetch-site", "cross-site"),
            ("origin", "https://evil.example"),
        ],
        &[("sec-fetch-site", "same-site")],
        &[("origin", "https://evil.example")],
    ] {
        let headers = [&[cookie], others].concat();
        let refused = Socket::refused_with(site.http(), LIVE, &headers).await;
        assert_eq!(refused.status, 401, "{others:?}");
        let refused = request(site.http(), "GET", EVENTS, &headers).await;
        assert_eq!(refused.status, 401, "{others:?}");
    }
    let other = site.sign_in_again(EMAIL).await;
    let headers = [("cookie", &*other.cookie), OWN_PAGE];
    let mut stays = Socket::connect_with(site.http(), LIVE, &headers).await;

    account.press("sign-out", &[]).await;
    for mut socket in sockets {
        let (messages, code) = socket.until_closed().await;
        let last = messages.last().map(|last| last["event"].clone());
        assert_eq!((last, code), (Some(json!("closing")), Some(4401)));
    }
    let events = events.await;
    assert!(
        events.contains("snapshot_complete") && events.contains("4401"),
        "{events}"
    );
    let refused = Socket::refused_with(site.http(), LIVE, &[cookie, OWN_PAGE]).await;
    assert_eq!(refused.status, 401);
    // Another session stays.
    publish_prices(&site).await;
    stays.until("odds_update").await;
}

#[tokio::test]
async fn pages_have_a_budget_of_their_own() {
    let site = Site::start().await;
    let account = subscriber(&site).await;
    let headers = [("cookie", &*account.cookie), OWN_PAGE];
    let mut sockets = Vec::new();
    for _ in 0..10 {
        let mut socket = Socket::connect_with(site.http(), LIVE, &headers).await;
        socket.until("snapshot_complete").await;
        sockets.push(socket);
    }
    let mut excess = Socket::connect_with(site.http(), LIVE, &headers).await;
    assert_eq!(excess.until_closed().await.1, Some(4429));
    let get = async || request(site.http(), "GET", "/api/v1/meetings", &headers).await;
    assert_eq!(get().await.header("x-ratelimit-limit"), "240");
    let limited = loop {
        let reply = get().await;
        if reply.status != 200 {
            break reply;
        }
    };
    assert_eq!(limited.status, 429);
    assert_eq!(limited.json()["error"], "rate_limit_exceeded");
    assert!(!limited.header("retry-after").is_empty());
    // A key of the same subscriber has the quota of the plan.
    let key = account.create("").await;
    let headers = [("x-api-key", &*key)];
    let reply = request(site.http(), "GET", "/api/v1/meetings", &headers).await;
    assert_eq!(
        (reply.status, reply.header("x-ratelimit-limit")),
        (200, "600")
    );
}

#[tokio::test]
async fn someone_who_is_signed_in_has_the_board_in_each_tab_until_the_sign_out() {
    let site = Site::start().await;
    publish_prices(&site).await;
    let account = subscriber(&site).await;
    let mut page = Page::of(site.http());
    let fragment = format!("#/{DAY}");
    page.open(json!({ "fragment": fragment, "cookie": account.cookie }))
        .await;
    page.until(PHASE, "Live").await;
    page.until(&format!("#race-ST-1 {FIRST_WIN}"), "3.5").await;
    // By a link of another site, the browser sends no cookie with the first request.
    page.follow(&format!("#/{DAY}/ST/1")).await;
    page.until(PHASE, "Live").await;
    page.until(&format!(".race-view {FIRST_WIN}"), "3.5").await;
    page.assert_no_problems().await;
    account.press("sign-out", &[]).await;
    page.until(".wrong", "You are signed out").await;
}

#[tokio::test]
async fn a_new_key_is_copied_and_leads_to_the_board() {
    let site = Site::start().await;
    publish_prices(&site).await;
    let account = subscriber(&site).await;
    let mut page = Page::of(site.http());
    page.open(json!({ "fragment": "account", "cookie": account.cookie, "motion": "reduce" }))
        .await;
    page.click("button[value=create]").await;
    page.until("h1", "Your new key").await;
    let key = page.text("#key").await;
    for width in [360, 768, 1280, 1920] {
        for scheme in ["light", "dark"] {
            page.look(width, scheme).await;
            page.assert_accessible().await;
            let file = format!("new-key-{width}-{scheme}.png");
            page.picture(
                &crate::pages::board::root()
                    .join(crate::pages::board::PICTURES)
                    .join(file),
            )
            .await;
        }
    }
    let clipboard = |does: &str| {
        format!(
            "void Object.defineProperty(navigator, 'clipboard', {{ value: {does}, configurable: true }})"
        )
    };
    page.evaluate(&clipboard(
        "{ writeText: async (text) => { window.copied = text; } }",
    ))
    .await;
    page.click("#copy").await;
    page.until("#copy", "Copied").await;
    assert_eq!(page.evaluate("window.copied").await, json!(key));
    page.evaluate(&clipboard("undefined")).await;
    page.click("#copy").await;
    page.until("#copy", "Selected").await;
    assert_eq!(page.evaluate("String(getSelection())").await, json!(key));
    page.assert_no_problems().await;
    page.click(".notice a.button").await;
    page.until(PHASE, "Live").await;
}

#[tokio::test]
async fn a_page_forgets_its_key() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut page = Page::of(railbird.http);
    page.open(json!({})).await;
    page.fill("#key", &railbird.key).await;
    page.press("Enter").await;
    page.until(PHASE, "Live").await;
    page.click("text=Forget key").await;
    page.until("label", "Your API key").await;
    assert_eq!(page.evaluate("sessionStorage.length").await, json!(0));
    page.reload().await;
    page.until("label", "Your API key").await;
}
