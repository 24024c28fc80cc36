//! [`Pool`]: the stakes on the combinations of a pool, and what it pays.

use std::collections::BTreeMap;

use events::{Amount, PoolCode};

use crate::finish::{Combination, Finish};

/// The part of a pool that is paid out after the takeout of 17.5 %, in thousandths.
const PAID_OUT_THOUSANDTHS: u64 = 825;
/// The stake that a dividend is for: ten dollars.
pub(crate) const UNIT_CENTS: u64 = 1_000;
/// Dividends are rounded down to multiples of this.
const BREAKAGE_CENTS: u64 = 10;

pub(crate) fn amount(cents: u64) -> Amount {
    Amount::from_hundredths(cents).expect("a pool is in range")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PoolKind {
    Win,
    Place,
    Quinella,
    QuinellaPlace,
}

impl PoolKind {
    pub(crate) const ALL: [Self; 4] = [Self::Win, Self::Place, Self::Quinella, Self::QuinellaPlace];

    pub(crate) fn code(self) -> PoolCode {
        PoolCode::parse(self.rules().0).expect("a code")
    }

    /// Its code, and the positions, from 0, that win, each with an equal portion of the pool. Three places are paid, as
    /// at least seven runners run.
    fn rules(self) -> (&'static str, &'static [&'static [usize]]) {
        match self {
            Self::Win => ("win", &[&[0]]),
            Self::Place => ("place", &[&[0], &[1], &[2]]),
            Self::Quinella => ("quinella", &[&[0, 1]]),
            Self::QuinellaPlace => ("quinella_place", &[&[0, 1], &[0, 2], &[1, 2]]),
        }
    }
}

pub(crate) struct Pool {
    pub(crate) kind: PoolKind,
    /// In cents, above 0.
    stakes: BTreeMap<Combination, u64>,
    /// The sum of the stakes.
    pub(crate) total: u64,
}

impl Pool {
    pub(crate) fn new(kind: PoolKind) -> Self {
        Self {
            kind,
            stakes: BTreeMap::new(),
            total: 0,
        }
    }

    pub(crate) fn add(&mut self, combination: Combination, cents: u64) {
        if cents > 0 {
            *self.stakes.entry(combination).or_default() += cents;
            self.total += cents;
        }
    }

    /// Takes the stakes on a runner out of the pool.
    pub(crate) fn refund(&mut self, runner: usize) {
        (self.stakes).retain(|combination, _| combination & (1 << runner) == 0);
        self.total = self.stakes.values().sum();
    }

    /// What a unit of stake would pay if the combination won without a dead heat: as many thousandths as ten units pay
    /// cents. None if nobody has bet on it.
    pub(crate) fn price(&self, combination: Combination) -> Option<u64> {
        self.pays(combination, (1, self.kind.rules().1.len() as u64))
    }

    /// What a share of the pool, a fraction, pays for a stake on a combination.
    fn pays(&self, combination: Combination, (part, of): (u64, u64)) -> Option<u64> {
        let stake = self.stakes.get(&combination)?;
        Some(self.total * PAID_OUT_THOUSANDTHS * part / (stake * of))
    }

    /// The combinations that won, and what each pays for a unit, in cents. Those of a dead heat share their portion.
    /// The portion of combinations that nobody has bet on goes to the others. None is left if nobody has won.
    pub(crate) fn dividends(&self, finish: &Finish) -> Vec<(Combination, u64)> {
        let portions = self.kind.rules().1.iter().map(|positions| {
            let mut winners = finish.combinations(positions);
            winners.retain(|combination| self.stakes.contains_key(combination));
            winners
        });
        let portions: Vec<_> = portions.filter(|winners| !winners.is_empty()).collect();
        let mut shares: Vec<(Combination, (u64, u64))> = Vec::new();
        for winners in &portions {
            let parts = (portions.len() * winners.len()) as u64;
            for winner in winners {
                match shares.iter_mut().find(|(known, _)| known == winner) {
                    Some((_, (part, of))) => (*part, *of) = (*part * parts + *of, *of * parts),
                    None => shares.push((*winner, (1, parts))),
                }
            }
        }
        let dividend = |(winner, share)| {
            let cents = self.pays(winner, share)? / BREAKAGE_CENTS * BREAKAGE_CENTS;
            // Never less than the stake.
            Some((winner, cents.max(UNIT_CENTS)))
        };
        shares.into_iter().filter_map(dividend).collect()
    }
}
