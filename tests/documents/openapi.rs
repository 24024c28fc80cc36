//! `/openapi.json` is true of the service: a walk of all paths gets every status and header that the document has, and
//! no other.

use std::collections::{BTreeSet, HashMap};

use jsonschema::Validator;
use railbird::http::Origins;
use railbird::limits::Network;
use railbird::limits::plans::Plans;
use serde_json::{Value, json};

use crate::http::contract::{example_path, publish_racing};
use crate::support::*;

const PAGE: &str = "https://racing.example";
const OTHER_PAGE: &str = "https://other.example";

/// The path of the key itself, which costs no quota.
const ACCOUNT: &str = "/api/v1/account";
/// The paths whose responses do not end. A HEAD of them does.
const EVENT_STREAMS: [&str; 2] = ["/sse/live/odds", "/sse/live/odds/{race_number}"];

/// The path that answers with a file.
const EXPORTS: &str = "/api/v1/exports/{kind}/{date}/{venue}";

/// The lists of the races of some days, at all venues or one.
const OF_DAYS: [&str; 2] = ["/api/v1/racecards", "/api/v1/results"];

/// The headers of HTTP itself, which OpenAPI leaves to HTTP.
const HEADERS_OF_HTTP: [&str; 5] = [
    "connection",
    "content-length",
    "content-type",
    "date",
    "transfer-encoding",
];

/// The status that no request makes: the service has no known fault.
const FAULT: u16 = 500;

/// What the document has of the responses that were received.
struct Walk {
    document: Value,
    /// Paths with the statuses that were received.
    statuses: BTreeSet<(String, u16)>,
    headers: BTreeSet<String>,
    /// By the text of the schema. Compiling one takes long.
    validators: HashMap<String, Validator>,
}

impl Walk {
    fn follow<'a>(&'a self, part: &'a Value) -> &'a Value {
        match part["$ref"].as_str() {
            Some(reference) => self.document.pointer(&reference[1..]).unwrap(),
            None => part,
        }
    }

    fn is_valid(&mut self, schema: &Value, value: &Value) -> Result<(), String> {
        let components = &self.document["components"];
        let validators = self.validators.entry(schema.to_string());
        let validator = validators.or_insert_with(|| {
            let schema = json!({ "allOf": [schema], "components": components });
            let options = jsonschema::options().should_validate_formats(true);
            options.build(&schema).unwrap()
        });
        let errors = validator.iter_errors(value);
        let errors: Vec<_> = errors
            .map(|error| format!("{error} at {}", error.instance_path()))
            .collect();
        if errors.is_empty() {
            Ok(())
        } else {
            Err(format!("{errors:?} in {value}"))
        }
    }

    /// Checks a reply by the description of its status: every header, and the body.
    fn check(&mut self, path: &str, status: u16, reply: &Reply) {
        let what = format!("{path}: {}", reply.status);
        assert_eq!(reply.status, status, "{what}: {}", reply.text());
        let responses = &self.document["paths"][path]["get"]["responses"];
        let described = self.follow(&responses[status.to_string()]).clone();
        assert!(described.is_object(), "{what} is not described");
        let headers = described["headers"].as_object();
        for (name, header) in headers.into_iter().flatten() {
            let is_sent = reply.headers.contains_key(name);
            let is_required = self.follow(header)["required"] == true;
            assert!(is_sent || !is_required, "{what} has no {name}");
        }
        for (name, value) in &reply.headers {
            let name = name.as_str();
            if HEADERS_OF_HTTP.contains(&name) {
                continue;
            }
            let mut headers = headers.into_iter().flatten();
            let header = headers.find(|(described, _)| described.eq_ignore_ascii_case(name));
            let (_, header) = header.unwrap_or_else(|| panic!("{what} does not describe {name}"));
            let schema = &self.follow(header)["schema"].clone();
            let text = value.to_str().unwrap();
            let value = match self.follow(schema)["type"].as_str() {
                Some("integer") => json!(text.parse::<u64>().unwrap()),
                _ => json!(text),
            };
            let valid = self.is_valid(schema, &value);
            assert!(valid.is_ok(), "{what}: {name}: {valid:?}");
        }
        let content = &described["content"]["application/json"];
        if EVENT_STREAMS.contains(&path) && status == 200 {
            assert_eq!(reply.header("content-type"), "text/event-stream");
            assert!(described["content"]["text/event-stream"].is_object());
        }
        if path == EXPORTS && status == 200 {
            assert!(described["content"][reply.header("content-type")].is_object());
        } else if !reply.body.is_empty() && reply.header("content-encoding").is_empty() {
            assert_eq!(reply.header("content-type"), "application/json", "{what}");
            let valid = self.is_valid(&content["schema"], &reply.json());
            assert!(valid.is_ok(), "{what}: {valid:?}");
        }
        let headers = reply.headers.keys().map(|name| name.as_str().to_owned());
        self.headers.extend(headers);
        self.statuses.insert((path.to_owned(), status));
    }

