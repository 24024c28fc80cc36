//! Measures the check of a key and the count of a request to its plan, in one thread and without HTTP.

use std::hint::black_box;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use events::Text;
use projections::StoredMessage;
use railbird::accounts::{AccountEvent, Actor, ApiKey, KeyCache, KeyIssued, Ledger};
use railbird::limits::plans::Plans;
use railbird::limits::{HashedLimiter, Network};
use railbird::log::Outgoing;
use serde_json::{Value, json};

const PLANS: &str = include_str!("../plans.toml");

pub(crate) fn run(count: u32) -> anyhow::Result<Value> {
    let (key, unknown) = (ApiKey::generate("bench")?, ApiKey::generate("bench")?);
    let cache = key_cache(&key)?;
    let entry = cache
        .check(key.reveal())
        .map_err(|why| anyhow!("{why:?}"))?;
    let typo = format!("{}!", key.reveal());
    let limiter = HashedLimiter::new(
        NonZeroU32::new(120).context("not zero")?,
        Duration::from_secs(60),
    );
    Ok(json!({
        "call_key_ns": each(count, |_| cache.check(black_box(key.reveal()))),
        "call_limits_ns": each(count, |_| entry.meter.take()),
        "call_unknown_key_ns": each(count, |_| cache.check(black_box(unknown.reveal()))),
        "call_typo_ns": each(count, |_| cache.check(black_box(&typo))),
        "call_unauthenticated_ns": each(count, |n| {
            let address = Ipv6Addr::from_bits(u128::from(n) << 64);
            limiter.take(&Network::from(IpAddr::from(address)))
        }),
    }))
}

/// Nanoseconds per call.
fn each<T>(count: u32, call: impl Fn(u32) -> T) -> f64 {
    let begun = Instant::now();
    for n in 0..count {
        black_box(call(n));
    }
    begun.elapsed().as_nanos() as f64 / f64::from(count)
}

/// A cache with one key, on a plan with limits.
fn key_cache(key: &ApiKey) -> anyhow::Result<KeyCache> {
    let now = jiff::Timestamp::now().into();
    let issued = AccountEvent::new(
        Actor::Service,
        KeyIssued::new(key, Text::parse("metered")?, None),
        now,
    );
    let outgoing = Outgoing::from(&issued);
    let mut ledger = Ledger::default();
    ledger.fold(StoredMessage {
        seq: 1,
        recorded_at: now,
        subject: &outgoing.subject,
        payload: &outgoing.payload,
    })?;
    let cache = KeyCache::new(Plans::parse(PLANS)?, Duration::MAX);
    cache.fill(&ledger, now);
    Ok(cache)
}
