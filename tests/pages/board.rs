//! The board in a real browser: what it shows is what the API has, whatever happens to the connection.

use std::path::{Path, PathBuf};

use events::RacingDate;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use simulator::{Pace, RaceDay, script};

use crate::support::*;

/// Pictures of the pages, which CI keeps.
pub(super) const PICTURES: &str = "target/pictures";
/// The picture in the README may differ by this much, of 255, from the page: by times and fonts, not by its layout.
const DIFFERENCE_MAX: f64 = 6.0;
/// The price of the first runner in the opened race.
pub(super) const FIRST_WIN: &str = "[data-horse=H1] td.win";
pub(super) const PHASE: &str = ".channel .phase";

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// Two races at one venue and, an hour later, one at another, all with prices and open.
fn two_meetings() -> Vec<Value> {
    let races = [("ST", 1), ("ST", 2), ("HV", 1)];
    let mut cards = races.map(|(venue, number)| card(DAY, venue, number, 4));
    cards[2]["data"]["off_time"] = json!("2026-10-03T14:00:00+08:00");
    let opened = races.map(|(venue, number)| status(venue, number, &second(1), "open"));
    let quoted =
        races.map(|(venue, number)| odds(venue, number, &second(2), &[3.5, 4.0, 6.2, 9.9]));
    [cards, opened, quoted].concat()
}

/// A service with [`two_meetings`], and a page of its board on an address.
async fn open(nats: &Nats, railbird: &Railbird, fragment: &str) -> Page {
    let last = nats.publish(two_meetings()).await;
    railbird.until_seq(last).await;
    let mut page = Page::of(railbird.http);
    page.open(json!({ "fragment": fragment, "key": railbird.key }))
        .await;
    page.until(PHASE, "Live").await;
    page
}

#[tokio::test]
async fn prices_move_and_every_announcement_appears() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut page = open(&nats, &railbird, &format!("#/{DAY}")).await;
    let race = "#race-ST-1";
    page.until(&format!("{race} {FIRST_WIN}"), "3.5").await;
    let meetings = page.texts(".meeting h2").await;
    assert_eq!(meetings, ["Happy Valley (HV)", "Sha Tin (ST)"]);
    page.until(&format!("{race} [data-horse=H1]"), "fav").await;

    nats.publish([odds("ST", 1, &second(3), &[3.1, 4.4, 6.2, 9.9])])
        .await;
    page.until(&format!("{race} {FIRST_WIN}"), "3.1").await;
    assert_eq!(
        page.text(&format!("{race} [data-horse=H1] td.move")).await,
        "in"
    );
    assert_eq!(
        page.text(&format!("{race} [data-horse=H2] td.move")).await,
        "out"
    );
    let board = railbird
        .get(&format!("/api/v1/odds/{DAY}/1?venue=ST"))
        .await
        .json();
    let win = format!("{race} {FIRST_WIN}");
    page.hover(&win).await;
    let title = page.attribute(&win, "title").await;
    assert!(
        title.starts_with(&format!("seq {},", board["seq"])),
        "{title}"
    );
    let since = format!("{race} [data-horse=H1] td.line");
    assert_eq!(page.text(&since).await, "−0.4 (−11 %)");
    let market: f64 = [3.1, 4.4, 6.2, 9.9].iter().map(|win| 100.0 / win).sum();
    page.until(&format!("{race} .market"), &format!("{market:.1} %"))
        .await;
    changes_of_the_card_appear(&nats, &mut page).await;
    results_appear(&nats, &mut page).await;
    page.assert_no_problems().await;
}

/// A runner is withdrawn, another one gets another rider, and the going changes.
async fn changes_of_the_card_appear(nats: &Nats, page: &mut Page) {
    let race = "#race-ST-1";
    let reason = json!({ "horse_no": "H3", "reason": "Lame in the right fore" });
    let rider = json!({ "horse_no": "H4", "jockey": "A Nother" });
    nats.publish([
        of_today("runner.withdrawn", "ST", 1, &second(4), reason),
        of_today("rider.changed", "ST", 1, &second(5), rider),
        of_today(
            "going.changed",
            "ST",
            1,
            &second(6),
            json!({ "going": "YIELDING" }),
        ),
    ])
    .await;
    page.until(
        &format!("{race} [data-horse=H3]"),
        "Withdrawn: Lame in the right fore",
    )
    .await;
    assert_eq!(
        page.text(&format!("{race} [data-horse=H3] s")).await,
        "HORSE 3"
    );
    page.until(&format!("{race} [data-horse=H4]"), "A Nother")
        .await;
    page.until(
        "#announcer",
        "13:00 Sha Tin: 3 HORSE 3 is withdrawn: Lame in the right fore",
    )
    .await;
    page.until(&format!("{race} .detail"), "YIELDING").await;
    page.until(".news", "going is now YIELDING, was GOOD").await;
}

/// A race is run and its result amended; another one is abandoned.
async fn results_appear(nats: &Nats, page: &mut Page) {
    let race = "#race-ST-1";
    nats.publish([
        status("ST", 1, &second(7), "closed"),
        status("ST", 1, &second(8), "off"),
    ])
    .await;
    page.until(&format!("{race} .status"), "Off").await;
    let abandoned = json!({ "status": "abandoned", "reason": "Unsafe after rain" });
    nats.publish([of_today(
        "race.status_changed",
        "HV",
        1,
        &second(8),
        abandoned,
    )])
    .await;
    page.until("#race-HV-1 .status", "Abandoned").await;
    page.until("#race-HV-1 .outlook", "Unsafe after rain").await;

    let mut provisional = result(DAY, "ST", 1, 2, 1);
    provisional["data"]["status"] = json!("provisional");
    nats.publish([provisional]).await;
    page.until(&format!("{race} .status"), "Provisional").await;
    page.until(
        &format!("{race} .outlook"),
        "1st (1) HORSE 1, 2nd (2) HORSE 2",
    )
    .await;
    let mut amended = result(DAY, "ST", 1, 3, 3);
    amended["data"]["reason"] = json!("Photograph read again");
    amended["data"]["runners"][1]["position"] = json!(1);
    nats.publish([result(DAY, "ST", 1, 2, 2), amended]).await;
    page.until(&format!("{race} .status"), "Amended").await;
    page.until(
        &format!("{race} .outlook"),
        "=1st (1) HORSE 1, =1st (2) HORSE 2, 3rd (3) HORSE 3",
    )
    .await;
    page.until(&format!("{race} .result tbody"), "=1").await;
    let places = page.texts(&format!("{race} .result td.place-word")).await;
    assert_eq!(places, ["=1", "=1", "3", "Pulled up"]);

    let mut withdrawn = result(DAY, "ST", 1, 2, 4);
    withdrawn["data"]["runners"][2] = json!({ "horse_no": "H3", "horse_name": "HORSE 3", "outcome": "WV", "jockey": "J Ockey 3", "trainer": "T Rainer" });
    nats.publish([withdrawn]).await;
    let note = format!("{race} .result [data-horse=H3] .note");
    page.until(&note, "Lame in the right fore").await;
}

#[tokio::test]
async fn margins_and_sectional_times_stand_in_the_result() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut timed = result(DAY, "ST", 1, 2, 1);
    timed["data"]["sectionals"] = json!(["0:24.12", "0:22.90", "0:22.29"]);
    let second = &mut timed["data"]["runners"][1];
    second["margin"] = json!("1-1/4");
    second["running_positions"] = json!([3, 2, 2]);
    second["sectionals"] = json!(["0:24.30", "0:22.80", "0:22.22"]);
    let facts = [card(DAY, "ST", 1, 4), timed, result(DAY, "ST", 2, 2, 1)];
    let last = nats.publish(facts).await;
    railbird.until_seq(last).await;
    let mut page = open(&nats, &railbird, &format!("#/{DAY}/ST/1")).await;
    let row = ".race-view .result [data-horse=H2]";
    page.until(&format!("{row} .margin"), "1-1/4").await;
    assert_eq!(page.text(&format!("{row} .running")).await, "3 2 2");
    let times = page.texts(".race-view .sectionals tbody tr").await;
    assert_eq!(
        times,
        [
            "The race 0:24.12 0:22.90 0:22.29",
            "(2) HORSE 2 0:24.30 0:22.80 0:22.22"
        ]
    );
    page.picture(&root().join(PICTURES).join("sectionals.png"))
        .await;
    page.open(json!({ "fragment": format!("#/{DAY}/ST/2"), "key": railbird.key }))
        .await;
    page.until(".race-view .result tbody", "HORSE 2").await;
    assert_eq!(page.texts(".race-view .sectionals").await, [""; 0]);
    page.assert_no_problems().await;
}

