//! [`Histogram`]: counts of values in buckets of at most 2 % width.

/// Values below twice this are exact. Above, each doubling has this many buckets.
const BUCKETS_PER_DOUBLING: usize = 64;
const SHIFT: u32 = BUCKETS_PER_DOUBLING.trailing_zeros();
/// Covers 2^32 µs, which is more than an hour.
const BUCKETS: usize = BUCKETS_PER_DOUBLING * 28;

#[derive(Debug)]
pub(crate) struct Histogram(Vec<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Self(vec![0; BUCKETS])
    }
}

impl Histogram {
    pub(crate) fn add(&mut self, value: u64) {
        let shift = (u64::BITS - value.leading_zeros()).saturating_sub(SHIFT + 1);
        let bucket = ((shift as usize) << SHIFT) + (value >> shift) as usize;
        self.0[bucket.min(BUCKETS - 1)] += 1;
    }

    /// The value that this share of all values does not exceed.
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        let total: u64 = self.0.iter().sum();
        let rank = (total as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.0.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper(bucket);
            }
        }
        0
    }
}

/// The largest value of a bucket.
fn upper(bucket: usize) -> u64 {
    let shift = (bucket >> SHIFT).saturating_sub(1);
    ((bucket - (shift << SHIFT) + 1) << shift) as u64 - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_within_two_percent() {
        for value in [0, 1, 127, 128, 129, 1_000, 65_537, 9_999_999] {
            let mut histogram = Histogram::default();
            histogram.add(value);
            let found = histogram.quantile(0.5);
            assert!(
                found >= value && found <= value + value / 50,
                "{value}: {found}"
            );
        }
    }
}
