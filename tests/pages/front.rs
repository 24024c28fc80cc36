//! The first page of visitors without a key: what it says, and the racing that it shows.

use jiff::{SignedDuration, Timestamp};
use railbird::http::FrontRacing;
use serde_json::{Value, json};

use crate::support::*;

/// A race that is off in an hour.
fn next_race(number: u16) -> Value {
    let off = Timestamp::now() + SignedDuration::from_hours(1);
    let date = off.strftime("%F").to_string();
    let mut race = card(&date, "ST", number, 3);
    race["data"]["off_time"] = json!(off.to_string());
    race
}

/// Prices of the race of a card.
fn prices_of(card: &Value, wins: &[f64]) -> Value {
    let (date, number) = (&card["data"]["date"], &card["data"]["race_number"]);
    let number = number.as_u64().unwrap().try_into().unwrap();
    odds_on(
        date.as_str().unwrap(),
        "ST",
        number,
        &Timestamp::now().to_string(),
        wins,
    )
}

async fn showing(nats: &Nats, racing: FrontRacing) -> Railbird {
    Railbird::start_with(nats, |config| config.front_racing = racing).await
}

async fn front(railbird: &Railbird) -> String {
    let reply = railbird.get_open("/").await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), "text/html; charset=utf-8");
    reply.text()
}

/// The texts between two others.
fn between<'a>(html: &'a str, before: &str, after: &str) -> Vec<&'a str> {
    let parts = html.split(before).skip(1);
    parts
        .map(|part| part.split(after).next().unwrap())
        .collect()
}

fn wins(html: &str) -> Vec<&str> {
    between(html, "<td class=\"win number\">", "</td>")
}

#[tokio::test]
async fn a_visitor_is_shown_an_invented_meeting_or_nothing_and_the_way_to_a_key() {
    let nats = Nats::start();
    let race = next_race(1);
    let last = nats
        .publish([race.clone(), prices_of(&race, &[3.5, 4.0, 6.2])])
        .await;
    for (racing, has_demo) in [(FrontRacing::Demo, true), (FrontRacing::None, false)] {
        let railbird = showing(&nats, racing).await;
        railbird.until_seq(last).await;
        let html = front(&railbird).await;
        assert_eq!(html.contains("An invented meeting"), has_demo, "{html}");
        assert_eq!(wins(&html).is_empty(), !has_demo, "{html}");
        assert!(!html.contains("HORSE 1"), "{html}");
        // Without mails, nobody can sign up.
        assert!(
            html.contains("href=\"pricing\">Plans and prices</a>"),
            "{html}"
        );
    }
}

#[tokio::test]
async fn without_views_the_page_is_shown_all_the_same() {
    let data = tempfile::tempdir().unwrap();
    let railbird = Railbird::start_unready("nats://127.0.0.1:1", data.path()).await;
    assert_eq!(railbird.get_open("/readyz").await.status, 503);
    assert!(front(&railbird).await.contains("An invented meeting"));
}

/// The prices of a race as of a time, as the page writes them.
async fn wins_as_of(railbird: &Railbird, race: &Value, time: &str) -> Vec<String> {
    let (date, number) = (&race["data"]["date"], &race["data"]["race_number"]);
    let path = format!(
        "/api/v1/odds/{}/{number}?venue=ST&as_of={time}",
        date.as_str().unwrap()
    );
    let board = railbird.get(&path).await;
    assert!([200, 404, 410].contains(&board.status), "{}", board.text());
    let board = board.json();
    let runners = board["runners"].as_array().cloned().unwrap_or_default();
    let win = |horse: u16| {
        let runner = runners
            .iter()
            .find(|runner| runner["horse_no"] == format!("H{horse}"));
        let win = runner.and_then(|runner| runner["win"].as_f64());
        win.map_or("–".to_owned(), |win| format!("{win:?}"))
    };
    (1..=3).map(win).collect()
}

#[tokio::test]
async fn delayed_prices_are_exactly_those_of_the_time_that_the_page_names() {
    let nats = Nats::start();
    let delay = SignedDuration::from_secs(1);
    let railbird = showing(&nats, FrontRacing::Delayed(delay)).await;
    assert!(front(&railbird).await.contains("An invented meeting"));
    let race = next_race(1);
    nats.publish([race.clone()]).await;
    for price in [3.5, 3.25, 3.0] {
        nats.publish([prices_of(&race, &[price, 4.0, 6.2])]).await;
        let shown = format!("{price:?}");
        eventually("the page has the price", async || {
            let html = front(&railbird).await;
            let Some(time) = between(&html, "<time datetime=\"", "\"").first().copied() else {
                return false;
            };
            assert!(time.parse::<Timestamp>().unwrap() + delay <= Timestamp::now());
            assert_eq!(
                wins(&html),
                wins_as_of(&railbird, &race, time).await,
                "{time}"
            );
            wins(&html)[0] == shown
        })
        .await;
    }
}

