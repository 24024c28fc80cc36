//! Measures the check of a key and the count of a request to its plan and use, in one thread and without HTTP.

use std::hint::black_box;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::{Context, anyhow};
use events::Text;
use projections::StoredMessage;
use railbird::accounts::{AccountEvent, Actor, ApiKey, KeyCache, KeyIssued, Ledger, SecretHash};
use railbird::limits::plans::Plans;
use railbird::limits::{HashedLimiter, Network, Proxies};
use railbird::log::Outgoing;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

const PLANS: &str = include_str!("../plans.toml");
const PROXY: &str = "127.0.0.1";

pub(crate) fn run(count: u32) -> anyhow::Result<Value> {
    let key = ApiKey::generate("bench")?;
    let unknown = ApiKey::generate("bench")?;
    let cache = key_cache(&key)?;
    let entry = cache
        .check(key.reveal())
        .map_err(|why| anyhow!("{why:?}"))?;
    let proxies = Proxies::new(vec![Proxies::parse(PROXY).map_err(anyhow::Error::msg)?]);
    let typo = format!("{}!", key.reveal());
    let limiter = HashedLimiter::new(
        NonZeroU32::new(120).context("not zero")?,
        Duration::from_secs(60),
    );
    Ok(json!({
        "call_hash_ns": each(count, |_| SecretHash::of(black_box(key.reveal()))),
        "call_key_ns": each(count, |_| cache.check(black_box(key.reveal()))),
        "call_limits_ns": each(count, |_| entry.meter.take()),
        "call_use_ns": each(count, |_| entry.use_counter.count(client(&proxies).into())),
        "call_all_ns": each(count, |_| {
            let entry = cache.check(black_box(key.reveal())).ok()?;
            let status = entry.meter.take().ok()?;
            entry.use_counter.count(client(&proxies).into());
            status
        }),
        "call_unknown_key_ns": each(count, |_| cache.check(black_box(unknown.reveal()))),
        "call_typo_ns": each(count, |_| cache.check(black_box(&typo))),
        "call_unauthenticated_ns": each(count, |n| {
            let address = Ipv6Addr::from_bits(u128::from(n) << 64);
            limiter.take(&Network::from(IpAddr::from(address)))
        }),
    }))
}

/// The address of a client behind a proxy: the longest way to it.
fn client(proxies: &Proxies) -> IpAddr {
    let peer = IpAddr::from([127, 0, 0, 1]);
    proxies.client(black_box(peer), [black_box("203.0.113.77")].into_iter())
}

/// Nanoseconds of CPU per call: other processes may have the core in between.
fn each<T>(count: u32, call: impl Fn(u32) -> T) -> f64 {
    let begun = cpu_nanoseconds();
    for n in 0..count {
        black_box(call(n));
    }
    (cpu_nanoseconds() - begun) / f64::from(count)
}

/// The CPU time of this thread.
fn cpu_nanoseconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
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
