//! API keys: their form, the events that issue them, and the ring of those that are valid.
//!
//! `rb_<env>_<key id>_<secret><checksum>`: 160 bits of secret, and a CRC-32 that turns a typo away without a
//! look-up. Only the SHA-256 of a key is kept, in the stream `ACCOUNTS`.

use std::collections::HashMap;
use std::fmt;
use std::sync::{PoisonError, RwLock};

use events::Moment;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::log::Outgoing;

/// Crockford's base 32, lower case: no letter that reads as another.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const KEY_ID_LEN: usize = 8;
/// 160 bits at 5 bits a letter.
const SECRET_LEN: usize = 32;
/// 32 bits at 5 bits a letter.
const CHECKSUM_LEN: usize = 7;
/// Longer than any key: nothing beyond it is even looked at.
const KEY_LEN_MAX: usize = 80;

const ISSUED: &str = "accounts.key.issued.v1";

/// A key as it is handed out, once. It shows itself only when asked.
pub struct ApiKey {
    key_id: String,
    text: String,
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiKey")
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}

impl ApiKey {
    /// Makes a key for an environment, such as `live` or `dev`.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn generate(env: &str) -> anyhow::Result<Self> {
        let letters = random_letters(KEY_ID_LEN + SECRET_LEN)?;
        let (key_id, secret) = letters.split_at(KEY_ID_LEN);
        let text = format!("rb_{env}_{key_id}_{secret}");
        let checksum = checksum(&text);
        Ok(Self {
            key_id: key_id.to_owned(),
            text: text + &checksum,
        })
    }

    /// The key itself, to be shown to the one who asked for it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// The public part.
    #[must_use]
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// The event that makes the key valid.
    #[must_use]
    pub fn issued(&self, plan: &str, now: Moment) -> Outgoing {
        let event = AccountEvent {
            specversion: "1.0".to_owned(),
            id: uuid::Uuid::now_v7().to_string(),
            source: "railbird".to_owned(),
            type_name: ISSUED.to_owned(),
            time: now,
            data: KeyIssued {
                key_id: self.key_id.clone(),
                sha256: hex(&hash(&self.text)),
                plan: plan.to_owned(),
            },
        };
        let payload = serde_json::to_vec(&event).expect("strings always serialise");
        Outgoing {
            subject: format!("accounts.key.{}", self.key_id),
            id: event.id,
            payload,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct AccountEvent {
    specversion: String,
    id: String,
    source: String,
    #[serde(rename = "type")]
    type_name: String,
    time: Moment,
    data: KeyIssued,
}

#[derive(Serialize, Deserialize)]
struct KeyIssued {
    key_id: String,
    sha256: String,
    plan: String,
}

/// The keys that are valid now.
#[derive(Debug, Default)]
pub struct KeyRing {
    hashes: RwLock<HashMap<String, [u8; 32]>>,
}

/// The event in the log is none that this version understands.
#[derive(Debug, thiserror::Error)]
#[error("not an account event: {0}")]
pub struct NotAnAccountEvent(String);

impl KeyRing {
    /// Takes in an event of the stream `ACCOUNTS`.
    ///
    /// # Errors
    /// The event is malformed. It is skipped; the keys stay as they are.
    pub fn apply(&self, payload: &[u8]) -> Result<(), NotAnAccountEvent> {
        let event: AccountEvent =
            serde_json::from_slice(payload).map_err(|e| NotAnAccountEvent(e.to_string()))?;
        if event.type_name != ISSUED {
            return Err(NotAnAccountEvent(format!(
                "unknown type {:?}",
                event.type_name
            )));
        }
        let hash = unhex(&event.data.sha256)
            .ok_or_else(|| NotAnAccountEvent("sha256 is not 64 hexadecimal digits".to_owned()))?;
        self.hashes
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(event.data.key_id, hash);
        Ok(())
    }

    /// The id of a key, if it is valid.
    #[must_use]
    pub fn check<'a>(&self, key: &'a str) -> Option<&'a str> {
        let key_id = parse(key)?;
        let hashes = self.hashes.read().unwrap_or_else(PoisonError::into_inner);
        let known = hashes.get(key_id)?;
        bool::from(known.ct_eq(&hash(key))).then_some(key_id)
    }

    /// Whether the key of an id is valid.
    #[must_use]
    pub fn holds(&self, key_id: &str) -> bool {
        let hashes = self.hashes.read().unwrap_or_else(PoisonError::into_inner);
        hashes.contains_key(key_id)
    }

    /// Forgets every key.
    pub fn clear(&self) {
        self.hashes
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// How many keys are valid.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hashes
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// Whether no key is valid.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Letters of the alphabet, 5 random bits each.
///
/// # Errors
/// The system has no random numbers.
pub fn random_letters(count: usize) -> anyhow::Result<String> {
    let mut random = vec![0_u8; count];
    getrandom::fill(&mut random)?;
    Ok(random
        .iter()
        .map(|byte| char::from(ALPHABET[usize::from(byte % 32)]))
        .collect())
}

/// The key id of a well-formed key whose checksum is right.
fn parse(key: &str) -> Option<&str> {
    if key.len() > KEY_LEN_MAX || !key.is_ascii() {
        return None;
    }
    let mut parts = key.strip_prefix("rb_")?.split('_');
    let (_env, key_id, secret) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some()
        || key_id.len() != KEY_ID_LEN
        || secret.len() != SECRET_LEN + CHECKSUM_LEN
    {
        return None;
    }
    let (text, said) = key.split_at(key.len() - CHECKSUM_LEN);
    (checksum(text) == said).then_some(key_id)
}

fn checksum(text: &str) -> String {
    let crc = crc32fast::hash(text.as_bytes());
    (0..CHECKSUM_LEN)
        .rev()
        .map(|i| char::from(ALPHABET[(crc >> (5 * i)) as usize % 32]))
        .collect()
}

fn hash(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{ApiKey, KeyRing, parse};

    fn issued() -> (ApiKey, KeyRing) {
        let (key, ring) = (ApiKey::generate("dev").expect("random"), KeyRing::default());
        ring.apply(
            &key.issued("dev", jiff::Timestamp::UNIX_EPOCH.into())
                .payload,
        )
        .expect("its own event");
        (key, ring)
    }

    #[test]
    fn an_issued_key_is_valid_and_no_other() {
        let (key, ring) = issued();
        assert_eq!(ring.check(key.reveal()), Some(key.key_id()));
        let other = ApiKey::generate("dev").expect("random");
        assert_eq!(ring.check(other.reveal()), None);
    }

    #[test]
    fn a_typo_is_found_by_the_checksum() {
        let (key, _) = issued();
        for at in 0..key.reveal().len() {
            let mut typo = key.reveal().as_bytes().to_vec();
            typo[at] = if typo[at] == b'x' { b'y' } else { b'x' };
            assert_eq!(
                parse(std::str::from_utf8(&typo).expect("ASCII")),
                None,
                "at {at}"
            );
        }
    }

    #[test]
    fn nonsense_is_no_key() {
        let ring = KeyRing::default();
        for text in [
            "",
            "rb",
            "rb_",
            "rb_dev_",
            "rb_dev_12345678_",
            &"a".repeat(10_000),
            "rb_dev_ä",
        ] {
            assert_eq!(ring.check(text), None, "{text:.20}");
        }
    }

    #[test]
    fn neither_debug_nor_the_event_shows_the_key() {
        let (key, ring) = issued();
        let event = String::from_utf8(
            key.issued("dev", jiff::Timestamp::UNIX_EPOCH.into())
                .payload,
        )
        .expect("UTF-8");
        let secret = key.reveal().rsplit('_').next().expect("a secret");
        assert!(!format!("{key:?} {ring:?} {event}").contains(secret));
    }
}
