//! The limits of plans, and of clients without a valid key.

use futures::future::join_all;
use railbird::accounts::{ApiKey, KeyId, PlanChanged};
use railbird::http::UNAUTHORIZED_BODY;
use railbird::limits::Proxies;
use railbird::limits::plans::Plans;
use serde_json::json;

use crate::support::*;

const PATH: &str = "/api/v1/meetings";

/// A service with these plans, one of which is the default.
async fn start(nats: &Nats, plans: &[String]) -> Railbird {
    let plans = Plans::parse(&plans.concat()).unwrap();
    Railbird::start_with(nats, |config| config.plans = plans).await
}

async fn start_with_default(nats: &Nats, lines: &str) -> Railbird {
    start(nats, &[plan("default", lines)]).await
}

async fn get_with_key(railbird: &Railbird, key: &str) -> Reply {
    request(railbird.http, "GET", PATH, &[("x-api-key", key)]).await
}

async fn change_plan(nats: &Nats, key: &str, plan: &str, revision: u32) {
    let (key_id, plan) = (
        KeyId::of_key(key).unwrap(),
        events::Text::parse(plan).unwrap(),
    );
    append_account_event(
        nats,
        PlanChanged {
            key_id,
            plan,
            revision,
        },
    )
    .await;
}

/// The rate limit headers of a response: limit, remaining and reset.
fn rate_limit(reply: &Reply) -> [&str; 3] {
    ["limit", "remaining", "reset"].map(|name| reply.header(&format!("x-ratelimit-{name}")))
}

/// Checks that a response is a 429 with a message, and returns the seconds to wait.
fn assert_limited(reply: &Reply, message: &str) -> u32 {
    let retry_after = reply.header("retry-after");
    let body = format!(
        r#"{{"error":"rate_limit_exceeded","message":{message:?},"retry_after":{retry_after}}}"#
    );
    assert_eq!((reply.status, reply.text()), (429, body));
    assert_eq!(reply.header("content-type"), "application/json");
    assert_eq!(reply.header("cache-control"), "no-store");
    retry_after.parse().unwrap()
}

#[tokio::test]
async fn every_response_has_rate_limit_headers_and_a_429_says_when_to_retry() {
    let nats = Nats::start();
    let railbird = start_with_default(
        &nats,
        "requests_per_day = 8\nlive_odds = true\nconnections = 1",
    )
    .await;
    let first = railbird.get(PATH).await;
    assert_eq!(
        (first.status, rate_limit(&first)),
        (200, ["8", "7", "10800"])
    );
    let seen = [("if-none-match", first.header("etag"))];
    let key = [("x-api-key", railbird.key.as_str())];
    let replies = [
        railbird.get_with(PATH, &seen).await,
        railbird.get("/api/v1/horses/NOBODY").await,
        railbird.get("/api/v1/no/such/path").await,
        railbird.get("/api/v1/results/nonsense").await,
        request(railbird.http, "POST", PATH, &key).await,
        request(railbird.http, "HEAD", PATH, &key).await,
        Socket::refused_with(railbird.http, "/ws/live/odds", &key).await,
    ];
    let found = replies
        .iter()
        .map(|reply| (reply.status, rate_limit(reply)));
    assert_eq!(
        found.collect::<Vec<_>>(),
        [
            (304, ["8", "6", "21600"]),
            (404, ["8", "5", "32400"]),
            (404, ["8", "4", "43200"]),
            (400, ["8", "3", "54000"]),
            (405, ["8", "2", "64800"]),
            (200, ["8", "1", "75600"]),
            (101, ["8", "0", "86400"]),
        ]
    );
    for path in [
        PATH,
        "/api/v1/no/such/path",
        "/ws/live/odds",
        "/ws/live/odds/1",
    ] {
        let reply = railbird.get(path).await;
        let seconds = assert_limited(&reply, "The plan \"default\" allows 8 requests a day");
        assert!((1..=10_800).contains(&seconds), "{seconds}");
        assert_eq!(rate_limit(&reply), ["8", "0", "86400"], "{path}");
    }
    // Responses without a key have no such headers.
    let unauthenticated = request(railbird.http, "GET", PATH, &[]).await;
    assert_eq!(
        (unauthenticated.status, rate_limit(&unauthenticated)),
        (401, [""; 3])
    );
    let open = railbird.get_open("/healthz").await;
    assert_eq!((open.status, rate_limit(&open)), (200, [""; 3]));
    let metrics = railbird.get_admin("/metrics").await.text();
    assert!(
        metrics.contains("railbird_rate_limited_total{limit=\"day\"} "),
        "{metrics}"
    );
}

