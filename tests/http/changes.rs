//! `/api/v1/changes`: every event of the log once, in its order, with what it changed.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use railbird::limits::plans::Plans;
use serde_json::{Value, json};

use crate::support::*;

const CHANGES: &str = "/api/v1/changes";
const RESULTS: &str = "types=racing.result.declared.v1";

async fn page(railbird: &Railbird, query: &str) -> Value {
    let reply = railbird.get(&format!("{CHANGES}?{query}")).await;
    assert_eq!(reply.status, 200, "{query}: {}", reply.text());
    reply.json()
}

/// Follows `next` to the end of the log, and returns all pages.
async fn pages(railbird: &Railbird, query: &str) -> Vec<Value> {
    let mut pages = vec![page(railbird, query).await];
    while pages[pages.len() - 1]["more"] == true {
        let next = pages[pages.len() - 1]["next"].as_str().unwrap().to_owned();
        let reply = railbird.get(&next).await;
        assert_eq!(reply.status, 200, "{next}: {}", reply.text());
        pages.push(reply.json());
    }
    pages
}

fn seqs(pages: &[Value]) -> Vec<u64> {
    let lists = pages.iter().map(|page| page["changes"].as_array().unwrap());
    let seqs = lists.flatten().map(|change| change["seq"].as_u64());
    seqs.map(Option::unwrap).collect()
}

fn resources(change: &Value) -> BTreeSet<&str> {
    let paths = change["resources"].as_array().unwrap();
    paths.iter().map(|path| path.as_str().unwrap()).collect()
}

#[tokio::test]
async fn each_event_is_listed_in_the_order_of_the_log_with_the_paths_that_it_changed() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let facts = [
        registered("H1", "HORSE 1"),
        card(DAY, "ST", 1, 3),
        card(DAY, "ST", 1, 2),
        card(DAY, "HV", 1, 2),
        odds("ST", 1, &second(0), &[2.5, 3.5]),
        status("ST", 1, &second(1), "off"),
        result(DAY, "ST", 1, 2, 1),
    ];
    nats.publish(facts).await;
    let last = nats.publish_raw("racing.horse.H1", b"garbage").await;
    railbird.until_seq(last).await;

    let reply = railbird.get(CHANGES).await;
    assert_eq!(reply.header("railbird-seq"), last.to_string());
    assert_eq!(reply.header("cache-control"), "private, no-cache");
    let next = format!("{CHANGES}?after={last}");
    assert_eq!(reply.header("link"), format!("<{next}>; rel=\"next\""));
    let all = reply.json();
    assert_eq!(all["after"], last);
    assert_eq!((&all["more"], &all["next"]), (&json!(false), &json!(next)));
    assert_eq!(
        seqs(std::slice::from_ref(&all)),
        (1..last).collect::<Vec<_>>()
    );

    let changes = all["changes"].as_array().unwrap();
    let registration = json!({
        "seq": 1, "recorded_at": nats.recorded_at(1).await, "type": "racing.horse.registered.v1", "source": "test",
        "horse_no": "H1", "resources": ["/api/v1/horses/H1", "/api/v1/horses/H1/form"],
    });
    assert_eq!(changes[0], registration);
    let quote = &changes[4];
    let about = ["date", "venue_code", "race_number"].map(|name| quote[name].clone());
    assert_eq!(about, [json!(DAY), json!("ST"), json!(1)]);
    let board = format!("/api/v1/odds/{DAY}/1");
    let below = ["", "/sources", "/history", "/moves"];
    let of_odds = below.map(|below| format!("{board}{below}?venue=ST"));
    assert_eq!(quote["resources"], json!(of_odds));

    let types = "types=racing.race.status_changed.v1,racing.result.declared.v1";
    let filtered = page(&railbird, types).await;
    let results = filtered["changes"].as_array().unwrap();
    // The horse that the second card leaves out has changed, and the other meeting, which names this one.
    for change in [&changes[2], &changes[6], &results[1]] {
        let paths = resources(change);
        assert!(paths.contains("/api/v1/horses/H3/form"), "{paths:?}");
        let other = format!("/api/v1/results/{DAY}?venue=HV");
        assert!(paths.contains(other.as_str()), "{paths:?}");
    }
    for path in changes.iter().flat_map(resources) {
        let reply = railbird.get(path).await;
        // It was on the first card alone, and the meeting at HV has no result.
        let is_gone = path.contains("/H3") || path.contains("/1?venue=HV");
        let statuses = if is_gone { [404, 200] } else { [200; 2] };
        assert!(statuses.contains(&reply.status), "{path}: {}", reply.text());
    }
}