#[tokio::test]
async fn a_browser_whose_language_is_no_tag_has_the_names_of_the_answers() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let last = nats.publish([card(DAY, "ST", 1, 4)]).await;
    railbird.until_seq(last).await;
    let mut page = Page::of(railbird.http);
    // The first is Chromium's where LANG is C.
    for language in ["en-US@posix", "C"] {
        let options =
            json!({ "fragment": format!("#/{DAY}"), "key": railbird.key, "languages": [language] });
        page.open(options).await;
        page.until("#meeting-ST", "Sha Tin").await;
        page.assert_no_problems().await;
    }
}

#[tokio::test]
async fn dividends_stand_under_the_result_and_follow_their_revisions() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let facts = [result(DAY, "ST", 1, 2, 1), dividends(DAY, "ST", 1, 1)];
    let last = nats
        .publish([card(DAY, "ST", 1, 4)].into_iter().chain(facts))
        .await;
    railbird.until_seq(last).await;
    let mut page = open(&nats, &railbird, &format!("#/{DAY}/ST/1")).await;
    page.until(".race-view .dividends tbody", "35.00").await;
    let rows = page.texts(".race-view .dividends tbody tr").await;
    let rows: Vec<String> = rows
        .iter()
        .map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(rows, ["Win 1 35.00 for 10.00", "Quartet Jackpot"]);
    let mut amended = dividends(DAY, "ST", 1, 2);
    amended["data"]["dividends"][0]["dividend"] = json!(36.5);
    amended["data"]["reason"] = json!("A late bet was refunded");
    nats.publish([amended]).await;
    page.until(".race-view .dividends tbody", "36.50").await;
    page.until(".race-view .dividends", "A late bet was refunded")
        .await;
    page.picture(&root().join(PICTURES).join("dividends.png"))
        .await;
    page.assert_no_problems().await;
}

#[tokio::test]
async fn the_chart_ends_with_the_prices_of_the_api_and_is_read_with_the_keyboard() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut page = open(&nats, &railbird, &format!("#/{DAY}/ST/2")).await;
    for n in 1..=20 {
        let win = 3.5 + f64::from(n) / 10.0;
        nats.publish([odds(
            "ST",
            2,
            &second(10 + n as u64),
            &[win, 4.0, 8.0 - win, 9.9],
        )])
        .await;
    }
    page.until(".readout", "1 HORSE 1 5.5").await;
    let board = railbird
        .get(&format!("/api/v1/odds/{DAY}/2?venue=ST"))
        .await
        .json();
    let runners = board["runners"].as_array().unwrap();
    let mut expected: Vec<String> = runners
        .iter()
        .map(|runner| {
            format!(
                "{} {:.1}",
                runner["number"],
                runner["win"].as_f64().unwrap()
            )
        })
        .collect();
    let mut shown = page.texts(".plot text.label").await;
    expected.sort();
    shown.sort();
    assert_eq!(shown, expected);

    page.evaluate("document.querySelector('.chart').focus()")
        .await;
    // The favourite is read; up is the runner above it.
    page.until(".when", "3 HORSE 3: 2.5").await;
    page.press("ArrowUp").await;
    page.press("ArrowUp").await;
    page.until(
        ".when",
        &format!("1 HORSE 1: 5.5 since seq {}", board["seq"]),
    )
    .await;
    page.press("ArrowLeft").await;
    page.until(".when", "1 HORSE 1: 5.4 since seq").await;
    assert_eq!(
        page.attribute(".chart", "aria-valuetext").await,
        page.text(".when").await
    );
    page.press("Home").await;
    page.until(".when", "1 HORSE 1: 3.5 since seq").await;
    page.press("Escape").await;
    page.until(".when", "the latest · 1 HORSE 1: 5.5 since seq")
        .await;

    the_rest_of_the_race_view_follows(&nats, &mut page, &board["seq"]).await;
    page.assert_no_problems().await;
}

/// The sources of the figures, a withdrawal, the result with its revisions, and the way to a horse.
async fn the_rest_of_the_race_view_follows(nats: &Nats, page: &mut Page, board_seq: &Value) {
    page.evaluate("document.querySelector('.sources').open = true")
        .await;
    page.until(".sources", &format!("seq {board_seq}")).await;
    page.until(".sources", "Gaps in the live channel 0").await;
    let horse = json!({ "horse_no": "H4" });
    nats.publish([of_today("runner.withdrawn", "ST", 2, &second(40), horse)])
        .await;
    page.until(".readout", "4 HORSE 4 –").await;
    let shown = page.texts(".plot text.label").await;
    assert_eq!(shown.len(), 3, "{shown:?}");
    nats.publish([result(DAY, "ST", 2, 2, 1), result(DAY, "ST", 2, 3, 2)])
        .await;
    // The runners are shown once, and the revisions on request.
    page.until_true("!document.querySelector('.all-runners').open")
        .await;
    page.until(".result-history summary", "2 revisions").await;
    page.click(".result-history summary").await;
    page.until(".revisions", "Revision 1, official").await;
    page.until(".revisions", "Revision 2, official").await;
    let moves = page.texts(".revisions .moves").await;
    assert_eq!(moves, ["no place to 3rd: HORSE 3"]);
    page.click(".result [data-horse=H1] a").await;
    page.until("h1", "HORSE 1").await;
    page.until(".form", "Sha Tin, race 2").await;
    page.until(".profile", "Starts 1").await;
}

/// The page keeps 512 changes of a runner.
#[tokio::test]
async fn a_long_history_is_thinned_out_between_its_first_and_its_latest_price() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let address = format!("#/{DAY}/ST/2");
    let mut page = open(&nats, &railbird, &address).await;
    page.until(FIRST_WIN, "3.5").await;
    let quote = |n: u32| {
        let price = f64::from(400 + n) / 100.0;
        odds("ST", 2, &second(10 + u64::from(n)), &[price])
    };
    nats.publish((1..=600).map(quote)).await;
    the_ends_of_the_history_are_kept(&mut page, "10.0").await;

    // The same as it is read from the API.
    let last = nats.publish((601..=700).map(quote)).await;
    railbird.until_seq(last).await;
    page.open(json!({ "fragment": address, "key": railbird.key }))
        .await;
    the_ends_of_the_history_are_kept(&mut page, "11.0").await;
    page.assert_no_problems().await;
}

async fn the_ends_of_the_history_are_kept(page: &mut Page, latest: &str) {
    page.until(".readout", &format!("1 HORSE 1 {latest}")).await;
    page.until(".prices", "Older changes are thinned out").await;
    page.evaluate("document.querySelector('.chart').focus()")
        .await;
    // Of the favourite, the second runner, to the first one.
    let keys = [
        ("ArrowUp", latest),
        ("Home", "3.5"),
        ("ArrowRight", "4.01"),
        ("End", latest),
    ];
    for (key, price) in keys {
        page.press(key).await;
        page.until(".when", &format!("1 HORSE 1: {price} since seq"))
            .await;
    }
    let last = page.attribute(".chart", "aria-valuemax").await;
    let last: u32 = last.parse().unwrap();
    assert!((256..512).contains(&last), "{last}");
}

