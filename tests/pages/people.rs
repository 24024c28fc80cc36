//! The board's search, its pages of horses, people and venues, and what a visitor follows, in a real browser.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::board::{FIRST_WIN, PHASE, PICTURES, root};
use crate::support::*;

const SEARCH: &str = ".tools input";
const OPTION: &str = ".found-popup [role=option]";
/// The text of the option that assistive technology reads.
const ACTIVE: &str = "document.getElementById(document.querySelector('input.search').getAttribute('aria-activedescendant'))?.innerText ?? ''";
/// The requests of a search by name.
const SEARCHES: &str =
    "performance.getEntriesByType('resource').filter(({ name }) => name.includes('name=')).length";
/// What a visitor can press or fill in.
const CONTROLS: &str = "[...document.querySelectorAll('button, input, select')].filter((one) => one.checkVisibility()).length";

/// Two meetings with results: `J Ockey 1` wins twice at ST, and `J Ockey 2` is second.
fn results() -> Vec<Value> {
    let identified = [1, 2].map(|number| {
        let mut card = card(DAY, "ST", number, 3);
        let runner = &mut card["data"]["runners"][0];
        runner["jockey_id"] = json!("OJ");
        runner["owner"] = json!("The Owner Syndicate");
        card
    });
    let mut at_hv = result(DAY, "HV", 1, 2, 1);
    at_hv["data"]["runners"][0]["jockey"] = json!("A Nother");
    let [first, second] = identified;
    vec![
        registered("H1", "HORSE 1"),
        first,
        second,
        card(DAY, "HV", 1, 3),
        result(DAY, "ST", 1, 2, 1),
        result(DAY, "ST", 2, 2, 1),
        at_hv,
    ]
}

/// A page of the board on an address, once some facts are in the views.
async fn open(nats: &Nats, railbird: &Railbird, facts: Vec<Value>, fragment: &str) -> Page {
    let last = nats.publish(facts).await;
    railbird.until_seq(last).await;
    let mut page = Page::of(railbird.http);
    page.open(json!({ "fragment": fragment, "key": railbird.key }))
        .await;
    page.until(PHASE, "Live").await;
    page
}

/// The card of a race of today at ST that is off in an hour, and its prices.
fn ahead(railbird: &Railbird) -> (String, Vec<Value>) {
    let today = railbird.app.clock.today().to_string();
    let mut card = card(&today, "ST", 7, 3);
    let off = Timestamp::now() + SignedDuration::from_hours(1);
    card["data"]["off_time"] = json!(format!("{off:.0}"));
    let quoted = odds_on(&today, "ST", 7, &second(1), &[3.5, 4.0]);
    (today, vec![card, quoted])
}

#[tokio::test]
async fn a_search_finds_each_kind_with_the_keyboard_and_few_requests() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut page = open(&nats, &railbird, results(), &format!("#/{DAY}")).await;
    page.until(".meeting", "THE ST HANDICAP 1").await;
    page.press("/").await;
    page.until_true("document.querySelector('input.search').getAttribute('role') === 'combobox'")
        .await;
    assert_eq!(page.evaluate("document.activeElement.value").await, "");
    page.fill(SEARCH, "HORSE").await;
    page.until(OPTION, "HORSE 2").await;
    assert_eq!(page.attribute(SEARCH, "aria-expanded").await, "true");
    page.assert_accessible().await;
    page.press("ArrowDown").await;
    let first = page.evaluate(ACTIVE).await;
    assert!(first.as_str().unwrap().starts_with("HORSE 1"), "{first}");
    page.press("Escape").await;
    assert_eq!(page.attribute(SEARCH, "aria-expanded").await, "false");
    // What is known costs no request.
    let requests = page.evaluate(SEARCHES).await;
    assert_eq!(requests, 5);
    page.press("ArrowDown").await;
    page.until(OPTION, "HORSE 2").await;
    page.press("ArrowDown").await;
    page.press("Enter").await;
    page.until("h1", "HORSE 1").await;
    assert_eq!(page.evaluate(SEARCHES).await, requests);

    page.press("/").await;
    page.fill(SEARCH, "13:00 sha tin").await;
    page.until(OPTION, "13:00 Sha Tin THE ST HANDICAP 1").await;
    page.fill(SEARCH, "no such name").await;
    page.until(".found-popup", "Nothing has this name").await;
    // Enter shows all that is found.
    page.fill(SEARCH, "ockey").await;
    page.press("Enter").await;
    page.until("h1", "Search for “ockey”").await;
    page.until(".found", "J Ockey 2").await;
    page.click(".found a").await;
    page.until(".lead", "Jockey").await;
    page.press("/").await;
    page.fill(SEARCH, "syndicate").await;
    page.until(OPTION, "The Owner Syndicate").await;
    page.fill(SEARCH, "x").await;
    page.until_true("document.querySelector('.found-popup').hidden")
        .await;
    page.assert_no_problems().await;

    // No search is as of a moment.
    page.open(json!({ "fragment": format!("#/{DAY}?at=start"), "key": railbird.key }))
        .await;
    page.until(".replay", "Replay of").await;
    assert_eq!(page.texts(SEARCH).await, [""; 0]);
}