#[tokio::test]
async fn the_quota_of_a_minute_refills() {
    let nats = Nats::start();
    let railbird = start_with_default(&nats, "requests_per_minute = 60").await;
    let mut answered = 0;
    let over = loop {
        let reply = railbird.get(PATH).await;
        if reply.status != 200 {
            break reply;
        }
        answered += 1;
    };
    assert!(answered >= 60, "{answered}");
    assert_eq!(
        assert_limited(&over, "The plan \"default\" allows 60 requests a minute"),
        1
    );
    assert_eq!(rate_limit(&over), ["60", "0", "60"]);
    eventually("there is one more", || async {
        railbird.get(PATH).await.status == 200
    })
    .await;
}

#[tokio::test]
async fn a_plan_without_limits_sends_no_headers() {
    let nats = Nats::start();
    let railbird = start_with_default(&nats, "").await;
    for _ in 0..100 {
        let reply = railbird.get(PATH).await;
        assert_eq!((reply.status, rate_limit(&reply)), (200, [""; 3]));
    }
}

#[tokio::test]
async fn a_change_of_plan_takes_effect_at_once() {
    let nats = Nats::start();
    let plans = [
        plan("small", "requests_per_day = 1"),
        plan("large", "requests_per_day = 9000"),
        plan("default", "requests_per_day = 500"),
    ];
    let railbird = start(&nats, &plans).await;
    let key = railbird.issue_key_on(&nats, "small").await;
    assert_eq!(rate_limit(&get_with_key(&railbird, &key).await)[0], "1");
    assert_eq!(get_with_key(&railbird, &key).await.status, 429);
    for (revision, name, limit) in [(1, "large", "9000"), (2, "default", "500")] {
        change_plan(&nats, &key, name, revision).await;
        eventually(&format!("{name} is in force"), || async {
            rate_limit(&get_with_key(&railbird, &key).await)[0] == limit
        })
        .await;
    }
}

#[tokio::test]
async fn a_plan_that_is_not_configured_allows_the_least() {
    let nats = Nats::start();
    let plans = [
        plan("default", "live_odds = true\nconnections = 1000"),
        plan("bursts", "requests_per_day = 9\nodds_after = \"1h\""),
        plan(
            "steady",
            "requests_per_minute = 2\nlive_odds = true\nconnections = 2",
        ),
    ];
    let railbird = start(&nats, &plans).await;
    let key = railbird.issue_key_on(&nats, "standart").await;
    let first = get_with_key(&railbird, &key).await;
    assert_eq!(
        (first.status, rate_limit(&first)),
        (200, ["2", "1", "30"]),
        "the minute of one plan"
    );
    let path = format!("/ws/live/odds?api_key={key}");
    let reply = Socket::refused(railbird.http, &path).await;
    let message = "The plan \"standart\" does not include live odds";
    assert_eq!(
        (reply.status, &reply.json()["message"]),
        (403, &json!(message)),
        "nor does one of the plans"
    );
    let over = get_with_key(&railbird, &key).await;
    assert_limited(&over, "The plan \"standart\" allows 2 requests a minute");
}

#[tokio::test]
async fn a_rotated_key_and_its_replacement_share_the_limits() {
    let nats = Nats::start();
    let lines = "requests_per_day = 100\nlive_odds = true\nconnections = 1";
    let railbird = start_with_default(&nats, lines).await;
    assert_eq!(rate_limit(&railbird.get(PATH).await)[1], "99");
    let end = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let second = railbird.rotate_key(&nats, end).await;
    assert_eq!(
        rate_limit(&get_with_key(&railbird, second.reveal()).await)[1],
        "98"
    );
    assert_eq!(rate_limit(&railbird.get(PATH).await)[1], "97");

    let (_first, _) = railbird.live("").await;
    let (_, code) = Socket::open(railbird.http, second.reveal())
        .await
        .until_closed()
        .await;
    assert_eq!(code, Some(4429), "the one connection is in use");
}