#[tokio::test]
async fn a_paused_page_shows_what_was_known_and_then_the_latest() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut page = open(&nats, &railbird, &format!("#/{DAY}/ST/1")).await;
    page.until(FIRST_WIN, "3.5").await;
    page.click(".channel button").await;
    page.until(PHASE, "Paused").await;
    page.until(".banner", "Nothing is lost").await;
    nats.publish([odds("ST", 1, &second(3), &[3.1, 4.4, 6.2, 9.9])])
        .await;
    let last = nats
        .publish([odds("ST", 1, &second(4), &[2.9, 4.4, 6.2, 9.9])])
        .await;
    // The page knows the prices, and shows others.
    page.until(".channel", &format!("seq {last}")).await;
    assert_eq!(page.text(FIRST_WIN).await, "3.5");
    page.assert_accessible().await;
    page.click(".channel button").await;
    page.until(PHASE, "Live").await;
    page.until(FIRST_WIN, "2.9").await;
    page.assert_no_problems().await;
}

#[tokio::test]
async fn runners_are_sorted_by_price_on_request_and_then_stay() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut page = open(&nats, &railbird, &format!("#/{DAY}/ST/1")).await;
    page.until(FIRST_WIN, "3.5").await;
    let numbers = "tbody td.no";
    assert_eq!(page.texts(numbers).await, ["1", "2", "3", "4"]);
    nats.publish([odds("ST", 1, &second(3), &[8.0, 4.0, 6.2, 3.9])])
        .await;
    page.until(FIRST_WIN, "8.0").await;
    assert_eq!(page.texts(numbers).await, ["1", "2", "3", "4"]);
    let by_price = "th.win button";
    page.click(by_price).await;
    assert_eq!(page.texts(numbers).await, ["4", "2", "3", "1"]);
    assert_eq!(page.attribute("th.win", "aria-sort").await, "ascending");
    nats.publish([odds("ST", 1, &second(4), &[1.5, 4.0, 6.2, 9.9])])
        .await;
    page.until(FIRST_WIN, "1.5").await;
    assert_eq!(page.texts(numbers).await, ["4", "2", "3", "1"]);
    page.assert_accessible().await;
    page.click(by_price).await;
    assert_eq!(page.texts(numbers).await, ["1", "2", "3", "4"]);
    page.click("th.no button").await;
    assert_eq!(page.attribute("th.no", "aria-sort").await, "ascending");
    assert_eq!(page.attribute("th.win", "aria-sort").await, "");
    page.assert_no_problems().await;
}

/// The direction since the opening is not that of the last move, and a market of few prices is none.
#[tokio::test]
async fn a_price_is_compared_with_the_opening_and_a_thin_market_has_no_percentage() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut page = open(&nats, &railbird, &format!("#/{DAY}/ST/1")).await;
    let row = "[data-horse=H1]";
    page.until(FIRST_WIN, "3.5").await;
    let prices = |n, win| odds("ST", 1, &second(n), &[win, 4.0, 6.2, 9.9]);
    nats.publish([prices(3, 7.5), prices(4, 7.0)]).await;
    page.until(&format!("{row} td.line"), "+3.5 (+100 %)").await;
    assert_eq!(page.text(&format!("{row} td.move")).await, "in");
    assert_eq!(page.attribute(row, "data-since").await, "out");
    assert_eq!(page.text(&format!("{row} td.chance")).await, "14.3 %");

    let mut large = card(DAY, "ST", 3, 11);
    large["data"]["off_time"] = json!("2026-10-03T15:00:00+08:00");
    let thin = odds("ST", 3, &second(5), &[2.0; 9]);
    let last = nats.publish([large, thin]).await;
    railbird.until_seq(last).await;
    // It was quoted at that time, whenever the log recorded it.
    page.open(json!({ "fragment": format!("#/{DAY}/ST/3"), "key": railbird.key }))
        .await;
    page.until(".market", "9 of 11 priced · prices of 12:00:05")
        .await;
    let market = page.text(".all-runners .market").await;
    assert!(!market.contains("Market"), "{market}");
    assert_eq!(page.texts(".favourite:not([hidden])").await, [""; 0]);
    nats.publish([odds("ST", 3, &second(6), &[2.0; 10])]).await;
    page.until(".market", "Market 500.0 % · 10 of 11 priced")
        .await;
    page.until(row, "fav").await;
    page.assert_no_problems().await;
}

const CHOOSE_ODDS: &str = "(format) => { const choice = document.querySelector('.odds-choice'); \
     choice.value = format; choice.dispatchEvent(new Event('change')); }";

#[tokio::test]
async fn odds_are_converted_exactly_into_the_format_of_choice() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut page = open(&nats, &railbird, &format!("#/{DAY}/ST/1")).await;
    let last = nats
        .publish([odds("ST", 1, &second(3), &[7.3, 1.001, 1.5, 12.34])])
        .await;
    page.until(FIRST_WIN, "7.3").await;
    for (format, wins) in [
        ("fractional", ["63/10", "1/1000", "1/2", "567/50"]),
        ("american", ["+630", "−100000", "−200", "+1134"]),
        ("hong_kong", ["6.3", "0.001", "0.5", "11.34"]),
        ("decimal", ["7.3", "1.001", "1.5", "12.34"]),
        ("fractional", ["63/10", "1/1000", "1/2", "567/50"]),
    ] {
        page.evaluate(&format!("({CHOOSE_ODDS})({format:?})")).await;
        page.until(FIRST_WIN, wins[0]).await;
        assert_eq!(page.texts("td.win").await, wins);
        page.until(".readout", &format!("1 HORSE 1 {}", wins[0]))
            .await;
    }
    railbird.until_seq(last).await;
    page.reload().await;
    page.until(FIRST_WIN, "63/10").await;
    page.assert_accessible().await;
    page.assert_no_problems().await;
}

#[tokio::test]
async fn a_request_that_hangs_ends_with_a_message_and_a_button() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let last = nats.publish(two_meetings()).await;
    railbird.until_seq(last).await;
    let mut page = Page::of(railbird.http);
    let open = json!({ "fragment": format!("#/{DAY}"), "key": railbird.key, "held": "**/api/v1/results?*" });
    page.open(open).await;
    page.until(
        ".progress",
        "Cards and results of Saturday, 3 October 2026 are being read.",
    )
    .await;
    page.assert_accessible().await;
    page.until(".view", "The service has not answered within 20 seconds")
        .await;
    page.assert_accessible().await;
    page.release().await;
    page.click(".view button").await;
    page.until(&format!("#race-ST-1 {FIRST_WIN}"), "3.5").await;
}

/// What the page has asked the API for.
const API_PATHS: &str = "performance.getEntriesByType('resource').map(({ name }) => name.split('/api/v1/')[1]) \
     .filter(Boolean).map((path) => path.split('?')[0])";

/// A free plan is spent soon by a page that reads each meeting, and everything again and again.
#[tokio::test]
async fn a_day_of_many_meetings_costs_few_requests() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let venues = ["HV", "ST", "AA", "AB", "AC", "AD", "AE", "AF", "AG", "AH"];
    let cards = venues.map(|venue| card(DAY, venue, 1, 4));
    let quotes = venues.map(|venue| odds(venue, 1, &second(1), &[3.5, 4.0, 6.2, 9.9]));
    let last = nats.publish([cards, quotes].concat()).await;
    railbird.until_seq(last).await;
    let mut page = Page::of(railbird.http);
    page.open(json!({ "fragment": format!("#/{DAY}"), "key": railbird.key }))
        .await;
    page.until("#race-AA-1 td.line svg", "").await;
    page.until_true("document.querySelector('#race-AA-1 td.line path').getAttribute('d') !== ''")
        .await;
    assert_eq!(page.texts(".meeting h2").await.len(), venues.len());
    let history = format!("odds/{DAY}/1/history");
    let paths: Vec<String> = serde_json::from_value(page.evaluate(API_PATHS).await).unwrap();
    let mut sorted = paths.clone();
    sorted.sort();
    assert_eq!(sorted, ["meetings", &history, "racecards", "results"]);
    page.assert_no_problems().await;
}

