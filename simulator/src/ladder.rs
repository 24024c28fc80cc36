//! [`PriceLadder`]: the prices that a source quotes.

use events::Odds;

/// The highest price of a ladder of steps, in thousandths.
const PRICE_MAX: u64 = 999_000;

/// Prices in thousandths.
pub(crate) enum PriceLadder {
    /// The multiples of a step below each limit; the last step has no limit.
    Steps(&'static [(u64, u64)]),
    /// These, the lowest first.
    Prices(&'static [u64]),
}

impl PriceLadder {
    /// The highest price of the ladder up to this one, or its lowest.
    pub(crate) fn down(&self, thousandths: u64) -> Odds {
        let price = match self {
            Self::Steps(steps) => {
                let below = steps.iter().find(|(limit, _)| thousandths < *limit);
                let step = below.or(steps.last()).map_or(1, |(_, step)| *step);
                (thousandths / step * step).clamp(1_000, PRICE_MAX)
            }
            Self::Prices(prices) => {
                let above = prices.partition_point(|price| *price <= thousandths);
                prices[above.saturating_sub(1)]
            }
        };
        let price = u32::try_from(price).ok();
        let odds = price.and_then(|price| Odds::from_thousandths(price).ok());
        odds.expect("prices of a ladder are odds")
    }
}
