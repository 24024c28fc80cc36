//! The status page and its JSON: what they say, what they must not reveal, and what they cost.

use serde_json::{Value, json};

use crate::support::*;

async fn status(railbird: &Railbird) -> Value {
    let reply = railbird.get_open("/status.json").await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

/// The state of a part.
fn state<'a>(status: &'a Value, name: &str) -> &'a str {
    let components = status["components"].as_array().unwrap();
    let component = components.iter().find(|c| c["name"] == name).unwrap();
    component["state"].as_str().unwrap()
}

/// The latest incident of a kind.
pub(super) fn incident<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    let mut incidents = status["incidents"].as_array().unwrap().iter();
    incidents.find(|incident| incident["kind"] == kind)
}

/// The sum of a count over the last hour.
fn sum(status: &Value, count: &str) -> u64 {
    let minutes = status["minutes"].as_array().unwrap();
    minutes.iter().map(|m| m[count].as_u64().unwrap()).sum()
}

/// Waits until the status fulfils a condition, and returns it.
async fn until(railbird: &Railbird, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    eventually(what, || async { holds(&status(railbird).await) }).await;
    status(railbird).await
}

/// The status as of now or later.
async fn status_since_now(railbird: &Railbird) -> Value {
    let now = jiff::Timestamp::now();
    until(railbird, "there is another status", |status| {
        let time: jiff::Timestamp = status["time"].as_str().unwrap().parse().unwrap();
        time >= now
    })
    .await
}

/// Checks the JSON against its schema in the OpenAPI document.
async fn assert_matches_schema(railbird: &Railbird, body: &Value) {
    let document = railbird.get_open("/openapi.json").await.json();
    let schema = "/paths/~1status.json/get/responses/200/content/application~1json/schema";
    let mut schema = document.pointer(schema).unwrap().clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(body)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:?} in {body}");
}

#[tokio::test]
async fn the_status_has_what_the_service_knows_of_itself() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let seq = nats
        .publish([
            odds("ST", 1, &second(0), &[2.0]),
            odds("ST", 2, &second(1), &[3.0]),
        ])
        .await;
    nats.publish_raw("racing.odds.2026-11-21.ST.1", b"no event")
        .await;
    let seq = seq + 1;
    railbird.until_published(seq).await;
    let (_socket, _) = railbird.live("").await;

    let status = until(&railbird, "the status has the last event", |status| {
        status["log"]["seq"] == seq && status["sockets"] == 1
    })
    .await;
    assert_eq!(
        (&status["state"], &status["text"], &status["incidents"]),
        (
            &json!("operational"),
            &json!("Everything works"),
            &json!([])
        )
    );
    for (name, expected) in [
        ("api", "operational"),
        ("live_odds", "operational"),
        ("feeders", "operational"),
        ("mail", "off"),
    ] {
        assert_eq!(state(&status, name), expected, "{name}");
    }
    let digest = railbird.get_admin("/digest").await.json();
    assert_eq!(status["views"]["digest"], digest["digest"]);
    assert_eq!(status["views"]["schema"], digest["schema"]);
    let epoch = railbird.app.health.feed.position().epoch;
    assert_eq!(status["log"]["epoch"], *epoch);
    assert_eq!(status["feed"]["state"], "live");
    assert_eq!(status["open_races"], 2);
    assert_eq!(
        status["rejections"],
        json!([{ "code": "not_cloud_event", "count": 1 }])
    );
    assert_eq!(sum(&status, "events"), seq - 1, "one was rejected");
    assert_matches_schema(&railbird, &status).await;
}

#[tokio::test]
async fn responses_are_counted_by_what_became_of_them() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    // The service was not ready at first, and its probes got 503.
    let before = status_since_now(&railbird).await;
    for _ in 0..7 {
        assert_eq!(railbird.get("/api/v1/horses/H9").await.status, 404);
    }
    let min_seq = [("railbird-min-seq", "1000000")];
    let late = railbird.get_with("/api/v1/meetings", &min_seq).await;
    assert_eq!(late.status, 503);
    let requests = sum(&before, "requests");
    let (refused, errors) = (sum(&before, "refused"), sum(&before, "errors"));
    let after = status_since_now(&railbird).await;
    assert_eq!(sum(&after, "errors"), errors + 1);
    assert_eq!(sum(&after, "refused"), refused + 7);
    assert!(sum(&after, "requests") >= requests + 8, "{after}");
}

