//! `/metrics`: its form, the list in docs/metrics.md, and values that are right at any time.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::*;

/// The metrics of a service, as Prometheus reads them.
#[derive(Debug)]
struct Scrape {
    text: String,
    /// The value of each series, by its name with its labels as they are in the text.
    series: BTreeMap<String, f64>,
}

impl Scrape {
    async fn of(admin: SocketAddr) -> Self {
        let reply = request(admin, "GET", "/metrics", &[]).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let text = reply.text();
        let lines = text.lines().filter(|line| !line.is_empty());
        let samples = lines.filter(|line| !line.starts_with('#')).map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            (series.to_owned(), value.parse().unwrap())
        });
        let series: BTreeMap<String, f64> = samples.collect();
        Self { text, series }
    }

    fn get(&self, series: &str) -> f64 {
        let value = self.series.get(series).copied();
        value.unwrap_or_else(|| panic!("no {series} in {}", self.text))
    }

    /// The values of a label, in all series of a metric.
    fn values(&self, metric: &str, label: &str) -> BTreeSet<&str> {
        let prefix = format!("{metric}{{");
        let series = self.series.keys().filter(|s| s.starts_with(&prefix));
        let values = series.map(|series| {
            let (_, rest) = series.split_once(&format!("{label}=\"")).unwrap();
            rest.split('"').next().unwrap()
        });
        values.collect()
    }

    /// The metrics by name, each with its type and its labels without that of buckets.
    fn metrics(&self) -> BTreeMap<String, (&str, BTreeSet<String>)> {
        let types = self.text.lines().filter_map(|line| {
            let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
            Some((name.to_owned(), (kind, BTreeSet::new())))
        });
        let mut metrics: BTreeMap<String, (&str, BTreeSet<String>)> = types.collect();
        for series in self.series.keys() {
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let name = ["_bucket", "_sum", "_count"]
                .iter()
                .filter_map(|suffix| name.strip_suffix(suffix))
                .find(|name| metrics.get(*name).is_some_and(|m| m.0 == "histogram"))
                .unwrap_or(name);
            let (_, known) = metrics
                .get_mut(name)
                .unwrap_or_else(|| panic!("no TYPE of {name}"));
            let labels = labels
                .split("\",")
                .filter_map(|label| label.split_once('='));
            known.extend(
                labels
                    .map(|(label, _)| label.to_owned())
                    .filter(|label| label != "le"),
            );
        }
        metrics
    }
}

/// The limit of the log of [`everything`].
const LOG_BYTES_MAX: i64 = 1 << 30;

/// A service with everything that has metrics: TLS, and a log with a limit.
async fn everything() -> (Nats, tempfile::TempDir, Serving) {
    let (nats, folder) = (Nats::start(), tempfile::tempdir().unwrap());
    let limited = async_nats::jetstream::stream::Config {
        max_bytes: LOG_BYTES_MAX,
        ..Default::default()
    };
    nats.create_log(limited).await;
    let url = nats.url();
    let tls = Authority::new().issue().write(folder.path()).flags();
    let mut flags = vec!["--http", "127.0.0.1:0", "--nats", &url];
    flags.extend(tls.iter().map(String::as_str));
    let serving = Serving::start_with(&flags, &folder.path().join("data"));
    serving.until_ready().await;
    nats.publish([odds("ST", 1, &second(0), &[2.0])]).await;
    nats.publish_raw("racing.x", b"no event").await;
    eventually("the sizes of the streams are known", || async {
        nats.show_alive("tote").await;
        let scrape = Scrape::of(serving.admin).await;
        let known = scrape.values("railbird_log_bytes", "stream");
        let rejected = scrape.values("railbird_source_rejections_total", "source");
        let alive = scrape.values("railbird_source_alive", "source");
        known.contains("RACING")
            && known.contains("ACCOUNTS")
            && rejected.contains("(none)")
            && alive.contains("tote")
    })
    .await;
    (nats, folder, serving)
}

/// The body of `/readyz`, as the admin address has it.
async fn readiness(admin: SocketAddr) -> Value {
    request(admin, "GET", "/status", &[]).await.json()
}

