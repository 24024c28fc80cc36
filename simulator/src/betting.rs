//! The betting on a race from the opening of its pools to the close, with the announcements in between.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use events::{DividendStatus, PriceState, RaceStatus};

use self::Occasion::{Quoted, Reinstated, RiderChanged, Suspended, WithdrawnEarly, WithdrawnLate};
use crate::fixed_odds::{FIXED_ODDS, FixedOdds};
use crate::pool::PoolKind;
use crate::race_script::RaceScript;
use crate::rng::Rng;
use crate::source::{BOOKMAKER, TOTE};
use crate::tote::Tote;
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

/// The bookmaker and the exchange quote so long after an announcement.
const REACTION_MS: u64 = 2 * SECOND_MS;
/// The tote quotes pairs with every so many-th quote of runners.
const PAIRS_QUOTED_EVERY: usize = 10;

const TO_BE_EXAMINED: &str = "To be examined by the veterinary officer";
const WITHDRAWN_AT_THE_START: [&str; 4] = [
    "Lame behind the gates, on veterinary advice",
    "Broke through the gates and bolted",
    "Refused to be loaded",
    "Unseated the rider on the way to the start, and injured itself",
];

/// What happens between two quotes of the tote.
enum Occasion {
    Suspended(usize),
    WithdrawnEarly(usize),
    WithdrawnLate(usize),
    Reinstated(usize),
    RiderChanged(usize),
    Quoted(&'static FixedOdds),
}

impl<'a> RaceScript<'a> {
    /// Quotes from the opening to the close, or until the course is inspected.
    pub(crate) fn bet(&mut self, rng: &mut Rng) -> Tote<'a> {
        let race = self.race;
        let end_ms = match self.twists.ending {
            Ending::Abandoned => race.off_ms - INSPECTED_MS,
            _ => race.close_ms(),
        };
        let mut tote = Tote::open(race, rng);
        let mut occasions = self.occasions(&mut rng.fork(2)).into_iter().peekable();
        let mut now_ms = race.open_ms;
        let mut quotes = 0;
        while now_ms < end_ms {
            self.quote_tote(now_ms, &tote);
            if quotes % PAIRS_QUOTED_EVERY == 0 {
                self.quote_pairs(now_ms, &tote);
            }
            quotes += 1;
            let next_ms = now_ms + rng.between(quoted_every(race.off_ms - now_ms));
            now_ms = next_ms.min(end_ms);
            while let Some((at_ms, next)) = occasions.next_if(|(at_ms, _)| *at_ms < now_ms) {
                self.take_occasion(at_ms, next, &mut tote, rng);
            }
            tote.take_bets(now_ms, rng);
        }
        tote
    }

    /// The announcements, and the quotes of the bookmaker and of the exchange, in order.
    fn occasions(&self, rng: &mut Rng) -> Vec<(u64, Occasion)> {
        let (race, twists) = (self.race, &self.twists);
        let announcements = [
            (WITHDRAWN_EARLY_MS, twists.reinstated.map(WithdrawnEarly)),
            (REINSTATED_MS, twists.reinstated.map(Reinstated)),
            (RIDER_CHANGED_MS, twists.rider_changed.map(RiderChanged)),
            (SUSPENDED_MS, twists.withdrawn.map(Suspended)),
            (WITHDRAWN_LATE_MS, twists.withdrawn.map(WithdrawnLate)),
        ];
        let mut occasions = Vec::new();
        for (before_ms, announcement) in announcements {
            let at_ms = (race.off_ms - before_ms).max(race.open_ms);
            occasions.extend(announcement.map(|announcement| (at_ms, announcement)));
        }
        let announced: Vec<u64> = occasions.iter().map(|(at_ms, _)| *at_ms).collect();
        for odds in &FIXED_ODDS {
            // Once it is up again, it quotes at once.
            let when_up = |at_ms| match &twists.outage_ms {
                outage if odds.source == BOOKMAKER && outage.contains(&at_ms) => outage.end,
                _ => at_ms,
            };
            let reactions = announced.iter().map(|at_ms| at_ms + REACTION_MS);
            let mut quoted: BTreeSet<u64> = reactions.map(when_up).collect();
            let mut now_ms = race.open_ms;
            while now_ms < race.off_ms {
                now_ms = when_up(now_ms + rng.between(odds.quoted_every_ms.clone()));
                quoted.insert(now_ms);
            }
            occasions.extend(quoted.into_iter().map(|at_ms| (at_ms, Quoted(odds))));
        }
        occasions.sort_by_key(|(at_ms, _)| *at_ms);
        occasions
    }

    fn take_occasion(&mut self, at_ms: u64, next: Occasion, tote: &mut Tote<'_>, rng: &mut Rng) {
        match next {
            Quoted(odds) => return self.quote_fixed(at_ms, odds, tote, rng),
            RiderChanged(runner) => return self.change_rider(at_ms, runner, rng),
            Suspended(runner) => tote.suspend(runner),
            WithdrawnEarly(runner) => {
                self.withdraw(at_ms, runner, TO_BE_EXAMINED);
                tote.refund(runner);
            }
            WithdrawnLate(runner) => {
                self.withdraw(at_ms, runner, rng.pick(&WITHDRAWN_AT_THE_START));
                tote.refund(runner);
            }
            Reinstated(runner) => {
                self.reinstate(at_ms, runner, "Passed fit by the veterinary officer");
                tote.reinstate(at_ms, runner);
            }
        }
        self.quote_tote(at_ms, tote);
        self.quote_pairs(at_ms, tote);
    }

    pub(crate) fn quote_tote(&mut self, at_ms: u64, tote: &Tote<'_>) {
        let pools = [PoolKind::Win, PoolKind::Place];
        let prices = |runner: usize| pools.map(|kind| tote.odds(kind, 1 << runner));
        let prices: Vec<_> = (0..self.race.horses.len()).map(prices).collect();
        self.quote(TOTE, at_ms, tote, &prices);
    }

    fn quote_fixed(&mut self, at_ms: u64, odds: &FixedOdds, tote: &Tote<'_>, rng: &Rng) {
        let prices = odds.prices(tote, &mut rng.fork(at_ms));
        self.quote(odds.source, at_ms, tote, &prices);
    }

    /// Abandons the race after an inspection of the course.
    pub(crate) fn abandon(&mut self, tote: &mut Tote<'_>, rng: &Rng) {
        let at_ms = self.stop_betting(INSPECTED_MS, PriceState::Suspended, tote, rng);
        let inspected = "No betting while the course is inspected, after heavy rain";
        self.status(at_ms, RaceStatus::Scheduled, Some(inspected));
        let at_ms = self.stop_betting(ABANDONED_MS, PriceState::NoMarket, tote, rng);
        let abandoned = "The ground is unsafe after heavy rain";
        self.status(at_ms, RaceStatus::Abandoned, Some(abandoned));
        self.pay(at_ms, DividendStatus::Refund, Vec::new());
    }

    /// Stops betting with all sources, and returns when that is.
    fn stop_betting(
        &mut self,
        before_off_ms: u64,
        state: PriceState,
        tote: &mut Tote<'_>,
        rng: &Rng,
    ) -> u64 {
        let at_ms = self.race.off_ms - before_off_ms;
        tote.close(state);
        self.quote_tote(at_ms, tote);
        self.quote_pairs(at_ms, tote);
        for odds in &FIXED_ODDS {
            self.quote_fixed(at_ms, odds, tote, rng);
        }
        at_ms
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
