//! [`FixedOdds`]: the prices of the bookmaker and of the exchange.

use std::ops::RangeInclusive;

use events::Odds;

use crate::ladder::PriceLadder;
use crate::rng::Rng;
use crate::source::{BOOKMAKER, EXCHANGE};
use crate::tote::Tote;
use crate::units::SECOND_MS;

/// Takes bets at the quoted price, whatever it is at the off.
pub(crate) struct FixedOdds {
    pub(crate) source: &'static str,
    ladder: PriceLadder,
    /// The sum of the probabilities of its prices, in thousandths: above 1000 by its margin.
    book: u64,
    /// A place pays the win odds, less the stake, over this.
    place_divisor: Option<u32>,
    pub(crate) quoted_every_ms: RangeInclusive<u64>,
}

/// Those of fractional odds: 20/1 is 21.
#[rustfmt::skip]
const FRACTIONAL_PRICES: PriceLadder = PriceLadder::Prices(&[
    1_050, 1_100, 1_167, 1_200, 1_222, 1_250, 1_286, 1_333, 1_364, 1_400, 1_444, 1_500, 1_533, 1_571, 1_615, 1_667,
    1_727, 1_800, 1_833, 1_909, 2_000, 2_100, 2_200, 2_250, 2_375, 2_500, 2_625, 2_750, 2_875, 3_000, 3_250, 3_500,
    3_750, 4_000, 4_333, 4_500, 5_000, 5_500, 6_000, 6_500, 7_000, 7_500, 8_000, 8_500, 9_000, 10_000, 11_000, 12_000,
    13_000, 15_000, 17_000, 19_000, 21_000, 23_000, 26_000, 29_000, 34_000, 41_000, 51_000, 67_000, 81_000, 101_000,
]);

#[rustfmt::skip]
const TICKS: PriceLadder = PriceLadder::Steps(&[
    (2_000, 10), (3_000, 20), (4_000, 50), (6_000, 100), (10_000, 200), (20_000, 500), (30_000, 1_000),
    (50_000, 2_000), (100_000, 5_000), (u64::MAX, 10_000),
]);

pub(crate) static FIXED_ODDS: [FixedOdds; 2] = [
    FixedOdds {
        source: BOOKMAKER,
        ladder: FRACTIONAL_PRICES,
        book: 1_150,
        place_divisor: Some(5),
        quoted_every_ms: 240 * SECOND_MS..=480 * SECOND_MS,
    },
    FixedOdds {
        source: EXCHANGE,
        ladder: TICKS,
        book: 1_010,
        place_divisor: None,
        quoted_every_ms: 90 * SECOND_MS..=180 * SECOND_MS,
    },
];

impl FixedOdds {
    /// The win and place prices of all runners, by its opinion of their chances.
    pub(crate) fn prices(&self, tote: &Tote<'_>, rng: &mut Rng) -> Vec<[Option<Odds>; 2]> {
        let chances = tote.chances().into_iter();
        let opinions = chances.map(|chance| chance * rng.between(95..=105));
        let opinions: Vec<u64> = opinions.collect();
        let total: u64 = opinions.iter().sum();
        let prices = |opinion: &u64| {
            let fair = (total * 1_000_000).checked_div(opinion * self.book);
            let win = fair.map(|fair| self.ladder.down(fair));
            let profit = |win: Odds| Some((win.thousandths() - 1_000) / self.place_divisor?);
            let profit = win.and_then(profit);
            let place = profit.and_then(|p| Odds::from_thousandths(1_000 + p).ok());
            [win, place]
        };
        opinions.iter().map(prices).collect()
    }
}