#[tokio::test]
async fn promtool_finds_no_fault() {
    let Some(promtool) = program("promtool") else {
        return;
    };
    let (_nats, _folder, serving) = everything().await;
    let scrape = Scrape::of(serving.admin).await;
    let mut check = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = check.stdin.take().unwrap();
    stdin.write_all(scrape.text.as_bytes()).unwrap();
    drop(stdin);
    let output = check.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && said.is_empty(),
        "{said}\n{}",
        scrape.text
    );
}

/// The metrics in docs/metrics.md, with their labels.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");
    let text = std::fs::read_to_string(path).unwrap();
    let items = text.lines().filter_map(|line| line.strip_prefix("- `"));
    let names = items.map(|item| item.split('`').next().unwrap());
    names
        .map(|name| {
            let (name, labels) = name.split_once('{').unwrap_or((name, ""));
            let labels = labels.trim_end_matches('}').split(',');
            let labels = labels.filter(|label| !label.is_empty());
            (name.to_owned(), labels.map(str::to_owned).collect())
        })
        .collect()
}

#[tokio::test]
async fn the_documented_metrics_are_those_of_a_service() {
    let (_nats, _folder, serving) = everything().await;
    let scrape = Scrape::of(serving.admin).await;
    let metrics = scrape.metrics();
    let exposed: BTreeMap<String, BTreeSet<String>> = metrics
        .iter()
        .map(|(name, (_, labels))| (name.clone(), labels.clone()))
        .collect();
    assert_eq!(documented(), exposed);
    for name in metrics.keys() {
        let help = format!("# HELP {name} ");
        assert!(scrape.text.contains(&help), "{name} has no help text");
    }
}

/// The labels whose values are known, with these.
const KNOWN: [(&str, &str, &str); 10] = [
    ("railbird_log_holes_total", "cause", "deleted lost"),
    ("railbird_log_holes_total", "stream", "RACING ACCOUNTS"),
    ("railbird_log_resets_total", "stream", "RACING ACCOUNTS"),
    (
        "railbird_unauthorized_total",
        "reason",
        "missing malformed not_valid",
    ),
    ("railbird_rate_limited_total", "limit", "minute day address"),
    ("railbird_ws_resumed_total", "recovered", "true false"),
    (
        "railbird_ws_closed_total",
        "code",
        "1001 1002 1003 1007 1008 1009 1013 4401 4403 4408 4429",
    ),
    (
        "railbird_sign_ups_total",
        "outcome",
        "taken invalid limited bot closed failed",
    ),
    (
        "railbird_mails_failed_total",
        "reason",
        "unreachable tls login timeout cut_off mailbox_deferred deferred refused not_written",
    ),
    ("railbird_probes_total", "route", "/healthz /readyz"),
];

#[tokio::test]
async fn known_values_of_labels_count_from_zero() {
    let (nats, folder) = (Nats::start(), tempfile::tempdir().unwrap());
    let serving = Serving::start(&nats, folder.path());
    serving.until_ready().await;
    let scrape = Scrape::of(serving.admin).await;
    for (metric, label, expected) in KNOWN {
        let expected = BTreeSet::from_iter(expected.split(' '));
        assert_eq!(scrape.values(metric, label), expected, "{metric}");
    }
    let rejected = scrape.values("railbird_events_rejected_total", "reason");
    assert_eq!(
        rejected,
        BTreeSet::from_iter(events::DecodeError::CODES.iter().copied())
    );
    let metrics = scrape.metrics();
    for (series, value) in &scrape.series {
        let name = series.split('{').next().unwrap();
        let counts = metrics.get(name).is_some_and(|of| of.0 == "counter");
        let has_begun = name == "process_cpu_seconds_total";
        assert!(!counts || has_begun || *value == 0.0, "{series} {value}");
    }
}

