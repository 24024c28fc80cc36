//! [`Pool`]: the bets on a race, and the prices that they make.

use events::{Odds, PriceState};

use crate::card::RacePlan;
use crate::rng::Rng;
use crate::units::SECOND_MS;

/// The part of a pool that is paid out after the takeout of 17.5 %, in thousandths.
const PAID_OUT_THOUSANDTHS: u64 = 825;
/// Half of the money is bet in the last two minutes: with `s` seconds to go, 300² / (300 + s)² of it has been bet.
const FLOW_SECONDS: u64 = 300;
/// The highest price, of a runner with hardly any bets.
const PRICE_MAX: u64 = 999_000;

/// The money on a runner, in cents.
#[derive(Clone, Copy)]
struct Bets {
    win: u64,
    place: u64,
    /// Why there is no price and no betting.
    closed: Option<PriceState>,
}

pub(crate) struct Pool {
    /// In the order of the card.
    bets: Vec<Bets>,
    /// The win pool at the off; the place pool is half of it.
    turnover: u64,
}

impl Pool {
    /// Opens the pool: the first bets roughly follow the form.
    pub(crate) fn open(race: &RacePlan, rng: &mut Rng) -> Self {
        let turnover = rng.between(200_000_000..=900_000_000);
        let bet = bet_so_far(turnover, (race.off_ms - race.open_ms) / SECOND_MS);
        let opinions: Vec<u64> = race
            .chances
            .iter()
            .map(|chance| chance * rng.between(50..=150))
            .collect();
        let total: u64 = opinions.iter().sum();
        let flat: u64 = opinions.iter().map(|o| o.isqrt()).sum();
        let bets = opinions.iter().map(|opinion| Bets {
            win: 1 + bet * opinion / total,
            place: 1 + bet / 2 * opinion.isqrt() / flat,
            closed: None,
        });
        Self {
            bets: bets.collect(),
            turnover,
        }
    }

    /// Takes the bets since the last call: a few, on better horses more often.
    pub(crate) fn take_bets(&mut self, seconds_to_off: u64, chances: &[u64], rng: &mut Rng) {
        let arrived =
            bet_so_far(self.turnover, seconds_to_off).saturating_sub(self.total(|bets| bets.win));
        let punters = rng.between(6..=12);
        for _ in 0..punters {
            let chance = |index: usize| match self.bets[index].closed {
                None => chances[index],
                Some(_) => 0,
            };
            let win = rng.weighted(chances.len(), chance);
            let place = rng.weighted(chances.len(), |index| chance(index).isqrt());
            self.bets[win].win += arrived / punters;
            self.bets[place].place += arrived / 2 / punters;
        }
    }

    pub(crate) fn suspend(&mut self, runner: usize) {
        self.bets[runner].closed = Some(PriceState::Suspended);
    }

    pub(crate) fn refund(&mut self, runner: usize) {
        let before = self.total(|bets| bets.win);
        self.bets[runner] = Bets {
            win: 0,
            place: 0,
            closed: Some(PriceState::Scratched),
        };
        self.turnover = self.turnover * self.total(|bets| bets.win) / before;
    }

    /// Reinstates a refunded runner, with bets in proportion to its chance.
    pub(crate) fn reinstate(&mut self, runner: usize, chances: &[u64]) {
        let running = |index: &usize| self.bets[*index].closed.is_none();
        let others: u64 = (0..chances.len()).filter(running).map(|i| chances[i]).sum();
        let before = self.total(|bets| bets.win);
        let worth = |total: u64| 1 + total * chances[runner] / others;
        self.bets[runner] = Bets {
            win: worth(before),
            place: worth(self.total(|bets| bets.place)),
            closed: None,
        };
        self.turnover = self.turnover * self.total(|bets| bets.win) / before;
    }

    /// Closes betting on all runners.
    pub(crate) fn close(&mut self, state: PriceState) {
        for bets in &mut self.bets {
            if bets.closed != Some(PriceState::Scratched) {
                bets.closed = Some(state);
            }
        }
    }

    fn total(&self, of: impl Fn(&Bets) -> u64) -> u64 {
        self.bets.iter().map(of).sum()
    }

    /// Why a runner has no price.
    pub(crate) fn closed(&self, runner: usize) -> Option<PriceState> {
        self.bets[runner].closed
    }

    /// The win dividend, stake included.
    pub(crate) fn win(&self, runner: usize) -> Option<Odds> {
        let bets = self.bets[runner];
        let price = self.total(|b| b.win) * PAID_OUT_THOUSANDTHS;
        bets.closed.is_none().then(|| dividend(price / bets.win))
    }

    /// The number of places that are paid.
    pub(crate) fn places(&self) -> usize {
        let refunded = Some(PriceState::Scratched);
        let running = self.bets.iter().filter(|b| b.closed != refunded).count();
        if running < 7 { 2 } else { 3 }
    }

    /// The lowest place dividend, stake included; never more than a win.
    pub(crate) fn place(&self, runner: usize) -> Option<Odds> {
        let price = self.total(|b| b.place) * PAID_OUT_THOUSANDTHS / self.places() as u64;
        let win = self.win(runner)?;
        Some(dividend(price / self.bets[runner].place).min(win))
    }
}

/// How much of the turnover has been bet with so many seconds to go.
fn bet_so_far(turnover: u64, seconds_to_off: u64) -> u64 {
    turnover * FLOW_SECONDS.pow(2) / (FLOW_SECONDS + seconds_to_off).pow(2)
}

/// Rounded down, to tenths under 10 and to whole numbers above, between 1.0 and 999.
fn dividend(thousandths: u64) -> Odds {
    let step = if thousandths < 10_000 { 100 } else { 1_000 };
    let rounded = (thousandths / step * step).clamp(1_000, PRICE_MAX);
    u32::try_from(rounded)
        .ok()
        .and_then(|t| Odds::from_thousandths(t).ok())
        .expect("1.0 to 999 are odds")
}
