//! [`Budget`]: how long a rig runs, the seeds of its rounds, and its row in the table of `script/chaos`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::conformance::rng::Rng;

/// The short form, for each rig: that of CI.
const SHORT: Duration = Duration::from_secs(12);
const SHORT_SEED: u64 = 27;

/// The rounds of a rig. A round that fails prints its seed and what was done.
///
/// `RAILBIRD_CHAOS_SECONDS` selects the long form, `RAILBIRD_CHAOS_SEED` the seed of the first round. The seed of each
/// further round is one higher: with that as the first, the round is repeated alone.
#[derive(Debug)]
pub(super) struct Budget {
    rig: &'static str,
    first_seed: u64,
    duration: Duration,
    is_long: bool,
    begun: Instant,
    rounds: u64,
    /// The steps of the round.
    steps: Vec<String>,
    counts: BTreeMap<&'static str, u64>,
}

impl Budget {
    pub(super) fn of(rig: &'static str) -> Self {
        let seconds = number("RAILBIRD_CHAOS_SECONDS");
        let first_seed = number("RAILBIRD_CHAOS_SEED").unwrap_or(SHORT_SEED);
        let duration = seconds.map_or(SHORT, Duration::from_secs);
        eprintln!("{rig}: {duration:?} from seed {first_seed}");
        Self {
            rig,
            first_seed,
            duration,
            is_long: seconds.is_some(),
            begun: Instant::now(),
            rounds: 0,
            steps: Vec::new(),
            counts: BTreeMap::new(),
        }
    }

    /// The random numbers of the next round; `None` once the time is over. A round that has begun is finished.
    pub(super) fn next_round(&mut self) -> Option<Rng> {
        if self.rounds > 0 && self.begun.elapsed() >= self.duration {
            return None;
        }
        self.rounds += 1;
        self.steps.clear();
        Some(Rng::new(self.seed()))
    }

    /// Whether the machine is the rig's own for a long time, so that bounds of time hold.
    pub(super) fn is_long(&self) -> bool {
        self.is_long
    }

    /// Records what the rig does next.
    pub(super) fn step(&mut self, what: impl Into<String>) {
        self.steps.push(what.into());
    }

    /// Adds to a column of the rig's row.
    pub(super) fn count(&mut self, what: &'static str, more: u64) {
        *self.counts.entry(what).or_default() += more;
    }

    /// Raises a column of the rig's row to this many milliseconds.
    pub(super) fn count_max(&mut self, what: &'static str, duration: Duration) {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let most = self.counts.entry(what).or_default();
        *most = millis.max(*most);
    }

    /// Prints the row of the rig.
    pub(super) fn end(self) {
        let counts = self.counts.iter();
        let counts: Vec<String> = counts.map(|(what, n)| format!("{n} {what}")).collect();
        eprintln!(
            "chaos | {} | {} | {} | {:.0} | {}",
            self.rig,
            self.first_seed,
            self.rounds,
            self.begun.elapsed().as_secs_f64(),
            counts.join(", ")
        );
    }

    /// The seed of this round.
    fn seed(&self) -> u64 {
        self.first_seed.wrapping_add(self.rounds - 1)
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "{} failed in round {}: repeat it with RAILBIRD_CHAOS_SEED={}\n  {}",
                self.rig,
                self.rounds,
                self.seed(),
                self.steps.join("\n  ")
            );
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{variable} is no number: {value}")),
    )
}