#[tokio::test]
async fn rejections_of_each_code_are_counted() {
    let (nats, folder) = (Nats::start(), tempfile::tempdir().unwrap());
    let serving = Serving::start(&nats, folder.path());
    serving.until_ready().await;
    let rejected = |code: &str| format!("railbird_events_rejected_total{{reason=\"{code}\"}}");
    nats.publish_raw("racing.odds.2026-11-21.ST.1", b"no event")
        .await;
    let seq = nats.publish_raw("racing.odds.2026-11-21.ST.1", b"{}").await;
    eventually("both are folded", || async {
        readiness(serving.admin).await["log"]["seq"] == seq
    })
    .await;
    let scrape = Scrape::of(serving.admin).await;
    for code in events::DecodeError::CODES {
        let expected = if *code == "not_cloud_event" { 2.0 } else { 0.0 };
        assert_eq!(scrape.get(&rejected(code)), expected, "{code}");
    }
}

const HORSE: &str = "/api/v1/horses/{horse_no}";

/// A service without traffic, whose views have the horse H1, and a key.
async fn with_a_horse(nats: &Nats, folder: &std::path::Path) -> (Serving, String) {
    let key = issue_key(nats).await;
    let seq = nats.publish([registered("H1", "HORSE 1")]).await;
    let serving = Serving::start(nats, folder);
    serving.until_ready().await;
    assert_eq!(readiness(serving.admin).await["log"]["seq"], seq);
    (serving, key)
}

#[tokio::test]
async fn the_metrics_tell_what_each_source_sent_within_a_bound() {
    let (nats, folder) = (Nats::start(), tempfile::tempdir().unwrap());
    let serving = Serving::start(&nats, folder.path());
    serving.until_ready().await;
    let mut invalid = odds("HV", 1, &second(0), &[2.0]);
    invalid["data"]["race_number"] = 0.into();
    for n in 0..70 {
        invalid["source"] = format!("feeder-{n}").into();
        invalid["id"] = format!("{n}").into();
        let payload = invalid.to_string();
        nats.publish_raw("racing.odds.2026-10-03.HV.1", payload.as_bytes())
            .await;
    }
    let seq = nats.publish([odds("ST", 1, &second(1), &[2.0])]).await;
    eventually("all are folded", || async {
        readiness(serving.admin).await["log"]["seq"] == seq
    })
    .await;
    let scrape = Scrape::of(serving.admin).await;
    let rejected = |source: &str| {
        scrape.get(&format!(
            "railbird_source_rejections_total{{source=\"{source}\"}}"
        ))
    };
    assert_eq!(
        (
            rejected("feeder-0"),
            rejected("feeder-63"),
            rejected("(other)")
        ),
        (1.0, 1.0, 6.0)
    );
    let quoted = "railbird_source_quoted_timestamp_seconds{source=\"(other)\",venue=\"ST\"}";
    let ago = jiff::Timestamp::now().as_second() as f64 - scrape.get(quoted);
    assert!((-5.0..PATIENCE.as_secs_f64()).contains(&ago), "{ago}");
}

#[tokio::test]
async fn requests_are_counted_by_route_and_probes_apart() {
    let (nats, folder) = (Nats::start(), tempfile::tempdir().unwrap());
    let (serving, key) = with_a_horse(&nats, folder.path()).await;
    for (method, path, status) in [
        ("GET", "/api/v1/horses/H1", 200),
        ("GET", "/api/v1/horses/H2", 404),
        ("GET", "/api/v1/horses/H4", 404),
        ("HEAD", "/api/v1/horses/H1", 200),
        ("DELETE", "/api/v1/horses/H1", 405),
        ("BREW", "/api/v1/horses/H1", 405),
        ("GET", "/docs/operating", 200),
        ("GET", "/no/such/path", 404),
        ("GET", "/another", 404),
        ("GET", "/api/v1/another", 404),
        ("GET", "/healthz", 200),
        ("GET", "/readyz", 200),
        ("GET", "/readyz?fresh=0s", 503),
    ] {
        let reply = request(serving.http, method, path, &[("x-api-key", &key)]).await;
        assert_eq!(reply.status, status, "{method} {path}");
    }
    let reply = request(serving.http, "GET", "/api/v1/horses/H1", &[]).await;
    assert_eq!(reply.status, 401);

    let scrape = Scrape::of(serving.admin).await;
    for (route, method, status, count) in [
        (HORSE, "GET", 200, 1.0),
        (HORSE, "GET", 404, 2.0),
        (HORSE, "GET", 401, 1.0),
        (HORSE, "GET", 500, 0.0),
        (HORSE, "HEAD", 200, 1.0),
        (HORSE, "other", 405, 2.0),
        ("/docs/{*path}", "GET", 200, 1.0),
        ("other", "GET", 404, 3.0),
    ] {
        let labels = format!("route=\"{route}\",method=\"{method}\",status=\"{status}\"");
        let series = format!("railbird_http_requests_total{{{labels}}}");
        assert_eq!(scrape.get(&series), count, "{series}");
    }
    for (route, status) in [("/healthz", 200), ("/readyz", 200), ("/readyz", 503)] {
        let labels = format!("route=\"{route}\",status=\"{status}\"");
        let series = format!("railbird_probes_total{{{labels}}}");
        assert_eq!(scrape.get(&series), 1.0, "{series}");
    }
    let routes = scrape.values("railbird_http_requests_total", "route");
    assert!(!routes.contains("/readyz") && !routes.contains("/healthz"));
}

