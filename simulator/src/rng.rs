//! [`Rng`]: all the chance that a made-up meeting needs.

use uuid::Uuid;

use super::NAMESPACE;

/// SplitMix64 (Steele, Lea, Flood, 2014): all the chance that a made-up meeting needs, the same on every machine.
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(label: &str) -> Self {
        Self(Uuid::new_v5(&NAMESPACE, label.as_bytes()).as_u64_pair().0)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to below `end`, which is not 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(super) fn between(&mut self, range: std::ops::RangeInclusive<u64>) -> u64 {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    pub(super) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.index(end + 1));
        }
    }

    /// An index, one with twice the weight twice as often. Not all weights are 0.
    pub(super) fn weighted(&mut self, len: usize, weight: impl Fn(usize) -> u64) -> usize {
        let mut left = self.below((0..len).map(&weight).sum());
        for index in 0..len {
            match left.checked_sub(weight(index)) {
                Some(rest) => left = rest,
                None => return index,
            }
        }
        len - 1
    }
}
