//! Metrics in the Prometheus text format: lag, rates, rejections, sockets, store size.

#[cfg(test)]
#[path = "../../tests/documents/generate/metrics.rs"]
mod documents;
mod histogram;
mod http;
mod process;
mod sources;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use events::DecodeError;
use jiff::Timestamp;
use metrics::{Counter, Gauge, SharedString, counter, describe_counter, describe_gauge, gauge};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use projections::Tally;
use rustix::process::{Resource, getrlimit};

use self::histogram::{DurationHistogram, HistogramSettings};
pub use self::http::HttpMetrics;
pub(crate) use self::http::{KnownMethod, OTHER, RouteMetrics};
pub(crate) use self::sources::{races_due, sources, sources_alive};

static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();

/// The version of railbird.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit that this program was built from, or `unknown`.
pub(crate) const REVISION: &str = env!("RAILBIRD_REVISION");

/// From what a machine takes without load, some milliseconds, to the time after which the feed is stale.
static PUBLISH_TO_SOCKET: HistogramSettings = HistogramSettings {
    name: "railbird_publish_to_socket_seconds",
    help: "Time from the record of an event in the log until a thread has written it to its sockets.",
    label: "",
    buckets: &[
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0,
    ],
};

/// Gauges with their labels, and their help texts.
#[rustfmt::skip]
const GAUGES: [(&str, &str); 43] = [
    ("railbird_build_info{version,revision}", "1, with the version and the commit of the program."),
    ("railbird_ready", "1 while reads are right and /readyz returns 200."),
    ("railbird_log_connected", "1 while the service is connected to NATS."),
    ("railbird_log_seq", "Sequence of the last event that the views reflect."),
    ("railbird_log_pending", "Events in the log that are not folded yet."),
    ("railbird_log_lag_seconds", "Time since the views were last known to hold the whole log."),
    ("railbird_last_event_timestamp_seconds", "When the log recorded the last event that the views reflect, as a Unix time; 0 before the first."),
    ("railbird_log_missing", "Sequences up to the last event for which the log has no event."),
    ("railbird_log_diverged{stream}", "1 if the stream has another history than the service has read."),
    ("railbird_log_settings_drift{stream}", "Settings of the stream that are not those that railbird creates it with."),
    ("railbird_log_risks", "Settings of NATS and of the streams by which acknowledged events can be lost, or that cannot be seen."),
    ("railbird_log_followers_behind{stream}", "Servers that should follow the leader of the stream, and are away or behind."),
    ("railbird_log_bytes{stream}", "Size of the stream, as of the last answer of NATS."),
    ("railbird_log_bytes_max{stream}", "Size at which the stream rejects messages, if it has a limit."),
    ("railbird_fold_failed", "1 while an error stops the fold."),
    ("railbird_views_position", "48 bits of a hash of the log, the schema and the sequence of the views."),
    ("railbird_views_digest", "48 bits of the digest of the views: equal on all replicas with the same position."),
    ("railbird_connections_max", "Connections that are accepted, and WebSockets."),
    ("railbird_nats_servers_expected", "Servers that the NATS cluster should have; 0 if they cannot be seen."),
    ("railbird_nats_servers_answering", "Servers of the NATS cluster that answer."),
    ("railbird_nats_storage_bytes", "Bytes of all streams of the fullest nats-server."),
    ("railbird_nats_storage_bytes_max", "Bytes at which that nats-server stops all streams."),
    ("railbird_http_connections", "Open connections, without WebSockets."),
    ("railbird_tls_certificate_expires_timestamp_seconds", "When the TLS certificate expires, as a Unix time."),
    ("railbird_tls_certificate_renewal_failed", "1 if the files of the TLS certificate cannot be used, and an older one is in use."),
    ("railbird_ws_connections", "Open WebSockets."),
    ("railbird_store_bytes", "Size of the store on disk."),
    ("railbird_store_disk_free_bytes", "Free space of the disk of the views."),
    ("railbird_snapshot_timestamp_seconds", "When the latest snapshot of the views was written, as a Unix time; 0 without one."),
    ("railbird_snapshot_seq", "Sequence of the last event of that snapshot."),
    ("railbird_snapshot_bytes", "Compressed size of that snapshot."),
    ("railbird_source_quoted_timestamp_seconds{source,venue}", "When the log recorded the last odds of a source for a venue, as a Unix time."),
    ("railbird_source_alive{source}", "1 if the source has shown within 20 seconds that it is alive, 0 if it did so before."),
    ("railbird_races_due{venue}", "Open races whose off is scheduled within 10 minutes, or was in the last hour."),
    ("railbird_keys", "Valid API keys."),
    ("railbird_keys_complete", "1 once all keys are read from the log."),
    ("railbird_keys_age_seconds", "Time since all keys were last known to be up to date."),
    ("railbird_mails_waiting", "Mails to subscribers that are neither sent nor given up."),
    ("railbird_mails_oldest_seconds", "Age of the oldest waiting mail; 0 if none waits. Mails whose recipient the server rejects for now do not count."),
    ("process_start_time_seconds", "When the service started, as a Unix time."),
    ("process_resident_memory_bytes", "Resident memory."),
    ("process_open_fds", "Open file descriptors."),
    ("process_max_fds", "Maximum number of open file descriptors."),
];

