//! `ops/prometheus` and `ops/grafana`: the alerts in their accidents, and the queries against real metrics.

mod accidents;
mod dashboard;
mod prometheus;
mod rules;