#[tokio::test]
async fn back_shows_the_same_races_open_at_the_same_place() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut cards: Vec<Value> = (1..=8).map(|number| card(DAY, "ST", number, 8)).collect();
    cards.push(odds("ST", 6, &second(1), &[3.5, 4.0]));
    let last = nats.publish(cards).await;
    railbird.until_seq(last).await;
    let mut page = Page::of(railbird.http);
    let open = json!({ "fragment": format!("#/{DAY}"), "key": railbird.key, "height": 500 });
    page.open(open).await;
    page.until("#race-ST-1", "HORSE 8").await;
    page.click("#race-ST-1 summary").await;
    page.click("#race-ST-6 summary").await;
    page.until("#race-ST-6", "HORSE 8").await;
    page.evaluate("document.querySelector('#race-ST-6 .links a').scrollIntoView({ block: 'end' })")
        .await;
    const TOP: &str = "document.querySelector('#race-ST-6').getBoundingClientRect().top";
    let before = page.evaluate(TOP).await.as_f64().unwrap();
    page.click("#race-ST-6 .links a").await;
    page.until("h1", "THE ST HANDICAP 6").await;
    assert_eq!(page.evaluate("scrollY").await, 0);
    page.evaluate("history.back()").await;
    page.until("#race-ST-6", "HORSE 8").await;
    page.until_true(&format!("Math.abs({TOP} - {before}) < 2"))
        .await;
    let opened = page.texts(".race[open] .name").await;
    assert_eq!(opened, ["THE ST HANDICAP 6"]);
    page.until_true("document.activeElement.matches('#race-ST-6 .links a')")
        .await;
    page.assert_no_problems().await;
}

#[tokio::test]
async fn news_and_next_races_never_take_the_focus() {
    const IN_STRIP: &str = "document.activeElement.matches('.next a')";
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let today = railbird.app.clock.today().to_string();
    let cards = (1..=3u16).map(|number| {
        let mut card = card(&today, "ST", number, 4);
        let off = Timestamp::now() + SignedDuration::from_mins(10 * i64::from(number));
        card["data"]["off_time"] = json!(format!("{off:.0}"));
        card
    });
    let last = nats.publish(cards.collect::<Vec<_>>()).await;
    railbird.until_seq(last).await;
    let mut page = Page::of(railbird.http);
    page.open(json!({ "fragment": format!("#/{today}"), "key": railbird.key }))
        .await;
    page.until(PHASE, "Live").await;
    page.until_true("document.querySelectorAll('.next a').length === 3")
        .await;
    let focus = |selector: &str| format!("document.querySelector({selector:?}).focus()");
    // Another race is over, then the one with the focus.
    page.evaluate(&focus(".next li:nth-child(2) a")).await;
    for (number, left) in [(1, 2), (2, 1)] {
        nats.publish([result(&today, "ST", number, 3, 1)]).await;
        page.until_true(&format!(
            "document.querySelectorAll('.next a').length === {left}"
        ))
        .await;
        page.until_true(IN_STRIP).await;
    }
    page.evaluate(&focus(".news a")).await;
    nats.publish([result(&today, "ST", 3, 3, 1)]).await;
    page.until_true("document.querySelectorAll('.news li').length === 3")
        .await;
    page.until_true("document.activeElement.matches('.news a')")
        .await;
    page.assert_no_problems().await;
}

/// Wraps the function by which the page asks for a frame.
const COUNT_FRAMES: &str = "(() => { window.frames_asked = 0; const ask = requestAnimationFrame; \
     window.requestAnimationFrame = (paint) => { window.frames_asked++; return ask(paint); }; })()";

/// The painter once painted in every frame while a price line was behind.
#[tokio::test]
async fn a_change_is_painted_once_and_not_in_every_frame() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut page = open(&nats, &railbird, &format!("#/{DAY}")).await;
    let line = "document.querySelector('#race-ST-1 td.line path').getAttribute('d')";
    page.until(&format!("#race-ST-1 {FIRST_WIN}"), "3.5").await;
    page.evaluate(COUNT_FRAMES).await;
    const QUOTES: u64 = 5;
    for n in 1..=QUOTES {
        let before = page.evaluate(line).await;
        let win = 3.5 + n as f64 / 10.0;
        nats.publish([odds("ST", 1, &second(2 + n), &[win, 4.0, 6.2, 9.9])])
            .await;
        // Its price line follows within a second.
        let is_drawn = format!(
            "new Promise((drawn) => setInterval(() => {line} !== {before} && drawn(), 20))"
        );
        page.evaluate(&is_drawn).await;
    }
    // A quote is a frame, its price line is another one, and news take some.
    let frames = page.evaluate("window.frames_asked").await;
    assert!(frames.as_u64() <= Some(4 * QUOTES), "{frames}");
}

/// Whether what has the focus is in view, with nothing above it.
const FOCUS_IS_VISIBLE: &str = "(() => { const at = document.activeElement; const { left, top } = at.getBoundingClientRect(); \
     return at.matches('a, button, summary') ? at.contains(document.elementFromPoint(left + 4, top + 8)) : true; })()";

/// Counts the runners that a view has as soon as it is on the page.
const WATCH_NEW_VIEWS: &str = "new MutationObserver(() => { const view = document.querySelector('.race-view'); \
     if (view) window.rows_at_first ??= view.querySelectorAll('[data-horse]').length; \
     }).observe(document.body, { childList: true, subtree: true })";

#[tokio::test]
async fn the_board_is_used_with_the_keyboard_alone() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let address = format!("#/{DAY}");
    let last = nats.publish(two_meetings()).await;
    railbird.until_seq(last).await;
    let mut page = Page::of(railbird.http);
    // So low that pages scroll under the strip on top.
    let open = json!({ "fragment": address, "key": railbird.key, "width": 360, "height": 500 });
    page.open(open).await;
    page.until("#race-ST-1", "HORSE 1").await;
    let focus = async |page: &mut Page, key: &str, selector: &str| {
        for _ in 0..60 {
            page.press(key).await;
            page.until_true(FOCUS_IS_VISIBLE).await;
            let is_there = format!("document.activeElement.matches({selector:?})");
            if page.evaluate(&is_there).await == true {
                return;
            }
        }
        panic!("{key} does not lead to {selector}");
    };
    focus(&mut page, "Tab", "#race-ST-2 summary").await;
    page.press("Enter").await;
    page.until("#race-ST-2 [data-horse=H4]", "HORSE 4").await;
    focus(&mut page, "Tab", "#race-ST-2 .links a").await;
    focus(&mut page, "Shift+Tab", "#race-ST-1 summary").await;
    focus(&mut page, "Tab", "#race-ST-2 .links a").await;
    page.evaluate(WATCH_NEW_VIEWS).await;
    page.press("Enter").await;
    page.until("h1", "13:00 Sha Tin THE ST HANDICAP 2").await;
    // Rows that come after the focus would move what is focused out of view.
    assert_eq!(page.evaluate("window.rows_at_first").await, 4);
    // The focus is at the heading of the new view.
    focus(&mut page, "Tab", "th.win button").await;
    page.press("Enter").await;
    focus(&mut page, "Tab", ".chart").await;
    page.press("ArrowLeft").await;
    page.until(".when", "1 HORSE 1: 3.5").await;
    focus(&mut page, "Shift+Tab", "[data-horse=H2] .horse > a").await;
    page.press("Enter").await;
    page.until("h1", "HORSE 2").await;
    page.assert_no_problems().await;
}

