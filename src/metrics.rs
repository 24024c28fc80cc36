//! Metrics in the Prometheus text format: lag, rates, rejections, sockets, store size.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use projections::Tally;

use crate::limits::Period;

static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();

/// Installs the recorder, once a process. Renders what [`render`] hands out.
pub fn install() {
    HANDLE.get_or_init(|| {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        // An error means that a recorder is there already, which then is not ours to replace.
        let _ = metrics::set_global_recorder(recorder);
        describe();
        handle
    });
}

/// All metrics as text.
#[must_use]
pub fn render() -> String {
    HANDLE
        .get()
        .map(PrometheusHandle::render)
        .unwrap_or_default()
}

fn describe() {
    describe_gauge!("railbird_log_seq", "The last event that the views reflect.");
    describe_gauge!(
        "railbird_log_pending",
        "Events that the log holds behind it."
    );
    describe_counter!("railbird_events_folded_total", "Events folded into views.");
    describe_counter!(
        "railbird_events_skipped_total",
        "Events at or below the checkpoint, not folded again."
    );
    describe_counter!(
        "railbird_events_stale_total",
        "Events older than what is in force."
    );
    describe_counter!(
        "railbird_events_rejected_total",
        "Messages refused, by reason."
    );
    describe_counter!(
        "railbird_rejections_not_announced_total",
        "Rejections that feeders were not told of, for too many were waiting."
    );
    describe_counter!(
        "railbird_http_requests_total",
        "Answers, by class of status."
    );
    describe_gauge!(
        "railbird_http_connections",
        "Open connections, without WebSockets."
    );
    describe_counter!(
        "railbird_http_connections_refused_total",
        "Connections closed at once, for there were too many."
    );
    describe_gauge!("railbird_ws_connections", "Open WebSockets.");
    describe_counter!("railbird_ws_messages_total", "Messages sent to WebSockets.");
    describe_counter!(
        "railbird_ws_conflated_total",
        "Times that a client fell behind and was moved on to the latest images."
    );
    describe_counter!(
        "railbird_ws_resumed_total",
        "Clients that came back, by whether what they missed could be said again."
    );
    describe_counter!(
        "railbird_ws_closed_total",
        "WebSockets that the service closed, by close code."
    );
    describe_gauge!("railbird_store_bytes", "Size of the store on disk.");
    describe_gauge!("railbird_keys", "Valid API keys.");
    describe_counter!(
        "railbird_unauthorized_total",
        "Requests without a valid key, by reason."
    );
    describe_counter!(
        "railbird_sign_ups_total",
        "Forms that were sent on the pricing page, by outcome."
    );
    describe_counter!(
        "railbird_rate_limited_total",
        "Requests over a limit, by which."
    );
    describe_counter!(
        "railbird_account_events_skipped_total",
        "Events about keys and subscriptions that this version does not understand."
    );
    describe_counter!(
        "railbird_mails_requested_total",
        "Mails with keys that are to be sent."
    );
    describe_counter!(
        "railbird_mails_delivered_total",
        "Mails with keys that a mail server took."
    );
    describe_counter!(
        "railbird_mails_failed_total",
        "Tries to send a mail with a key that failed, by reason."
    );
    describe_counter!(
        "railbird_mails_given_up_total",
        "Mails with keys that will not be tried again."
    );
    describe_gauge!(
        "railbird_mails_waiting",
        "Mails with keys that are neither sent nor given up."
    );
    describe_gauge!(
        "railbird_mails_oldest_seconds",
        "How long the oldest of them has waited; 0 if none does."
    );
}

/// Counts what became of a batch.
pub fn folded(tally: &Tally) {
    counter!("railbird_events_folded_total").increment(tally.folded);
    counter!("railbird_events_skipped_total").increment(tally.skipped);
    counter!("railbird_events_stale_total").increment(tally.stale);
    for (code, count) in &tally.rejected {
        counter!("railbird_events_rejected_total", "reason" => *code).increment(*count);
    }
}

/// Counts a rejection that is not announced.
pub fn not_announced() {
    counter!("railbird_rejections_not_announced_total").increment(1);
}

/// Notes how far the views are.
#[expect(
    clippy::cast_precision_loss,
    reason = "a gauge is a double; exact up to 2^53 events"
)]
pub fn progress(seq: u64, pending: u64) {
    gauge!("railbird_log_seq").set(seq as f64);
    gauge!("railbird_log_pending").set(pending as f64);
}

