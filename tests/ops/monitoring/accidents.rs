//! The rehearsal: each accident happens to a real service, and fires its alert and no other one.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use async_nats::jetstream::stream::Config;
use futures::FutureExt;
use futures::future::join_all;
use jiff::{ToSpan, Zoned};
use railbird::log::{Outgoing, RACING};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::prometheus::{Prometheus, read, replace_once, shipped};
use super::rules::alerts;
use crate::support::*;

/// Times in the rules are divided by this.
const SPEED: u64 = 20;
/// But no alert fires earlier than this: a busy machine misses a scrape.
const SHORTEST: u64 = 5;

/// How long an alert may take, with the longest `for`, and mails that are sent again.
const ACCIDENT_MAX: Duration = Duration::from_secs(120);

/// Alerts that no accident fires here, with the reason. Their unit tests do.
const NOT_REHEARSED: [(&str, &str); 5] = [
    (
        "RailbirdEventsLost",
        "nats-server loses no event in the middle of a stream on demand",
    ),
    (
        "RailbirdLogClockStepped",
        "the clock of nats-server is that of the machine",
    ),
    ("RailbirdBackupFailed", NODE_EXPORTER),
    ("RailbirdBackupOld", NODE_EXPORTER),
    ("RailbirdBackupDiskFilling", NODE_EXPORTER),
];
const NODE_EXPORTER: &str = "tests/log/backup.rs has the file that node_exporter reads";

/// The rules with shorter times.
fn shortened() -> String {
    let rules = read(&shipped("prometheus/alerts.yml"));
    let rules = replace_once(
        &rules,
        "railbird_mails_oldest_seconds > 600",
        "railbird_mails_oldest_seconds > 5",
    );
    let rules = replace_once(&rules, ")) > 300)", ")) > 5)");
    let mut shorter = String::new();
    let mut rest = &*rules;
    // A number with a unit, at the start of a window, a `for` or an `offset`.
    while let Some(at) = ["[", "for: ", "offset "]
        .iter()
        .filter_map(|start| Some(rest.find(start)? + start.len()))
        .min()
    {
        let (before, after) = rest.split_at(at);
        shorter.push_str(before);
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let unit = match after.as_bytes().get(digits) {
            Some(b'm') if digits > 0 => 60,
            Some(b'h') if digits > 0 => 3600,
            _ => {
                rest = after;
                continue;
            }
        };
        let seconds = after[..digits].parse::<u64>().unwrap() * unit / SPEED;
        shorter.push_str(&format!("{}s", seconds.max(SHORTEST)));
        rest = &after[digits + 1..];
    }
    shorter + rest
}

/// A log with its replicas, as Prometheus sees them.
struct Job<'a> {
    prometheus: &'a Prometheus,
    name: &'static str,
}

impl<'a> Job<'a> {
    async fn watch(prometheus: &'a Prometheus, name: &'static str, replicas: &[&Serving]) -> Self {
        let admins: Vec<_> = replicas.iter().map(|replica| replica.admin).collect();
        prometheus.watch(name, &admins).await;
        Self { prometheus, name }
    }

    /// Waits until this alert fires, and no other one.
    async fn fires(&self, alert: &str) {
        let began = Instant::now();
        self.poll(&format!("{alert} fires"), async || {
            self.prometheus.firing(self.name).await.contains(alert)
        })
        .await;
        let firing = self.prometheus.firing(self.name).await;
        assert_eq!(firing, BTreeSet::from([alert.to_owned()]), "{}", self.name);
        eprintln!("{}: {alert} fires after {:?}", self.name, began.elapsed());
    }

    /// Waits until no alert fires.
    async fn resolves(&self) {
        let began = Instant::now();
        self.poll("no alert fires", async || {
            self.prometheus.firing(self.name).await.is_empty()
        })
        .await;
        eprintln!("{}: resolved after {:?}", self.name, began.elapsed());
    }