/// Counters without labels, and their help texts. They count from the start.
#[rustfmt::skip]
const COUNTERS: [(&str, &str); 17] = [
    ("railbird_events_folded_total", "Events folded into views."),
    ("railbird_events_skipped_total", "Events at or below the checkpoint, not folded again."),
    ("railbird_events_stale_total", "Events superseded by a later one before they arrived."),
    ("railbird_feed_open_races_left_out_total", "Times that an open race had no image for new clients, because too many are open."),
    ("railbird_log_clock_steps_total", "Times that the clock of the log stepped back by more than a second."),
    ("railbird_rejections_not_announced_total", "Rejections not announced to feeders because the queue was full."),
    ("railbird_rebuilds_total", "Rebuilt views that have replaced the live ones."),
    ("railbird_snapshot_failures_total", "Snapshots of the views that this replica could not write."),
    ("railbird_snapshots_refused_total", "Snapshots of the views that this replica could not load, and so did not use."),
    ("railbird_http_connections_refused_total", "Connections closed at once because too many were open."),
    ("railbird_tls_handshakes_failed_total", "TLS handshakes that failed or took too long."),
    ("railbird_ws_messages_total", "Messages sent to WebSockets."),
    ("railbird_ws_conflated_total", "Times that a slow client was moved on to the latest images."),
    ("railbird_account_events_skipped_total", "Events about keys and subscriptions that this version cannot decode."),
    ("railbird_key_use_failures_total", "Times that the use of keys could not be written or read."),
    ("railbird_mails_delivered_total", "Mails to subscribers accepted by a mail server."),
    ("railbird_mails_given_up_total", "Mails to subscribers that will not be tried again."),
];

/// Counters with labels, and their help texts.
#[rustfmt::skip]
const LABELED_COUNTERS: [(&str, &str); 12] = [
    ("railbird_log_holes_total{stream,cause}", "Holes in the log that were read over, by whether messages were deleted or lost."),
    ("railbird_log_resets_total{stream}", "Other histories that an operator has accepted in place of the one that was read."),
    ("railbird_events_rejected_total{reason}", "Rejected messages, by reason."),
    ("railbird_source_rejections_total{source}", "Rejected messages, by the source that they name."),
    ("railbird_http_requests_total{route,method,status}", "Answers, by route. Those to probes are not in it."),
    ("railbird_probes_total{route,status}", "Answers to probes, by route."),
    ("railbird_ws_resumed_total{recovered}", "Clients that resumed, by whether every message they missed was replayed."),
    ("railbird_ws_closed_total{code}", "WebSockets closed by the service, by close code."),
    ("railbird_unauthorized_total{reason}", "Requests without a valid key, by reason."),
    ("railbird_sign_ups_total{outcome}", "Forms submitted on the pricing page, by outcome."),
    ("railbird_rate_limited_total{limit}", "Requests over a limit, by limit."),
    ("railbird_mails_failed_total{reason}", "Failed attempts to send a mail, by reason."),
];

