//! [`Budget`]: how long a rig runs, the seeds of its rounds, and its row in the table of `script/chaos`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::conformance::rng::Rng;

/// The first seed of the short form, that of CI.
const SHORT_SEED: u64 = 27;

/// The rounds of a rig. A round that fails prints its seed and what was done.
///
/// `RAILBIRD_CHAOS_SECONDS` selects the long form, `RAILBIRD_CHAOS_SEED` the seed of the first round. The seed of each
/// further round is one higher: with that as the first, the round is repeated alone.
#[derive(Debug)]
pub(super) struct Budget {
    rig: &'static str,
    first_seed: u64,
    end: End,
    begun: Instant,
    rounds: u64,
    /// The steps of the round.
    steps: Vec<String>,
    counts: BTreeMap<&'static str, u64>,
    /// The column that a long run has to bring to this number, however long that takes.
    minimum: Option<(&'static str, u64)>,
}

/// When a rig has done enough. The short form does the same on any machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    After(Duration),
    Rounds(u64),
}

impl Budget {
    /// The short form has so many rounds.
    pub(super) fn of(rig: &'static str, short_rounds: u64) -> Self {
        let seconds = number("RAILBIRD_CHAOS_SECONDS");
        let first_seed = number("RAILBIRD_CHAOS_SEED").unwrap_or(SHORT_SEED);
        let end = seconds.map_or(End::Rounds(short_rounds), |seconds| {
            End::After(Duration::from_secs(seconds))
        });
        eprintln!("{rig}: {end:?} from seed {first_seed}");
        Self {
            rig,
            first_seed,
            end,
            begun: Instant::now(),
            rounds: 0,
            steps: Vec::new(),
            counts: BTreeMap::new(),
            minimum: None,
        }
    }

    /// A long run continues until the count of a column is this number for each hour of its time.
    pub(super) fn with_an_hour(mut self, column: &'static str, count: u64) -> Self {
        if let End::After(duration) = self.end {
            self.minimum = Some((column, count * duration.as_secs() / 3_600));
        }
        self
    }

    /// The random numbers of the next round; `None` once enough was done.
    pub(super) fn next_round(&mut self) -> Option<Rng> {
        let is_over = match self.end {
            End::After(_) => self.rounds > 0 && !self.has_time(),
            End::Rounds(rounds) => self.rounds >= rounds,
        };
        if is_over {
            return None;
        }
        self.rounds += 1;
        self.steps.clear();
        Some(Rng::new(self.seed()))
    }

    /// Whether the machine is the rig's own for a long time, so that bounds of time hold.
    pub(super) fn is_long(&self) -> bool {
        matches!(self.end, End::After(_))
    }

    /// Whether a long round goes on. A short one ends by itself.
    pub(super) fn has_time(&self) -> bool {
        match self.end {
            End::After(duration) => self.begun.elapsed() < duration || self.lacks_some(),
            End::Rounds(_) => true,
        }
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

    fn lacks_some(&self) -> bool {
        let count = |column| self.counts.get(column).copied().unwrap_or_default();
        self.minimum
            .is_some_and(|(column, minimum)| count(column) < minimum)
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
