//! Metrics in the Prometheus text format: lag, rates, rejections, sockets, store size.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use projections::Tally;

use crate::limits::Period;

static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();

/// The help texts of gauges.
#[rustfmt::skip]
const GAUGES: [(&str, &str); 15] = [
    ("railbird_log_seq", "Sequence of the last event that the views reflect."),
    ("railbird_log_pending", "Events in the log that are not folded yet."),
    ("railbird_log_missing", "Sequences up to the last event for which the log has no event."),
    ("railbird_log_diverged", "1 if the stream has another history than the service has read."),
    ("railbird_log_settings_drift", "Settings of the stream that are not those that railbird creates it with."),
    ("railbird_nats_storage_bytes", "Bytes of all streams of the fullest nats-server."),
    ("railbird_nats_storage_bytes_max", "Bytes at which that nats-server stops all streams."),
    ("railbird_http_connections", "Open connections, without WebSockets."),
    ("railbird_tls_certificate_expires_timestamp_seconds", "When the TLS certificate expires, as a Unix time."),
    ("railbird_tls_certificate_renewal_failed", "1 if the files of the TLS certificate cannot be used, and an older one is in use."),
    ("railbird_ws_connections", "Open WebSockets."),
    ("railbird_store_bytes", "Size of the store on disk."),
    ("railbird_keys", "Valid API keys."),
    ("railbird_mails_waiting", "Mails to subscribers that are neither sent nor given up."),
    ("railbird_mails_oldest_seconds", "Age of the oldest waiting mail; 0 if none waits."),
];

/// The help texts of counters.
#[rustfmt::skip]
const COUNTERS: [(&str, &str); 21] = [
    ("railbird_log_holes_total", "Holes in the log that were read over, by whether messages were deleted or lost."),
    ("railbird_events_folded_total", "Events folded into views."),
    ("railbird_events_skipped_total", "Events at or below the checkpoint, not folded again."),
    ("railbird_events_stale_total", "Events superseded by a later one before they arrived."),
    ("railbird_events_rejected_total", "Rejected messages, by reason."),
    ("railbird_rejections_not_announced_total", "Rejections not announced to feeders because the queue was full."),
    ("railbird_http_requests_total", "Responses, by status class."),
    ("railbird_http_connections_refused_total", "Connections closed at once because too many were open."),
    ("railbird_tls_handshakes_failed_total", "TLS handshakes that failed or took too long."),
    ("railbird_ws_messages_total", "Messages sent to WebSockets."),
    ("railbird_ws_conflated_total", "Times that a slow client was moved on to the latest images."),
    ("railbird_ws_resumed_total", "Clients that resumed, by whether every message they missed was replayed."),
    ("railbird_ws_closed_total", "WebSockets closed by the service, by close code."),
    ("railbird_unauthorized_total", "Requests without a valid key, by reason."),
    ("railbird_sign_ups_total", "Forms submitted on the pricing page, by outcome."),
    ("railbird_rate_limited_total", "Requests over a limit, by limit."),
    ("railbird_account_events_skipped_total", "Events about keys and subscriptions that this version cannot decode."),
    ("railbird_key_use_failures_total", "Times that the use of keys could not be written or read."),
    ("railbird_mails_delivered_total", "Mails to subscribers accepted by a mail server."),
    ("railbird_mails_failed_total", "Failed attempts to send a mail, by reason."),
    ("railbird_mails_given_up_total", "Mails to subscribers that will not be tried again."),
];

/// Installs the recorder that [`render`] reads. Further calls have no effect.
pub(crate) fn install() {
    HANDLE.get_or_init(|| {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        // An error means that the process has a recorder already, which is not ours to replace.
        let _ = metrics::set_global_recorder(recorder);
        for (name, help) in GAUGES {
            describe_gauge!(name, help);
        }
        for (name, help) in COUNTERS {
            describe_counter!(name, help);
        }
        handle
    });
}

/// All metrics in the Prometheus text format.
pub(crate) fn render() -> String {
    let handle = HANDLE.get();
    handle.map(PrometheusHandle::render).unwrap_or_default()
}

/// Sets a gauge, which is a double: it is exact up to 2^53.
fn set(gauge: &'static str, count: u64) {
    gauge!(gauge).set(count as f64);
}

pub(crate) fn folded(tally: &Tally) {
    counter!("railbird_events_folded_total").increment(tally.folded);
    counter!("railbird_events_skipped_total").increment(tally.skipped);
    counter!("railbird_events_stale_total").increment(tally.stale);
    for (code, count) in &tally.rejected {
        counter!("railbird_events_rejected_total", "reason" => *code).increment(*count);
    }
}

pub(crate) fn not_announced() {
    counter!("railbird_rejections_not_announced_total").increment(1);
}

/// Counts a hole in a stream. One that deletions do not explain is an alarm.
pub(crate) fn hole(stream: &'static str, is_explained: bool) {
    let cause = if is_explained { "deleted" } else { "lost" };
    counter!("railbird_log_holes_total", "stream" => stream, "cause" => cause).increment(1);
}

pub(crate) fn progress(seq: u64, pending: u64, missing: u64) {
    set("railbird_log_seq", seq);
    set("railbird_log_pending", pending);
    set("railbird_log_missing", missing);
}