const CPU_SECONDS: (&str, &str) = ("process_cpu_seconds_total", "User and system CPU time.");

/// A counter with a label, whose values are known: its name and the label.
pub(crate) struct LabeledCounter(&'static str, &'static str);

const EVENTS_REJECTED: LabeledCounter = LabeledCounter("railbird_events_rejected_total", "reason");
/// Sockets that the service closed, by close code.
pub(crate) const WS_CLOSED: LabeledCounter = LabeledCounter("railbird_ws_closed_total", "code");
/// Forms on the pricing page.
pub(crate) const SIGN_UPS: LabeledCounter = LabeledCounter("railbird_sign_ups_total", "outcome");
pub(crate) const MAILS_FAILED: LabeledCounter =
    LabeledCounter("railbird_mails_failed_total", "reason");

impl LabeledCounter {
    /// Counts each of these values from now on: an alert on an increase sees the first one only after a 0.
    pub(crate) fn begin<T: Into<SharedString>>(&self, values: impl IntoIterator<Item = T>) {
        for value in values {
            self.add(value, 0);
        }
    }

    pub(crate) fn increment(&self, value: impl Into<SharedString>) {
        self.add(value, 1);
    }

    fn add(&self, value: impl Into<SharedString>, count: u64) {
        counter!(self.0, self.1 => value).increment(count);
    }
}