#[tokio::test]
async fn requests_are_timed_by_route_without_probes() {
    let (nats, folder) = (Nats::start(), tempfile::tempdir().unwrap());
    let (serving, key) = with_a_horse(&nats, folder.path()).await;
    for path in ["/api/v1/horses/H1", "/api/v1/horses/H2", "/readyz"] {
        request(serving.http, "GET", path, &[("x-api-key", &key)]).await;
    }
    let scrape = Scrape::of(serving.admin).await;
    let durations = "railbird_http_request_duration_seconds";
    assert_eq!(
        scrape.values(&format!("{durations}_count"), "route"),
        scrape.values("railbird_http_requests_total", "route"),
    );
    let timed = |part: &str, bucket: &str| {
        scrape.get(&format!("{durations}_{part}{{route=\"{HORSE}\"{bucket}}}"))
    };
    assert_eq!(timed("count", ""), 2.0);
    assert_eq!(timed("bucket", ",le=\"+Inf\""), 2.0);
    let sum = timed("sum", "");
    assert!(sum > 0.0 && sum < PATIENCE.as_secs_f64(), "{sum}");
}

#[tokio::test]
async fn the_metrics_are_right_while_nats_is_away() {
    let (mut nats, folder) = (Nats::start(), tempfile::tempdir().unwrap());
    let key = issue_key(&nats).await;
    nats.publish([registered("H1", "HORSE 1")]).await;
    let serving = Serving::start(&nats, folder.path());
    serving.until_ready().await;
    let before = Scrape::of(serving.admin).await;
    let recorded = before.get("railbird_last_event_timestamp_seconds");
    let now = jiff::Timestamp::now().as_second() as f64;
    assert!(
        (now - recorded).abs() < PATIENCE.as_secs_f64(),
        "{recorded}"
    );
    assert!(before.get("railbird_store_disk_free_bytes") > 0.0);
    assert!(before.get("railbird_log_lag_seconds") < PATIENCE.as_secs_f64());
    for (series, value) in [
        ("railbird_ready", 1.0),
        ("railbird_log_connected", 1.0),
        ("railbird_log_seq", 1.0),
        ("railbird_log_pending", 0.0),
        ("railbird_fold_failed", 0.0),
        ("railbird_keys_complete", 1.0),
    ] {
        assert_eq!(before.get(series), value, "{series}");
    }

    nats.kill();
    eventually("the loss of NATS is in the metrics", || async {
        let scrape = Scrape::of(serving.admin).await;
        scrape.get("railbird_log_connected") == 0.0
    })
    .await;
    let lag = Scrape::of(serving.admin)
        .await
        .get("railbird_log_lag_seconds");
    eventually("the lag grows with the time", || async {
        let scrape = Scrape::of(serving.admin).await;
        let keys_age = scrape.get("railbird_keys_age_seconds");
        scrape.get("railbird_log_lag_seconds") > lag + 3.0 && keys_age > 3.0
    })
    .await;
    let reply = request(
        serving.http,
        "GET",
        "/api/v1/horses/H1",
        &[("x-api-key", &key)],
    )
    .await;
    assert_eq!(reply.status, 200, "reads are right");
    let away = Scrape::of(serving.admin).await;
    for (series, value) in [
        ("railbird_ready", 1.0),
        ("railbird_log_connected", 0.0),
        ("railbird_log_seq", 1.0),
        ("railbird_last_event_timestamp_seconds", recorded),
    ] {
        assert_eq!(away.get(series), value, "{series}");
    }

    nats.start_again();
    eventually("NATS is back in the metrics", || async {
        let scrape = Scrape::of(serving.admin).await;
        let lag = scrape.get("railbird_log_lag_seconds");
        scrape.get("railbird_log_connected") == 1.0 && lag < 5.0
    })
    .await;
}

