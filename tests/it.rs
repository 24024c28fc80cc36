//! Black-box tests of the whole service against a real nats-server.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    unreachable_pub,
    reason = "a test says where it failed by panicking"
)]

#[path = "../events/tests/generators/mod.rs"]
mod generators;
mod support;

mod access_log;
mod account;
mod admin;
mod architecture;
mod asyncapi;
mod backup;
mod betfair;
mod board;
mod check_config;
mod cli;
mod clients;
mod cluster;
mod conformance;
mod containers;
mod contract;
mod docs;
mod documents;
mod examples;
mod faults;
mod feeders;
mod feeding;
mod freshness;
mod histories;
mod hostile;
mod identity;
mod key_use;
mod keys;
mod kubernetes;
mod lag;
mod leases;
mod lifecycle;
mod limits;
mod live;
mod log;
mod mail;
mod metrics;
mod monitoring;
mod nats_errors;
mod openapi;
mod ops;
mod oracle;
mod packages;
mod pages;
mod pain;
mod plans;
mod poison;
mod pricing;
mod production;
mod protocol;
mod race_day;
mod racing;
mod regions;
mod rejections;
mod repair;
mod rights;
mod rpscrape;
mod scaling;
mod scripts;
mod season;
mod season_zh;
mod secrets;
mod shutdown;
mod snapshots;
mod status;
mod storage;
mod store;
mod tls;
mod watch;
mod web_pages;
