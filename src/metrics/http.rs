//! The metrics of HTTP. They are looked up once, so that a request costs some additions and no allocation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics::{Counter, Gauge, counter, gauge};

use super::histogram::{DurationHistogram, HistogramSettings};
use crate::limits::Period;

/// From a read of one view, which takes some 20 µs, to the time limit of handlers. Half a second and one are the wait
/// for a `Railbird-Min-Seq`. Each bucket is a series for each route, so there are few.
pub(super) static REQUEST_DURATION: HistogramSettings = HistogramSettings {
    name: "railbird_http_request_duration_seconds",
    help: "Time from the head of a request to the head of its answer, by route. Probes are not in it.",
    label: "route",
    buckets: &[
        0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 10.0,
    ],
};

const REQUESTS: &str = "railbird_http_requests_total";
const PROBES: &str = "railbird_probes_total";

/// What is counted in place of a path, a method or a status that the service does not have: each of its own would let
/// clients make any number of series.
pub(crate) const OTHER: &str = "other";
/// The methods that the service has, and [`OTHER`].
const METHODS: [&str; 5] = ["GET", "HEAD", "POST", "OPTIONS", OTHER];
const GET: usize = 0;
/// Statuses of GET that are counted from 0, so that an alert sees the first error of a route.
const STATUSES_FROM_START: [u16; 3] = [200, 500, 503];

/// Statuses of a class, from x00: the service has none above x31. One more is for all others.
const STATUSES_OF_CLASS: u16 = 32;
const STATUSES: usize = 5 * STATUSES_OF_CLASS as usize + 1;
/// A counter for each status, made with its first answer.
type StatusCounters = [OnceLock<Counter>; STATUSES];

/// The counter of a status in [`StatusCounters`].
fn status_index(status: u16) -> usize {
    let (class, rest) = (status / 100, status % 100);
    if (1..=5).contains(&class) && rest < STATUSES_OF_CLASS {
        usize::from((class - 1) * STATUSES_OF_CLASS + rest)
    } else {
        STATUSES - 1
    }
}

/// The answers of a route.
#[derive(Debug)]
pub(crate) struct RouteMetrics {
    route: &'static str,
    /// By method, made with the first answer.
    counters: [OnceLock<Box<StatusCounters>>; METHODS.len()],
    /// `None` for a probe.
    durations: Option<Arc<DurationHistogram>>,
}

impl RouteMetrics {
    /// A route, by its template.
    pub(crate) fn new(route: &'static str) -> Self {
        let durations = DurationHistogram::get(&REQUEST_DURATION, route);
        Self::begin(route, Some(durations))
    }

    /// A route of probes: they say nothing of what clients get, and are counted apart.
    pub(crate) fn of_probe(route: &'static str) -> Self {
        Self::begin(route, None)
    }

    fn begin(route: &'static str, durations: Option<Arc<DurationHistogram>>) -> Self {
        let metrics = Self {
            route,
            counters: Default::default(),
            durations,
        };
        for status in STATUSES_FROM_START {
            metrics.counter(GET, status).increment(0);
        }
        metrics
    }

    /// Counts an answer.
    pub(crate) fn answered(&self, method: KnownMethod, status: u16, took: Duration) {
        self.counter(method.0, status).increment(1);
        if let Some(durations) = &self.durations {
            durations.observe(took);
        }
    }

    fn counter(&self, method: usize, status: u16) -> &Counter {
        let counters = self.counters[method]
            .get_or_init(|| Box::new(std::array::from_fn(|_| OnceLock::new())));
        let index = status_index(status);
        counters[index].get_or_init(|| {
            let status = if index + 1 == STATUSES {
                OTHER.to_owned()
            } else {
                status.to_string()
            };
            let route = self.route;
            let method = METHODS[method];
            match self.durations {
                Some(_) => {
                    counter!(REQUESTS, "route" => route, "method" => method, "status" => status)
                }
                None => counter!(PROBES, "route" => route, "status" => status),
            }
        })
    }
}

/// The method of a request, as far as the service has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownMethod(usize);

impl KnownMethod {
    /// Its name; `other` for one that the service does not have.
    pub(crate) fn as_str(&self) -> &'static str {
        METHODS[self.0]
    }
}

impl From<&str> for KnownMethod {
    fn from(method: &str) -> Self {
        let known = METHODS.iter().position(|known| *known == method);
        Self(known.unwrap_or(METHODS.len() - 1))
    }
}

/// The metrics of HTTP that no route has, looked up once for the hot path.
#[derive(Debug)]
pub struct HttpMetrics {
    /// Responses by status class, from 1xx: the counters of the recorder cannot be read back.
    responses: [AtomicU64; 5],
    pub(crate) connections: Gauge,
    pub(crate) refused: Counter,
    pub(crate) key_missing: Counter,
    pub(crate) key_malformed: Counter,
    /// Requests with a key that is unknown, revoked or expired.
    pub(crate) key_not_valid: Counter,
    /// Requests without a valid key over the limit of their network address.
    pub(crate) limited_address: Counter,
    /// Requests over the limit of their plan, by [`Period`].
    limited: [Counter; 2],
}

impl Default for HttpMetrics {
    fn default() -> Self {
        let unauthorized = |reason| counter!("railbird_unauthorized_total", "reason" => reason);
        let limited = |limit| counter!("railbird_rate_limited_total", "limit" => limit);
        Self {
            responses: Default::default(),
            connections: gauge!("railbird_http_connections"),
            refused: counter!("railbird_http_connections_refused_total"),
            key_missing: unauthorized("missing"),
            key_malformed: unauthorized("malformed"),
            key_not_valid: unauthorized("not_valid"),
            limited_address: limited("address"),
            limited: ["minute", "day"].map(limited),
        }
    }
}

impl HttpMetrics {
    /// Counts a request over the limit of its plan.
    pub(crate) fn limited(&self, period: Period) {
        self.limited[period as usize].increment(1);
    }

    pub(crate) fn answered(&self, status: u16) {
        let class = usize::from(status / 100).clamp(1, 5) - 1;
        self.responses[class].fetch_add(1, Ordering::Relaxed);
    }

    /// The responses since the start by status class, from 1xx. Those to probes are in it.
    pub(crate) fn responses(&self) -> [u64; 5] {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        self.responses.each_ref().map(load)
    }
}

#[cfg(test)]
mod tests {
    use super::{KnownMethod, METHODS, STATUSES, status_index};

    #[test]
    fn each_status_has_a_counter_of_its_own_and_unknown_ones_share_one() {
        let known = (100..600).filter(|status| status % 100 < 32);
        let mut indexes: Vec<usize> = known.map(status_index).collect();
        indexes.dedup();
        assert_eq!(indexes, Vec::from_iter(0..STATUSES - 1));
        for unknown in [0, 99, 132, 499, 599, 600, 999, u16::MAX] {
            assert_eq!(status_index(unknown), STATUSES - 1, "{unknown}");
        }
    }

    #[test]
    fn unknown_methods_share_a_label() {
        for method in ["DELETE", "get", "BREW", ""] {
            assert_eq!(METHODS[KnownMethod::from(method).0], "other");
        }
        assert_eq!(METHODS[KnownMethod::from("HEAD").0], "HEAD");
    }
}
