//! The readers of snapshots, for the fuzz targets.

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;

use super::parts::{PartDecoder, PartEncoder, hash};
use super::{SnapshotSecret, ViewsSnapshot};
use crate::log::StoredObject;

/// Reads the message that names a snapshot. Returns what is printed of it, or the reason of a refusal with its name.
///
/// # Errors
/// Returns the error about a message that names no object.
pub fn list_snapshot(message: &[u8]) -> Result<String, String> {
    let object = StoredObject::parse(7, message).map_err(|error| error.to_string())?;
    let secret = SnapshotSecret::new(&"x".repeat(64)).expect("long enough");
    Ok(match ViewsSnapshot::parse(object) {
        Ok(snapshot) => {
            assert!(!snapshot.is_signed(&secret), "nobody knows the secret");
            drop(snapshot.to_json());
            snapshot.object.info.name
        }
        Err(refused) => format!("{}: {}", refused.name, refused.reason),
    })
}

/// Decodes parts with these rows, whose checksums are made here. Returns the number of rows.
///
/// # Errors
/// Returns the error of the first part that cannot be used.
pub fn decode_rows(parts: &[&[u8]]) -> Result<usize, String> {
    let mut decoder = PartDecoder::default();
    let mut count = 0;
    for (number, rows) in (0..).zip(parts) {
        let mut part = DeflateEncoder::new(Vec::new(), Compression::fast());
        part.write_all(rows).expect("memory takes all");
        let part = part.finish().expect("memory takes all");
        let hash = hash(number, &part);
        let part = [hash.as_bytes().as_slice(), &part].concat();
        count += decoder.add(&part).map_err(|error| error.to_string())?.len();
    }
    Ok(count)
}

/// Decodes bytes as the first part.
///
/// # Errors
/// Returns the error of the part.
pub fn decode_part(part: &[u8]) -> Result<usize, String> {
    let rows = PartDecoder::default().add(part);
    rows.map(|rows| rows.len())
        .map_err(|error| error.to_string())
}

/// Encodes rows as parts, and decodes these.
///
/// # Panics
/// Panics if the rows are not the same.
pub fn recode_rows(rows: &[(&str, Option<&[u8]>)]) {
    let mut decoder = PartDecoder::default();
    let mut decoded = Vec::new();
    let mut encoder = PartEncoder::new(|part: bytes::Bytes| {
        decoded.extend(decoder.add(&part).map_err(|error| error.to_string())?);
        Ok::<_, String>(())
    });
    let encoded = rows
        .iter()
        .try_for_each(|(key, value)| encoder.add(key, *value));
    encoded
        .and_then(|()| encoder.finish())
        .expect("sound parts");
    let rows = rows
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.map(<[u8]>::to_vec)));
    assert_eq!(decoded, rows.collect::<Vec<_>>());
}