/// A request for what is not known would be an error on the console of the browser.
#[tokio::test]
async fn the_page_asks_for_nothing_that_it_can_know_does_not_exist() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut page = Page::of(railbird.http);
    let key = &railbird.key;
    page.open(json!({ "key": key })).await;
    page.until(PHASE, "Live").await;
    page.until(".day", "No meeting is known for this day").await;
    // It is declared while the page is open.
    let today = railbird.app.clock.today().to_string();
    nats.publish([card(&today, "ST", 1, 2)]).await;
    page.until(".race .name", "THE ST HANDICAP 1").await;
    page.assert_no_problems().await;

    let last = nats
        .publish([card(DAY, "ST", 1, 4), result(DAY, "ST", 2, 3, 1)])
        .await;
    railbird.until_seq(last).await;
    for (fragment, selector, part) in [
        (format!("#/{DAY}"), "#race-ST-2 .outlook", "1st HORSE 1"),
        (format!("#/{DAY}/ST/1"), ".market", "No price is known"),
        (
            format!("#/{DAY}/ST/2"),
            ".result-section",
            "Official, revision 1",
        ),
        ("#/1999-12-31".to_owned(), ".day", "No meeting is known"),
    ] {
        page.open(json!({ "fragment": fragment, "key": key })).await;
        page.until(PHASE, "Live").await;
        page.until(selector, part).await;
        page.assert_no_problems().await;
    }
}

/// A quote of a race by one of several sources.
fn quoted_by(source: &str, time: &str, prices: &[f64]) -> Value {
    let mut quote = odds("ST", 1, time, prices);
    quote["source"] = json!(source);
    quote
}

#[tokio::test]
async fn the_prices_of_each_source_are_side_by_side() {
    const BEST: &str = "[...document.querySelectorAll('.by-source [data-horse=H1] td b')].map((cell) => cell.textContent).join()";
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut page = open(&nats, &railbird, &format!("#/{DAY}/ST/1")).await;
    page.until(".race-view [data-horse=H1] .win", "3.5").await;
    nats.publish([quoted_by("bookmaker", &second(2), &[3.8, 4.1])])
        .await;
    page.click(".by-source summary").await;
    page.until(".by-source thead", "bookmaker").await;
    page.until(".by-source [data-horse=H1]", "HORSE 1 3.8 3.5")
        .await;
    assert_eq!(page.evaluate(BEST).await, "3.8");
    nats.publish([quoted_by("bookmaker", &second(3), &[3.4])])
        .await;
    page.until(".by-source [data-horse=H1]", "HORSE 1 3.4 3.5")
        .await;
    page.until(".by-source [data-horse=H2]", "HORSE 2 4.1 4.0")
        .await;
    // The channel has no prices of a race that is over.
    nats.publish([
        status("ST", 1, &second(4), "off"),
        status("ST", 1, &second(5), "finished"),
    ])
    .await;
    page.until(".race-view .status", "Finished").await;
    page.click(".by-source summary").await;
    page.until_true("!document.querySelector('.by-source').open")
        .await;
    page.click(".by-source summary").await;
    page.until(".by-source .market", "The latest prices of each.")
        .await;
    page.until(".by-source [data-horse=H1]", "HORSE 1 3.4 3.5")
        .await;
    page.assert_accessible().await;
    page.assert_no_problems().await;
}

/// The chart once drew the prices of all sources as one line.
#[tokio::test]
async fn a_chosen_source_has_the_table_and_the_chart_alone() {
    const CHOICE: &str = "select[aria-label='Prices of']";
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let address = format!("#/{DAY}/ST/1");
    let first = [
        two_meetings(),
        vec![quoted_by("bookmaker", &second(3), &[8.0, 4.1])],
    ];
    let last = nats.publish(first.concat()).await;
    railbird.until_seq(last).await;
    let mut page = Page::of(railbird.http);
    page.open(json!({ "fragment": address, "key": railbird.key }))
        .await;
    page.until(".readout", "1 HORSE 1 3.5").await;
    assert_eq!(page.attribute(".chart", "aria-valuemax").await, "0");
    page.until(CHOICE, "bookmaker").await;
    let choose = |source: &str| {
        format!(
            "(() => {{ const choice = document.querySelector({CHOICE:?}); choice.value = {source:?}; \
             choice.dispatchEvent(new Event('change')); }})()"
        )
    };
    page.evaluate(&choose("bookmaker")).await;
    page.until(FIRST_WIN, "8.0").await;
    page.until(".readout", "1 HORSE 1 8.0").await;
    // It is followed, and stays chosen on the page of a race.
    nats.publish([quoted_by("bookmaker", &second(4), &[7.5])])
        .await;
    page.until(FIRST_WIN, "7.5").await;
    page.until(".readout", "1 HORSE 1 7.5").await;
    assert_eq!(
        page.text("[data-horse=H1] td.opening").await,
        "8.0",
        "that of the source"
    );
    page.assert_accessible().await;
    page.reload().await;
    page.until(FIRST_WIN, "7.5").await;
    nats.publish([odds("ST", 1, &second(5), &[3.1])]).await;
    page.evaluate(&choose("")).await;
    page.until(FIRST_WIN, "3.1").await;
    page.until(".readout", "1 HORSE 1 3.1").await;
    page.assert_no_problems().await;
}

#[tokio::test]
async fn a_result_has_the_moves_of_the_prices_and_the_chart_the_off() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut page = open(&nats, &railbird, &format!("#/{DAY}/ST/1")).await;
    page.until(".readout", "1 HORSE 1 3.5").await;
    let prices = |n, win| odds("ST", 1, &second(n), &[win, 4.0, 6.2, 9.9]);
    nats.publish([
        prices(3, 4.5),
        prices(4, 2.8),
        status("ST", 1, &second(5), "off"),
        prices(6, 1.5),
    ])
    .await;
    page.until(".plot text.off", "off").await;
    page.until(".readout", "1 HORSE 1 1.5").await;
    page.evaluate("document.querySelector('.chart').focus()")
        .await;
    page.press("ArrowLeft").await;
    page.press("ArrowRight").await;
    page.press("ArrowLeft").await;
    page.until(".when", "1 HORSE 1: 2.8").await;
    nats.publish([result(DAY, "ST", 1, 3, 1)]).await;
    let moved = ".result [data-horse=H1] .moved";
    page.until(moved, "3.5 to 2.8 −20 % 2.8 – 4.5").await;
    assert_eq!(
        page.attribute(".result tr[data-horse=H1]", "data-move")
            .await,
        "in"
    );
    let shown = page.texts(".result-section .result [data-horse=H1]").await;
    assert_eq!(shown.len(), 1, "the result is shown once");
    page.until_true("!document.querySelector('.all-runners').open")
        .await;
    page.evaluate(&format!("({CHOOSE_ODDS})('fractional')"))
        .await;
    page.until(moved, "5/2 to 9/5 −20 %").await;
    page.evaluate(&format!("({CHOOSE_ODDS})('decimal')")).await;
    page.assert_accessible().await;
    page.assert_no_problems().await;
}

#[tokio::test]
async fn the_prices_of_a_runner_are_listed_newest_first() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut page = open(&nats, &railbird, &format!("#/{DAY}/ST/1")).await;
    page.until(".readout", "1 HORSE 1 3.5").await;
    page.click(".ladder summary").await;
    // That of the favourite first.
    page.until(".ladder tbody", "3.5").await;
    nats.publish([odds("ST", 1, &second(3), &[4.5, 4.0])]).await;
    page.until(".ladder tbody", "4.5 +1.0 (+29 %)").await;
    let prices = page.texts(".ladder tbody td:nth-child(2)").await;
    assert_eq!(prices, ["4.5", "3.5"]);
    page.evaluate(
        "(() => { const choice = document.querySelector('.ladder select'); choice.value = 'H2'; \
         choice.dispatchEvent(new Event('change')); })()",
    )
    .await;
    page.until(".ladder tbody", "4.0").await;
    assert_eq!(page.texts(".ladder tbody tr").await.len(), 1);
    page.assert_accessible().await;
    page.assert_no_problems().await;
}