#[tokio::test]
async fn no_price_is_shown_before_its_time() {
    let nats = Nats::start();
    let delay = SignedDuration::from_hours(1);
    let railbird = showing(&nats, FrontRacing::Delayed(delay)).await;
    let race = next_race(1);
    // Of the four, the page has three.
    let races = [race.clone(), next_race(2), next_race(3), next_race(4)];
    nats.publish([prices_of(&race, &[3.5, 4.0, 6.2])]).await;
    nats.publish(races).await;
    eventually("the page has the races", async || {
        front(&railbird).await.contains("HORSE 1")
    })
    .await;
    let html = front(&railbird).await;
    assert_eq!(wins(&html), ["–"; 9]);
    assert!(
        html.contains("THE ST HANDICAP 1") && html.contains("J Ockey 2"),
        "{html}"
    );
    assert!(
        html.contains("delayed by 1 hour") && html.contains(">Scheduled<"),
        "{html}"
    );
}

#[tokio::test]
async fn a_link_to_the_page_has_a_picture_and_the_page_can_be_installed() {
    let railbird = Railbird::start(&Nats::start()).await;
    let html = front(&railbird).await;
    assert!(
        html.contains("<meta property=\"og:image\" content=\"assets/picture.png\">"),
        "{html}"
    );
    let policy = railbird.get_open("/").await;
    assert!(
        policy
            .header("content-security-policy")
            .contains("manifest-src 'self'")
    );
    for (path, content_type) in [
        ("/assets/picture.png", "image/png"),
        ("/assets/icon.png", "image/png"),
        ("/assets/manifest.webmanifest", "application/manifest+json"),
    ] {
        let file = railbird.get_open(path).await;
        assert_eq!(
            (file.status, file.header("content-type")),
            (200, content_type),
            "{path}"
        );
        assert!(file.body.len() < 100 * 1024, "{path}");
    }
    let manifest = railbird
        .get_open("/assets/manifest.webmanifest")
        .await
        .json();
    assert_eq!(manifest["start_url"], "../");
    for icon in manifest["icons"].as_array().unwrap() {
        let path = format!("/assets/{}", icon["src"].as_str().unwrap());
        let found = railbird.get_open(&path).await;
        assert_eq!(
            found.header("content-type"),
            icon["type"].as_str().unwrap(),
            "{path}"
        );
    }
}

#[tokio::test]
async fn the_first_page_fits_each_screen_and_needs_no_script() {
    let nats = Nats::start();
    let railbird = showing(&nats, FrontRacing::Delayed(SignedDuration::ZERO)).await;
    let races = [1, 2, 3].map(next_race);
    let quoted = prices_of(&races[0], &[3.5, 4.0, 6.2]);
    nats.publish(races.into_iter().chain([quoted])).await;
    let demo = showing(&nats, FrontRacing::Demo).await;
    eventually("the page has the prices", async || {
        wins(&front(&railbird).await).contains(&"6.2")
    })
    .await;
    for (name, service) in [("delayed", &railbird), ("demo", &demo)] {
        let mut page = Page::of(service.http);
        for width in [360, 768, 1280, 1920] {
            for scheme in ["light", "dark"] {
                page.open(json!({ "width": width, "scheme": scheme })).await;
                page.until("label", "Your API key").await;
                page.assert_accessible().await;
                let excess = "document.documentElement.scrollWidth - innerWidth";
                assert_eq!(page.evaluate(excess).await, json!(0), "{name} at {width}");
                let file = format!("front-{name}-{width}-{scheme}.png");
                page.picture(&super::board::root().join(super::board::PICTURES).join(file))
                    .await;
                page.assert_no_problems().await;
            }
        }
        page.open(json!({ "scripts": false })).await;
        assert!(page.text("noscript").await.contains("needs JavaScript"));
        page.until("#front td.win", "3.").await;
        assert!(page.texts("#front td.win").await[0].starts_with("3."));
    }
}
