//! The form of a snapshot: rows in parts, each compressed by itself, with its number and a checksum.
//!
//! A row is the length of its key, that of its value, the key and the value; [`REMOVED`] in place of the second length
//! removes the key. The parts continue each other, so a row may be in several. A part is the BLAKE3 hash of its number
//! and the rest, and a DEFLATE stream.

use std::io::{self, Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

/// The bytes of rows in a part. A part that does not compress at all is below the `max_payload` of nats.conf, also in
/// base64, and all others are large enough that the sync of each costs little.
const PART_BYTES: usize = 512 * 1024;
/// Quotes take a quarter less than with level 1.
const DEFLATE_LEVEL: u32 = 2;
const HASH_BYTES: usize = blake3::OUT_LEN;
/// The bytes of a key or of a value. No view is near it: a length beyond is damage.
const FIELD_BYTES_MAX: u32 = 256 * 1024 * 1024;
/// The length that stands for a removed value.
const REMOVED: u32 = u32::MAX;
/// The lengths of a row.
const LENGTHS_BYTES: usize = 8;

/// Why a part or its rows cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum PartError {
    #[error("part {0} has a wrong checksum")]
    Checksum(u64),
    #[error("part {0} cannot be decompressed: {1}")]
    Decompress(u64, io::Error),
    #[error("part {0} has a row that is not one")]
    Row(u64),
}

/// Makes parts of rows, and passes them on.
pub(super) struct PartEncoder<S> {
    /// The part that is being made.
    part: DeflateEncoder<Vec<u8>>,
    /// The bytes of rows in it.
    bytes: usize,
    number: u64,
    send: S,
}

impl<E, S: FnMut(Bytes) -> Result<(), E>> PartEncoder<S> {
    pub(super) fn new(send: S) -> Self {
        Self {
            part: empty_part(),
            bytes: 0,
            number: 0,
            send,
        }
    }

    pub(super) fn add(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), E> {
        let length_of_value = value.map_or(REMOVED, |value| length(value.len()));
        self.write(&length(key.len()).to_le_bytes())?;
        self.write(&length_of_value.to_le_bytes())?;
        self.write(key.as_bytes())?;
        self.write(value.unwrap_or_default())
    }

    /// Passes on what is left.
    pub(super) fn finish(mut self) -> Result<(), E> {
        match self.bytes {
            0 => Ok(()),
            _ => self.send(),
        }
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), E> {
        while !bytes.is_empty() {
            let (fits, rest) = bytes.split_at(bytes.len().min(PART_BYTES - self.bytes));
            self.part.write_all(fits).expect("memory takes all");
            self.bytes += fits.len();
            if self.bytes == PART_BYTES {
                self.send()?;
            }
            bytes = rest;
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), E> {
        let part = std::mem::replace(&mut self.part, empty_part());
        let mut part = part.finish().expect("memory takes all");
        let hash = hash(self.number, &part[HASH_BYTES..]);
        part[..HASH_BYTES].copy_from_slice(hash.as_bytes());
        self.bytes = 0;
        self.number += 1;
        (self.send)(part.into())
    }
}

fn empty_part() -> DeflateEncoder<Vec<u8>> {
    DeflateEncoder::new(vec![0; HASH_BYTES], Compression::new(DEFLATE_LEVEL))
}

fn length(length: usize) -> u32 {
    u32::try_from(length).expect("a view is smaller than its bound")
}

pub(super) fn hash(number: u64, compressed: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&number.to_le_bytes()).update(compressed);
    hasher.finalize()
}

/// A key and its value; `None` if it is removed.
type Entry = (String, Option<Vec<u8>>);

/// Makes rows of parts.
#[derive(Debug, Default)]
pub(super) struct PartDecoder {
    /// The beginning of a row.
    rest: Vec<u8>,
    number: u64,
}