    /// Checks that each status and each header of the document was received.
    fn check_all_seen(&self, paths: &[String]) {
        for path in paths {
            let operation = &self.document["paths"][path]["get"];
            for (status, response) in operation["responses"].as_object().unwrap() {
                let status: u16 = status.parse().unwrap();
                let is_seen = self.statuses.contains(&(path.clone(), status));
                assert!(is_seen || status == FAULT, "{path} never has {status}");
                let headers = self.follow(response)["headers"].as_object();
                for (name, _) in headers.into_iter().flatten() {
                    let name = name.to_lowercase();
                    assert!(self.headers.contains(&name), "nothing has {name}");
                }
            }
        }
    }
}

/// A service with racing and origins, on whose plans a key gets every status.
async fn service() -> (Nats, Railbird) {
    let nats = Nats::start();
    let seq = publish_racing(&nats).await;
    let railbird = Railbird::start_with(&nats, |config| {
        let plans = [
            plan(
                "default",
                "requests_per_minute = 6000\nlive_odds = true\nconnections = 10\nexports = true",
            ),
            plan("without-odds", ""),
            plan("small", "requests_per_day = 1"),
        ];
        config.plans = Plans::parse(&plans.concat()).unwrap();
        config.origins = Origins::new(vec![PAGE.to_owned()]);
    })
    .await;
    railbird.until_seq(seq).await;
    (nats, railbird)
}

/// Requests for one path that do not depend on its parameters.
async fn walk_path(walk: &mut Walk, railbird: &Railbird, path: &str, url: &str) {
    let key = ("x-api-key", railbird.key.as_str());
    let method = if EVENT_STREAMS.contains(&path) {
        "HEAD"
    } else {
        "GET"
    };
    for header in [
        ("accept", "*/*"),
        ("accept-encoding", "gzip"),
        ("origin", PAGE),
        ("x-request-id", "mine"),
    ] {
        let reply = request(railbird.http, method, url, &[key, header]).await;
        walk.check(path, 200, &reply);
    }
    for method in ["POST", "DELETE"] {
        let reply = request(railbird.http, method, url, &[key]).await;
        walk.check(path, 405, &reply);
    }
    let head = request(railbird.http, "HEAD", url, &[key]).await;
    walk.check(path, 200, &head);
    let large = [("content-length", "100000")];
    walk.check(path, 413, &railbird.get_with(url, &large).await);
    let long = format!("{url}?{}", "x".repeat(9_000));
    walk.check(path, 414, &railbird.get(&long).await);
    let cookie = "x".repeat(20_000);
    let head = railbird.get_with(url, &[("cookie", &cookie)]).await;
    walk.check(path, 431, &head);
}

fn is_document(path: &str) -> bool {
    path.starts_with("/schemas/") || ["/openapi.json", "/asyncapi.json"].contains(&path)
}

/// The request of a page that may not send a key.
async fn walk_foreign_page(walk: &mut Walk, railbird: &Railbird, path: &str, url: &str) {
    let origin = [("origin", OTHER_PAGE)];
    walk.check(path, 403, &railbird.get_with(url, &origin).await);
}