#[tokio::test]
async fn people_and_venues_have_figures_and_rides() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut page = open(&nats, &railbird, results(), &format!("#/{DAY}/ST/1")).await;
    let jockey = ".result [data-horse=H1] .people a";
    // The card has an identifier, and that of H2 has none.
    let address = page.attribute(jockey, "href").await;
    assert_eq!(address, "#/jockeys/Asia-Hong_Kong%3BOJ");
    page.click(jockey).await;
    page.until("h1", "J Ockey 1").await;
    page.until(".totals", "Wins 2").await;
    page.until(".lead", "Jockey, Hong Kong").await;
    page.until(".group-table", "2026/27").await;
    page.until(".form tbody tr", "Sha Tin, race 1").await;
    page.evaluate("history.back()").await;
    page.until("h1", "Sha Tin").await;
    page.click(".result [data-horse=H2] .people a").await;
    page.until("h1", "J Ockey 2").await;
    page.until(".totals", "Starts 3").await;

    // A choice stays in the address, and the focus in it.
    const CHOOSE: &str = "(label, value) => { const choice = document.querySelector(`[aria-label=${label}]`); \
         choice.focus(); choice.value = value; choice.dispatchEvent(new Event('change')); }";
    page.evaluate(&format!("({CHOOSE})('Groups', 'venue')"))
        .await;
    page.until(".group-table", "Happy Valley").await;
    page.until_true("document.activeElement.matches('[aria-label=Groups]')")
        .await;
    page.click(".group-table thead button").await;
    let venues = page.texts(".group-table tbody th").await;
    assert_eq!(venues, ["Happy Valley", "Sha Tin"]);
    page.click(".group-table thead th:nth-child(2) button")
        .await;
    let venues = page.texts(".group-table tbody th").await;
    assert_eq!(venues, ["Sha Tin", "Happy Valley"]);
    page.evaluate(&format!("({CHOOSE})('Period', '2024-09-01/2025-08-31')"))
        .await;
    page.until(".hint", "No rides in this period").await;
    page.reload().await;
    page.until(".hint", "No rides in this period").await;
    page.assert_accessible().await;

    page.open(json!({ "fragment": "#/venues/ST", "key": railbird.key }))
        .await;
    page.until("h1", "Sha Tin").await;
    let best = page.texts(".group-table tbody tr:first-child").await;
    assert_eq!(best[0], "J Ockey 1 2 2 0 100.0 % +5.0");
    assert_eq!(best.len(), 3);
    page.click(".group-table tbody a").await;
    page.until(".lead", "Jockey").await;
    page.assert_no_problems().await;
}

#[tokio::test]
async fn a_horse_has_its_next_race_with_the_price_of_now_and_is_compared() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let (today, coming) = ahead(&railbird);
    let facts = [results(), coming].concat();
    let mut page = open(&nats, &railbird, facts, "#/horses/H1").await;
    page.until(".ahead", "Sha Tin THE ST HANDICAP 7").await;
    page.until(".ahead", "off in").await;
    page.until(".ahead .odds", "3.5").await;
    nats.publish([odds_on(&today, "ST", 7, &second(2), &[3.1, 4.0])])
        .await;
    page.until(".ahead .odds", "3.1").await;
    page.until(".ahead", "−0.4 (−11 %)").await;
    let withdrawal = of_race(&today, "ST", 7, json!({ "horse_no": "H1" }));
    nats.publish([event("runner.withdrawn", &second(3), withdrawal)])
        .await;
    page.until(".horse-view", "It is on no card now").await;

    page.fill("#other-horse", "horse 2").await;
    page.until(&format!(".against {OPTION}"), "HORSE 2").await;
    page.press("ArrowDown").await;
    page.press("Enter").await;
    page.until(".against", "was ahead 3 times, behind 0 times")
        .await;
    page.until(".pair tbody", "Happy Valley, race 1").await;
    page.assert_accessible().await;
    // The address has both.
    page.reload().await;
    page.until(".against", "was ahead 3 times").await;
    page.assert_no_problems().await;
}