/// The log stops in the middle of a build, so that both answers are about the same moment.
#[tokio::test]
async fn pending_events_are_those_of_readyz_while_views_are_built() {
    const EVENTS: u64 = 60_000;
    let nats = Nats::start_with(|conf| conf.replace("sync_interval: always", ""));
    nats.publish((0..EVENTS).map(|n| odds("ST", 1, &second(n % 80_000), &[2.0, 3.0])))
        .await;
    let folder = tempfile::tempdir().unwrap();
    let serving = Serving::start(&nats, folder.path());
    eventually("the build has begun", || async {
        readiness(serving.admin).await["log"]["seq"] != 0
    })
    .await;
    nats.freeze();
    // What was read before is still folded.
    let (scrape, log) = loop {
        let before = readiness(serving.admin).await["log"].clone();
        let scrape = Scrape::of(serving.admin).await;
        if readiness(serving.admin).await["log"] == before {
            break (scrape, before);
        }
    };
    let (seq, pending) = (
        log["seq"].as_f64().unwrap(),
        log["pending"].as_f64().unwrap(),
    );
    assert!(seq > 0.0 && pending > 0.0, "it was folded before: {log}");
    assert_eq!(scrape.get("railbird_log_pending"), pending);
    assert_eq!(scrape.get("railbird_log_seq"), seq);
    assert_eq!(scrape.get("railbird_ready"), 0.0);
    assert_eq!(seq + pending, EVENTS as f64);

    nats.thaw();
    serving.until_ready().await;
    let scrape = Scrape::of(serving.admin).await;
    assert_eq!(scrape.get("railbird_log_pending"), 0.0);
    assert_eq!(scrape.get("railbird_log_seq"), EVENTS as f64);
}

#[tokio::test]
async fn frames_are_timed_from_the_record_of_the_event_to_the_socket() {
    let (nats, folder) = (Nats::start(), tempfile::tempdir().unwrap());
    let key = issue_key(&nats).await;
    let serving = Serving::start(&nats, folder.path());
    serving.until_ready().await;
    let count = "railbird_publish_to_socket_seconds_count";
    let seq = nats.publish([odds("ST", 1, &second(0), &[2.0])]).await;
    eventually("it is folded", || async {
        readiness(serving.admin).await["log"]["seq"] == seq
    })
    .await;
    let mut socket = Socket::open(serving.http, &key).await;
    socket.until("snapshot_complete").await;
    assert_eq!(
        Scrape::of(serving.admin).await.get(count),
        0.0,
        "nobody was there"
    );
    let last = nats.publish([odds("ST", 1, &second(1), &[3.0])]).await;
    socket.until_one(|message| message["seq"] == last).await;
    eventually("it is timed", || async {
        Scrape::of(serving.admin).await.get(count) == 1.0
    })
    .await;
    let sum = Scrape::of(serving.admin)
        .await
        .get("railbird_publish_to_socket_seconds_sum");
    assert!(sum > 0.0 && sum < PATIENCE.as_secs_f64(), "{sum}");
}

