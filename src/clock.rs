//! [`Clock`]: the racing day in the configured time zone. [`Uptime`]: how long ago something was.

use std::ops::{Add, Sub};
use std::time::Duration;

use events::RacingDate;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::sleep;

/// The longest single sleep of [`sleep_until`]. It notices within this time that the machine was asleep or its clock
/// was set.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// The time of the system clock.
pub fn now() -> Timestamp {
    #[cfg(test)]
    if let Some(now) = crate::simulation::machine::wall_clock() {
        return now;
    }
    Timestamp::now()
}

/// The racing day in a time zone.
#[derive(Debug, Clone)]
pub struct Clock {
    time_zone: TimeZone,
    /// Its name.
    pub zone: String,
}

impl Clock {
    /// A clock in a zone of the IANA database, such as `Asia/Hong_Kong`.
    ///
    /// # Errors
    /// Returns an error if there is no such zone.
    pub fn new(zone: &str) -> Result<Self, String> {
        let time_zone = TimeZone::get(zone)
            .map_err(|error| format!("there is no time zone {zone:?}: {error}"))?;
        let zone = zone.to_owned();
        Ok(Self { time_zone, zone })
    }

    /// The current date.
    pub fn today(&self) -> RacingDate {
        self.day_of(now())
    }

    /// The date at a time.
    pub fn day_of(&self, time: Timestamp) -> RacingDate {
        time.to_zoned(self.time_zone.clone()).date().into()
    }

    /// The start of a date.
    pub fn midnight(&self, date: RacingDate) -> Timestamp {
        let midnight = date.civil().to_zoned(self.time_zone.clone());
        midnight.map_or(Timestamp::MAX, |zoned| zoned.timestamp())
    }
}

/// A time since the start of the machine, for proofs and terms whose age decides, also after the machine was asleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uptime(SignedDuration);

impl Uptime {
    /// The current time.
    pub fn now() -> Self {
        #[cfg(test)]
        if let Some(time) = crate::simulation::machine::boot_time() {
            return Self(signed(time));
        }
        // It continues while the machine sleeps, which the clock of `Instant` does not, and nobody sets it.
        let now = clock_gettime(ClockId::Boottime);
        Self(SignedDuration::from_secs(now.tv_sec) + SignedDuration::from_nanos(now.tv_nsec))
    }

    /// The time since an earlier one; zero since a later one.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::try_from(self.0 - earlier.0).unwrap_or_default()
    }

    /// The time until now.
    pub fn elapsed(self) -> Duration {
        Self::now().since(self)
    }
}

impl Add<Duration> for Uptime {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(signed(duration)))
    }
}

impl Sub<Duration> for Uptime {
    type Output = Self;

    /// This may be before the start of the machine.
    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(signed(duration)))
    }
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// Sleeps until a time of the system clock, also if that is set meanwhile.
pub async fn sleep_until(time: Timestamp) {
    loop {
        let left = Duration::try_from(time.duration_since(now())).unwrap_or_default();
        if left.is_zero() {
            return;
        }
        sleep(left.min(SLEEP_MAX)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;

    fn day(zone: &str, time: &str) -> String {
        let clock = Clock::new(zone).expect(zone);
        clock.day_of(time.parse().expect(time)).to_string()
    }

    #[test]
    fn today_ends_at_midnight_in_the_configured_zone() {
        for (zone, midnight, ends, begins) in [
            ("Asia/Hong_Kong", "16:00:00", "2026-11-21", "2026-11-22"),
            ("Etc/UTC", "00:00:00", "2026-11-20", "2026-11-21"),
            ("Pacific/Kiritimati", "10:00:00", "2026-11-21", "2026-11-22"),
            ("Etc/GMT+12", "12:00:00", "2026-11-20", "2026-11-21"),
        ] {
            let midnight: jiff::Timestamp =
                format!("2026-11-21T{midnight}Z").parse().expect("a time");
            let before = midnight - jiff::SignedDuration::from_nanos(1);
            assert_eq!(day(zone, &before.to_string()), ends, "{zone}");
            assert_eq!(day(zone, &midnight.to_string()), begins, "{zone}");
        }
    }

    #[test]
    fn midnight_moves_with_summer_time() {
        for (time, on) in [
            ("2026-03-28T23:59:59Z", "2026-03-28"),
            ("2026-03-29T22:59:59Z", "2026-03-29"),
            ("2026-03-29T23:00:00Z", "2026-03-30"),
            ("2026-10-24T23:00:00Z", "2026-10-25"),
            ("2026-10-25T23:59:59Z", "2026-10-25"),
        ] {
            assert_eq!(day("Europe/London", time), on, "{time}");
        }
    }
}
