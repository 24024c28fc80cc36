//! The service as a deterministic simulation: the projector, the feed, the appender, leases and keys, as they ship,
//! over models of nats-server, network, disks and clocks. A seed decides what happens; the same seed is the same run.
//!
//! `RAILBIRD_SIMULATION_SEED` is the first seed, `RAILBIRD_SIMULATION_SEEDS` how many, or `RAILBIRD_SIMULATION_SECONDS`
//! for how long; `RAILBIRD_SIMULATION_WHOLE` prints all that happened in a run that fails.

mod chance;
mod checks;
mod client;
mod defects;
mod facts;
mod feeder;
pub(crate) mod machine;
mod oracle;
mod replica;
mod scenario;
mod script;
pub(crate) mod server;
mod streams;
mod world;

use std::env;
use std::panic::catch_unwind;
use std::time::{Duration, Instant};

use self::chance::Chance;
use self::machine::text_of;
use self::scenario::{Planned, plan};
use self::world::{Outcome, run};

/// The seeds of a run of all tests.
const SEEDS: u64 = 12;

#[test]
fn no_seed_breaks_a_promise() {
    let number = |name: &str| {
        env::var(name)
            .ok()
            .map(|value| value.parse().expect("a number"))
    };
    let first = number("RAILBIRD_SIMULATION_SEED").unwrap_or(1);
    let seconds = number("RAILBIRD_SIMULATION_SECONDS").map(Duration::from_secs);
    let seeds = number("RAILBIRD_SIMULATION_SEEDS").unwrap_or(SEEDS);
    let began = Instant::now();
    let mut failures = Vec::new();
    let mut runs = 0;
    while seconds.map_or(runs < seeds, |seconds| began.elapsed() < seconds) {
        if let Some(failure) = failure_of(first + runs) {
            println!("{failure}");
            failures.push(failure);
        }
        runs += 1;
    }
    let elapsed = began.elapsed().as_secs_f64();
    println!(
        "\nchaos | simulation | {first} | {runs} | {elapsed:.0} | {} failures, {:.0} seeds a minute",
        failures.len(),
        runs as f64 * 60.0 / elapsed
    );
    assert!(
        failures.is_empty(),
        "{} of {runs} seeds fail",
        failures.len()
    );
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 1..=4 {
        let plan = plan(&mut Chance::new(seed));
        assert_eq!(
            run(seed, &plan).trace,
            run(seed, &plan).trace,
            "seed {seed}"
        );
    }
}

/// What a seed breaks, with the fewest steps that do.
fn failure_of(seed: u64) -> Option<String> {
    let run = |seed, steps: &[Planned]| {
        let outcome = catch_unwind(|| run(seed, steps));
        outcome.unwrap_or_else(|panic| Outcome {
            trace: Vec::new(),
            failure: Some(format!("a panic: {}", text_of(&*panic))),
        })
    };
    let mut steps = plan(&mut Chance::new(seed));
    let mut outcome = run(seed, &steps);
    outcome.failure.as_ref()?;
    let mut n = 0;
    while n < steps.len() {
        let mut fewer = steps.clone();
        fewer.remove(n);
        let shrunk = run(seed, &fewer);
        if shrunk.failure.is_some() {
            (steps, outcome) = (fewer, shrunk);
        } else {
            n += 1;
        }
    }
    Some(report(seed, &steps, &outcome))
}

fn report(seed: u64, steps: &[Planned], outcome: &Outcome) -> String {
    let failure = outcome.failure.as_deref().unwrap_or_default();
    let steps: Vec<String> = steps
        .iter()
        .map(|planned| format!("  {:?} {:?}", planned.at, planned.step))
        .collect();
    let mut report = format!("seed {seed}: {failure}\n{}", steps.join("\n"));
    if env::var_os("RAILBIRD_SIMULATION_WHOLE").is_some() {
        report = format!("{report}\n{}", outcome.trace.join("\n"));
    }
    report
}
