//! The betting on a race from the opening of its pool to the close, with the announcements in between.

use std::ops::RangeInclusive;

use events::{PriceState, RaceStatus};

use self::RunnerAnnouncement::{
    Reinstated, RiderChanged, Suspended, WithdrawnEarly, WithdrawnLate,
};
use crate::pool::Pool;
use crate::race_script::RaceScript;
use crate::rng::Rng;
use crate::twists::Ending;
use crate::units::{MINUTE_MS, SECOND_MS};

/// These are times before the off.
const WITHDRAWN_EARLY_MS: u64 = 40 * MINUTE_MS;
const REINSTATED_MS: u64 = 25 * MINUTE_MS;
const INSPECTED_MS: u64 = 12 * MINUTE_MS;
const RIDER_CHANGED_MS: u64 = 8 * MINUTE_MS;
const ABANDONED_MS: u64 = 4 * MINUTE_MS;
const SUSPENDED_MS: u64 = 3 * MINUTE_MS;
const WITHDRAWN_LATE_MS: u64 = 2 * MINUTE_MS;

const TO_BE_EXAMINED: &str = "To be examined by the veterinary officer";
const WITHDRAWN_AT_THE_START: [&str; 4] = [
    "Lame behind the gates, on veterinary advice",
    "Broke through the gates and bolted",
    "Refused to be loaded",
    "Unseated the rider on the way to the start, and injured itself",
];

/// An announcement about a runner.
#[derive(Clone, Copy)]
enum RunnerAnnouncement {
    Suspended,
    WithdrawnEarly,
    WithdrawnLate,
    Reinstated,
    RiderChanged,
}

impl RaceScript<'_> {
    /// Quotes from the opening to the close, or until the course is inspected.
    pub(crate) fn bet(&mut self, rng: &mut Rng) -> Pool {
        let race = self.race;
        let end_ms = match self.twists.ending {
            Ending::Abandoned => race.off_ms - INSPECTED_MS,
            _ => race.close_ms(),
        };
        let mut pool = Pool::open(race, rng);
        let mut announcements = self.announcements().into_iter().peekable();
        let mut now_ms = race.open_ms;
        while now_ms < end_ms {
            self.quote(now_ms, &pool);
            let next_ms = now_ms + rng.between(quoted_every(race.off_ms - now_ms));
            now_ms = next_ms.min(end_ms);
            while let Some(next) = announcements.next_if(|(at_ms, ..)| *at_ms <= now_ms) {
                self.announce(next, &mut pool, rng);
            }
            pool.take_bets((race.off_ms - now_ms) / SECOND_MS, &race.chances, rng);
        }
        pool
    }

    /// The announcements in order, each with its time and its runner.
    fn announcements(&self) -> Vec<(u64, RunnerAnnouncement, usize)> {
        let race = self.race;
        let twists = self.twists;
        let announcements = [
            (WITHDRAWN_EARLY_MS, WithdrawnEarly, twists.reinstated),
            (REINSTATED_MS, Reinstated, twists.reinstated),
            (RIDER_CHANGED_MS, RiderChanged, twists.rider_changed),
            (SUSPENDED_MS, Suspended, twists.withdrawn),
            (WITHDRAWN_LATE_MS, WithdrawnLate, twists.withdrawn),
        ];
        let of_race = |(before_ms, announcement, runner): (u64, _, Option<usize>)| {
            let at_ms = (race.off_ms - before_ms).max(race.open_ms);
            Some((at_ms, announcement, runner?))
        };
        announcements.into_iter().filter_map(of_race).collect()
    }

    fn announce(
        &mut self,
        (at_ms, announcement, runner): (u64, RunnerAnnouncement, usize),
        pool: &mut Pool,
        rng: &mut Rng,
    ) {
        match announcement {
            RiderChanged => return self.change_rider(at_ms, runner, rng),
            Suspended => pool.suspend(runner),
            WithdrawnEarly => {
                self.withdraw(at_ms, runner, TO_BE_EXAMINED);
                pool.refund(runner);
            }
            WithdrawnLate => {
                self.withdraw(at_ms, runner, rng.pick(&WITHDRAWN_AT_THE_START));
                pool.refund(runner);
            }
            Reinstated => {
                self.reinstate(at_ms, runner, "Passed fit by the veterinary officer");
                pool.reinstate(runner, &self.race.chances);
            }
        }
        self.quote(at_ms, pool);
    }

    /// Abandons the race after an inspection of the course.
    pub(crate) fn abandon(&mut self, mut pool: Pool) {
        let at_ms = |before_ms| self.race.off_ms - before_ms;
        let inspected_ms = at_ms(INSPECTED_MS);
        let abandoned_ms = at_ms(ABANDONED_MS);
        pool.close(PriceState::Suspended);
        self.quote(inspected_ms, &pool);
        let inspected = "No betting while the course is inspected, after heavy rain";
        self.status(inspected_ms, RaceStatus::Scheduled, Some(inspected));
        pool.close(PriceState::NoMarket);
        self.quote(abandoned_ms, &pool);
        let abandoned = "The ground is unsafe after heavy rain";
        self.status(abandoned_ms, RaceStatus::Abandoned, Some(abandoned));
    }
}

/// The interval between quotes, shorter towards the off.
fn quoted_every(before_off_ms: u64) -> RangeInclusive<u64> {
    match before_off_ms / MINUTE_MS {
        0..5 => 8_500..=11_500,
        5..30 => 17_000..=23_000,
        _ => 51_000..=69_000,
    }
}
