//! [`Pool`]: money that flows in, and the prices that it makes.

use events::Odds;

use super::SECOND_MS;
use super::card::Race;
use super::rng::Rng;

/// What is left of a pool after the takeout of 17.5 %, in thousandths.
const KEPT_THOUSANDTHS: u64 = 825;
/// Half of the money comes in the last two minutes: with `s` seconds to go, 300² / (300 + s)² of it is there.
const FLOW_SECONDS: u64 = 300;

/// The money on each runner, in cents.
#[derive(Clone, Copy)]
struct Bets {
    win: u64,
    place: u64,
}

/// The win and place pools of a race.
pub(super) struct Pool {
    /// In the order of the card; `None` for a runner that is withdrawn, whose money was given back.
    bets: Vec<Option<Bets>>,
    /// What the win pool comes to at the off; the place pool to half of that.
    turnover: u64,
}

impl Pool {
    /// The first money follows the form, roughly.
    pub(super) fn open(race: &Race, rng: &mut Rng) -> Self {
        let turnover = rng.between(200_000_000..=900_000_000);
        let mut pool = Self {
            bets: vec![Some(Bets { win: 1, place: 1 }); race.chances.len()],
            turnover,
        };
        let there = flowed(turnover, (race.off_ms - race.open_ms) / SECOND_MS);
        let opinions: Vec<u64> = race
            .chances
            .iter()
            .map(|chance| chance * rng.between(50..=150))
            .collect();
        let total: u64 = opinions.iter().sum();
        let flat: u64 = opinions.iter().map(|o| o.isqrt()).sum();
        for (bets, opinion) in pool.bets.iter_mut().flatten().zip(&opinions) {
            *bets = Bets {
                win: 1 + there * opinion / total,
                place: 1 + there / 2 * opinion.isqrt() / flat,
            };
        }
        pool
    }

    /// Takes what has flowed in since: a few bets, on better horses more often, each time on others.
    pub(super) fn take_bets(&mut self, seconds_to_off: u64, chances: &[u64], rng: &mut Rng) {
        let arrived =
            flowed(self.turnover, seconds_to_off).saturating_sub(self.total(|bets| bets.win));
        let punters = rng.between(2..=5);
        for _ in 0..punters {
            let chance = |index: usize| {
                if self.is_running(index) {
                    chances[index]
                } else {
                    0
                }
            };
            let win = rng.weighted(chances.len(), chance);
            let place = rng.weighted(chances.len(), |index| chance(index).isqrt());
            if let Some(bets) = &mut self.bets[win] {
                bets.win += arrived / punters;
            }
            if let Some(bets) = &mut self.bets[place] {
                bets.place += arrived / 2 / punters;
            }
        }
    }

    pub(super) fn refund(&mut self, runner: usize) {
        let before = self.total(|bets| bets.win);
        self.bets[runner] = None;
        self.turnover = self.turnover / 1000 * (self.total(|bets| bets.win) * 1000 / before);
    }

    fn total(&self, of: impl Fn(&Bets) -> u64) -> u64 {
        self.bets.iter().flatten().map(of).sum()
    }

    /// Whether a runner is still in the race.
    pub(super) fn is_running(&self, runner: usize) -> bool {
        self.bets[runner].is_some()
    }

    /// What a win pays, stake included.
    pub(super) fn win(&self, runner: usize) -> Option<Odds> {
        let bets = self.bets[runner]?;
        Some(dividend(
            self.total(|b| b.win) * KEPT_THOUSANDTHS / bets.win,
        ))
    }

    /// What a place pays at least, stake included; never more than a win.
    pub(super) fn place(&self, runner: usize) -> Option<Odds> {
        let bets = self.bets[runner]?;
        let running = self.bets.iter().flatten().count();
        let places = if running < 7 { 2 } else { 3 };
        let price = dividend(self.total(|b| b.place) * KEPT_THOUSANDTHS / places / bets.place);
        Some(price.min(self.win(runner)?))
    }
}

/// How much of the turnover is there with so many seconds to go.
fn flowed(turnover: u64, seconds_to_off: u64) -> u64 {
    turnover * FLOW_SECONDS.pow(2) / (FLOW_SECONDS + seconds_to_off).pow(2)
}

/// Rounded down, to tenths under 10 and to whole numbers above, between 1.0 and 999.
fn dividend(thousandths: u64) -> Odds {
    let step = if thousandths < 10_000 { 100 } else { 1_000 };
    let rounded = (thousandths / step * step).clamp(1_000, 999_000);
    u32::try_from(rounded)
        .ok()
        .and_then(|t| Odds::from_thousandths(t).ok())
        .expect("1.0 to 999 are odds")
}
