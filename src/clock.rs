//! [`Clock`]: which day it is for racing.

use std::time::Duration;

use anyhow::Context;
use events::RacingDate;
use jiff::{Timestamp, tz::TimeZone};
use tokio::time::sleep;

/// A machine that was asleep, or whose clock was set, is noticed within this time.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// The racing day in the configured zone.
#[derive(Debug, Clone)]
pub struct Clock {
    zone: TimeZone,
    name: String,
}

impl Clock {
    /// A clock in a zone of the IANA database, such as `Asia/Hong_Kong`.
    ///
    /// # Errors
    /// There is no such zone.
    pub fn new(zone: &str) -> anyhow::Result<Self> {
        let found =
            TimeZone::get(zone).with_context(|| format!("there is no time zone {zone:?}"))?;
        Ok(Self {
            zone: found,
            name: zone.to_owned(),
        })
    }

    /// Today.
    #[must_use]
    pub fn today(&self) -> RacingDate {
        Timestamp::now().to_zoned(self.zone.clone()).date().into()
    }

    /// When a date begins.
    #[must_use]
    pub fn midnight(&self, date: RacingDate) -> Timestamp {
        let midnight = date.civil().to_zoned(self.zone.clone());
        midnight.map_or(Timestamp::MAX, |zoned| zoned.timestamp())
    }

    /// The zone's name.
    #[must_use]
    pub fn zone(&self) -> &str {
        &self.name
    }
}

/// Waits for a time of day, not for a length of time.
pub async fn sleep_until(time: Timestamp) {
    loop {
        let left = Duration::try_from(time.duration_since(Timestamp::now())).unwrap_or_default();
        if left.is_zero() {
            return;
        }
        sleep(left.min(SLEEP_MAX)).await;
    }
}