#[tokio::test]
async fn a_day_of_several_meetings_has_a_grid_of_venues_and_times() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let last = nats.publish(two_meetings()).await;
    railbird.until_seq(last).await;
    let mut page = Page::of(railbird.http);
    let open = json!({ "fragment": format!("#/{DAY}"), "key": railbird.key, "width": 360 });
    page.open(open).await;
    page.until(
        ".day-grid td a[href$='ST/1']",
        "13:00 Due fav 1 HORSE 1 3.5",
    )
    .await;
    let venues = page.texts(".day-grid th").await;
    assert_eq!(venues, ["Happy Valley", "Sha Tin"]);
    let overflow = "document.documentElement.scrollWidth - innerWidth";
    assert_eq!(page.evaluate(overflow).await, json!(0));
    let first = ".day-grid td a[href$='ST/1']";
    nats.publish([
        odds("ST", 1, &second(3), &[5.0, 4.0, 6.2, 9.9]),
        status("ST", 1, &second(4), "off"),
    ])
    .await;
    page.until(first, "Off fav 2 HORSE 2 4.0").await;
    nats.publish([result(DAY, "ST", 1, 3, 1)]).await;
    page.until(first, "Official 1st 1 HORSE 1").await;
    page.assert_accessible().await;
    // The venues stay in view.
    let left = "Math.round(document.querySelector('.day-grid th').getBoundingClientRect().left)";
    let before = page.evaluate(left).await;
    page.evaluate("document.querySelector('.day-grid .wide').scrollLeft = 100")
        .await;
    assert_eq!(page.evaluate(left).await, before);
    page.click(first).await;
    page.until("h1", "13:00 Sha Tin").await;
    // Back, the same link has the focus, of the two that lead to the race.
    page.evaluate("history.back()").await;
    page.until_true("document.activeElement.matches('.day-grid a')")
        .await;
    page.assert_no_problems().await;
}

#[tokio::test]
async fn on_a_phone_the_next_race_stands_before_those_that_are_over() {
    const SHOWN: &str = "[...document.querySelectorAll('.race')].filter((race) => race.checkVisibility()).map(({ id }) => id)";
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let today = railbird.app.clock.today().to_string();
    let off = Timestamp::now() + SignedDuration::from_mins(10);
    let cards = [("HV", 1), ("ST", 1), ("ST", 2)].map(|(venue, number)| {
        let mut card = card(&today, venue, number, 4);
        card["data"]["off_time"] = json!(format!("{off:.0}"));
        card
    });
    let over = ["HV", "ST"].map(|venue| result(&today, venue, 1, 3, 1));
    let last = nats.publish(cards.into_iter().chain(over)).await;
    railbird.until_seq(last).await;
    let mut page = Page::of(railbird.http);
    let open = json!({ "fragment": format!("#/{today}"), "key": railbird.key, "width": 360 });
    page.open(open).await;
    page.until("#race-ST-2", "HORSE 1").await;
    let meetings = page.texts(".meeting h2").await;
    assert_eq!(meetings, ["Sha Tin (ST)", "Happy Valley (HV)"]);
    assert_eq!(page.evaluate(SHOWN).await, json!(["race-ST-2"]));
    page.click("#meeting-ST + .fold").await;
    assert_eq!(
        page.evaluate(SHOWN).await,
        json!(["race-ST-1", "race-ST-2"])
    );
    page.assert_accessible().await;
    page.assert_no_problems().await;
}

#[tokio::test]
async fn the_calendar_leads_to_the_days_with_meetings() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let other = card("2026-09-30", "ST", 1, 4);
    let last = nats.publish([two_meetings(), vec![other]].concat()).await;
    railbird.until_seq(last).await;
    let mut page = Page::of(railbird.http);
    page.open(json!({ "fragment": format!("#/{DAY}"), "key": railbird.key, "width": 360 }))
        .await;
    let button = ".days button[aria-haspopup]";
    page.until(button, "Calendar").await;
    page.click(button).await;
    page.until(".calendar h2", "October 2026").await;
    let focused = "document.activeElement.textContent";
    let day = "Saturday, 3 October 2026, 2 meetings: Happy Valley, Sha Tin";
    assert_eq!(page.evaluate(focused).await, day);
    page.assert_accessible().await;
    assert_eq!(page.evaluate(SMALL_TARGETS).await, json!([]));
    page.press("PageUp").await;
    page.until(".calendar h2", "September 2026").await;
    page.press("Escape").await;
    page.until_true(&format!("document.activeElement.matches({button:?})"))
        .await;
    page.press("Enter").await;
    page.until(".calendar h2", "October 2026").await;
    // Three days before.
    for _ in 0..3 {
        page.press("ArrowLeft").await;
    }
    page.until(".calendar h2", "September 2026").await;
    let day = "Wednesday, 30 September 2026, 1 meeting: Sha Tin";
    assert_eq!(page.evaluate(focused).await, day);
    page.press("Enter").await;
    page.until("h1", "Wednesday, 30 September 2026").await;
    page.until_true("document.querySelector('dialog') === null")
        .await;
    page.assert_no_problems().await;
}

#[tokio::test]
async fn movers_of_the_day_are_read_once_opened_and_lead_to_their_races() {
    const READS: &str = "performance.getEntriesByType('resource').filter(({ name }) => name.includes('/movers?')).length";
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let moved = odds("ST", 1, &second(3), &[2.5, 5.0, 6.2, 9.9]);
    let last = nats.publish([two_meetings(), vec![moved]].concat()).await;
    railbird.until_seq(last).await;
    let mut page = Page::of(railbird.http);
    page.open(json!({ "fragment": format!("#/{DAY}"), "key": railbird.key }))
        .await;
    page.until(".movers summary", "Movers of the day").await;
    assert_eq!(page.evaluate(READS).await, json!(0));
    page.click(".movers summary").await;
    page.until(
        ".movers [data-move=in]",
        "1 HORSE 1 3.5 to 2.5 13:00 Sha Tin +11.4 points",
    )
    .await;
    page.until(
        ".movers [data-move=out]",
        "2 HORSE 2 4.0 to 5.0 13:00 Sha Tin −5.0 points",
    )
    .await;
    page.assert_accessible().await;
    assert_eq!(page.evaluate(SMALL_TARGETS).await, json!([]));
    // Opened again within a minute, they are not read again.
    page.click(".movers summary").await;
    page.click(".movers summary").await;
    page.click(".movers [data-move=in] a").await;
    page.until("h1", "13:00 Sha Tin").await;
    assert_eq!(page.evaluate(READS).await, json!(1));
    page.assert_no_problems().await;
}

#[tokio::test]
async fn without_a_meeting_today_the_nearest_race_day_is_shown() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let last = nats.publish(two_meetings()).await;
    railbird.until_seq(last).await;
    let mut page = Page::of(railbird.http);
    let open = json!({ "key": railbird.key });
    page.open(open.clone()).await;
    page.until("h1", "Saturday, 3 October 2026").await;
    page.until(".day", "This is the nearest race day").await;
    let last = nats.publish([card("2031-01-01", "ST", 1, 2)]).await;
    railbird.until_seq(last).await;
    page.open(open).await;
    page.until("h1", "Wednesday, 1 January 2031").await;
    page.until(PHASE, "Live").await;
    page.assert_no_problems().await;
}

#[tokio::test]
async fn off_times_are_those_of_the_racecourse() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut far = card(DAY, "US", 1, 2);
    far["data"]["time_zone"] = json!("America/New_York");
    far["data"]["off_time"] = json!("2026-10-03T18:15:00Z");
    let last = nats.publish([card(DAY, "ST", 1, 4), far]).await;
    railbird.until_seq(last).await;
    let mut page = Page::of(railbird.http);
    let address = |fragment: &str, zone: &str| json!({ "fragment": fragment, "key": railbird.key, "zone": zone });
    let day = format!("#/{DAY}");
    page.open(address(&day, "Europe/London")).await;
    page.until("#race-ST-1 .time", "13:00").await;
    page.until("#race-US-1 .time", "14:15").await;
    page.until("#meeting-ST", "Hong Kong time, GMT+8").await;
    page.until("#meeting-US", "New York time, GMT-4").await;
    page.open(address(&format!("{day}/ST/1"), "Europe/London"))
        .await;
    page.until(
        ".facts",
        "off at 13:00 (Hong Kong time, GMT+8; 06:00 where you are)",
    )
    .await;
    // The clock of this visitor is the same.
    page.open(address(&day, "Asia/Singapore")).await;
    page.until("#meeting-US", "New York time").await;
    assert_eq!(page.text("#meeting-ST").await, "Sha Tin (ST)");
    page.assert_no_problems().await;
}

