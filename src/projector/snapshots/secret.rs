//! [`SnapshotSecret`]: signs the snapshots of the views.

use std::collections::BTreeMap;

/// The context of the key that is derived from the secret.
const CONTEXT: &str = "railbird 2026-11-24 snapshots of the views";
/// The key of the metadata.
const SIGNATURE: &str = "signature";
/// Fewer characters could be guessed: whoever reads a snapshot can try all of them.
const SECRET_CHARS_MIN: usize = 32;

/// What all replicas of a service know, and NATS does not: with the password of the service alone, nobody can write a
/// snapshot that a replica loads.
#[derive(Clone, derive_more::Debug)]
#[debug("SnapshotSecret")]
pub struct SnapshotSecret([u8; blake3::KEY_LEN]);

impl SnapshotSecret {
    /// `None` if the text is shorter than 32 characters.
    pub fn new(text: &str) -> Option<Self> {
        let is_long = text.chars().count() >= SECRET_CHARS_MIN;
        is_long.then(|| Self(blake3::derive_key(CONTEXT, text.as_bytes())))
    }

    /// Adds the signature of the metadata and of the checksum of all parts.
    pub fn sign(&self, metadata: &mut BTreeMap<String, String>, checksum: &str) {
        metadata.remove(SIGNATURE);
        let signature = self.signature(metadata, checksum).to_hex().to_string();
        metadata.insert(SIGNATURE.to_owned(), signature);
    }

    pub(super) fn has_signed(&self, metadata: &BTreeMap<String, String>, checksum: &str) -> bool {
        let mut signed = metadata.clone();
        let signature = signed.remove(SIGNATURE);
        let signature = signature.and_then(|hex| blake3::Hash::from_hex(hex).ok());
        // The comparison of hashes takes the same time for all.
        signature == Some(self.signature(&signed, checksum))
    }

    fn signature(&self, metadata: &BTreeMap<String, String>, checksum: &str) -> blake3::Hash {
        let signed = serde_json::to_vec(&(metadata, checksum)).expect("no keys but text");
        blake3::keyed_hash(&self.0, &signed)
    }
}
