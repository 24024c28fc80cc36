//! [`Kept`]: the values that were used last, within a bound of their bytes.

use parking_lot::Mutex;

/// Values by key, each with its bytes. The one that was used last is at the end.
#[derive(Debug)]
pub(crate) struct Kept<K, V> {
    bytes_max: u64,
    values: Mutex<Vec<(K, V, u64)>>,
}

impl<K: PartialEq, V: Clone> Kept<K, V> {
    pub(crate) fn new(bytes_max: u64) -> Self {
        let values = Mutex::default();
        Self { bytes_max, values }
    }

    /// The value of a key, which is then the one that was used last.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let mut values = self.values.lock();
        let index = values.iter().position(|(known, ..)| known == key)?;
        values[index..].rotate_left(1);
        values.last().map(|(_, value, _)| value.clone())
    }

    /// Keeps a value, and drops the ones that were used longest ago while there are too many bytes. The newest stays
    /// whatever its size: else each page of a large race would fold it again.
    pub(crate) fn insert(&self, key: K, value: V, bytes: u64) {
        let mut values = self.values.lock();
        values.push((key, value, bytes));
        let sum = |values: &[(K, V, u64)]| values.iter().map(|(.., bytes)| bytes).sum::<u64>();
        while values.len() > 1 && sum(&values) > self.bytes_max {
            values.remove(0);
        }
    }
}