#[tokio::test]
async fn a_client_over_its_limit_does_not_affect_another() {
    const ALLOWED: usize = 100;
    let nats = Nats::start();
    let railbird = start_with_default(&nats, &format!("requests_per_day = {ALLOWED}")).await;
    let (exceeding, modest) = (railbird.issue_key(&nats).await, &railbird.key);
    let storm = join_all((0..10).map(|_| async {
        let mut statuses = Vec::new();
        for _ in 0..ALLOWED {
            statuses.push(get_with_key(&railbird, &exceeding).await.status);
        }
        statuses
    }));
    let calm = async {
        for left in (0..ALLOWED).rev() {
            let reply = get_with_key(&railbird, modest).await;
            assert_eq!(
                (reply.status, rate_limit(&reply)[1]),
                (200, left.to_string().as_str())
            );
        }
    };
    let (storm, ()) = tokio::join!(storm, calm);
    let count = |status| storm.iter().flatten().filter(|is| **is == status).count();
    assert_eq!((count(200), count(429)), (ALLOWED, 9 * ALLOWED));
}

#[tokio::test]
async fn a_plan_without_live_odds_rejects_the_handshake() {
    let nats = Nats::start();
    let railbird = start_with_default(&nats, "").await;
    for path in ["/ws/live/odds", "/ws/live/odds/1"] {
        let path = format!("{path}?api_key={}", railbird.key);
        let reply = Socket::refused(railbird.http, &path).await;
        let body = r#"{"error":"live_odds_not_included","message":"The plan \"default\" does not include live odds"}"#;
        assert_eq!((reply.status, reply.text().as_str()), (403, body));
    }
    assert_eq!(railbird.get(PATH).await.status, 200);
}

#[tokio::test]
async fn a_change_to_a_plan_without_live_odds_closes_the_sockets() {
    let nats = Nats::start();
    let plans = [
        plan("live", "live_odds = true\nconnections = 2"),
        plan("default", ""),
    ];
    let railbird = start(&nats, &plans).await;
    let keys = [
        railbird.issue_key_on(&nats, "live").await,
        railbird.issue_key_on(&nats, "live").await,
    ];
    let mut closed = Socket::open(railbird.http, &keys[0]).await;
    let mut open = Socket::open(railbird.http, &keys[1]).await;
    for socket in [&mut closed, &mut open] {
        socket.until("snapshot_complete").await;
    }
    change_plan(&nats, &keys[0], "default", 1).await;
    let (messages, code) = closed.until_closed().await;
    let closing = messages.last().unwrap();
    assert_eq!(
        (code, &closing["code"], &closing["retry_after_ms"]),
        (Some(4403), &json!(4403), &json!(0))
    );
    let path = format!("/ws/live/odds?api_key={}", keys[0]);
    assert_eq!(Socket::refused(railbird.http, &path).await.status, 403);
    open.request(&json!({ "op": "ping" })).await;
    change_plan(&nats, &keys[0], "live", 2).await;
    eventually("live odds are there again", || async {
        Socket::refused(railbird.http, &path).await.status == 101
    })
    .await;
}

const GUESSED: &str = "Too many requests without a valid API key";

/// The guesses that are answered from an address without recent guesses.
const FRESH: usize = 120;