#[tokio::test]
async fn pages_have_each_change_once_and_go_on_with_what_comes_later() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    // A read of the log has 500 messages: the third result is the first one of the next read.
    let facts = (1..=4).flat_map(|n| {
        let quotes = (0..166).map(move |tick| odds("ST", n, &second(tick), &[2.5, 3.5]));
        quotes.chain([result(DAY, "ST", n, 2, 1)])
    });
    let last = nats.publish(facts).await;
    railbird.until_seq(last).await;
    for query in ["", "limit=1000", "limit=7"] {
        let pages = pages(&railbird, query).await;
        assert_eq!(seqs(&pages), (1..=last).collect::<Vec<_>>(), "{query}");
        assert_eq!(pages[pages.len() - 1]["after"], last);
    }
    // A filter, also with messages behind the last change that passes it.
    let expected: Vec<u64> = (1..=4).map(|n| n * 167).collect();
    for query in [RESULTS.to_owned(), format!("{RESULTS}&limit=3")] {
        assert_eq!(seqs(&pages(&railbird, &query).await), expected);
    }
    let voided = "types=racing.result.voided.v1,racing.going.changed.v1";
    let none = pages(&railbird, voided).await;
    assert_eq!(seqs(&none), Vec::<u64>::new());
    let end = &none[none.len() - 1];
    assert_eq!(end["after"], last);

    let later = nats.publish([result(DAY, "ST", 1, 2, 2)]).await;
    railbird.until_seq(later).await;
    let next = railbird.get(end["next"].as_str().unwrap()).await.json();
    assert_eq!(
        (&next["changes"], &next["after"]),
        (&json!([]), &json!(later))
    );
    assert_eq!(
        seqs(&[page(&railbird, &format!("after={last}")).await]),
        [later]
    );
}

#[tokio::test]
async fn a_request_at_the_end_waits_for_the_next_change_that_it_asks_for() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let last = nats.publish([card(DAY, "ST", 1, 3)]).await;
    railbird.until_seq(last).await;
    let asked_at = Instant::now();
    let empty = page(&railbird, &format!("after={last}&wait_ms=300")).await;
    assert!(asked_at.elapsed() >= Duration::from_millis(300));
    assert_eq!(
        (&empty["changes"], &empty["after"]),
        (&json!([]), &json!(last))
    );
    let kept = format!("{CHANGES}?after={last}&wait_ms=300");
    assert!(
        same_query(empty["next"].as_str().unwrap(), &kept),
        "{empty}"
    );

    // Repeated, since the change may come only after the time on a slow machine.
    let waiting = async {
        let mut after = last;
        loop {
            let found = page(&railbird, &format!("after={after}&wait_ms=8000&{RESULTS}")).await;
            if found["changes"] != json!([]) {
                return found;
            }
            after = found["after"].as_u64().unwrap();
        }
    };
    let publishing = async {
        for n in 0..5 {
            nats.publish([odds("ST", 1, &second(n), &[2.5, 3.5])]).await;
        }
        nats.publish([result(DAY, "ST", 1, 2, 1)]).await
    };
    let (found, published) = tokio::join!(waiting, publishing);
    assert_eq!(seqs(&[found]), [published]);
}

/// Whether two paths have the same parameters, in any order.
fn same_query(path: &str, other: &str) -> bool {
    let [path, other] = [path, other].map(|path| path.split(['?', '&']).collect::<BTreeSet<_>>());
    path == other
}