impl PartDecoder {
    /// The rows that end in the next part.
    pub(super) fn add(&mut self, part: &[u8]) -> Result<Vec<Entry>, PartError> {
        let number = self.number;
        self.number += 1;
        let split = part.split_first_chunk::<HASH_BYTES>();
        let (expected, compressed) = split.ok_or(PartError::Checksum(number))?;
        if hash(number, compressed) != *expected {
            return Err(PartError::Checksum(number));
        }
        // Not more than the encoder has put in, whatever the stream claims.
        let mut decoder = DeflateDecoder::new(compressed).take(PART_BYTES as u64);
        let read = decoder.read_to_end(&mut self.rest);
        read.map_err(|error| PartError::Decompress(number, error))?;
        let mut rows = Vec::new();
        let mut bytes = self.rest.as_slice();
        while let Some((row, after)) = split_row(bytes).map_err(|()| PartError::Row(number))? {
            rows.push(row);
            bytes = after;
        }
        let read = self.rest.len() - bytes.len();
        self.rest.drain(..read);
        Ok(rows)
    }

    /// Whether all rows have ended.
    pub(super) fn is_at_end_of_row(&self) -> bool {
        self.rest.is_empty()
    }
}

/// The first row and the bytes after it; `None` if it is not complete.
fn split_row(bytes: &[u8]) -> Result<Option<(Entry, &[u8])>, ()> {
    let Some((lengths, rest)) = bytes.split_first_chunk::<LENGTHS_BYTES>() else {
        return Ok(None);
    };
    let (key, value) = lengths.split_at(LENGTHS_BYTES / 2);
    let length = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("half of the lengths"));
    let key = length(key);
    let value = length(value);
    let kept = if value == REMOVED { 0 } else { value };
    if key > FIELD_BYTES_MAX || kept > FIELD_BYTES_MAX {
        return Err(());
    }
    let Some((key, rest)) = rest.split_at_checked(key as usize) else {
        return Ok(None);
    };
    let Some((bytes, rest)) = rest.split_at_checked(kept as usize) else {
        return Ok(None);
    };
    let key = std::str::from_utf8(key).map_err(|_| ())?.to_owned();
    let value = (value != REMOVED).then(|| bytes.to_vec());
    Ok(Some(((key, value), rest)))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::{Entry, PART_BYTES, PartDecoder, PartEncoder};

    fn parts(rows: &[Entry]) -> Vec<Bytes> {
        let mut parts = Vec::new();
        let mut encoder = PartEncoder::new(|part| {
            parts.push(part);
            Ok::<_, ()>(())
        });
        for (key, value) in rows {
            encoder.add(key, value.as_deref()).expect("no error");
        }
        encoder.finish().expect("no error");
        parts
    }

    /// Rows, some of which are larger than a part.
    fn rows() -> impl Strategy<Value = Vec<Entry>> {
        let size = prop_oneof![4 => 0..2_000_usize, 1 => 0..3 * PART_BYTES];
        let value = prop_oneof![
            1 => Just(None),
            5 => (size, any::<u8>()).prop_map(|(size, byte)| Some(vec![byte; size])),
        ];
        prop::collection::vec(("[a-z/0-9\u{e9}]{0,40}", value), 0..20)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_parts_of_rows_are_the_rows(rows in rows()) {
            let mut decoder = PartDecoder::default();
            let mut decoded = Vec::new();
            for part in parts(&rows) {
                decoded.extend(decoder.add(&part).expect("a sound part"));
            }
            prop_assert!(decoder.is_at_end_of_row());
            prop_assert_eq!(decoded, rows);
        }

        #[test]
        fn a_part_with_a_wrong_byte_or_number_or_length_is_named(bit in any::<prop::sample::Index>(), cut in any::<prop::sample::Index>()) {
            let rows = vec![("key".to_owned(), Some(vec![7; 2 * PART_BYTES]))];
            let parts = parts(&rows);
            let mut flipped = parts[0].to_vec();
            let bit = bit.index(8 * flipped.len());
            flipped[bit / 8] ^= 1 << (bit % 8);
            for wrong in [flipped.into(), parts[1].clone(), parts[0].slice(..cut.index(parts[0].len()))] {
                let error = PartDecoder::default().add(&wrong).expect_err("a damaged part");
                prop_assert_eq!(error.to_string(), "part 0 has a wrong checksum");
            }
        }
    }
}
