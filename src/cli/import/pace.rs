//! [`Pace`]: how fast a file with times of its own is played.

use std::time::Duration;

use clap::ValueEnum;
use events::Moment;
use tokio::time::Instant;

/// How much faster than it was recorded a file is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Speed {
    /// As it was recorded.
    #[value(name = "1")]
    Recorded,
    /// Ten times as fast.
    #[value(name = "10")]
    TenTimes,
    /// As fast as the log takes it.
    Max,
}

impl Speed {
    fn factor(self) -> Option<u32> {
        match self {
            Self::Recorded => Some(1),
            Self::TenTimes => Some(10),
            Self::Max => None,
        }
    }
}

/// The clock of a file that is played: it starts with the first event.
#[derive(Debug)]
pub(super) struct Pace {
    factor: Option<u32>,
    started: Option<(Instant, Moment)>,
}

impl Pace {
    pub(super) fn new(speed: Speed) -> Self {
        Self {
            factor: speed.factor(),
            started: None,
        }
    }

    /// Whether events have to wait for their time.
    pub(super) fn is_timed(&self) -> bool {
        self.factor.is_some()
    }

    /// When an event is due; `None` if it is now.
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

    use super::{Pace, Speed};

    fn moment(second: u8) -> Moment {
        Moment::parse(&format!("2026-06-14T18:55:{second:02}Z")).expect("a time")
    }

    #[test]
    fn an_event_is_due_as_long_after_the_first_as_in_the_file() {
        for (speed, factor) in [(Speed::Recorded, 1), (Speed::TenTimes, 10)] {
            let (mut pace, start) = (Pace::new(speed), Instant::now());
            let seconds = |n: u64| start + Duration::from_secs(n) / factor;
            assert_eq!(pace.due(moment(10), start), None);
            assert_eq!(pace.due(moment(10), start), None);
            assert_eq!(pace.due(moment(17), start), Some(seconds(7)));
            assert_eq!(pace.due(moment(17), seconds(8)), None, "it is late");
            assert_eq!(pace.due(moment(5), seconds(1)), None, "it goes back");
            assert_eq!(pace.due(moment(20), seconds(9)), Some(seconds(10)));
        }
    }

    #[test]
    fn without_a_pace_everything_is_due() {
        let (mut pace, now) = (Pace::new(Speed::Max), Instant::now());
        assert_eq!(pace.due(moment(10), now), None);
        assert_eq!(pace.due(moment(50), now), None);
    }
}
