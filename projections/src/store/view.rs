//! [`View`]: a value of the store, and the form in which it is stored: with a checksum, and compressed if it is large.

use std::borrow::Cow;
use std::fmt::Display;

use derive_more::{AsRef, Deref};

use super::{StoreError, StoreResult};
use crate::keys;

/// The bytes of the checksum behind each value.
const CHECKSUM_BYTES: usize = 4;

/// A value of the store, shared with its page cache unless it is stored compressed. Its checksum was right when it was
/// read.
#[derive(Debug, Clone, AsRef, Deref)]
#[as_ref(forward)]
#[deref(forward)]
pub struct View(sled::IVec);

impl View {
    /// A stored value.
    ///
    /// # Errors
    /// Returns [`StoreError::Corrupt`] if it is not the one that was written under the key.
    pub(super) fn of(key: &[u8], stored: &sled::IVec) -> StoreResult<Self> {
        let corrupt =
            |reason: &dyn Display| StoreError::corrupt(&String::from_utf8_lossy(key), reason);
        let split = stored.split_last_chunk();
        let (value, _) = split
            .filter(|(value, found)| checksum(key, value) == **found)
            .ok_or_else(|| corrupt(&"the checksum is wrong"))?;
        if !is_compressed(key) {
            return Ok(Self(stored.subslice(0, value.len())));
        }
        let value = lz4_flex::decompress_size_prepended(value);
        let value = value.map_err(|error| corrupt(&error))?;
        Ok(Self(value.into()))
    }
}

/// The stored form of a value.
pub(super) fn stored(key: &str, value: &[u8]) -> Vec<u8> {
    let key = key.as_bytes();
    let value = match is_compressed(key) {
        true => lz4_flex::compress_prepend_size(value).into(),
        false => Cow::Borrowed(value),
    };
    [&*value, &checksum(key, &value)].concat()
}

/// Whether a value is stored compressed: sled writes what it stores about three times, so a store is 8 % smaller.
/// Answers have other views as they are, and other state is small.
fn is_compressed(key: &[u8]) -> bool {
    let prefixes = [
        keys::TICKS,
        keys::BOARD_STATES,
        keys::RACE_STATES,
        keys::REPLAY_STATES,
    ];
    let has = |prefix: &&str| key.starts_with(prefix.as_bytes());
    prefixes.iter().any(has)
}

/// The CRC-32 of a key and its stored value. It guards each read against damage; the digest of the whole store has
/// BLAKE3.
fn checksum(key: &[u8], value: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(value);
    hasher.finalize().to_le_bytes()
}
