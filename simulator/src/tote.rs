//! [`Tote`]: the pools of a race, and their odds and dividends.

use events::{Dividend, DividendState, Odds, PriceState, QuotedPrice};

use crate::card::{RacePlan, number};
use crate::finish::{Combination, Finish};
use crate::ladder::PriceLadder;
use crate::pool::{Pool, PoolKind, UNIT_CENTS, amount};
use crate::rng::Rng;
use crate::units::SECOND_MS;

/// Half of the money is bet in the last two minutes: with `s` seconds to go, 300² / (300 + s)² of it has been bet.
const FLOW_SECONDS: u64 = 300;
/// The bets on combinations of two runners when a pool opens.
const OPENING_BETS: u64 = 30;
/// Tenths under 10, whole numbers above.
const LADDER: PriceLadder = PriceLadder::Steps(&[(10_000, 100), (u64::MAX, 1_000)]);

pub(crate) struct Tote<'a> {
    race: &'a RacePlan,
    /// When the latest bets were taken.
    now_ms: u64,
    /// In the order of [`PoolKind::ALL`].
    pub(crate) pools: [Pool; 4],
    /// Why a runner has no price and no betting.
    closed: Vec<Option<PriceState>>,
    /// The win pool at the off, in cents. Each other pool is half of it.
    turnover: u64,
    /// Of the bets on combinations of two runners.
    rng: Rng,
    /// Each bet with its time and its cents, for a test that computes the pools from them.
    #[cfg(test)]
    pub(crate) bets: Vec<(u64, PoolKind, Combination, u64)>,
}

impl<'a> Tote<'a> {
    /// Opens the pools: the first bets roughly follow the form.
    pub(crate) fn open(race: &'a RacePlan, rng: &mut Rng) -> Self {
        let turnover = rng.between(200_000_000..=900_000_000);
        let chances = race.chances.iter();
        let opinions: Vec<u64> = chances.map(|c| c * rng.between(50..=150)).collect();
        let mut tote = Self {
            race,
            now_ms: race.open_ms,
            pools: PoolKind::ALL.map(Pool::new),
            closed: vec![None; opinions.len()],
            turnover,
            rng: rng.fork(1),
            #[cfg(test)]
            bets: Vec::new(),
        };
        let money = tote.bet_so_far();
        let total: u64 = opinions.iter().sum();
        let flat: u64 = opinions.iter().map(|o| o.isqrt()).sum();
        for (runner, opinion) in opinions.iter().enumerate() {
            tote.bet(PoolKind::Win, 1 << runner, 1 + money * opinion / total);
            let place = 1 + money / 2 * opinion.isqrt() / flat;
            tote.bet(PoolKind::Place, 1 << runner, place);
        }
        tote.bet_on_pairs(OPENING_BETS, money);
        tote
    }

    /// Takes the bets since the last call: a few, on better horses more often.
    pub(crate) fn take_bets(&mut self, now_ms: u64, rng: &mut Rng) {
        self.now_ms = now_ms;
        let money = self.bet_so_far();
        let arrived = money.saturating_sub(self.pool(PoolKind::Win).total);
        let punters = rng.between(6..=12);
        let chances = self.chances();
        for _ in 0..punters {
            let win = rng.weighted(chances.len(), |runner| chances[runner]);
            let place = rng.weighted(chances.len(), |runner| chances[runner].isqrt());
            self.bet(PoolKind::Win, 1 << win, arrived / punters);
            self.bet(PoolKind::Place, 1 << place, arrived / 2 / punters);
        }
        self.bet_on_pairs(punters / 2, arrived);
    }

    /// Takes so many bets in each pool of pairs, with half of the money of the win pool.
    fn bet_on_pairs(&mut self, punters: u64, money: u64) {
        let chances = self.chances();
        for kind in [PoolKind::Quinella, PoolKind::QuinellaPlace] {
            for _ in 0..punters {
                let one = self.rng.weighted(chances.len(), |runner| chances[runner]);
                let others = |runner| if runner == one { 0 } else { chances[runner] };
                let other = self.rng.weighted(chances.len(), others);
                self.bet(kind, 1 << one | 1 << other, money / 2 / punters);
            }
        }
    }

    fn bet(&mut self, kind: PoolKind, combination: Combination, cents: u64) {
        #[cfg(test)]
        self.bets.push((self.now_ms, kind, combination, cents));
        self.pools[kind as usize].add(combination, cents);
    }