/// Notes the sizes that are only looked at when somebody asks.
#[expect(
    clippy::cast_precision_loss,
    reason = "a gauge is a double; exact up to 2^53 bytes"
)]
pub fn sizes(store_bytes: u64, keys: usize) {
    gauge!("railbird_store_bytes").set(store_bytes as f64);
    gauge!("railbird_keys").set(keys as f64);
}

/// Counts an event of the stream of accounts that is not understood.
pub fn account_event_skipped() {
    counter!("railbird_account_events_skipped_total").increment(1);
}

/// Counts what became of a form on the pricing page.
pub fn sign_up(outcome: &'static str) {
    counter!("railbird_sign_ups_total", "outcome" => outcome).increment(1);
}

/// Notes the mails that wait, and since when the oldest does.
#[expect(
    clippy::cast_precision_loss,
    reason = "a gauge is a double; exact up to 2^53 mails"
)]
pub fn mails_waiting(count: usize, oldest: Duration) {
    gauge!("railbird_mails_waiting").set(count as f64);
    gauge!("railbird_mails_oldest_seconds").set(oldest.as_secs_f64());
}

/// Counts a mail that is to be sent.
pub fn mail_requested() {
    counter!("railbird_mails_requested_total").increment(1);
}

/// Counts a mail that was sent.
pub fn mail_delivered() {
    counter!("railbird_mails_delivered_total").increment(1);
}

/// Counts a try to send a mail that failed.
pub fn mail_failed(reason: &'static str) {
    counter!("railbird_mails_failed_total", "reason" => reason).increment(1);
}

/// Counts a mail that will not be tried again.
pub fn mail_given_up() {
    counter!("railbird_mails_given_up_total").increment(1);
}

/// The metrics of the hot paths, looked up once.
#[derive(Debug)]
pub struct HttpMetrics {
    answers: [Counter; 5],
    /// Open connections.
    pub connections: Gauge,
    /// Connections closed at once.
    pub refused: Counter,
    /// Requests without a key.
    pub key_missing: Counter,
    /// Requests with what is no key.
    pub key_malformed: Counter,
    /// Requests with a key that was never issued, or is no longer valid.
    pub key_not_valid: Counter,
    /// Of those without a valid key, those that were one too many from their network address.
    pub limited_strangers: Counter,
    limited_minute: Counter,
    limited_day: Counter,
}

impl Default for HttpMetrics {
    fn default() -> Self {
        let class =
            |class: &'static str| counter!("railbird_http_requests_total", "class" => class);
        let unauthorized =
            |reason: &'static str| counter!("railbird_unauthorized_total", "reason" => reason);
        let limited =
            |limit: &'static str| counter!("railbird_rate_limited_total", "limit" => limit);
        Self {
            answers: [
                class("1xx"),
                class("2xx"),
                class("3xx"),
                class("4xx"),
                class("5xx"),
            ],
            connections: gauge!("railbird_http_connections"),
            refused: counter!("railbird_http_connections_refused_total"),
            key_missing: unauthorized("missing"),
            key_malformed: unauthorized("malformed"),
            key_not_valid: unauthorized("not_valid"),
            limited_strangers: limited("address"),
            limited_minute: limited("minute"),
            limited_day: limited("day"),
        }
    }
}

impl HttpMetrics {
    /// Counts a request that a plan did not allow.
    pub fn limited(&self, period: Period) {
        match period {
            Period::Minute => self.limited_minute.increment(1),
            Period::Day => self.limited_day.increment(1),
        }
    }

    /// Counts an answer.
    pub fn answered(&self, status: u16) {
        let class = usize::from(status / 100).clamp(1, 5) - 1;
        self.answers[class].increment(1);
    }
}

/// The metrics of the live channel, looked up once.
#[derive(Debug)]
pub struct LiveMetrics {
    /// Clients.
    pub sockets: Gauge,
    /// Messages sent to clients.
    pub messages: Counter,
    /// Clients that fell behind.
    pub conflated: Counter,
    recovered: Counter,
    not_recovered: Counter,
}

impl Default for LiveMetrics {
    fn default() -> Self {
        let resumed = |recovered: &'static str| counter!("railbird_ws_resumed_total", "recovered" => recovered);
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
    /// Counts a client that came back.
    pub fn resumed(&self, recovered: bool) {
        if recovered {
            self.recovered.increment(1);
        } else {
            self.not_recovered.increment(1);
        }
    }

    /// Counts a client that was closed with a code. There are few codes.
    pub fn closed(&self, code: u16) {
        counter!("railbird_ws_closed_total", "code" => code.to_string()).increment(1);
    }
}

/// Counts something up while it lives.
#[derive(Debug)]
pub struct Held(Gauge);

impl Held {
    /// Counts one more.
    #[must_use]
    pub fn new(gauge: &Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}
