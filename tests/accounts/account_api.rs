//! `/api/v1/account`: what a key may do, and what it has used.

use railbird::accounts::{KeyId, KeyRevoked};
use railbird::limits::plans::Plans;
use serde_json::{Value, json};

use crate::support::*;

const PATH: &str = "/api/v1/account";

async fn start(nats: &Nats, lines: &str) -> Railbird {
    let plans = Plans::parse(&plan("default", lines)).unwrap();
    Railbird::start_with(nats, |config| config.plans = plans).await
}

async fn account(railbird: &Railbird, key: &str) -> Value {
    let reply = request(railbird.http, "GET", PATH, &[("x-api-key", key)]).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.header("cache-control"), "no-store");
    reply.json()
}

/// The seconds from now to a time in an account.
fn seconds_to(time: &Value) -> f64 {
    let time: jiff::Timestamp = time.as_str().unwrap().parse().unwrap();
    time.duration_since(jiff::Timestamp::now()).as_secs_f64()
}

#[tokio::test]
async fn an_account_shows_the_plan_and_what_is_used_and_costs_nothing() {
    let nats = Nats::start();
    let lines = "requests_per_minute = 60\nrequests_per_day = 4\nlive_odds = true\nconnections = 3";
    let railbird = start(&nats, lines).await;
    let fresh = account(&railbird, &railbird.key).await;
    assert_eq!(fresh["plan"], "default");
    assert_eq!(fresh["live_odds"], true);
    for (period, limit) in [("minute", 60), ("day", 4)] {
        let requests = &fresh["requests"][period];
        assert_eq!(
            [&requests["limit"], &requests["used"], &requests["left"]],
            [&json!(limit), &json!(0), &json!(limit)],
            "{period}"
        );
        assert!(seconds_to(&requests["full_at"]) <= 0.0);
    }
    assert_eq!(
        fresh["connections"],
        json!({ "limit": 3, "open": 0, "left": 3 })
    );

    for _ in 0..2 {
        assert_eq!(railbird.get("/api/v1/meetings").await.status, 200);
    }
    let (_socket, _) = railbird.live("").await;
    for _ in 0..20 {
        let used = account(&railbird, &railbird.key).await;
        let day = &used["requests"]["day"];
        assert_eq!([&day["used"], &day["left"]], [3, 1], "{used}");
        assert_eq!(
            used["connections"],
            json!({ "limit": 3, "open": 1, "left": 2 })
        );
        let quarter = 24.0 * 3600.0 / 4.0;
        let full = seconds_to(&day["full_at"]);
        assert!((2.9 * quarter..=3.0 * quarter).contains(&full), "{full}");
        assert!(seconds_to(&day["next_at"]) <= 0.0, "one is left: {used}");
    }
    assert_eq!(railbird.get("/api/v1/meetings").await.status, 200);
    assert_eq!(railbird.get("/api/v1/meetings").await.status, 429);
    // Also when nothing is left.
    let over = account(&railbird, &railbird.key).await;
    let day = &over["requests"]["day"];
    assert_eq!([&day["used"], &day["left"]], [4, 0]);
    let next = seconds_to(&day["next_at"]);
    assert!((21_500.0..=21_600.0).contains(&next), "{next}");
    let without = railbird.get_open(PATH).await;
    assert_eq!(without.status, 401);
}

#[tokio::test]
async fn an_account_lists_the_valid_keys_of_the_same_subscriber() {
    let nats = Nats::start();
    let railbird = start(&nats, "").await;
    let first = KeyId::of_key(&railbird.key).unwrap();
    let until: jiff::Timestamp = "2999-01-01T00:00:00Z".parse().unwrap();
    let second = railbird.rotate_key(&nats, until).await;
    // The key of another subscriber.
    let _other = railbird.issue_key(&nats).await;
    for key in [railbird.key.as_str(), second.reveal()] {
        let found = account(&railbird, key).await;
        let keys = found["keys"].as_array().unwrap();
        let ids: Vec<_> = keys
            .iter()
            .map(|key| key["key_id"].as_str().unwrap())
            .collect();
        assert_eq!(ids, [first.as_str(), second.key_id.as_str()], "{found}");
        assert_eq!(keys[0]["expires_at"], "2999-01-01T00:00:00Z");
        assert_eq!(keys[1]["expires_at"], "");
        assert!(seconds_to(&keys[1]["created_at"]) <= 0.0);
        assert_eq!(found["requests"], json!({}));
        assert_eq!(
            found["connections"],
            json!({ "limit": 0, "open": 0, "left": 0 })
        );
    }
    let key_id = second.key_id;
    append_account_event(
        &nats,
        KeyRevoked {
            key_id,
            reason: events::Text::default(),
        },
    )
    .await;
    eventually("the revoked key is not listed", || async {
        account(&railbird, &railbird.key).await["keys"]
            .as_array()
            .unwrap()
            .len()
            == 1
    })
    .await;
}