    /// How much of the turnover has been bet.
    fn bet_so_far(&self) -> u64 {
        let seconds_to_off = (self.race.off_ms - self.now_ms) / SECOND_MS;
        self.turnover * FLOW_SECONDS.pow(2) / (FLOW_SECONDS + seconds_to_off).pow(2)
    }

    fn pool(&self, kind: PoolKind) -> &Pool {
        &self.pools[kind as usize]
    }

    pub(crate) fn suspend(&mut self, runner: usize) {
        self.closed[runner] = Some(PriceState::Suspended);
    }

    /// Refunds the stakes on a withdrawn runner.
    pub(crate) fn refund(&mut self, runner: usize) {
        let before = self.pool(PoolKind::Win).total;
        self.closed[runner] = Some(PriceState::Scratched);
        for pool in &mut self.pools {
            pool.refund(runner);
        }
        self.turnover = self.turnover * self.pool(PoolKind::Win).total / before;
    }

    /// Reinstates a refunded runner, with bets in proportion to its chance.
    pub(crate) fn reinstate(&mut self, now_ms: u64, runner: usize) {
        self.now_ms = now_ms;
        let others: u64 = self.chances().iter().sum();
        self.closed[runner] = None;
        let before = self.pool(PoolKind::Win).total;
        for kind in [PoolKind::Win, PoolKind::Place] {
            let worth = 1 + self.pool(kind).total * self.race.chances[runner] / others;
            self.bet(kind, 1 << runner, worth);
        }
        self.turnover = self.turnover * self.pool(PoolKind::Win).total / before;
    }

    /// Closes betting on all runners.
    pub(crate) fn close(&mut self, state: PriceState) {
        let running = self.closed.iter_mut();
        for closed in running.filter(|closed| **closed != Some(PriceState::Scratched)) {
            *closed = Some(state);
        }
    }

    /// Why a combination has no price and no betting: a runner that is withdrawn, or another that is closed.
    pub(crate) fn closed(&self, combination: Combination) -> Option<PriceState> {
        let closed = runners(combination).filter_map(|runner| self.closed[runner]);
        closed.min_by_key(|state| *state != PriceState::Scratched)
    }

    /// The weights of the runners' chances to win; 0 without betting on one.
    pub(crate) fn chances(&self) -> Vec<u64> {
        let runners = self.closed.iter().zip(&self.race.chances);
        let chance =
            |(closed, chance): (&Option<_>, &u64)| if closed.is_none() { *chance } else { 0 };
        runners.map(chance).collect()
    }

    /// The dividend of a combination that wins without a dead heat, for a stake of one.
    pub(crate) fn odds(&self, kind: PoolKind, combination: Combination) -> Option<Odds> {
        let price = self.pool(kind).price(combination)?;
        let is_open = self.closed(combination).is_none();
        is_open.then(|| LADDER.down(price))
    }

    /// The prices of all combinations of two runners.
    pub(crate) fn pair_prices(&self, kind: PoolKind) -> Vec<QuotedPrice> {
        let pairs = (1..1 << self.closed.len()).filter(|pair: &Combination| pair.count_ones() == 2);
        let price = |pair: Combination| {
            let odds = self.odds(kind, pair);
            let no_bets = odds.is_none().then_some(PriceState::NoMarket);
            QuotedPrice {
                combination: runners(pair).map(number).collect(),
                odds,
                low: None,
                high: None,
                state: self.closed(pair).or(no_bets),
            }
        };
        pairs.map(price).collect()
    }

    /// The dividends of all pools. A pool that nobody has won is refunded.
    pub(crate) fn dividends(&self, finish: &Finish) -> Vec<Dividend> {
        let mut lines = Vec::new();
        for pool in &self.pools {
            let line = |winner: Combination, dividend: Option<u64>| Dividend {
                pool: pool.kind.code(),
                combination: runners(winner).map(number).collect(),
                unit: amount(UNIT_CENTS),
                dividend: dividend.map(amount),
                state: dividend.is_none().then_some(DividendState::Refund),
            };
            let won = pool.dividends(finish);
            lines.extend(won.is_empty().then(|| line(0, None)));
            let won = won.into_iter();
            lines.extend(won.map(|(winner, cents)| line(winner, Some(cents))));
        }
        lines
    }
}

fn runners(combination: Combination) -> impl Iterator<Item = usize> {
    (0..32).filter(move |runner| combination & (1 << runner) != 0)
}