#[tokio::test]
async fn a_frozen_log_is_an_incident_until_it_is_back() {
    let nats = Nats::start();
    nats.publish([registered("H1", "HORSE 1")]).await;
    let railbird = Railbird::start(&nats).await;
    until(&railbird, "it works", |s| s["state"] == "operational").await;

    nats.freeze();
    let stale = until(&railbird, "it is stale", |s| s["feed"]["state"] == "stale").await;
    assert_eq!(state(&stale, "api"), "degraded");
    assert!(incident(&stale, "stale").unwrap().get("ended_at").is_none());
    assert_matches_schema(&railbird, &stale).await;
    let page = railbird.get_open("/status").await.text();
    assert!(page.contains("<dd>stale</dd>"), "{page}");
    assert!(page.contains("Stale: possibly old data"), "{page}");
    let down = until(&railbird, "it is down", |s| incident(s, "down").is_some()).await;
    assert_eq!(
        (state(&down, "api"), state(&down, "live_odds")),
        ("degraded", "down")
    );
    assert!(incident(&down, "stale").unwrap()["ended_at"].is_string());

    nats.thaw();
    let back = until(&railbird, "it works again", |s| s["state"] == "operational").await;
    let down = incident(&back, "down").unwrap();
    assert!(
        down["started_at"].as_str() < down["ended_at"].as_str(),
        "{down}"
    );
    assert_matches_schema(&railbird, &back).await;
}

#[tokio::test]
async fn another_history_and_a_rebuild_are_incidents() {
    let mut nats = Nats::start();
    nats.publish([registered("H1", "HORSE 1")]).await;
    let railbird = Railbird::start(&nats).await;
    railbird.until_seq(1).await;
    let rebuild = request(railbird.admin, "POST", "/rebuild", &[]).await;
    assert_eq!(rebuild.status, 202);
    until(&railbird, "the rebuild is listed", |s| {
        incident(s, "rebuild").is_some_and(|rebuild| rebuild["ended_at"].is_string())
    })
    .await;

    nats.kill();
    nats.lose("RACING");
    nats.start_again();
    let diverged = until(&railbird, "the loss is listed", |s| {
        incident(s, "diverged").is_some()
    })
    .await;
    assert_eq!(
        (state(&diverged, "api"), state(&diverged, "feeders")),
        ("degraded", "degraded")
    );
    assert_matches_schema(&railbird, &diverged).await;
}

/// What the status must not reveal is put wherever it could come from: an address, a key, a path, a payload, a reason.
#[tokio::test]
async fn the_status_reveals_nothing_that_is_private() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let subject = "racing.odds.2026-11-21.ST.1";
    let seq = nats
        .publish_raw(subject, b"{\"source\":\"canary-feeder\"}")
        .await;
    railbird.until_seq(seq).await;
    let canary = "/canary/path?api_key=rb_canary";
    railbird
        .get_with(canary, &[("user-agent", "canary-agent")])
        .await;
    let (_socket, _) = railbird.live("").await;
    until(&railbird, "the canaries are known", |s| {
        s["rejections"] != json!([]) && s["sockets"] == 1
    })
    .await;
    let key_id = railbird.key.split('_').nth(2).unwrap().to_owned();
    let ports = [nats.address().port(), railbird.admin.port()].map(|port| format!(":{port}"));
    let temp = std::env::temp_dir().display().to_string();
    for path in ["/status", "/status.json"] {
        let reply = railbird.get_open(path).await;
        assert_eq!(reply.status, 200);
        let headers = format!("{:?}", reply.headers);
        let text = reply.text();
        for secret in [
            &*railbird.key,
            &*key_id,
            "canary",
            "127.0.0.1",
            "views/",
            &*temp,
            &*ports[0],
            &*ports[1],
        ] {
            assert!(!text.contains(secret), "{path} has {secret}: {text}");
            assert!(!headers.contains(secret), "{path} has {secret}: {headers}");
        }
    }
}

#[tokio::test]
async fn the_status_is_made_once_a_second_however_often_it_is_requested() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let begun = std::time::Instant::now();
    let mut times = Vec::new();
    for _ in 0..200 {
        times.push(status(&railbird).await["time"].as_str().unwrap().to_owned());
    }
    times.dedup();
    let samples = begun.elapsed().as_secs() as usize + 2;
    assert!(
        times.len() <= samples,
        "{} in {:?}",
        times.len(),
        begun.elapsed()
    );
    for path in ["/status", "/status.json"] {
        let reply = railbird.get_open(path).await;
        assert_eq!(reply.header("cache-control"), "max-age=1", "{path}");
        let head = request(railbird.http, "HEAD", path, &[]).await;
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
    }
    let policy = railbird.get_open("/status").await;
    let policy = policy.header("content-security-policy");
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"),
        "{policy}"
    );
}

#[tokio::test]
async fn the_page_is_true_in_a_browser_with_and_without_scripts() {
    let nats = Nats::start();
    nats.publish([card(DAY, "ST", 1, 4)]).await;
    let railbird = Railbird::start(&nats).await;
    railbird.until_seq(1).await;
    let kept = std::env::var("RAILBIRD_SCREENSHOTS").ok();
    let temp = tempfile::tempdir().unwrap();
    let folder = kept.as_deref().unwrap_or(temp.path().to_str().unwrap());
    let mut browser = BrowserScript::start("status.mjs", railbird.http, &[folder]);
    for step in [
        "withoutScript",
        "ticks",
        "paused",
        "offline",
        "stale",
        "live",
    ] {
        match step {
            "stale" => nats.freeze(),
            "live" => nats.thaw(),
            _ => {}
        }
        if ["stale", "live"].contains(&step) {
            browser.send("continue").await;
        }
        assert_eq!(browser.done().await, json!({ step: true }));
    }
    browser.finished().await;
}