#[tokio::test]
async fn a_request_that_waits_is_answered_when_the_service_stops() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let last = nats.publish([card(DAY, "ST", 1, 3)]).await;
    railbird.until_seq(last).await;
    let (http, key) = (railbird.http, railbird.key.clone());
    let connections = async || {
        let metrics = railbird.get_admin("/metrics").await.text();
        let mut lines = metrics.lines();
        let open = lines.find_map(|line| line.strip_prefix("railbird_http_connections "));
        open.unwrap().parse::<f64>().unwrap()
    };
    let before = connections().await;
    let waiting = tokio::spawn(async move {
        let path = format!("{CHANGES}?after={last}&wait_ms=8000");
        request(http, "GET", &path, &[("x-api-key", &key)]).await
    });
    eventually("the request waits", async || connections().await > before).await;
    let stopped_at = Instant::now();
    railbird.stop().await;
    let reply = waiting.await.unwrap();
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(stopped_at.elapsed() < Duration::from_secs(7));
}

#[tokio::test]
async fn a_plan_without_live_odds_has_neither_events_nor_paths_of_odds() {
    let nats = Nats::start();
    let railbird = Railbird::start_with(&nats, |config| {
        let plans = [
            plan("default", "live_odds = true\nconnections = 1"),
            plan("late", "odds_after = \"1s\""),
        ];
        config.plans = Plans::parse(&plans.concat()).unwrap();
    })
    .await;
    let quotes = (0..3).map(|n| odds("ST", 1, &second(n), &[2.5]));
    let last = nats.publish(quotes.chain([card(DAY, "ST", 1, 1)])).await;
    railbird.until_seq(last).await;
    assert_eq!(seqs(&pages(&railbird, "").await), [1, 2, 3, 4]);
    let late = railbird.issue_key_on(&nats, "late").await;
    for query in ["", "?types=racing.odds.quoted.v1,racing.race.declared.v1"] {
        let path = format!("{CHANGES}{query}");
        let reply = request(railbird.http, "GET", &path, &[("x-api-key", &late)]).await;
        let page = reply.json();
        assert_eq!(
            (seqs(std::slice::from_ref(&page)), &page["after"]),
            (vec![last], &json!(last))
        );
        let paths = resources(&page["changes"][0]);
        assert!(
            paths.iter().all(|path| !path.contains("/odds/")),
            "{paths:?}"
        );
    }
}

#[tokio::test]
async fn a_request_that_is_wrong_is_an_error_that_says_so() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let last = nats.publish([card(DAY, "ST", 1, 3)]).await;
    railbird.until_seq(last).await;
    let beyond = format!("after={}", last + 1);
    for (query, message) in [
        (
            beyond.as_str(),
            "After is beyond the last event of the log, which is 1",
        ),
        ("after=18446744073709551615", "After is beyond"),
        ("after=-1", "after is a whole number"),
        ("limit=0", "limit is 1 to 1000"),
        ("limit=1001", "limit is 1 to 1000"),
        ("wait_ms=8001", "wait_ms is 0 to 8000"),
        ("wait_ms=10s", "wait_ms is a whole number"),
        (
            "types=odds",
            "There is no \"odds\"; there are racing.horse.registered.v1, ",
        ),
        ("types=", "There is no \"\"; there are "),
        (
            "as_of=1",
            "there is no \"as_of\"; there are after, limit, types, wait_ms",
        ),
        (
            "lang=zh",
            "there is no \"lang\"; there are after, limit, types, wait_ms",
        ),
    ] {
        let reply = railbird.get(&format!("{CHANGES}?{query}")).await;
        let body = reply.json();
        let found = body["message"].as_str().unwrap();
        assert!(
            found.to_lowercase().starts_with(&message.to_lowercase()),
            "{query}: {found}"
        );
        assert_eq!(
            (reply.status, &body["error"]),
            (400, &json!("invalid_parameter")),
            "{query}"
        );
    }
}

/// A replica that was asked before may be ahead of this one.
#[tokio::test]
async fn an_event_that_the_views_do_not_reflect_yet_is_waited_for() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    for revision in 1..=20 {
        let seq = nats.publish([result(DAY, "ST", 1, 2, revision)]).await;
        let page = page(&railbird, &format!("after={seq}")).await;
        assert_eq!(
            (&page["changes"], &page["after"]),
            (&json!([]), &json!(seq))
        );
    }
}