#[tokio::test]
async fn rebuilds_and_sizes_are_in_the_metrics() {
    let (_nats, _folder, serving) = everything().await;
    let admin = serving.admin;
    let rebuild = request(admin, "POST", "/rebuild", &[]).await;
    assert_eq!(rebuild.status, 202, "{}", rebuild.text());
    eventually("the rebuild is counted", || async {
        Scrape::of(admin).await.get("railbird_rebuilds_total") == 1.0
    })
    .await;
    let scrape = Scrape::of(admin).await;
    let size = |metric: &str, stream: &str| scrape.get(&format!("{metric}{{stream=\"{stream}\"}}"));
    let limit = LOG_BYTES_MAX as f64;
    assert_eq!(size("railbird_log_bytes_max", "RACING"), limit);
    let limited = scrape.values("railbird_log_bytes_max", "stream");
    assert!(!limited.contains("ACCOUNTS"), "{limited:?}");
    let storage = scrape.get("railbird_nats_storage_bytes");
    assert!(storage < scrape.get("railbird_nats_storage_bytes_max"));
    assert_eq!(size("railbird_log_bytes", "ACCOUNTS"), 0.0);
    let process = |name: &str| scrape.get(&format!("process_{name}"));
    assert!(process("cpu_seconds_total") > 0.0);
    assert!(process("resident_memory_bytes") > 1e6);
    assert!(process("open_fds") > 10.0 && process("open_fds") < process("max_fds"));
    let age = jiff::Timestamp::now().as_second() as f64 - process("start_time_seconds");
    assert!((0.0..PATIENCE.as_secs_f64()).contains(&age), "{age}");
}

#[tokio::test]
async fn a_lost_log_and_its_acceptance_are_in_the_metrics() {
    let (nats, folder) = (Nats::start(), tempfile::tempdir().unwrap());
    let (serving, _) = with_a_horse(&nats, folder.path()).await;
    let resets = "railbird_log_resets_total{stream=\"RACING\"}";
    let diverged = "railbird_log_diverged{stream=\"RACING\"}";
    nats.lose_log().await;
    eventually("the loss is in the metrics", || async {
        Scrape::of(serving.admin).await.get(diverged) == 1.0
    })
    .await;
    let scrape = Scrape::of(serving.admin).await;
    assert_eq!(
        (scrape.get("railbird_ready"), scrape.get(resets)),
        (0.0, 0.0)
    );
    let accepted = request(serving.admin, "POST", "/log/accept", &[]).await;
    assert_eq!(accepted.status, 202, "{}", accepted.text());
    eventually("the other log is in the metrics", || async {
        let scrape = Scrape::of(serving.admin).await;
        let ready = scrape.get("railbird_ready") == 1.0;
        ready && scrape.get(diverged) == 0.0 && scrape.get(resets) == 1.0
    })
    .await;
    let scrape = Scrape::of(serving.admin).await;
    assert_eq!(scrape.get("railbird_last_event_timestamp_seconds"), 0.0);
}

/// The commit of this repository, as the build script finds it.
fn revision() -> String {
    let root = env!("CARGO_MANIFEST_DIR");
    let mut git = Command::new("git");
    git.args(["-C", root, "rev-parse", "--short=12", "HEAD"]);
    let head = git.output().ok().filter(|output| output.status.success());
    let head = head.filter(|_| std::path::Path::new(root).join(".git").exists());
    let head = head.map(|output| String::from_utf8(output.stdout).unwrap().trim().to_owned());
    let named = option_env!("RAILBIRD_REVISION").filter(|_| head.is_none());
    named.map_or_else(|| head.unwrap_or_default(), str::to_owned)
}

#[tokio::test]
async fn the_version_and_the_commit_are_in_the_metrics_and_in_the_command() {
    let (version, revision) = (env!("CARGO_PKG_VERSION"), revision());
    let output = railbird(["--version"]).await;
    let expected = format!("railbird {version} ({revision})\n");
    assert_eq!((output.code, output.all), (0, expected));
    let (nats, folder) = (Nats::start(), tempfile::tempdir().unwrap());
    let serving = Serving::start(&nats, folder.path());
    let labels = format!("version=\"{version}\",revision=\"{revision}\"");
    let scrape = Scrape::of(serving.admin).await;
    assert_eq!(scrape.get(&format!("railbird_build_info{{{labels}}}")), 1.0);
}
