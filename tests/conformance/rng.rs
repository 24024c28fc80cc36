//! [`Rng`]: random numbers, the same for the same seed.

use std::ops::Range;

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// At least 0, and less than `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn within(&mut self, range: &Range<u64>) -> u64 {
        range.start + self.below((range.end - range.start).max(1))
    }

    pub(crate) fn of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let at = self.within(&(0..items.len() as u64));
        &items[usize::try_from(at).expect("an index")]
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            let other = self.below(at as u64 + 1);
            items.swap(at, usize::try_from(other).expect("an index"));
        }
    }

    /// True with a probability of `percent`.
    pub(crate) fn happens(&mut self, percent: u64) -> bool {
        self.within(&(0..100)) < percent
    }
}