/// The number of guesses that are answered with 401 before one is rejected with 429.
async fn guesses(
    railbird: &Railbird,
    headers: impl Fn(usize) -> Vec<(&'static str, String)>,
) -> usize {
    for n in 0..100 * FRESH {
        let headers = headers(n);
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let reply = request(railbird.http, "GET", PATH, &headers).await;
        if reply.status != 401 {
            assert_eq!(assert_limited(&reply, GUESSED), 1);
            assert_eq!(rate_limit(&reply), [""; 3]);
            return n;
        }
        assert_eq!(reply.text(), UNAUTHORIZED_BODY);
    }
    panic!("no guess is rejected");
}

#[tokio::test]
async fn guesses_are_limited_and_valid_keys_are_not_affected() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let never_issued = ApiKey::generate("test").unwrap();
    let key = |_| vec![("x-api-key", never_issued.reveal().to_owned())];
    assert!(guesses(&railbird, key).await >= FRESH);
    assert_eq!(railbird.get(PATH).await.status, 200);
    assert_eq!(railbird.get_open("/healthz").await.status, 200);
    assert!(
        guesses(&railbird, |_| Vec::new()).await < FRESH,
        "a missing key counts like a wrong one"
    );
    let path = format!("/ws/live/odds?api_key={}", never_issued.reveal());
    eventually("a handshake is rejected, too", || async {
        guesses(&railbird, key).await;
        Socket::refused(railbird.http, &path).await.status == 429
    })
    .await;
    eventually("a request is answered again", || async {
        railbird.get_open(PATH).await.status == 401
    })
    .await;
    let metrics = railbird.get_admin("/metrics").await.text();
    assert!(
        metrics.contains("railbird_rate_limited_total{limit=\"address\"} "),
        "{metrics}"
    );
}

#[tokio::test]
async fn a_client_cannot_forge_its_address() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let elsewhere = |n| vec![("x-forwarded-for", format!("203.0.113.{}", n % 256))];
    assert!(guesses(&railbird, elsewhere).await >= FRESH);
    assert!(guesses(&railbird, |_| Vec::new()).await < FRESH);
}

#[tokio::test]
async fn behind_a_proxy_guesses_are_counted_by_client_address() {
    let nats = Nats::start();
    let trusted = ["127.0.0.0/8", "10.0.0.0/8"].map(|text| Proxies::parse(text).unwrap());
    let change =
        |config: &mut railbird::app::Config| config.proxies = Proxies::new(trusted.to_vec());
    let railbird = Railbird::start_with(&nats, change).await;
    for (from, same, other) in [
        (
            "203.0.113.9",
            "198.51.100.7, 203.0.113.9, 10.1.2.3",
            "203.0.113.10",
        ),
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::1", "2001:db8:0:2::1"),
        (
            "192.0.2.1",
            "192.0.2.99, 192.0.2.1",
            "192.0.2.1, 192.0.2.99",
        ),
    ] {
        let forwarded = |addresses: &str| {
            let addresses = addresses.to_owned();
            move |_| vec![("x-forwarded-for", addresses.clone())]
        };
        assert!(guesses(&railbird, forwarded(from)).await >= FRESH, "{from}");
        assert!(
            guesses(&railbird, forwarded(same)).await < FRESH,
            "{same} is where {from} is"
        );
        assert!(
            guesses(&railbird, forwarded(other)).await >= FRESH,
            "{other} is not"
        );
    }
}

#[tokio::test]
async fn a_plans_file_is_read_and_an_error_names_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plans.toml");
    let serve = || {
        let mut command = command();
        command.args([
            "serve",
            "--nats",
            "nats://127.0.0.1:1",
            "--http",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
            "--data",
        ]);
        command
            .arg(folder.path().join("data"))
            .arg("--plans")
            .arg(&file);
        let output = command.output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, error) = serve();
    assert_eq!(code, Some(78), "{error}");
    assert!(error.contains("plans.toml cannot be read"), "{error}");
    std::fs::write(&file, plan("default", "requests_per_minute = 0")).unwrap();
    let (code, error) = serve();
    assert_eq!(code, Some(78), "{error}");
    let wrong = "plans.toml: line 7, requests_per_minute: invalid value: integer `0`, expected a nonzero u32";
    assert!(error.contains(wrong), "{error}");

    let nats = Nats::start();
    std::fs::write(&file, plan("default", "requests_per_day = 7")).unwrap();
    let (url, file) = (nats.url_of("railbird"), file.to_string_lossy().into_owned());
    let flags = ["--http", "127.0.0.1:0", "--nats", &url, "--plans", &file];
    let serving = Serving::start_with(&flags, &folder.path().join("data"));
    // A request that is answered with 503 uses up the quota, too.
    eventually("the service is ready", || async {
        request(serving.http, "GET", "/readyz", &[]).await.status == 200
    })
    .await;
    let key = issue_key_on(&nats, "gone").await;
    eventually("the key is valid", || async {
        let reply = request(serving.http, "GET", PATH, &[("x-api-key", &key)]).await;
        reply.status == 200 && rate_limit(&reply)[0] == "7"
    })
    .await;
    let logged = serving.stop().await;
    let warned =
        |line: &&String| line.contains("a plan that is not configured") && line.contains("gone");
    assert_eq!(logged.iter().filter(warned).count(), 1, "{logged:?}");
}