/// Whether the page makes a connection as soon as the browser is online. It does while it waits for the next attempt.
const CONNECTS_WHEN_ONLINE: &str = "(() => { let made = 0; const Socket = WebSocket; \
     window.WebSocket = class extends Socket { constructor(...of) { super(...of); made++; } }; \
     dispatchEvent(new Event('online')); window.WebSocket = Socket; return made === 1; })()";

#[tokio::test]
async fn a_cut_network_is_reported_and_nothing_is_missing_after_it() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let last = nats.publish(two_meetings()).await;
    railbird.until_seq(last).await;
    let cable = Cable::to(railbird.http).await;
    let mut page = Page::of(cable.address);
    let address = json!({ "fragment": format!("#/{DAY}/ST/1"), "key": railbird.key });
    page.open(address).await;
    page.until(FIRST_WIN, "3.5").await;
    page.until(PHASE, "Live").await;

    cable.cut();
    for n in 1..=50 {
        nats.publish([odds(
            "ST",
            1,
            &second(10 + n),
            &[4.0 + n as f64 / 10.0, 4.0, 6.2, 9.9],
        )])
        .await;
    }
    page.until(".banner", "Prices are as of").await;
    page.until(".banner", "Reconnect now").await;
    assert_eq!(page.text(FIRST_WIN).await, "3.5");
    page.until_true(CONNECTS_WHEN_ONLINE).await;
    cable.mend();
    // It may have the next attempt at this moment.
    page.evaluate("document.querySelector('.banner button').click()")
        .await;
    page.until(PHASE, "Live, resumed").await;
    page.until(".banner", "messages were missed, and now followed")
        .await;
    page.until(FIRST_WIN, "9.0").await;
    page.until(".channel", "gaps 0").await;
    // The chart has every price of the time without a connection.
    page.evaluate("document.querySelector('.chart').focus()")
        .await;
    page.until(".readout", "1 HORSE 1 9.0").await;
    let steps = page.evaluate("document.querySelectorAll('.plot path.series-0')[0].getAttribute('d').split('V').length").await;
    assert!(steps.as_u64() >= Some(2), "{steps}");
    let max = page.attribute(".chart", "aria-valuemax").await;
    assert!(!max.is_empty());
}

#[tokio::test]
async fn a_service_that_is_killed_comes_back_on_the_page() {
    let (nats, data) = (Nats::start(), tempfile::tempdir().unwrap());
    let mut serving = Serving::start(&nats, data.path());
    let key = issue_key(&nats).await;
    let last = nats.publish(two_meetings()).await;
    let has_seq = async |http| {
        let reply = request(http, "GET", "/api/v1/meetings", &[("x-api-key", &key)]).await;
        reply.status == 200 && reply.header("railbird-seq").parse::<u64>().unwrap() >= last
    };
    eventually("the service has the races", || has_seq(serving.http)).await;
    let mut page = Page::of(serving.http);
    page.open(json!({ "fragment": format!("#/{DAY}/ST/1"), "key": key }))
        .await;
    page.until(FIRST_WIN, "3.5").await;
    page.until(PHASE, "Live").await;
    serving.kill();
    page.until(PHASE, "Disconnected").await;
    page.until(".banner", "Prices are as of").await;
    nats.publish([odds("ST", 1, &second(10), &[2.2, 4.0, 6.2, 9.9])])
        .await;
    let _again = Serving::start_at(serving.http, &nats, data.path());
    page.until(PHASE, "Live").await;
    page.until(FIRST_WIN, "2.2").await;
    page.until(".channel", "gaps 0").await;
}

#[tokio::test]
async fn a_key_that_does_not_do_is_explained() {
    let nats = Nats::start();
    let plans = format!(
        "{}{}{}",
        plan("default", "live_odds = true\nconnections = 10"),
        plan("free", ""),
        plan(
            "slow",
            "requests_per_minute = 2\nlive_odds = true\nconnections = 10"
        ),
    );
    let railbird = Railbird::start_with(&nats, |config| {
        config.plans = railbird::limits::plans::Plans::parse(&plans).unwrap();
    })
    .await;
    let last = nats.publish(two_meetings()).await;
    railbird.until_seq(last).await;
    let mut page = Page::of(railbird.http);
    page.open(json!({ "fragment": format!("#/{DAY}") })).await;
    page.until("label", "Your API key").await;
    page.assert_no_problems().await;
    page.assert_accessible().await;
    page.fill("#key", "rb_test_wrong").await;
    page.press("Enter").await;
    page.until(".wrong", "does not accept this key").await;
    page.assert_accessible().await;
    page.fill("#key", &railbird.key).await;
    page.press("Enter").await;
    page.until(PHASE, "Live").await;
    let address = page.evaluate("location.href").await;
    assert!(!address.as_str().unwrap().contains("rb_"), "{address}");

    let free = railbird.issue_key_on(&nats, "free").await;
    page.open(json!({ "fragment": format!("#/{DAY}"), "key": free }))
        .await;
    page.until(PHASE, "Not live").await;
    page.until(".banner", "Your plan has no live odds").await;
    page.until(".meeting", "HORSE 1").await;
    page.until(".market", "Prices are not in your plan.").await;
    page.assert_accessible().await;

    let slow = railbird.issue_key_on(&nats, "slow").await;
    page.open(json!({ "fragment": format!("#/{DAY}"), "key": slow }))
        .await;
    page.until(".banner", "allows 2 requests a minute").await;
    page.until(".banner", "The page reads on").await;
    page.assert_accessible().await;
}

#[tokio::test]
async fn railbird_dev_shows_moving_prices_at_the_first_address() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let board = &dev.output[0];
    assert_eq!(*board, format!("Board    http://{}/", dev.http));
    let mut page = Page::of(dev.http);
    page.open(json!({})).await;
    page.until(PHASE, "Live").await;
    page.until("td.win", ".").await;
    let prices = page.texts(".race[open] td.win").await;
    let texts = serde_json::to_string(&prices).unwrap();
    let script = format!(
        "new Promise((resolve) => {{ const read = () => {{ \
         const now = [...document.querySelectorAll('.race[open] td.win')].map((node) => node.innerText.trim()); \
         JSON.stringify(now) === {texts:?} ? setTimeout(read, 50) : resolve(); }}; read(); }})"
    );
    page.evaluate(&script).await;
    page.assert_no_problems().await;

    // No other page gets the key.
    let host = dev.http.to_string();
    for (origin, status) in [
        (format!("http://{host}"), 200),
        ("http://127.0.0.1:1".to_owned(), 403),
        ("https://racing.example".to_owned(), 403),
    ] {
        let headers = [("origin", origin.as_str()), ("host", host.as_str())];
        let reply = request(dev.http, "POST", "/dev/key", &headers).await;
        assert_eq!(reply.status, status, "{origin}");
        assert_eq!(reply.text().contains(&dev.key), status == 200, "{origin}");
    }
    assert_eq!(request(dev.http, "POST", "/dev/key", &[]).await.status, 403);
}

#[tokio::test]
async fn the_board_has_no_key_of_its_own_and_links_without_scripts() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let reply = railbird.get_open("/").await;
    assert_eq!(reply.status, 200);
    let html = reply.text();
    for link in ["pricing", "docs", "status"] {
        assert!(html.contains(&format!("href=\"{link}\"")), "{link}");
    }
    let description = r#"<meta name="description" content="Live horse racing data"#;
    assert!(html.contains(description), "a stranger learns what it is");
    let policy = reply.header("content-security-policy");
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self';"),
        "{policy}"
    );
    assert!(!policy.contains("unsafe"), "{policy}");
    assert!(!html.contains("data-dev-key"));
    let origin = format!("http://{}", railbird.http);
    let host = railbird.http.to_string();
    let headers = [("origin", origin.as_str()), ("host", host.as_str())];
    let reply = request(railbird.http, "POST", "/dev/key", &headers).await;
    assert_eq!(reply.status, 404);
}

