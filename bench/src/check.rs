//! What it costs to look at the key of a request and to count the request to its plan, in one thread and without HTTP.

use std::hint::black_box;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use events::Text;
use projections::StoredMessage;
use railbird::accounts::{AccountEvent, ApiKey, KeyCache, KeyIssued, Ledger};
use railbird::limits::plans::Plans;
use railbird::limits::{HashedLimiter, Network};
use railbird::log::Outgoing;
use serde_json::{Value, json};

const PLANS: &str = include_str!("../plans.toml");

pub(crate) fn run(count: u32) -> anyhow::Result<Value> {
    let (key, unknown) = (ApiKey::generate("bench")?, ApiKey::generate("bench")?);
    let ring = ring(&key)?;
    let entry = ring.check(key.reveal()).map_err(|why| anyhow!("{why:?}"))?;
    let typo = format!("{}!", key.reveal());
    let strangers = HashedLimiter::new(
        NonZeroU32::new(120).context("some")?,
        Duration::from_secs(60),
    );
    Ok(json!({
        "call_key_ns": each(count, |_| ring.check(black_box(key.reveal()))),
        "call_limits_ns": each(count, |_| entry.meter.take()),
        "call_unknown_key_ns": each(count, |_| ring.check(black_box(unknown.reveal()))),
        "call_typo_ns": each(count, |_| ring.check(black_box(&typo))),
        "call_stranger_ns": each(count, |n| {
            let address = Ipv6Addr::from_bits(u128::from(n) << 64);
            strangers.take(&Network::from(IpAddr::from(address)))
        }),
    }))
}

/// Nanoseconds of a call.
fn each<T>(count: u32, call: impl Fn(u32) -> T) -> f64 {
    let begun = Instant::now();
    for n in 0..count {
        black_box(call(n));
    }
    begun.elapsed().as_nanos() as f64 / f64::from(count)
}

/// A ring with one key, on the plan with limits.
fn ring(key: &ApiKey) -> anyhow::Result<KeyCache> {
    let now = jiff::Timestamp::now().into();
    let issued = AccountEvent::new(KeyIssued::new(key, Text::parse("metered")?, None), now);
    let outgoing = Outgoing::from(&issued);
    let mut ledger = Ledger::default();
    ledger.fold(StoredMessage {
        seq: 1,
        recorded_at: now,
        subject: &outgoing.subject,
        payload: &outgoing.payload,
    })?;
    let ring = KeyCache::new(Plans::parse(PLANS)?);
    ring.fill(&ledger, now);
    Ok(ring)
}
