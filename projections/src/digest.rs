//! [`Digest`]: one number for the content of a store.

use std::fmt;
use std::str::FromStr;

use serde_with::{DeserializeFromStr, SerializeDisplay};

/// An order-independent digest of a set of keys and values: the sum, lane by lane, of the BLAKE3 hash of each entry.
/// Two stores with the same digest hold the same bytes. Adding and removing an entry restores the digest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, DeserializeFromStr, SerializeDisplay)]
pub struct Digest([u64; 4]);

impl Digest {
    /// Adds an entry.
    pub(crate) fn add(&mut self, entry: &EntryHash) {
        self.0 = std::array::from_fn(|lane| self.0[lane].wrapping_add(entry.0[lane]));
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, entry: &EntryHash) {
        self.0 = std::array::from_fn(|lane| self.0[lane].wrapping_sub(entry.0[lane]));
    }

    /// Replaces the entry that a key had, if any, with that which it has, if any.
    pub(crate) fn replace(&mut self, old: Option<&EntryHash>, new: Option<&EntryHash>) {
        old.into_iter().for_each(|old| self.remove(old));
        new.into_iter().for_each(|new| self.add(new));
    }

    /// The first 48 bits, which a metric holds exactly.
    pub fn prefix(&self) -> u64 {
        self.0[0] >> 16
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|lane| write!(f, "{lane:016x}"))
    }
}

/// Parses the form of [`fmt::Display`]: 64 hexadecimal digits.
impl FromStr for Digest {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let lane = |i: usize| u64::from_str_radix(text.get(i * 16..(i + 1) * 16)?, 16).ok();
        let lanes = || Some([lane(0)?, lane(1)?, lane(2)?, lane(3)?]);
        let digest = lanes().map(Self).filter(|_| text.len() == 64);
        digest.ok_or("the digest is not 64 hexadecimal digits")
    }
}

/// The BLAKE3 hash of a key and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntryHash([u64; 4]);

impl EntryHash {
    pub(crate) fn of(key: &[u8], value: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(key.len() as u64).to_le_bytes());
        hasher.update(key).update(value);
        let hash = hasher.finalize();
        let (chunks, _) = hash.as_bytes().as_chunks::<8>();
        Self(std::array::from_fn(|i| u64::from_le_bytes(chunks[i])))
    }
}