/// Sets for each stream whether it has another history than the service has read, and how many settings drifted.
pub(crate) fn log_health(streams: &[(&'static str, bool, usize)]) {
    for (stream, is_diverged, drift) in streams {
        gauge!("railbird_log_diverged", "stream" => *stream).set(f64::from(u8::from(*is_diverged)));
        gauge!("railbird_log_settings_drift", "stream" => *stream).set(*drift as f64);
    }
}

/// Sets the storage of the fullest nats-server.
pub(crate) fn nats_storage(bytes: u64, max: u64) {
    set("railbird_nats_storage_bytes", bytes);
    set("railbird_nats_storage_bytes_max", max);
}

/// Sets the sizes that are measured only for a scrape.
pub(crate) fn sizes(store_bytes: u64, keys: usize) {
    set("railbird_store_bytes", store_bytes);
    set("railbird_keys", keys as u64);
}

pub(crate) fn account_event_skipped() {
    counter!("railbird_account_events_skipped_total").increment(1);
}

pub(crate) fn key_use_failed() {
    counter!("railbird_key_use_failures_total").increment(1);
}

/// Sets when the TLS certificate expires, and whether its files cannot be used.
pub(crate) fn tls_certificate(expires: i64, renewal_failed: bool) {
    gauge!("railbird_tls_certificate_expires_timestamp_seconds").set(expires as f64);
    gauge!("railbird_tls_certificate_renewal_failed").set(f64::from(u8::from(renewal_failed)));
}

pub(crate) fn tls_handshakes_failed(count: u64) {
    counter!("railbird_tls_handshakes_failed_total").increment(count);
}

/// Counts the outcome of a form on the pricing page.
pub(crate) fn sign_up(outcome: &'static str) {
    counter!("railbird_sign_ups_total", "outcome" => outcome).increment(1);
}

/// Sets the number of waiting mails and the age of the oldest.
pub(crate) fn mails_waiting(count: usize, oldest: Duration) {
    set("railbird_mails_waiting", count as u64);
    gauge!("railbird_mails_oldest_seconds").set(oldest.as_secs_f64());
}

pub(crate) fn mail_delivered() {
    counter!("railbird_mails_delivered_total").increment(1);
}

pub(crate) fn mail_failed(reason: &'static str) {
    counter!("railbird_mails_failed_total", "reason" => reason).increment(1);
}

pub(crate) fn mail_given_up() {
    counter!("railbird_mails_given_up_total").increment(1);
}

/// A counter that can be read back, which those of the recorder cannot.
#[derive(Debug)]
struct ReadableCounter {
    counter: Counter,
    count: AtomicU64,
}

impl From<Counter> for ReadableCounter {
    fn from(counter: Counter) -> Self {
        let count = AtomicU64::new(0);
        Self { counter, count }
    }
}

impl ReadableCounter {
    fn increment(&self) {
        self.counter.increment(1);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

/// The metrics of HTTP, looked up once for the hot path.
#[derive(Debug)]
pub struct HttpMetrics {
    /// Responses by status class, from 1xx.
    responses: [ReadableCounter; 5],
    pub(crate) connections: Gauge,
    pub(crate) refused: Counter,
    pub(crate) key_missing: Counter,
    pub(crate) key_malformed: Counter,
    /// Requests with a key that is unknown, revoked or expired.
    pub(crate) key_not_valid: Counter,
    /// Requests without a valid key over the limit of their network address.
    pub(crate) limited_address: Counter,
    limited_minute: Counter,
    limited_day: Counter,
}

impl Default for HttpMetrics {
    fn default() -> Self {
        let unauthorized = |reason| counter!("railbird_unauthorized_total", "reason" => reason);
        let limited = |limit| counter!("railbird_rate_limited_total", "limit" => limit);
        Self {
            responses: ["1xx", "2xx", "3xx", "4xx", "5xx"]
                .map(|class| counter!("railbird_http_requests_total", "class" => class).into()),
            connections: gauge!("railbird_http_connections"),
            refused: counter!("railbird_http_connections_refused_total"),
            key_missing: unauthorized("missing"),
            key_malformed: unauthorized("malformed"),
            key_not_valid: unauthorized("not_valid"),
            limited_address: limited("address"),
            limited_minute: limited("minute"),
            limited_day: limited("day"),
        }
    }
}

impl HttpMetrics {
    /// Counts a request over the limit of its plan.
    pub(crate) fn limited(&self, period: Period) {
        match period {
            Period::Minute => self.limited_minute.increment(1),
            Period::Day => self.limited_day.increment(1),
        }
    }

    pub(crate) fn answered(&self, status: u16) {
        let class = usize::from(status / 100).clamp(1, 5) - 1;
        self.responses[class].increment();
    }

    /// The responses since the start by status class, from 1xx.
    pub(crate) fn responses(&self) -> [u64; 5] {
        self.responses.each_ref().map(ReadableCounter::count)
    }
}

/// The metrics of the live channel, looked up once for the hot path.
#[derive(Debug)]
pub struct LiveMetrics {
    pub(crate) sockets: Gauge,
    pub(crate) messages: Counter,
    pub(crate) conflated: Counter,
    recovered: Counter,
    not_recovered: Counter,
}

impl Default for LiveMetrics {
    fn default() -> Self {
        let resumed = |recovered| counter!("railbird_ws_resumed_total", "recovered" => recovered);
        Self {
            sockets: gauge!("railbird_ws_connections"),
            messages: counter!("railbird_ws_messages_total"),
            conflated: counter!("railbird_ws_conflated_total"),
            recovered: resumed("true"),
            not_recovered: resumed("false"),
        }
    }
}

impl LiveMetrics {
    pub(crate) fn resumed(&self, recovered: bool) {
        match recovered {
            true => self.recovered.increment(1),
            false => self.not_recovered.increment(1),
        }
    }

    /// Counts a socket that the service closed, by its close code, of which there are few.
    pub(crate) fn closed(&self, code: u16) {
        counter!("railbird_ws_closed_total", "code" => code.to_string()).increment(1);
    }
}

/// Holds a gauge one higher until dropped.
#[derive(Debug)]
pub(crate) struct GaugeGuard(Gauge);

impl GaugeGuard {
    #[must_use]
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
