//! The board in a replay: what it shows is what the API has as of the moment, and nothing later.

use events::RacingDate;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::board::{FIRST_WIN, PHASE, PICTURES, SMALL_TARGETS, publish_simulated, root};
use crate::support::*;

const BANNER: &str = ".replay .banner b";
const SLIDER: &str = ".replay input";
const RACE: &str = "#race-ST-1";
const TEXT: &str = "document.querySelector('main').innerText";

/// The end of the millisecond in which the log stored an event.
async fn after(nats: &Nats, seq: u64) -> String {
    let time: Timestamp = nats.recorded_at(seq).await.parse().unwrap();
    let end = Timestamp::from_millisecond(time.as_millisecond() + 1);
    format!("{:.3}", end.unwrap())
}

/// A race of which a page has seen each change, and the events after which it was quoted: it is withdrawn from and run.
async fn a_day(nats: &Nats, railbird: &Railbird, page: &mut Page) -> [u64; 2] {
    let opened = [card(DAY, "ST", 1, 4), status("ST", 1, &second(1), "open")];
    nats.publish(opened).await;
    let prices = [3.5, 4.0, 6.2, 9.9];
    let first = nats.publish([odds("ST", 1, &second(2), &prices)]).await;
    railbird.until_seq(first).await;
    page.open(json!({ "fragment": format!("#/{DAY}"), "key": railbird.key }))
        .await;
    page.until(&format!("{RACE} {FIRST_WIN}"), "3.5").await;
    let prices = [3.1, 4.4, 6.2, 9.9];
    let quoted = nats.publish([odds("ST", 1, &second(3), &prices)]).await;
    page.until(&format!("{RACE} {FIRST_WIN}"), "3.1").await;
    nats.publish([withdrawn("ST", 1, &second(4), "H3")]).await;
    page.until(&format!("{RACE} [data-horse=H3]"), "Withdrawn")
        .await;
    nats.publish([result(DAY, "ST", 1, 2, 1)]).await;
    page.until(&format!("{RACE} .status"), "Official").await;
    [first, quoted]
}

#[tokio::test]
async fn a_moment_has_the_prices_of_then_and_nothing_later() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut page = Page::of(railbird.http);
    let [first, quoted] = a_day(&nats, &railbird, &mut page).await;
    for (seq, win) in [(quoted, "3.1"), (first, "3.5")] {
        let moment = after(&nats, seq).await;
        let path = format!("/api/v1/odds/{DAY}/1?venue=ST&as_of={moment}");
        let board = railbird.get(&path).await.json();
        assert_eq!(board["runners"][0]["win"].to_string(), win);
        for (fragment, row) in [
            (
                format!("#/{DAY}?at={moment}"),
                format!("{RACE} {FIRST_WIN}"),
            ),
            (
                format!("#/{DAY}/ST/1?at={moment}"),
                format!(".race-view {FIRST_WIN}"),
            ),
        ] {
            page.open(json!({ "fragment": fragment, "key": railbird.key }))
                .await;
            page.until(BANNER, "Replay of 3 October 2026 as of").await;
            page.until(&row, win).await;
            let text = page.evaluate(TEXT).await.to_string();
            for later in ["Withdrawn", "Official", "Live channel"] {
                assert!(!text.contains(later), "{later} at {moment}: {text}");
            }
            assert_eq!(page.evaluate("location.hash").await, fragment);
            page.assert_accessible().await;
            page.assert_no_problems().await;
        }
    }
    // The chart ends with the price of then.
    page.until(".readout", "1 HORSE 1 3.5").await;
    page.click(".sources summary").await;
    page.until(".sources", &format!("&as_of={}", after(&nats, first).await))
        .await;
    page.click(".race-view [data-horse=H1] a").await;
    page.until(".horse-view .profile", "Starts 0").await;
    page.until(BANNER, "Replay of 3 October 2026 as of").await;
    let horse = page.evaluate("location.hash").await;
    page.open(json!({ "fragment": horse, "key": railbird.key }))
        .await;
    page.until(".horse-view .profile", "Starts 0").await;
    page.until(BANNER, "Replay of 3 October 2026 as of").await;
    let fragment = format!("#/{DAY}/ST/1?at={}", after(&nats, first).await);
    page.open(json!({ "fragment": fragment, "key": railbird.key }))
        .await;
    page.until(&format!(".race-view {FIRST_WIN}"), "3.5").await;
    page.click(".replay .banner button").await;
    page.until(PHASE, "Live").await;
    page.until(".race-view .status", "Official").await;
    assert_eq!(
        page.evaluate("location.hash").await,
        format!("#/{DAY}/ST/1")
    );
    assert_eq!(page.texts(BANNER).await, [""; 0]);
    page.assert_no_problems().await;
}