/// `/openapi.json` describes the headers of the responses.
#[tokio::test]
async fn the_headers_match_the_openapi_document() {
    let nats = Nats::start();
    let railbird = start_with_default(&nats, "requests_per_day = 1").await;
    let document = railbird.get_open("/openapi.json").await.json();
    let (allowed, over) = (railbird.get(PATH).await, railbird.get(PATH).await);
    for (reply, extra) in [(&allowed, [].as_slice()), (&over, &["Retry-After"])] {
        let pointer = format!("/paths/~1api~1v1~1meetings/get/responses/{}", reply.status);
        let described = document.pointer(&pointer).unwrap();
        let described = match described["$ref"].as_str() {
            Some(reference) => document.pointer(&reference[1..]).unwrap(),
            None => described,
        };
        let described = &described["headers"];
        for name in [
            "X-RateLimit-Limit",
            "X-RateLimit-Remaining",
            "X-RateLimit-Reset",
        ]
        .iter()
        .chain(extra)
        {
            assert!(
                document
                    .pointer(
                        described[*name]["$ref"]
                            .as_str()
                            .unwrap()
                            .trim_start_matches('#')
                    )
                    .is_some(),
                "{name} of {}",
                reply.status
            );
            assert!(
                reply.header(name).parse::<u32>().is_ok(),
                "{name} of {}",
                reply.status
            );
        }
    }
    let schema = json!({ "$ref": "#/components/schemas/RateLimitExceeded", "components": document["components"] });
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(validator.is_valid(&over.json()), "{}", over.text());
    assert!(!validator.is_valid(&json!({ "error": "not_found", "message": "" })));
}

#[tokio::test]
async fn a_plan_without_live_odds_has_no_odds_or_those_that_rest() {
    let nats = Nats::start();
    let plans = [
        plan("default", "live_odds = true\nconnections = 1"),
        plan("none", ""),
        plan("late", "odds_after = \"1h\""),
        plan("soon", "odds_after = \"2s\""),
    ];
    let railbird = start(&nats, &plans).await;
    let seq = nats
        .publish([card(DAY, "ST", 2, 1), odds("ST", 1, &second(0), &[2.5])])
        .await;
    railbird.until_seq(seq).await;
    let (quoted, unquoted) = (
        format!("/api/v1/odds/{DAY}/1"),
        format!("/api/v1/odds/{DAY}/2"),
    );
    let read = async |plan: &str, path: &str| {
        let key = railbird.issue_key_on(&nats, plan).await;
        request(railbird.http, "GET", path, &[("x-api-key", &key)]).await
    };
    for (plan, path, status) in [
        ("default", &quoted, 200),
        ("none", &quoted, 403),
        ("none", &unquoted, 403),
        ("late", &quoted, 403),
        ("late", &unquoted, 200),
    ] {
        for path in [path.clone(), format!("{path}/history")] {
            let reply = read(plan, &path).await;
            assert_eq!(reply.status, status, "{plan} {path}: {}", reply.text());
            if status == 403 {
                assert_eq!(reply.json()["error"], "live_odds_not_included");
            }
        }
    }
    let reply = read("late", &quoted).await.json();
    let message = "The plan \"late\" does not include live odds; those of a race can be read once they have not changed for 1h";
    assert_eq!(reply["message"], message);
    let paths = ["", "/history", "/sources"].map(|resource| quoted.clone() + resource);
    for path in &paths {
        eventually("the odds have not changed for two seconds", || async {
            read("soon", path).await.status == 200
        })
        .await;
    }
    for path in &paths {
        eventually("a quote of another source counts, too", || async {
            let mut quote = odds("ST", 1, &second(0), &[2.6]);
            quote["source"] = json!("other");
            railbird.until_seq(nats.publish([quote]).await).await;
            read("soon", path).await.status == 403
        })
        .await;
    }
}