/// Without that, modules would be requested one after the other, each once its importer is there.
#[tokio::test]
async fn the_page_names_every_module_that_it_loads() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let html = railbird.get_open("/").await.text();
    let mut page = Page::of(railbird.http);
    page.open(json!({ "key": railbird.key })).await;
    page.until(PHASE, "Live").await;
    let script = "performance.getEntriesByType('resource').map(({ name }) => name)";
    let loaded: Vec<String> = serde_json::from_value(page.evaluate(script).await).unwrap();
    let assets = format!("http://{}/assets/", railbird.http);
    let modules = loaded.iter().filter_map(|url| url.strip_prefix(&assets));
    let modules: Vec<_> = modules.filter(|name| name.ends_with(".js")).collect();
    assert!(modules.len() > 10, "{modules:?}");
    for name in modules {
        let is_named = [
            format!("<link rel=\"modulepreload\" href=\"assets/{name}\">"),
            format!("<script type=\"module\" src=\"assets/{name}\">"),
            format!("<script src=\"assets/{name}\">"),
        ];
        assert!(is_named.iter().any(|tag| html.contains(tag)), "{name}");
    }
    page.assert_no_problems().await;
}

/// Of what readers look at: 0.1 is good, see <https://web.dev/articles/cls>.
const SHIFT_MAX: f64 = 0.1;

#[tokio::test]
async fn the_page_does_not_move_while_it_loads_and_follows_a_race() {
    for (width, slow) in [(360, false), (360, true), (1280, false), (1280, true)] {
        let nats = Nats::start();
        let railbird = Railbird::start(&nats).await;
        let last = nats.publish(two_meetings()).await;
        railbird.until_seq(last).await;
        let mut page = Page::of(railbird.http);
        let fragment = format!("#/{DAY}");
        page.open(
            json!({ "fragment": fragment, "key": railbird.key, "width": width, "slow": slow }),
        )
        .await;
        page.until(PHASE, "Live").await;
        page.until_true("document.querySelector('#race-ST-1 td.line path[d^=M]') !== null")
            .await;
        nats.publish([
            odds("ST", 1, &second(3), &[13.5, 2.25, 16.2, 99.0]),
            status("ST", 1, &second(4), "off"),
        ])
        .await;
        page.until("#race-ST-1 .left", "running").await;
        nats.publish([result(DAY, "ST", 1, 3, 1)]).await;
        page.until("#race-ST-1 .result", "HORSE 1").await;
        page.until(".news", "official result").await;
        let shift = page.evaluate("window.shift").await.as_f64().unwrap();
        assert!(shift < SHIFT_MAX, "{shift} at {width}, slow: {slow}");
        page.assert_no_problems().await;
    }
}

/// The compressed size of the page and everything that it loads.
#[tokio::test]
async fn the_board_is_small() {
    const BYTES_MAX: usize = 150 * 1024;
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut names = vec![
        "style.css".to_owned(),
        "board.css".to_owned(),
        "board.js".to_owned(),
        "railbird.js".to_owned(),
    ];
    for entry in std::fs::read_dir(root().join("web/board")).unwrap() {
        names.push(format!("board/{}", entry.unwrap().file_name().display()));
    }
    let mut bytes = railbird.get_open("/").await.body.len();
    for name in names {
        let path = format!("/assets/{name}");
        let reply = request(railbird.http, "GET", &path, &[("accept-encoding", "gzip")]).await;
        assert_eq!(reply.status, 200, "{name}");
        // Less than 1 KiB is sent as it is.
        let is_small = reply.body.len() < 1024;
        assert!(
            is_small || reply.header("content-encoding") == "gzip",
            "{name}"
        );
        bytes += reply.body.len();
    }
    assert!(bytes < BYTES_MAX, "{bytes}");
}

/// Publishes a simulated day as of ten minutes after its cards are out, and the day before.
pub(super) async fn publish_simulated(nats: &Nats, today: RacingDate) -> u64 {
    let now = Timestamp::now();
    let pace = |ago: SignedDuration| Pace {
        begins: now - ago,
        speed: 1.0,
    };
    let before = RacingDate::from(today.civil().yesterday().unwrap());
    let days = [
        (
            RaceDay::new(before, 4, 1),
            pace(SignedDuration::from_hours(24)),
        ),
        (
            RaceDay::new(today, 4, 1),
            pace(SignedDuration::from_mins(9)),
        ),
    ];
    let events = days.iter().flat_map(|(day, pace)| script(day, pace));
    let events = events.filter(|event| event.time.timestamp() <= now);
    let events = events.map(|event| serde_json::from_slice(&event.encode()).unwrap());
    nats.publish(events.collect::<Vec<Value>>()).await
}

/// What is pointed at and less than 24 pixels wide or high.
pub(super) const SMALL_TARGETS: &str = "[...document.querySelectorAll('main :is(a, button, input, summary)')] \
     .filter((target) => target.checkVisibility()).map((target) => [target.innerText, target.getBoundingClientRect()]) \
     .filter(([, { width, height }]) => width < 24 || height < 24).map(([text]) => text)";

#[tokio::test]
async fn every_view_is_accessible_at_every_width_and_in_both_schemes() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let today = railbird.app.clock.today();
    let last = publish_simulated(&nats, today).await;
    railbird.until_seq(last).await;
    let yesterday = RacingDate::from(today.civil().yesterday().unwrap());
    let views = [
        ("day", format!("#/{today}"), "td.line path[d^=M]"),
        ("results", format!("#/{yesterday}"), ".outlook"),
        ("race", format!("#/{today}/RB/1"), ".readout"),
        ("amended", format!("#/{yesterday}/RB/1"), ".result-history"),
        ("horse", "#/horses/RB_001".to_owned(), ".form"),
        (
            "jockey",
            "#/jockeys?name=A+Brindle".to_owned(),
            ".group-table",
        ),
        ("venue", "#/venues/RB?by=jockey".to_owned(), ".group-table"),
        ("search", "#/search/ar".to_owned(), ".found"),
        ("following", "#/following".to_owned(), ".ahead"),
    ];
    let mut page = Page::of(railbird.http);
    for (name, fragment, selector) in &views {
        for width in [360, 768, 1280, 1920] {
            for scheme in ["light", "dark"] {
                let options = json!({
                    "fragment": fragment, "key": railbird.key, "width": width, "scheme": scheme, "motion": "reduce",
                    "following": [{ "kind": "venues", "key": "RB", "name": "Railbird Park" }],
                });
                page.open(options).await;
                page.until(PHASE, "Live").await;
                page.until(selector, "").await;
                let overflow = "document.documentElement.scrollWidth - innerWidth";
                assert_eq!(page.evaluate(overflow).await, json!(0), "{name} at {width}");
                let file = root()
                    .join(PICTURES)
                    .join(format!("board-{name}-{width}-{scheme}.png"));
                page.picture(&file).await;
                page.assert_accessible().await;
                assert_eq!(page.evaluate(SMALL_TARGETS).await, json!([]), "{name}");
                page.assert_no_problems().await;
            }
        }
    }
    the_picture_in_the_readme_is_the_page(&mut page).await;
}

/// `UPDATE_GOLDEN=1` takes the picture again.
async fn the_picture_in_the_readme_is_the_page(page: &mut Page) {
    let taken = root().join(PICTURES).join("board-day-1280-light.png");
    let kept = root().join("docs/board.png");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::copy(&taken, &kept).unwrap();
    }
    let difference = page.difference(&taken, &kept).await;
    assert!(
        difference < DIFFERENCE_MAX,
        "docs/board.png differs from the page by {difference}: set UPDATE_GOLDEN=1"
    );
}