#[tokio::test]
async fn the_slider_is_used_with_the_keyboard_and_dragged() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut page = Page::of(railbird.http);
    a_day(&nats, &railbird, &mut page).await;
    page.click(".days .button").await;
    page.until(BANNER, "Replay of 3 October 2026 as of").await;
    // It plays to the end.
    page.until(&format!("{RACE} .status"), "Official").await;
    page.until(".replay button.quiet", "Play").await;
    page.evaluate(&format!("document.querySelector({SLIDER:?}).focus()"))
        .await;
    page.press("Home").await;
    page.until(&format!("{RACE} .market"), "No price is known")
        .await;
    page.until(&format!("{RACE} .status"), "Scheduled").await;
    let value = page.attribute(SLIDER, "aria-valuetext").await;
    assert!(value.contains(':'), "{value}");
    page.press("End").await;
    page.until(&format!("{RACE} .status"), "Official").await;
    page.press("ArrowLeft").await;
    page.press("ArrowLeft").await;
    page.until_true(&format!("document.activeElement.matches({SLIDER:?})"))
        .await;
    let is_at = |end: &str| {
        let address = "Date.parse(location.hash.split('at=')[1])";
        format!(
            "((input) => Math.abs(input.{end} - {address}) < input.step)(document.querySelector({SLIDER:?}))"
        )
    };
    page.drag(SLIDER, 0.9, 0.0).await;
    page.until(&format!("{RACE} .status"), "Scheduled").await;
    page.until_true(&is_at("min")).await;
    page.drag(SLIDER, 0.0, 1.0).await;
    page.until(&format!("{RACE} .status"), "Official").await;
    page.until_true(&is_at("max")).await;
    page.assert_no_problems().await;
    // Another day is no part of the replay, also if the replay writes its address before `hashchange`.
    let change = "document.querySelector('.replay select').dispatchEvent(new Event('change'))";
    page.evaluate(&format!("location.hash = '#/2026-10-04'; {change}"))
        .await;
    page.until(PHASE, "Live").await;
}

#[tokio::test]
async fn what_cannot_be_replayed_is_explained() {
    let nats = Nats::start();
    let plans = format!(
        "{}{}",
        plan("default", "live_odds = true\nconnections = 10"),
        plan("free", "")
    );
    let railbird = Railbird::start_with(&nats, |config| {
        config.plans = railbird::limits::plans::Plans::parse(&plans).unwrap();
    })
    .await;
    let last = nats.publish([card(DAY, "ST", 1, 4)]).await;
    railbird.until_seq(last).await;
    let free = railbird.issue_key_on(&nats, "free").await;
    let mut page = Page::of(railbird.http);
    for (key, date, sentence) in [
        (
            &railbird.key,
            "2026-10-04",
            "The log has nothing of this day.",
        ),
        (&free, DAY, "live odds"),
    ] {
        page.open(json!({ "fragment": format!("#/{date}?at=start"), "key": key }))
            .await;
        page.until(".replay .banner:last-child", sentence).await;
        page.until("h1", "This cannot be shown").await;
        page.assert_accessible().await;
    }
}

#[tokio::test]
async fn a_replay_is_accessible_at_every_width_and_in_both_schemes() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let today = railbird.app.clock.today();
    let last = publish_simulated(&nats, today).await;
    railbird.until_seq(last).await;
    let yesterday = RacingDate::from(today.civil().yesterday().unwrap());
    let moment = after(&nats, last / 2).await;
    let mut page = Page::of(railbird.http);
    for (name, fragment, selector) in [
        (
            "day",
            format!("#/{yesterday}?at={moment}"),
            ".race .outlook",
        ),
        (
            "race",
            format!("#/{yesterday}/RB/1?at={moment}"),
            ".race-view h2",
        ),
    ] {
        for width in [360, 768, 1280, 1920] {
            for scheme in ["light", "dark"] {
                let options: Value = json!({
                    "fragment": fragment, "key": railbird.key, "width": width, "scheme": scheme, "motion": "reduce",
                });
                page.open(options).await;
                page.until(BANNER, ":").await;
                page.until(selector, "").await;
                let overflow = "document.documentElement.scrollWidth - innerWidth";
                assert_eq!(page.evaluate(overflow).await, json!(0), "{name} at {width}");
                let file = format!("replay-{name}-{width}-{scheme}.png");
                page.picture(&root().join(PICTURES).join(file)).await;
                page.assert_accessible().await;
                assert_eq!(page.evaluate(SMALL_TARGETS).await, json!([]), "{name}");
                page.assert_no_problems().await;
            }
        }
    }
}