#[tokio::test]
async fn what_is_followed_is_listed_and_its_moves_are_news() {
    const STAR: &str = "[data-horse=H1] .star";
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let (today, coming) = ahead(&railbird);
    let mut page = open(&nats, &railbird, coming, &format!("#/{today}")).await;
    page.until(FIRST_WIN, "3.5").await;
    assert_eq!(page.attribute(STAR, "aria-pressed").await, "false");
    page.click(STAR).await;
    assert_eq!(page.attribute(STAR, "aria-pressed").await, "true");
    let quote = |n, win| odds_on(&today, "ST", 7, &second(n), &[win, 4.0]);
    // Each is less than a tenth from the price when it was followed.
    for (n, win) in [(2, 3.3), (3, 3.8)] {
        nats.publish([quote(n, win)]).await;
        page.until(FIRST_WIN, &win.to_string()).await;
    }
    assert_eq!(page.texts(".news li").await, [""; 0]);
    nats.publish([quote(4, 3.0)]).await;
    page.until("#announcer", "HORSE 1 is now 3.0, was 3.5")
        .await;
    page.until(".news", "HORSE 1 is now 3.0, was 3.5").await;

    page.reload().await;
    page.until(&format!("{STAR}[aria-pressed=true]"), "").await;
    page.click(".tools > a").await;
    page.until("h1", "Following").await;
    page.until(".following", "HORSE 1 Horse").await;
    page.until(".following .odds", "3.0").await;
    nats.publish([quote(5, 2.9)]).await;
    page.until(".following .odds", "2.9").await;
    page.assert_accessible().await;
    let off = of_race(&today, "ST", 7, json!({ "status": "off" }));
    nats.publish([event("race.status_changed", &second(6), off)])
        .await;
    page.until(".news", "off: HORSE 1 runs in it").await;
    page.until(".following", "off").await;

    page.click(".following .star").await;
    page.reload().await;
    page.until(".following-view", "You follow nothing yet")
        .await;
    page.assert_no_problems().await;
}

/// Counts the sockets that the page closes.
const COUNT_CLOSED: &str = "(() => { window.closed_sockets = 0; const close = WebSocket.prototype.close; \
     WebSocket.prototype.close = function (...of) { window.closed_sockets++; return close.apply(this, of); }; })()";

#[tokio::test]
async fn the_key_is_forgotten_on_request() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut page = open(&nats, &railbird, results(), &format!("#/{DAY}")).await;
    page.until(".meeting", "THE ST HANDICAP 1").await;
    page.evaluate(COUNT_CLOSED).await;
    page.click(".tools > button").await;
    page.until("label", "Your API key").await;
    assert_eq!(page.evaluate("window.closed_sockets").await, 1);
    let kept = "JSON.stringify([{ ...sessionStorage }, { ...localStorage }])";
    let kept = page.evaluate(kept).await;
    assert!(!kept.as_str().unwrap().contains("rb_"), "{kept}");
    assert_eq!(page.texts(".tools").await, [""; 0]);
    page.assert_accessible().await;
    page.assert_no_problems().await;
}

#[tokio::test]
async fn a_day_and_a_race_are_printed_black_on_white_without_controls() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let last = nats
        .publish([
            card(DAY, "ST", 1, 3),
            odds("ST", 1, &second(1), &[3.5, 4.0, 6.2]),
        ])
        .await;
    railbird.until_seq(last).await;
    let mut page = Page::of(railbird.http);
    for (name, fragment) in [
        ("day", format!("#/{DAY}")),
        ("race", format!("#/{DAY}/ST/1")),
    ] {
        let dark = json!({ "fragment": fragment, "key": railbird.key, "scheme": "dark" });
        page.open(dark).await;
        page.until(FIRST_WIN, "3.5").await;
        page.print().await;
        let color = "getComputedStyle(document.body).backgroundColor";
        assert_eq!(page.evaluate(color).await, "rgb(255, 255, 255)", "{name}");
        // The heads of columns sort.
        let heads = "document.querySelectorAll('button.sort').length";
        let heads = page.evaluate(heads).await;
        assert_eq!(page.evaluate(CONTROLS).await, heads, "{name}");
        let file = root()
            .join(PICTURES)
            .join(format!("board-{name}-print.png"));
        page.picture(&file).await;
    }
}
