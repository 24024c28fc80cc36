//! The service as a deterministic simulation: the projector, the feed, the appender, leases and keys, as they ship,
//! over models of nats-server, network, disks and clocks. A seed decides what happens; the same seed is the same run.
//!
//! `RAILBIRD_SIMULATION_SEED` is the first seed, `RAILBIRD_SIMULATION_SEEDS` how many, or `RAILBIRD_SIMULATION_SECONDS`
//! for how long; `RAILBIRD_SIMULATION_STOP` is after how many failures to end, without shrinking
//! them, and `RAILBIRD_SIMULATION_WHOLE` prints all that happened in a run that fails.

mod chance;
mod checks;
mod client;
mod defects;
mod facts;
mod feeder;
mod keys;
pub(crate) mod machine;
mod oracle;
mod replica;
mod scenario;
mod script;
pub(crate) mod server;
mod streams;
mod watcher;
mod world;

use std::env;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, available_parallelism};
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
    let failures_max = number("RAILBIRD_SIMULATION_STOP");
    let began = Instant::now();
    let [runs, failures] = [(); 2].map(|()| AtomicU64::new(0));
    let run_seeds = || {
        while failures_max.is_none_or(|max| failures.load(Ordering::Relaxed) < max) {
            let run = runs.fetch_add(1, Ordering::Relaxed);
            if !seconds.map_or(run < seeds, |seconds| began.elapsed() < seconds) {
                runs.fetch_sub(1, Ordering::Relaxed);
                return;
            }
            if let Some(failure) = failure_of(first + run, failures_max.is_none()) {
                println!("{failure}");
                failures.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    // A seed runs in one thread.
    let threads = available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(run_seeds))));
    let elapsed = began.elapsed().as_secs_f64();
    let [runs, failures] = [runs, failures].map(AtomicU64::into_inner);
    println!(
        "\nchaos | simulation | {first} | {runs} | {elapsed:.0} | {failures} failures, {:.0} seeds a minute",
        runs as f64 * 60.0 / elapsed
    );
    assert!(failures == 0, "{failures} of {runs} seeds fail");
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

/// What a seed breaks, with the fewest steps that do if it is shrunk.
fn failure_of(seed: u64, shrinks: bool) -> Option<String> {
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
    while shrinks && n < steps.len() {
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