    /// Checks that no alerts but these have fired.
    async fn has_fired(&self, alerts: &[&str]) {
        let alerts = alerts.iter().map(|&alert| alert.to_owned()).collect();
        assert_eq!(
            self.prometheus.fired(self.name).await,
            alerts,
            "{}",
            self.name
        );
    }

    /// Waits until a query about the job has a result.
    async fn until(&self, query: &str) {
        self.poll(query, async || {
            !self.prometheus.query(query).await.is_empty()
        })
        .await;
    }

    /// Waits until a condition holds, with few questions: all jobs ask one Prometheus on one machine.
    async fn poll(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let until = Instant::now() + ACCIDENT_MAX;
        while !holds().await {
            if Instant::now() > until {
                let firing = self.prometheus.firing(self.name).await;
                panic!("{}: {what}? These fire: {firing:?}", self.name);
            }
            sleep(Duration::from_millis(250)).await;
        }
    }
}

/// Starts a service, and waits until it is ready.
async fn serve(nats: &Nats, data: &TempDir, flags: &[&str]) -> Serving {
    let serving = serve_unready(command(), nats, data, flags);
    serving.until_ready().await;
    serving
}

fn serve_unready(command: Command, nats: &Nats, data: &TempDir, flags: &[&str]) -> Serving {
    let url = nats.url();
    let flags = [&["--http", "127.0.0.1:0", "--nats", &url], flags].concat();
    Serving::start_as(command, &flags, data.path())
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Two replicas with requests and events, to which nothing happens.
async fn nothing(prometheus: &Prometheus, nats: &Nats, others: impl Future<Output = ()>) {
    let (a, b) = (folder(), folder());
    let (a, b) = (serve(nats, &a, &[]).await, serve(nats, &b, &[]).await);
    let key = issue_key(nats).await;
    let job = Job::watch(prometheus, "railbird", &[&a, &b]).await;
    let traffic = async {
        for n in 0.. {
            nats.publish([odds("ST", 1, &second(n), &[2.0, 3.0])]).await;
            for replica in [&a, &b] {
                let path = format!("/api/v1/odds/{DAY}/1");
                request(replica.http, "GET", &path, &[("x-api-key", &key)]).await;
                request(replica.http, "GET", "/no/such/path", &[]).await;
            }
            sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        () = traffic => {}
        () = others => {}
    }
    job.has_fired(&[]).await;
}

async fn a_process_is_killed(prometheus: &Prometheus, nats: &Nats) {
    let data = folder();
    let mut serving = serve(nats, &data, &[]).await;
    let job = Job::watch(prometheus, "railbird-killed", &[&serving]).await;
    let admin = serving.admin.to_string();
    serving.kill();
    job.fires("RailbirdDown").await;
    let _again = serve(nats, &data, &["--admin", &admin]).await;
    job.resolves().await;
    job.has_fired(&["RailbirdDown"]).await;
}

/// Service discovery loses the replicas.
async fn the_replicas_are_no_targets(prometheus: &Prometheus, nats: &Nats) {
    let data = folder();
    let serving = serve(nats, &data, &[]).await;
    let job = Job::watch(prometheus, "railbird-gone", &[&serving]).await;
    prometheus.forget(job.name);
    job.fires("RailbirdGone").await;
    prometheus.watch(job.name, &[serving.admin]).await;
    job.resolves().await;
    job.has_fired(&["RailbirdGone"]).await;
}

async fn a_process_ends_again_and_again(prometheus: &Prometheus, nats: &Nats) {
    let data = folder();
    let mut serving = serve(nats, &data, &[]).await;
    let job = Job::watch(prometheus, "railbird-restarts", &[&serving]).await;
    let admin = serving.admin.to_string();
    for times in 1..=3 {
        serving.kill();
        serving = serve(nats, &data, &["--admin", &admin]).await;
        let changes = "changes(process_start_time_seconds{job=\"railbird-restarts\"}[1h])";
        job.until(&format!("{changes} >= {times}")).await;
    }
    job.fires("RailbirdRestarts").await;
    job.resolves().await;
    job.has_fired(&["RailbirdRestarts"]).await;
}

/// The user of the service may not read the keys.
async fn keys_cannot_be_read(prometheus: &Prometheus) {
    let right = "\"log.CONSUMER.CREATE.ACCOUNTS\"\n              \"log.CONSUMER.MSG.NEXT.ACCOUNTS.*\"\n              \"log.STREAM.INFO.ADDRESSES\"";
    let other = "\"log.CONSUMER.CREATE.OTHER\"\n              \"log.CONSUMER.MSG.NEXT.OTHER.*\"\n              \"log.STREAM.INFO.ADDRESSES\"";
    let nats = Nats::start_with(|conf| conf.replacen(right, other, 1));
    let data = folder();
    let serving = serve_unready(command(), &nats, &data, &[]);
    let job = Job::watch(prometheus, "railbird-keys-unread", &[&serving]).await;
    job.fires("RailbirdNotReady").await;
    nats.change_file(|conf| replace_once(&conf, other, right));
    nats.reload().await;
    job.resolves().await;
    job.has_fired(&["RailbirdNotReady"]).await;
}

async fn nats_freezes(prometheus: &Prometheus) {
    let (nats, data) = (Nats::start(), folder());
    let serving = serve(&nats, &data, &[]).await;
    let job = Job::watch(prometheus, "railbird-away", &[&serving]).await;
    nats.freeze();
    job.fires("RailbirdLogAway").await;
    nats.thaw();
    job.resolves().await;
    job.has_fired(&["RailbirdLogAway"]).await;
}

/// NATS is started again with rights that do not let the service read the log, but it is connected.
async fn the_log_cannot_be_read(prometheus: &Prometheus) {
    let right = "\"log.CONSUMER.CREATE.RACING\"\n";
    let other = "\"log.CONSUMER.CREATE.OTHER\"\n";
    let (mut nats, data) = (Nats::start(), folder());
    let serving = serve(&nats, &data, &[]).await;
    let job = Job::watch(prometheus, "railbird-behind", &[&serving]).await;
    nats.kill();
    nats.change_file(|conf| replace_once(&conf, right, other));
    nats.start_again();
    nats.publish([registered("H1", "HORSE 1")]).await;
    job.fires("RailbirdViewsOld").await;
    nats.change_file(|conf| replace_once(&conf, other, right));
    nats.reload().await;
    job.resolves().await;
    job.has_fired(&["RailbirdViewsOld"]).await;
}

/// One of three, as after the loss of a machine.
async fn a_nats_server_is_away(prometheus: &Prometheus, mut cluster: Cluster) {
    let (data, url) = (folder(), cluster.url());
    let flags = ["--http", "127.0.0.1:0", "--nats", &url, "--replicas", "3"];
    let serving = Serving::start_with(&flags, data.path());
    serving.until_ready().await;
    let job = Job::watch(prometheus, "railbird-server-away", &[&serving]).await;
    let away = (cluster.stream_leader(RACING.name).await + 1) % 3;
    cluster.kill(away);
    job.fires("RailbirdNatsServersAway").await;
    cluster.restart(away);
    job.resolves().await;
    job.has_fired(&["RailbirdNatsServersAway"]).await;
}

/// NATS is started again with settings of which `--production` would have refused to start.
async fn nats_syncs_late(prometheus: &Prometheus) {
    let (mut nats, data) = (Nats::start(), folder());
    let serving = serve(&nats, &data, &["--production"]).await;
    let job = Job::watch(prometheus, "railbird-risk", &[&serving]).await;
    job.until("railbird_log_risks{job=\"railbird-risk\"} == 0")
        .await;
    nats.kill();
    nats.change_file(without_sync);
    nats.start_again();
    job.fires("RailbirdLogAtRisk").await;
    nats.kill();
    nats.change_file(|conf| replace_once(&conf, "sync_interval: \"2m\"", "sync_interval: always"));
    nats.start_again();
    job.resolves().await;
    job.has_fired(&["RailbirdLogAtRisk"]).await;
}

async fn the_log_is_replaced(prometheus: &Prometheus) {
    let (mut nats, data) = (Nats::start(), folder());
    nats.publish([registered("H1", "HORSE 1")]).await;
    let serving = serve(&nats, &data, &[]).await;
    let job = Job::watch(prometheus, "railbird-replaced", &[&serving]).await;
    nats.kill();
    nats.lose(RACING.name);
    nats.start_again();
    job.fires("RailbirdLogDiverged").await;
    let accepted = railbird(["log", "accept", "--admin", &serving.admin.to_string()]).await;
    assert_eq!(accepted.code, 0, "{}", accepted.all);
    job.resolves().await;
    job.has_fired(&["RailbirdLogDiverged"]).await;
}

/// A race is about to start, and its odds stay away; another venue has none to come.
async fn a_feeder_is_silent(prometheus: &Prometheus) {
    let (nats, data) = (Nats::start(), folder());
    let serving = serve(&nats, &data, &[]).await;
    let job = Job::watch(prometheus, "railbird-silent", &[&serving]).await;
    let (today, now) = (Zoned::now().date().to_string(), jiff::Timestamp::now());
    let quote = |venue, n| {
        odds_on(
            &today,
            venue,
            1,
            &jiff::Timestamp::now().to_string(),
            &[f64::from(n)],
        )
    };
    for (venue, off_time) in [("ST", now + 5.minutes()), ("HV", now + 5.hours())] {
        let mut card = card(&today, venue, 1, 2);
        card["data"]["off_time"] = off_time.to_string().into();
        nats.publish([card, quote(venue, 2)]).await;
    }
    job.fires("RailbirdFeederSilent").await;
    let quotes = async {
        for n in 2.. {
            nats.publish([quote("ST", n)]).await;
            sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::select! {
        () = quotes => {}
        () = job.resolves() => {}
    }
    job.has_fired(&["RailbirdFeederSilent"]).await;
}

/// A source that shows that it is alive stops to do so for a while.
async fn a_source_is_down(prometheus: &Prometheus) {
    let (nats, data) = (Nats::start(), folder());
    let serving = serve(&nats, &data, &[]).await;
    let job = Job::watch(prometheus, "railbird-source", &[&serving]).await;
    let is_known = async || {
        nats.show_alive("tote").await;
        let known = "railbird_source_alive{job=\"railbird-source\"} == 1";
        !prometheus.query(known).await.is_empty()
    };
    eventually("the source is known", is_known).await;
    job.fires("RailbirdSourceDown").await;
    tokio::select! {
        never = nats.keep_alive("tote") => match never {},
        () = job.resolves() => {}
    }
    job.has_fired(&["RailbirdSourceDown"]).await;
}

/// The user of the service may not write them.
async fn snapshots_fail(prometheus: &Prometheus) {
    let rights = "\"$O.SNAPSHOTS.>\"\n              \"log.STREAM.INFO.OBJ";
    let others = "\"$O.OTHERS.>\"\n              \"log.STREAM.INFO.OBJ";
    let nats = Nats::start_with(|conf| replace_once(&conf, rights, others));
    let data = folder();
    nats.publish([registered("H1", "HORSE 1")]).await;
    let serving = serve(&nats, &data, &[]).await;
    let job = Job::watch(prometheus, "railbird-snapshots", &[&serving]).await;
    let attempts = async {
        loop {
            let attempt = request(serving.admin, "POST", "/snapshot", &[]).await;
            assert!(attempt.status >= 500, "{}", attempt.text());
            sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::select! {
        () = attempts => {}
        () = job.fires("RailbirdSnapshotsFail") => {}
    }
    job.resolves().await;
    job.has_fired(&["RailbirdSnapshotsFail"]).await;
}

async fn a_feeder_publishes_garbage(prometheus: &Prometheus) {
    let (nats, a, b) = (Nats::start(), folder(), folder());
    let a = serve(&nats, &a, &[]).await;
    let b = serve(&nats, &b, &[]).await;
    let job = Job::watch(prometheus, "railbird-garbage", &[&a, &b]).await;
    // What was rejected before a replica was known for a while may be old.
    job.until("railbird_ready{job=\"railbird-garbage\"} offset 30s")
        .await;
    for n in 0..30 {
        nats.publish_raw("racing.x", format!("garbage {n}").as_bytes())
            .await;
    }
    job.fires("RailbirdEventsRejected").await;
    job.resolves().await;
    job.has_fired(&["RailbirdEventsRejected"]).await;
}

/// One replica has folded an event that was deleted before the other one read the log.
async fn replicas_differ(prometheus: &Prometheus) {
    let (nats, a, b) = (Nats::start(), folder(), folder());
    nats.create_log(Config::default()).await;
    nats.publish((1..=5).map(|n| registered(&format!("H{n}"), "HORSE")))
        .await;
    let a = serve(&nats, &a, &[]).await;
    nats.delete_event(3).await;
    // A log in which events can be deleted is a risk.
    let jetstream = patient_jetstream(nats.client_of("admin").await);
    let log = jetstream.get_stream(RACING.name).await.unwrap();
    let kept = Config {
        deny_delete: true,
        deny_purge: true,
        ..log.cached_info().config.clone()
    };
    jetstream.update_stream(kept).await.unwrap();
    eventually("it is known to keep events now", || async {
        let metrics = request(a.admin, "GET", "/metrics", &[]).await.text();
        metrics.contains("railbird_log_risks 0\n")
    })
    .await;
    let b = serve(&nats, &b, &[]).await;
    let job = Job::watch(prometheus, "railbird-differ", &[&a, &b]).await;
    job.fires("RailbirdReplicasDiffer").await;
    let rebuilt = railbird(["rebuild", "--admin", &a.admin.to_string()]).await;
    assert_eq!(rebuilt.code, 0, "{}", rebuilt.all);
    job.resolves().await;
    job.has_fired(&["RailbirdReplicasDiffer"]).await;
}

/// Fills the disk of a service so far, and empties it when the alert has fired.
async fn the_disk_of_the_views_fills(
    prometheus: &Prometheus,
    nats: &Nats,
    (name, alert, filler_mib): (&'static str, &str, usize),
) {
    let data = folder();
    let serving = Serving::start_on_small_disk(nats, data.path(), "320m");
    serving.until_ready().await;
    let job = Job::watch(prometheus, name, &[&serving]).await;
    let mount = serving.root().join(data.path().strip_prefix("/").unwrap());
    let filler = mount.join("filler");
    // The disk is full before all of it is written, or not.
    let _ = fs::write(&filler, vec![1; filler_mib << 20]);
    job.fires(alert).await;
    fs::remove_file(&filler).unwrap();
    job.resolves().await;
    job.has_fired(&[alert]).await;
}

/// NATS rejects events, here because it holds as many bytes as the stream may have.
async fn the_log_fills(prometheus: &Prometheus) {
    let (mut nats, data) = (Nats::start(), folder());
    let serving = serve(&nats, &data, &[]).await;
    let job = Job::watch(prometheus, "railbird-log-full", &[&serving]).await;
    for n in 0..10 {
        nats.publish([registered(&format!("H{n}"), "HORSE")]).await;
    }
    let limit = async |nats: &Nats, times: f64| {
        let jetstream = patient_jetstream(nats.client_of("admin").await);
        let stream = jetstream.get_stream(RACING.name).await.unwrap();
        let info = stream.cached_info().clone();
        let max_bytes = (info.state.bytes as f64 * times) as i64;
        let limited = Config {
            max_bytes,
            ..info.config
        };
        jetstream.update_stream(limited).await.unwrap();
    };
    limit(&nats, 1.1).await;
    // The service reads the sizes at each connection, and every minute.
    nats.kill();
    nats.start_again();
    job.fires("RailbirdLogFilling").await;
    limit(&nats, 10.0).await;
    nats.kill();
    nats.start_again();
    job.resolves().await;
    job.has_fired(&["RailbirdLogFilling"]).await;
}

/// The stream of another program uses the space of NATS.
async fn nats_fills(prometheus: &Prometheus) {
    let limited =
        |conf: String| replace_once(&conf, "jetstream {", "jetstream {\n  max_file_store: 100MB");
    let (mut nats, data) = (Nats::start_with(limited), folder());
    let serving = serve(&nats, &data, &[]).await;
    let job = Job::watch(prometheus, "railbird-nats-full", &[&serving]).await;
    let config = Config {
        name: "OTHER".to_owned(),
        subjects: vec!["other".to_owned()],
        ..Config::default()
    };
    let jetstream = patient_jetstream(nats.client_of("admin").await);
    jetstream.create_stream(config).await.unwrap();
    let payload = bytes::Bytes::from(vec![1; 1_000_000]);
    for _ in 0..95 {
        let stored = jetstream.publish("other", payload.clone()).await.unwrap();
        stored.await.unwrap();
    }
    // The service reads the sizes at each connection, and every minute.
    nats.kill();
    nats.start_again();
    job.fires("RailbirdNatsDiskFilling").await;
    let jetstream = patient_jetstream(nats.client_of("admin").await);
    jetstream.delete_stream("OTHER").await.unwrap();
    nats.kill();
    nats.start_again();
    job.resolves().await;
    job.has_fired(&["RailbirdNatsDiskFilling"]).await;
}

/// The user of the service may not ask for the state of the keys any more: nobody can sign in.
async fn forms_fail(prometheus: &Prometheus) {
    let (mut nats, data) = (Nats::start(), folder());
    let serving = serve(&nats, &data, &with_mail("smtp://127.0.0.1:9")).await;
    let job = Job::watch(prometheus, "railbird-errors", &[&serving]).await;
    let traffic = async {
        loop {
            let email = new_address();
            let fields = [("email", &*email), ("do", "link")];
            post(serving.http, "/account", &fields).await;
            sleep(Duration::from_millis(200)).await;
        }
    };
    let accident = async {
        let right = "NEXT.RACING.*\"\n              \"log.STREAM.INFO.ACCOUNTS\"\n";
        let other = "NEXT.RACING.*\"\n              \"log.STREAM.INFO.OTHER\"\n";
        nats.change_file(|conf| replace_once(&conf, right, other));
        nats.reload().await;
        job.fires("RailbirdErrors").await;
        nats.change_file(|conf| replace_once(&conf, other, right));
        // The service remembers a denial for as long as it is connected.
        nats.kill();
        nats.start_again();
        job.resolves().await;
    };
    tokio::select! {
        () = traffic => {}
        () = accident => {}
    }
    job.has_fired(&["RailbirdErrors"]).await;
}

/// The flags of a service that sends mails.
fn with_mail(smtp_url: &str) -> [&str; 8] {
    [
        "--smtp-url",
        smtp_url,
        "--mail-from",
        "Railbird <keys@racing.example>",
        "--public-url",
        "https://racing.example",
        "--sign-ups-per-network",
        "100000",
    ]
}

/// An address that nobody has used.
fn new_address() -> String {
    format!("{}@racing.example", jiff::Timestamp::now().as_nanosecond())
}

async fn sign_up(serving: &Serving) -> u16 {
    let email = new_address();
    let fields = [("email", &*email), ("plan", "free"), ("website", "")];
    post(serving.http, "/pricing", &fields).await.status
}

/// Its machine stops again and again, as an overloaded host lets it.
async fn a_service_is_slow(prometheus: &Prometheus) {
    let (nats, data) = (Nats::start(), folder());
    nats.publish((0..2_000).map(|n| odds("ST", 1, &second(n), &[2.0 + n as f64 / 10.0])))
        .await;
    let serving = serve(&nats, &data, &[]).await;
    let job = Job::watch(prometheus, "railbird-slow", &[&serving]).await;
    let key = issue_key(&nats).await;
    let path = format!("/api/v1/odds/{DAY}/1/history?limit=1000");
    let requests = (0..8).map(|_| async {
        loop {
            request(serving.http, "GET", &path, &[("x-api-key", &key)]).await;
        }
    });
    let requests = join_all(requests);
    let signal = |signal| {
        let id = Pid::from_raw(serving.id().try_into().unwrap()).unwrap();
        kill_process(id, signal).unwrap();
    };
    let stops = async {
        loop {
            signal(Signal::STOP);
            sleep(Duration::from_millis(350)).await;
            signal(Signal::CONT);
            sleep(Duration::from_millis(60)).await;
        }
    };
    tokio::select! {
        _ = requests => {}
        () = stops => {}
        () = job.fires("RailbirdSlow") => {}
    }
    signal(Signal::CONT);
    job.resolves().await;
    job.has_fired(&["RailbirdSlow"]).await;
}

/// Holds connections that a client keeps alive.
async fn hold_connections(serving: &Serving, count: usize) {
    let mut connections = Vec::new();
    for _ in 0..count {
        connections.push(TcpStream::connect(serving.http).await.unwrap());
    }
    loop {
        for connection in &mut connections {
            connection
                .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                .await
                .unwrap();
            assert_ne!(
                connection.read(&mut [0; 4096]).await.unwrap(),
                0,
                "it stays open"
            );
        }
        sleep(Duration::from_secs(5)).await;
    }
}

async fn clients_keep_connections(
    prometheus: &Prometheus,
    (name, alert): (&'static str, &str),
    serving: &Serving,
    count: usize,
) {
    let job = Job::watch(prometheus, name, &[serving]).await;
    tokio::select! {
        () = hold_connections(serving, count) => {}
        () = job.fires(alert) => {}
    }
    job.resolves().await;
    job.has_fired(&[alert]).await;
}

async fn connections_are_near_the_maximum(prometheus: &Prometheus, nats: &Nats) {
    let data = folder();
    let serving = serve(nats, &data, &["--connections-max", "20"]).await;
    let alert = ("railbird-connections", "RailbirdConnectionsNearMax");
    clients_keep_connections(prometheus, alert, &serving, 17).await;
}

async fn open_files_are_near_the_maximum(prometheus: &Prometheus, nats: &Nats) {
    let data = folder();
    let serving = serve(nats, &data, &[]).await;
    // A service keeps its clients below the limit that it finds at its start, so this one is lowered afterwards.
    let clients = 150;
    let open = serving.metric("process_open_fds").await + clients;
    let limit = Rlimit {
        current: Some(open * 10 / 9),
        maximum: Some(open * 10 / 9),
    };
    let pid = Pid::from_raw(serving.id().cast_signed());
    prlimit(pid, Resource::Nofile, limit).unwrap();
    let alert = ("railbird-files", "RailbirdOpenFiles");
    let clients = usize::try_from(clients).unwrap();
    clients_keep_connections(prometheus, alert, &serving, clients).await;
}

async fn a_certificate_expires(prometheus: &Prometheus, nats: &Nats) {
    let (data, files, authority) = (folder(), folder(), Authority::new());
    let soon = Zoned::now().date() + 3.days();
    let flags = authority.issue_until(soon).write(files.path()).flags();
    let serving = serve(nats, &data, &flags.each_ref().map(|flag| &**flag)).await;
    let job = Job::watch(prometheus, "railbird-expires", &[&serving]).await;
    job.fires("RailbirdCertificateExpires").await;
    authority.issue().write(files.path());
    job.resolves().await;
    job.has_fired(&["RailbirdCertificateExpires"]).await;
}

async fn a_certificate_is_damaged(prometheus: &Prometheus, nats: &Nats) {
    let (data, files, authority) = (folder(), folder(), Authority::new());
    let certificate = authority.issue().write(files.path());
    let serving = serve(
        nats,
        &data,
        &certificate.flags().each_ref().map(|flag| &**flag),
    )
    .await;
    let job = Job::watch(prometheus, "railbird-damaged", &[&serving]).await;
    fs::write(&certificate.cert, "nonsense").unwrap();
    job.fires("RailbirdCertificateRenewalFailed").await;
    authority.issue().write(files.path());
    job.resolves().await;
    job.has_fired(&["RailbirdCertificateRenewalFailed"]).await;
}

async fn the_mail_server_is_away(prometheus: &Prometheus) {
    let (nats, data, mut server) = (Nats::start(), folder(), MailServer::start().await);
    let url = format!("smtp://{}", server.address());
    let serving = serve(&nats, &data, &with_mail(&url)).await;
    let job = Job::watch(prometheus, "railbird-mail", &[&serving]).await;
    server.go_down().await;
    assert_eq!(sign_up(&serving).await, 200);
    job.fires("RailbirdMailLate").await;
    server.come_up().await;
    job.resolves().await;
    job.has_fired(&["RailbirdMailLate"]).await;
}

/// An upgraded replica wrote it. Only an upgrade of this one resolves the alert.
async fn an_event_of_keys_is_of_a_later_version(prometheus: &Prometheus) {
    let (nats, data) = (Nats::start(), folder());
    let serving = serve(&nats, &data, &[]).await;
    let job = Job::watch(prometheus, "railbird-older", &[&serving]).await;
    let event = Outgoing {
        subject: "accounts.key.00000000".to_owned(),
        id: "later".to_owned(),
        payload: b"of a later version".to_vec(),
    };
    nats.log().await.append(event).await.unwrap();
    job.fires("RailbirdAccountEventsSkipped").await;
    job.has_fired(&["RailbirdAccountEventsSkipped"]).await;
}

#[tokio::test]
async fn each_alert_fires_in_its_accident_and_no_other_one_does() {
    let Some(prometheus) = Prometheus::start(&shortened(), None).await else {
        return;
    };
    // First, because it blocks.
    let cluster = Cluster::start();
    let (prometheus, nats) = (&prometheus, &Nats::start());
    let filling = ("railbird-disk-filling", "RailbirdDiskFilling", 120);
    let full = ("railbird-disk-full", "RailbirdFoldFailed", 320);
    // On the heap: together they are larger than a stack.
    let accidents = [
        a_process_is_killed(prometheus, nats).boxed_local(),
        the_replicas_are_no_targets(prometheus, nats).boxed_local(),
        a_process_ends_again_and_again(prometheus, nats).boxed_local(),
        a_feeder_is_silent(prometheus).boxed_local(),
        snapshots_fail(prometheus).boxed_local(),
        keys_cannot_be_read(prometheus).boxed_local(),
        nats_freezes(prometheus).boxed_local(),
        the_log_cannot_be_read(prometheus).boxed_local(),
        a_nats_server_is_away(prometheus, cluster).boxed_local(),
        nats_syncs_late(prometheus).boxed_local(),
        the_log_is_replaced(prometheus).boxed_local(),
        a_source_is_down(prometheus).boxed_local(),
        a_feeder_publishes_garbage(prometheus).boxed_local(),
        replicas_differ(prometheus).boxed_local(),
        the_disk_of_the_views_fills(prometheus, nats, filling).boxed_local(),
        the_disk_of_the_views_fills(prometheus, nats, full).boxed_local(),
        the_log_fills(prometheus).boxed_local(),
        nats_fills(prometheus).boxed_local(),
        forms_fail(prometheus).boxed_local(),
        a_service_is_slow(prometheus).boxed_local(),
        connections_are_near_the_maximum(prometheus, nats).boxed_local(),
        open_files_are_near_the_maximum(prometheus, nats).boxed_local(),
        a_certificate_expires(prometheus, nats).boxed_local(),
        a_certificate_is_damaged(prometheus, nats).boxed_local(),
        the_mail_server_is_away(prometheus).boxed_local(),
        an_event_of_keys_is_of_a_later_version(prometheus).boxed_local(),
    ];
    nothing(prometheus, nats, join_all(accidents).map(drop)).await;
    let fired = prometheus.fired(".+").await;
    let rehearsed = alerts().into_iter();
    let rehearsed = rehearsed.filter(|alert| NOT_REHEARSED.iter().all(|(other, _)| other != alert));
    assert_eq!(fired, rehearsed.collect());
}
