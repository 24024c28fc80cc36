//! [`LogClock`]: the clock by which the log stores messages. It may be ahead for a while, and then be corrected.

use events::Moment;
use serde::{Deserialize, Serialize};

/// Microseconds since 1970: shorter in the stored state than RFC 3339.
pub(crate) type Micros = i64;

/// A smaller step back is none: a server may store messages in another order than it took their times.
const JITTER: Micros = 50_000;

/// The clocks of a cluster's servers differ by less. A larger step is a correction, not a new leader.
const SKEW: Micros = 1_000_000;

/// The longest time between an event and its message around a correction: NATS may be away meanwhile.
const LATE: Micros = 10 * 60 * 1_000_000;

/// The latest steps that a state which reflects none of them takes into account.
const STEPS_MAX: u32 = 8;

/// The steps that are kept, so that a replay of the latest messages knows those before each of them.
const STEPS_KEPT: usize = 2 * STEPS_MAX as usize;

/// A step back of the log's clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockStep {
    /// The sequence of the first message after it.
    pub seq: u64,
    /// The latest time before it.
    pub from: Moment,
    /// When the log stored that message.
    pub to: Moment,
}

impl ClockStep {
    /// Whether a clock was corrected: servers that take turns differ by less.
    pub fn is_correction(&self) -> bool {
        self.from.microseconds() - self.to.microseconds() > SKEW
    }

    /// The latest time that what was taken before the step may have: later ones may be wrong. The events that feeders
    /// repeat because the leader changed are older.
    fn time_max(&self) -> Micros {
        self.to.microseconds() - if self.is_correction() { LATE } else { SKEW }
    }
}

/// A fold of the times of all messages. Times that were taken before the clock stepped back prove nothing afterwards.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogClock {
    /// The latest time at which the log stored a message, since the last step.
    recorded_at: Option<Moment>,
    /// The second latest time of an event and the latest one; each at most when the log stored the event.
    times: [Option<Moment>; 2],
    /// How often the clock stepped back.
    step_count: u32,
    /// The latest of these steps.
    steps: Vec<ClockStep>,
}

impl LogClock {
    /// The clock without the times of events: it has all steps, and the times of the events that pass it from here on.
    pub(crate) fn of_part(&self) -> Self {
        Self {
            times: [None; 2],
            ..self.clone()
        }
    }

    /// Takes the time at which the log stored the next message. Returns the step if its clock stepped back.
    pub(crate) fn record(&mut self, seq: u64, to: Moment) -> Option<&ClockStep> {
        let from = self.recorded_at.unwrap_or(to).max(to);
        if from.microseconds() - to.microseconds() <= JITTER {
            self.recorded_at = Some(from);
            return None;
        }
        self.recorded_at = Some(to);
        self.times = self.times.map(|time| time.min(Some(to)));
        self.step_count += 1;
        if self.steps.len() == STEPS_KEPT {
            self.steps.remove(0);
        }
        self.steps.push(ClockStep { seq, from, to });
        self.steps.last()
    }

    /// Takes the time of an event.
    pub(crate) fn pass(&mut self, time: Moment) {
        self.times[0] = self.times[0].max(self.times[1].min(Some(time)));
        self.times[1] = self.times[1].max(Some(time));
    }

    /// The latest time that two events have passed: one alone may have a wrong time. `None` before the second event.
    pub fn latest_time(&self) -> Option<Moment> {
        self.times[0]
    }

    /// For a state that reflects the first `seen` steps: the number of steps up to the message at `seq`, and the latest
    /// time that what was taken before these steps may have. `None` if the state reflects all.
    pub(crate) fn steps_after(&self, seen: u32, seq: u64) -> Option<(u32, Micros)> {
        let known = self.steps.partition_point(|step| step.seq <= seq);
        let count = self.step_count - (self.steps.len() - known) as u32;
        let unseen = count.checked_sub(seen).filter(|unseen| *unseen > 0)?;
        let steps = self.steps[..known].iter().rev();
        let unseen = steps.take(unseen.min(STEPS_MAX) as usize);
        let time_max = unseen.map(ClockStep::time_max).min();
        Some((count, time_max.unwrap_or(Micros::MAX)))
    }

    /// Whether all is known that a fold of the messages after a sequence takes into account.
    pub(crate) fn knows_steps_after(&self, seq: u64) -> bool {
        self.steps.iter().filter(|step| step.seq > seq).count() <= STEPS_KEPT - STEPS_MAX as usize
    }
}
