//! The betting on a race from the opening of its pool to the close, with the announcements in between.

use std::ops::RangeInclusive;

use events::{PriceState, RaceStatus};

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

/// An announcement about a runner, which is its index on the card.
#[derive(Clone, Copy)]
enum RunnerAnnouncement {
    Suspended(usize),
    WithdrawnEarly(usize),
    WithdrawnLate(usize),
    Reinstated(usize),
    RiderChanged(usize),
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
            while let Some((at_ms, announcement)) =
                announcements.next_if(|(at_ms, _)| *at_ms <= now_ms)
            {
                self.announce(at_ms, announcement, &mut pool, rng);
            }
            pool.take_bets((race.off_ms - now_ms) / SECOND_MS, &race.chances, rng);
        }
        pool
    }

    /// The announcements in order.
    fn announcements(&self) -> Vec<(u64, RunnerAnnouncement)> {
        let twists = self.twists;
        let of = |runner: Option<usize>,
                  before_ms: u64,
                  announcement: fn(usize) -> RunnerAnnouncement| {
            let at_ms = self.race.off_ms - before_ms;
            runner.map(|runner| (at_ms.max(self.race.open_ms), announcement(runner)))
        };
        let announcements = [
            of(
                twists.reinstated,
                WITHDRAWN_EARLY_MS,
                RunnerAnnouncement::WithdrawnEarly,
            ),
            of(
                twists.reinstated,
                REINSTATED_MS,
                RunnerAnnouncement::Reinstated,
            ),
            of(
                twists.rider_changed,
                RIDER_CHANGED_MS,
                RunnerAnnouncement::RiderChanged,
            ),
            of(
                twists.withdrawn,
                SUSPENDED_MS,
                RunnerAnnouncement::Suspended,
            ),
            of(
                twists.withdrawn,
                WITHDRAWN_LATE_MS,
                RunnerAnnouncement::WithdrawnLate,
            ),
        ];
        announcements.into_iter().flatten().collect()
    }

    fn announce(
        &mut self,
        at_ms: u64,
        announcement: RunnerAnnouncement,
        pool: &mut Pool,
        rng: &mut Rng,
    ) {
        match announcement {
            RunnerAnnouncement::RiderChanged(runner) => {
                return self.change_rider(at_ms, runner, rng);
            }
            RunnerAnnouncement::Suspended(runner) => pool.suspend(runner),
            RunnerAnnouncement::WithdrawnEarly(runner) => {
                self.withdraw(at_ms, runner, TO_BE_EXAMINED);
                pool.refund(runner);
            }
            RunnerAnnouncement::WithdrawnLate(runner) => {
                self.withdraw(at_ms, runner, rng.pick(&WITHDRAWN_AT_THE_START));
                pool.refund(runner);
            }
            RunnerAnnouncement::Reinstated(runner) => {
                self.reinstate(at_ms, runner, "Passed fit by the veterinary officer");
                pool.reinstate(runner, &self.race.chances);
            }
        }
        self.quote(at_ms, pool);
    }

    /// Abandons the race after an inspection of the course.
    pub(crate) fn abandon(&mut self, mut pool: Pool) {
        let at_ms = |before_ms| self.race.off_ms - before_ms;
        let (inspected_ms, abandoned_ms) = (at_ms(INSPECTED_MS), at_ms(ABANDONED_MS));
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
