//! [`Rng`]: the seeded random numbers of the simulator.

use uuid::Uuid;

/// The namespace of the ids and seeds of simulated events (a random UUID, fixed for ever).
pub(crate) const NAMESPACE: Uuid = Uuid::from_u128(0x2f0c_5a91_77de_4d0b_8b1a_90c4_e63d_15f2);

/// SplitMix64 (Steele, Lea, Flood, 2014): the same numbers on every machine.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(label: &str) -> Self {
        Self(Uuid::new_v5(&NAMESPACE, label.as_bytes()).as_u64_pair().0)
    }

    /// Other numbers, without a draw from these.
    pub(crate) fn fork(&self, nth: u64) -> Self {
        Self(Self(self.0 ^ nth).next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn between(&mut self, range: std::ops::RangeInclusive<u64>) -> u64 {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.index(end + 1));
        }
    }

    /// An index, in proportion to its weight. Not all weights are 0.
    pub(crate) fn weighted(&mut self, len: usize, weight: impl Fn(usize) -> u64) -> usize {
        let mut remaining = self.below((0..len).map(&weight).sum());
        for index in 0..len {
            match remaining.checked_sub(weight(index)) {
                Some(rest) => remaining = rest,
                None => return index,
            }
        }
        len - 1
    }
}