/// Requests with values of path parameters that are invalid, or that nothing has.
async fn walk_parameters(walk: &mut Walk, railbird: &Railbird, path: &str) {
    for (parameter, invalid, unknown) in [
        ("{date}", "2026-13-01", "1999-01-01"),
        ("{race_number}", "0", "99"),
        ("{horse_no}", "!!", "NOBODY"),
        ("{other_horse_no}", "!!", "NOBODY"),
        ("{key}", "%FF", "nobody"),
        ("{file}", "%FF", "none.json"),
        ("{venue}", "!!", "XX"),
    ] {
        if path.contains(parameter) {
            let url = |value: &str| example_path(&path.replace(parameter, value));
            walk.check(path, 400, &railbird.get(&url(invalid)).await);
            // A stream waits for a race that is not known yet.
            if !EVENT_STREAMS.contains(&path) {
                walk.check(path, 404, &railbird.get(&url(unknown)).await);
            }
        }
    }
}

/// Requests for a path of the API.
async fn walk_api(walk: &mut Walk, railbird: &Railbird, path: &str, url: &str, small: &str) {
    let responses = &walk.document["paths"][path]["get"]["responses"];
    if responses["410"].is_object() {
        let before_all = format!("{url}?as_of=1990-01-01T00:00:00Z");
        walk.check(path, 410, &railbird.get(&before_all).await);
    }
    for (status, header) in [
        (304, ("if-none-match", "*")),
        (400, ("railbird-min-seq", "soon")),
        (406, ("accept", "text/html")),
    ] {
        let reply = railbird.get_with(url, &[header, ("origin", PAGE)]).await;
        walk.check(path, status, &reply);
    }
    walk_foreign_page(walk, railbird, path, url).await;
    walk.check(path, 401, &railbird.get_open(url).await);
    let limited = request(railbird.http, "GET", url, &[("x-api-key", small)]).await;
    walk.check(path, 429, &limited);
}

/// Requests for the account or the live channel, also of a service without keys.
async fn walk_not_of_views(walk: &mut Walk, railbird: &Railbird, path: &str) {
    let url = &example_path(path);
    walk.check(path, 401, &railbird.get_open(url).await);
    let mistyped = format!("{url}?plan=free");
    walk.check(path, 400, &railbird.get(&mistyped).await);
    walk_foreign_page(walk, railbird, path, url).await;
    let data = tempfile::tempdir().unwrap();
    let unready = Railbird::start_unready("nats://127.0.0.1:1", data.path()).await;
    let headers = [("x-api-key", railbird.key.as_str())];
    let unknown = request(unready.http, "GET", url, &headers).await;
    walk.check(path, 503, &unknown);
    let mut limited = unready.get_open(url).await;
    while limited.status == 401 {
        limited = unready.get_open(url).await;
    }
    walk.check(path, 429, &limited);
}

/// The paths without a key, once the network has used them too much.
async fn walk_limited(walk: &mut Walk, railbird: &Railbird, paths: &[String]) {
    let network = Network::from(railbird.http.ip()).customer();
    railbird.app.open_limiter.charge(&network, u32::MAX);
    for path in paths {
        if is_document(path) || path == "/status.json" {
            let limited = railbird.get_open(path).await;
            walk.check(path, 429, &limited);
        }
    }
}

/// Checks that the bounds of parameters are those of the service.
async fn check_bounds(walk: &mut Walk, railbird: &Railbird) {
    let schema = |name: &str| walk.document["components"]["parameters"][name]["schema"].clone();
    let [min_seq, after, fresh] = ["min_seq", "after_row", "fresh"].map(schema);
    let history = format!("/api/v1/odds/{DAY}/2/history");
    assert_eq!(
        (&min_seq["maximum"], &after["maximum"]),
        (&json!(u64::MAX), &json!(u64::MAX))
    );
    for (number, is_valid) in [
        ("18446744073709551615", true),
        ("18446744073709551616", false),
    ] {
        let status = railbird
            .get(&format!("{history}?after={number}"))
            .await
            .status;
        assert_eq!(status == 400, !is_valid, "{number}");
    }
    let min_seq = [("railbird-min-seq", "18446744073709551616")];
    assert_eq!(railbird.get_with(&history, &min_seq).await.status, 400);
    for (age, is_valid) in [
        ("0ms", true),
        ("10s", true),
        ("999999h", true),
        ("10", false),
        ("-1s", false),
    ] {
        assert_eq!(
            walk.is_valid(&fresh, &json!(age)).is_ok(),
            is_valid,
            "{age}"
        );
        let status = railbird
            .get_open(&format!("/readyz?fresh={age}"))
            .await
            .status;
        assert_eq!(status == 400, !is_valid, "{age}");
    }
}

