//! [`ReplayClock`]: replays a file at its own times, or faster.

use std::time::Duration;

use clap::ValueEnum;
use events::Moment;
use tokio::time::Instant;

/// How much faster than recorded a file is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ReplaySpeed {
    /// As recorded.
    #[value(name = "1")]
    Recorded,
    /// Ten times as fast.
    #[value(name = "10")]
    TenTimes,
    /// As fast as the log accepts events.
    Max,
}

/// The clock of a file that is replayed. It starts with the first event.
pub(super) struct ReplayClock {
    factor: Option<u32>,
    started: Option<(Instant, Moment)>,
}

impl ReplayClock {
    pub(super) fn new(speed: ReplaySpeed) -> Self {
        let started = None;
        let factor = match speed {
            ReplaySpeed::Recorded => Some(1),
            ReplaySpeed::TenTimes => Some(10),
            ReplaySpeed::Max => None,
        };
        Self { factor, started }
    }

    /// When an event is due; `None` if it is due now.
    pub(super) fn due(&mut self, time: Moment, now: Instant) -> Option<Instant> {
        let factor = self.factor?;
        let (started, first) = *self.started.get_or_insert((now, time));
        let behind = time.timestamp().duration_since(first.timestamp());
        let behind = Duration::try_from(behind).unwrap_or_default() / factor;
        Some(started + behind).filter(|due| *due > now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use events::Moment;
    use tokio::time::Instant;

    use super::{ReplayClock, ReplaySpeed};

    fn moment(second: u8) -> Moment {
        Moment::parse(&format!("2026-06-14T18:55:{second:02}Z")).expect("a time")
    }

    #[test]
    fn an_event_is_due_as_long_after_the_first_as_in_the_file() {
        for (speed, factor) in [(ReplaySpeed::Recorded, 1), (ReplaySpeed::TenTimes, 10)] {
            let (mut clock, start) = (ReplayClock::new(speed), Instant::now());
            let seconds = |n: u64| start + Duration::from_secs(n) / factor;
            assert_eq!(clock.due(moment(10), start), None);
            assert_eq!(clock.due(moment(10), start), None);
            assert_eq!(clock.due(moment(17), start), Some(seconds(7)));
            assert_eq!(clock.due(moment(17), seconds(8)), None, "it is late");
            assert_eq!(clock.due(moment(5), seconds(1)), None, "it goes back");
            assert_eq!(clock.due(moment(20), seconds(9)), Some(seconds(10)));
        }
    }

    #[test]
    fn at_full_speed_every_event_is_due() {
        let (mut clock, now) = (ReplayClock::new(ReplaySpeed::Max), Instant::now());
        assert_eq!(clock.due(moment(10), now), None);
        assert_eq!(clock.due(moment(50), now), None);
    }
}
