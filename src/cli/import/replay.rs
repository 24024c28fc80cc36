//! [`ReplayClock`]: replays a file at its own times, or faster.

use std::time::Duration;

use events::Moment;
use tokio::time::Instant;

use crate::cli::speed::Speed;

/// The clock of a file that is replayed. It starts with the first event.
pub(super) struct ReplayClock {
    speed: Speed,
    started: Option<(Instant, Moment)>,
}

impl ReplayClock {
    pub(super) fn new(speed: Speed) -> Self {
        let started = None;
        Self { speed, started }
    }

    /// When an event is due; `None` if it is due now.
    pub(super) fn due(&mut self, time: Moment, now: Instant) -> Option<Instant> {
        let Speed::Times(times) = self.speed else {
            return None;
        };
        let (started, first) = *self.started.get_or_insert((now, time));
        let behind = Duration::try_from(time.timestamp().duration_since(first.timestamp()))
            .unwrap_or_default()
            .div_f64(times);
        Some(started + behind).filter(|due| *due > now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use events::Moment;
    use tokio::time::Instant;

    use super::ReplayClock;
    use crate::cli::speed::Speed;

    fn moment(second: u8) -> Moment {
        Moment::parse(&format!("2026-06-14T18:55:{second:02}Z")).expect("a time")
    }

    #[test]
    fn an_event_is_due_as_long_after_the_first_as_in_the_file() {
        for times in [1.0, 2.5, 10.0, 60.0, 1000.0] {
            let mut clock = ReplayClock::new(Speed::Times(times));
            let start = Instant::now();
            let seconds = |n: u64| start + Duration::from_secs(n).div_f64(times);
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
        let mut clock = ReplayClock::new(Speed::Max);
        let now = Instant::now();
        assert_eq!(clock.due(moment(10), now), None);
        assert_eq!(clock.due(moment(50), now), None);
    }
}