#[test]
fn the_readme_has_every_path() {
    let readme = include_str!("../../README.md");
    let document = railbird::http::openapi();
    let paths = document["paths"].as_object().unwrap().keys();
    let live = ["/ws/live/odds", "/ws/live/odds/{race_number}"];
    let live = live.map(str::to_owned);
    // `today` is a date.
    let paths = paths.filter(|path| !path.contains("/today")).chain(&live);
    let missing: Vec<_> = paths
        .filter(|path| !readme.contains(&format!("`{path}`")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[tokio::test]
async fn every_status_and_header_of_the_service_is_described_and_no_other() {
    let (nats, railbird) = service().await;
    let mut walk = Walk {
        document: railbird.get_open("/openapi.json").await.json(),
        statuses: BTreeSet::new(),
        headers: BTreeSet::new(),
        validators: HashMap::new(),
    };
    let without_odds = railbird.issue_key_on(&nats, "without-odds").await;
    let small = railbird.issue_key_on(&nats, "small").await;
    let used_up = [("x-api-key", small.as_str())];
    request(railbird.http, "GET", "/api/v1/meetings", &used_up).await;
    let paths = walk.document["paths"].as_object().unwrap().keys();
    let paths: Vec<String> = paths.cloned().collect();
    let is_of_views = |path: &&String| path.starts_with("/api/") && *path != ACCOUNT;
    let of_views: BTreeSet<&String> = paths.iter().filter(is_of_views).collect();
    let early = of_views.iter();
    let early = early.map(async |path| {
        let future = [("railbird-min-seq", "18446744073709551615")];
        (path, railbird.get_with(&example_path(path), &future).await)
    });
    for (path, reply) in futures::future::join_all(early).await {
        walk.check(path, 503, &reply);
    }
    for path in &paths {
        let url = example_path(path).replace("{file}", "racing.odds.quoted.v1.json");
        walk_path(&mut walk, &railbird, path, &url).await;
        if of_views.contains(path) {
            walk_api(&mut walk, &railbird, path, &url, &small).await;
        }
        if is_document(path) {
            let kept = railbird.get_with(&url, &[("if-none-match", "*")]).await;
            walk.check(path, 304, &kept);
        }
        if path.contains("/odds") || path == EXPORTS {
            let key = [("x-api-key", without_odds.as_str())];
            walk.check(path, 403, &request(railbird.http, "GET", &url, &key).await);
        }
        walk_parameters(&mut walk, &railbird, path).await;
        let has_venue = path.contains("/today") || OF_DAYS.contains(&path.as_str());
        if has_venue || path == EVENT_STREAMS[1] {
            let elsewhere = format!("{url}?venue=NOWHERE");
            walk.check(path, 404, &railbird.get(&elsewhere).await);
        }
    }
    for path in [&[ACCOUNT], &EVENT_STREAMS[..]].concat() {
        walk_not_of_views(&mut walk, &railbird, path).await;
    }
    check_bounds(&mut walk, &railbird).await;
    for path in ["/api/v1/horses", "/api/v1/meetings"]
        .iter()
        .chain(&OF_DAYS)
    {
        let page = railbird.get(&format!("{path}?limit=1")).await;
        walk.check(path, 200, &page);
    }
    for (status, url) in [(400, "/readyz?fresh=soon"), (503, "/readyz?fresh=0s")] {
        walk.check("/readyz", status, &railbird.get_open(url).await);
    }
    walk_limited(&mut walk, &railbird, &paths).await;
    walk.check_all_seen(&paths);
}
