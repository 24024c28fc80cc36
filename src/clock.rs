//! [`Clock`]: which day it is for racing.

use anyhow::Context;
use events::RacingDate;
use jiff::{Timestamp, tz::TimeZone};

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

    /// The zone's name.
    #[must_use]
    pub fn zone(&self) -> &str {
        &self.name
    }
}