/// A metric without its labels.
fn name(metric: &'static str) -> &'static str {
    metric.split('{').next().unwrap_or(metric)
}

/// Installs the recorder that [`render`] reads. Further calls have no effect.
pub(crate) fn install() {
    HANDLE.get_or_init(|| {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        // An error means that the process has a recorder already, which is not ours to replace.
        let _ = metrics::set_global_recorder(recorder);
        for (metric, help) in GAUGES {
            describe_gauge!(name(metric), help);
        }
        for (metric, help) in COUNTERS.into_iter().chain(LABELED_COUNTERS) {
            describe_counter!(name(metric), help);
        }
        for (name, _) in COUNTERS {
            counter!(name).increment(0);
        }
        EVENTS_REJECTED.begin(DecodeError::CODES.iter().copied());
        gauge!("railbird_build_info", "version" => VERSION, "revision" => REVISION).set(1.0);
        // With milliseconds: a process may end and start twice within a second.
        set_time("process_start_time_seconds", Timestamp::now());
        handle
    });
}

/// All metrics in the Prometheus text format.
pub(crate) fn render() -> String {
    let handle = HANDLE.get();
    let mut text = handle.map(PrometheusHandle::render).unwrap_or_default();
    histogram::render(&mut text);
    // The counters of the recorder have no fractions.
    let ((name, help), seconds) = (CPU_SECONDS, process::cpu_seconds());
    text += &format!("# HELP {name} {help}\n# TYPE {name} counter\n");
    text += &format!("{name} {seconds}\n");
    text
}

/// Sets what the system knows of the process. Takes a millisecond for some thousand open files: they have to be listed.
pub(crate) fn process() {
    for (gauge, value) in [
        ("process_resident_memory_bytes", process::resident_bytes()),
        ("process_open_fds", process::open_files()),
        ("process_max_fds", getrlimit(Resource::Nofile).current),
    ] {
        if let Some(value) = value {
            set(gauge, value as f64);
        }
    }
}

/// Sets a gauge of [`GAUGES`] that has no label. It is exact up to 2^53.
pub(crate) fn set(gauge: &'static str, value: f64) {
    debug_assert!(GAUGES.iter().any(|(name, _)| *name == gauge), "{gauge}");
    gauge!(gauge).set(value);
}

pub(crate) fn set_flag(gauge: &'static str, is_set: bool) {
    set(gauge, f64::from(u8::from(is_set)));
}

pub(crate) fn set_time(gauge: &'static str, time: Timestamp) {
    set(gauge, time.as_millisecond() as f64 / 1e3);
}

/// Sets the time, the last event and the size of the latest snapshot of the views; zeros without one.
pub(crate) fn snapshot(written_at: Timestamp, seq: u64, bytes: u64) {
    set_time("railbird_snapshot_timestamp_seconds", written_at);
    set("railbird_snapshot_seq", seq as f64);
    set("railbird_snapshot_bytes", bytes as f64);
}

/// Sets a gauge of [`GAUGES`] for a stream.
pub(crate) fn set_of_stream(gauge: &'static str, stream: &'static str, value: f64) {
    let is_known = GAUGES.iter().any(|(metric, _)| name(metric) == gauge);
    debug_assert!(is_known, "{gauge}");
    gauge!(gauge, "stream" => stream).set(value);
}

/// Adds one to a counter of [`COUNTERS`].
pub(crate) fn count(counter: &'static str) {
    let is_known = COUNTERS.iter().any(|(name, _)| *name == counter);
    debug_assert!(is_known, "{counter}");
    counter!(counter).increment(1);
}

pub(crate) fn folded(tally: &Tally) {
    counter!("railbird_events_folded_total").increment(tally.folded);
    counter!("railbird_events_skipped_total").increment(tally.skipped);
    counter!("railbird_events_stale_total").increment(tally.stale);
    for (code, count) in &tally.rejected {
        EVENTS_REJECTED.add(*code, *count);
    }
}

pub(crate) fn rebuilds(count: u64) {
    counter!("railbird_rebuilds_total").absolute(count);
}

/// Counts holes and resets of a stream from now on.
pub(crate) fn begin_stream(stream: &'static str) {
    hole_counter(stream, true).increment(0);
    hole_counter(stream, false).increment(0);
    counter!("railbird_log_resets_total", "stream" => stream).increment(0);
}

/// Counts a hole in a stream. One that deletions do not explain is an alarm.
pub(crate) fn hole(stream: &'static str, is_explained: bool) {
    hole_counter(stream, is_explained).increment(1);
}

fn hole_counter(stream: &'static str, is_explained: bool) -> Counter {
    let cause = if is_explained { "deleted" } else { "lost" };
    counter!("railbird_log_holes_total", "stream" => stream, "cause" => cause)
}

/// Counts that an operator accepted another history of a stream.
pub(crate) fn log_reset(stream: &'static str) {
    counter!("railbird_log_resets_total", "stream" => stream).increment(1);
}

/// The metrics of the live channel, looked up once for the hot path.
#[derive(Debug)]
pub struct LiveMetrics {
    pub(crate) sockets: Gauge,
    /// Held for each socket: the number of clones is their number.
    pub(crate) socket_guard: Arc<()>,
    pub(crate) messages: Counter,
    pub(crate) conflated: Counter,
    /// By whether every missed message was replayed.
    resumed: [Counter; 2],
    publish_to_socket: Arc<DurationHistogram>,
}

impl Default for LiveMetrics {
    fn default() -> Self {
        let resumed = |recovered| counter!("railbird_ws_resumed_total", "recovered" => recovered);
        Self {
            sockets: gauge!("railbird_ws_connections"),
            socket_guard: Arc::default(),
            messages: counter!("railbird_ws_messages_total"),
            conflated: counter!("railbird_ws_conflated_total"),
            resumed: ["false", "true"].map(resumed),
            publish_to_socket: DurationHistogram::get(&PUBLISH_TO_SOCKET, ""),
        }
    }
}

impl LiveMetrics {
    /// The number of open sockets.
    pub(crate) fn sockets_open(&self) -> usize {
        Arc::strong_count(&self.socket_guard) - 1
    }

    pub(crate) fn resumed(&self, recovered: bool) {
        self.resumed[usize::from(recovered)].increment(1);
    }

    /// Notes that frames of an event were written to sockets. The clock of NATS may be ahead: then it took no time.
    pub(crate) fn written(&self, recorded_at: Timestamp) {
        let took = Timestamp::now().duration_since(recorded_at);
        let took = Duration::try_from(took).unwrap_or_default();
        self.publish_to_socket.observe(took);
    }
}

/// Holds a gauge one higher until dropped.
pub(crate) struct GaugeGuard(Gauge);

impl GaugeGuard {
    pub(crate) fn new(gauge: &Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}
