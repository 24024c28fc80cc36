//! The tasks of someone who sees the service for the first time, each with the seconds that it takes a browser. Run it
//! with `--nocapture` to read them.

use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::*;

const EMAIL: &str = "first.visit@racing.example";

/// A past meeting at Sha Tin, and a race of today that is off in an hour.
fn racing(today: &str) -> Vec<Value> {
    let mut next = card(today, "ST", 1, 3);
    let off = Timestamp::now() + SignedDuration::from_hours(1);
    next["data"]["off_time"] = json!(format!("{off:.0}"));
    let quoted = odds_on(today, "ST", 1, &second(1), &[3.5, 4.0, 6.2]);
    let past = [
        card(DAY, "ST", 1, 3),
        result(DAY, "ST", 1, 3, 1),
        result(DAY, "ST", 2, 3, 1),
    ];
    [past.to_vec(), vec![next, quoted]].concat()
}

/// Learns what the service is, and creates a key.
async fn gets_a_key(site: &Site, page: &mut Page) {
    let start = Instant::now();
    page.open(json!({})).await;
    page.until("h1", "Live horse racing data").await;
    page.until(".lead", "As this board, and as an API").await;
    report("learns what it is", start);

    let start = Instant::now();
    page.click("a.button[href=pricing]").await;
    page.until("h1", "Racing data and live odds, by API").await;
    page.click("label[for=plan-free]").await;
    page.fill("#email", EMAIL).await;
    page.click("button[type=submit]").await;
    page.until("h1", "Check your mailbox").await;
    site.until_mails(EMAIL, 1).await;
    let token = site.tokens_to(EMAIL).pop_first().unwrap();
    page.evaluate(&format!("location.href = 'account?token={token}'"))
        .await;
    page.until("h1", "Confirm your subscription").await;
    page.click("button[value=sign-in]").await;
    page.until("h1", "Your account").await;
    page.click("button[value=create]").await;
    page.until("#key", "rb_").await;
    let key = page.text("#key").await;
    site.until(200, &key).await;
    report("gets a key", start);
    // Signed in, the board has no key to forget.
    page.evaluate("location.href = '.'").await;
    page.until(".tools > a", "Sign out").await;
    assert_eq!(page.texts(".tools > button").await, [""; 0]);
}

fn report(task: &str, start: Instant) {
    println!("{task}: {:.1} s", start.elapsed().as_secs_f64());
}

#[tokio::test]
async fn a_stranger_gets_a_key_and_finds_a_result_a_horse_and_the_best_jockey() {
    let site = Site::start().await;
    let railbird = &site.replicas[0];
    let today = railbird.app.clock.today().to_string();
    let last = site.nats.publish(racing(&today)).await;
    railbird.until_seq(last).await;
    let mut page = Page::of(railbird.http);
    gets_a_key(&site, &mut page).await;

    let start = Instant::now();
    page.open(json!({ "key": railbird.key })).await;
    page.click(".next a").await;
    page.until(".race-view .status", "Scheduled").await;
    page.until("td.win", "3.5").await;
    site.nats.publish([result(&today, "ST", 1, 3, 1)]).await;
    page.until(".race-view .result tbody tr", "1 1 HORSE 1")
        .await;
    report("follows a race to its result", start);

    let start = Instant::now();
    let mut later = card(&today, "HV", 1, 3);
    let off = Timestamp::now() + SignedDuration::from_hours(2);
    later["data"]["off_time"] = json!(format!("{off:.0}"));
    let last = site.nats.publish([later]).await;
    railbird.until_seq(last).await;
    page.press("/").await;
    page.fill(".tools input", "horse 3").await;
    page.until(".found-popup [role=option]", "HORSE 3").await;
    page.press("ArrowDown").await;
    page.press("Enter").await;
    page.until("h1", "HORSE 3").await;
    page.until(".ahead", "Happy Valley THE HV HANDICAP 1").await;
    report("finds the next race of a horse", start);

    let start = Instant::now();
    page.press("/").await;
    page.fill(".tools input", "sha tin").await;
    page.until(".found-popup [role=group]", "Venues").await;
    page.click(".found-popup [href='#/venues/ST']").await;
    page.until("h1", "Sha Tin").await;
    page.until(
        ".group-table tbody tr:first-child",
        "J Ockey 1 3 3 0 100.0 %",
    )
    .await;
    report("finds the best jockey of a course", start);
    page.assert_no_problems().await;
}
