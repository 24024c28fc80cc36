//! [`ApiKey`]: the form of a key, its public id and its hash.
//!
//! `rb_<env>_<key id>_<secret><checksum>`: a prefix that scanners recognise, 160 bits of secret, and a CRC-32 that
//! rejects a typo without a look-up. Only the SHA-256 of a key is stored.

use serde::{Deserialize, Serialize};
use serde_with::SerializeDisplay;
use sha2::{Digest, Sha256};

/// Crockford's base 32 in lower case: no letter can be mistaken for another.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const KEY_ID_LEN: usize = 8;
/// 160 bits at 5 bits a letter.
const SECRET_LEN: usize = 32;
/// 32 bits at 5 bits a letter.
const CHECKSUM_LEN: usize = 7;
/// The context of [`ApiKey::derive`], so that no other hash of the same secrets is a key.
const DERIVE_CONTEXT: &str = "railbird 2026-11-21 a key that is made of secrets";
/// Longer texts are rejected before they are parsed.
const KEY_LEN_MAX: usize = 80;

/// A key, as it is shown once. `Debug` shows only its id.
#[derive(derive_more::Debug)]
pub struct ApiKey {
    pub key_id: KeyId,
    #[debug(skip)]
    text: String,
}

impl ApiKey {
    /// Generates a key for an environment, such as `live` or `dev`. Fails if the system has no random numbers.
    pub fn generate(env: &str) -> Result<Self, getrandom::Error> {
        Ok(Self::new(env, KeyId(random()?), random()?))
    }

    /// Derives a key from secrets. The same secrets give the same key; all of them are needed to compute it.
    pub fn derive(env: &str, secrets: &[&str]) -> Self {
        let mut bytes = derived(DERIVE_CONTEXT, secrets);
        let mut key_id = [0; KEY_ID_LEN];
        let mut secret = [0; SECRET_LEN];
        bytes.fill(&mut key_id);
        bytes.fill(&mut secret);
        Self::new(env, KeyId(to_letters(key_id)), to_letters(secret))
    }

    fn new(env: &str, key_id: KeyId, secret: [u8; SECRET_LEN]) -> Self {
        let mut text = format!("rb_{env}_{key_id}_{}", letters(&secret));
        text.push_str(letters(&checksum(&text)));
        Self { key_id, text }
    }

    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// The hash that is stored.
    pub fn hash(&self) -> SecretHash {
        SecretHash::of(&self.text)
    }
}

/// The environment of the keys of `railbird dev`.
pub const DEV_ENV: &str = "dev";

/// Whether a key is of an environment.
pub(super) fn is_of_env(key: &str, env: &str) -> bool {
    key.split('_').nth(1) == Some(env)
}

/// The public id of a key, used in events, lists and commands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, SerializeDisplay, Deserialize)]
#[serde(try_from = "String")]
#[derive(derive_more::Debug, derive_more::Display)]
#[debug("KeyId({})", self.as_str())]
#[display("{}", self.as_str())]
pub struct KeyId([u8; KEY_ID_LEN]);

impl KeyId {
    /// Parses a key id; `None` if the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes().try_into().ok()?;
        is_letters(text).then_some(Self(bytes))
    }

    /// The id of a key; `None` if the text does not have the form of a key or its checksum is wrong.
    pub fn of_key(key: &str) -> Option<Self> {
        if key.len() > KEY_LEN_MAX || !key.is_ascii() {
            return None;
        }
        let mut parts = key.strip_prefix("rb_")?.split('_');
        let _env = parts.next()?;
        let key_id = parts.next()?;
        let secret = parts.next()?;
        if parts.next().is_some() || secret.len() != SECRET_LEN + CHECKSUM_LEN {
            return None;
        }
        let (text, expected) = key.split_at(key.len() - CHECKSUM_LEN);
        let is_intact = checksum(text) == expected.as_bytes();
        is_intact.then(|| Self::parse(key_id)).flatten()
    }

    pub fn as_str(&self) -> &str {
        letters(&self.0)
    }
}

impl TryFrom<String> for KeyId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("a key id is 8 of 0-9 and a-z without i, l, o and u")
    }
}

/// The SHA-256 of a secret. Its bytes are in a [`blake3::Hash`], which compares in constant time and parses hexadecimal
/// digits. The time of a look-up reveals nothing useful, as a client cannot choose a hash.
#[derive(derive_more::Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[debug("SecretHash {{ .. }}")]
pub struct SecretHash(blake3::Hash);

impl SecretHash {
    pub fn of(secret: &str) -> Self {
        Self(blake3::Hash::from_bytes(Sha256::digest(secret).into()))
    }

    /// The id of the session whose cookie has this hash, in the form of a key id.
    pub(super) fn session_id(&self) -> KeyId {
        let digest = self.0.as_bytes();
        KeyId(to_letters(std::array::from_fn(|at| digest[at])))
    }
}

impl TryFrom<String> for SecretHash {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let hash = blake3::Hash::from_hex(text).map(Self);
        hash.map_err(|_| "a SHA-256 is 64 hexadecimal digits")
    }
}

impl From<SecretHash> for String {
    fn from(hash: SecretHash) -> Self {
        hash.0.to_string()
    }
}

/// Generates a secret of 160 random bits. Fails if the system has no random numbers.
pub fn random_secret() -> Result<String, getrandom::Error> {
    Ok(letters(&random::<SECRET_LEN>()?).to_owned())
}

/// Derives a secret from others. The same ones give the same secret; all of them are needed to compute it.
pub fn derive_secret(context: &str, secrets: &[&str]) -> String {
    let mut secret = [0; SECRET_LEN];
    derived(context, secrets).fill(&mut secret);
    letters(&to_letters(secret)).to_owned()
}

fn derived(context: &str, secrets: &[&str]) -> blake3::OutputReader {
    let mut hasher = blake3::Hasher::new_derive_key(context);
    for secret in secrets {
        hasher.update(&(secret.len() as u64).to_le_bytes());
        hasher.update(secret.as_bytes());
    }
    hasher.finalize_xof()
}

/// Whether a text has the form of a secret from [`random_secret`].
pub fn is_secret(text: &str) -> bool {
    text.len() == SECRET_LEN && is_letters(text)
}

fn is_letters(text: &str) -> bool {
    let is_used = |byte: u8| byte.is_ascii_lowercase() && !b"ilou".contains(&byte);
    text.bytes()
        .all(|byte| byte.is_ascii_digit() || is_used(byte))
}

fn random<const LEN: usize>() -> Result<[u8; LEN], getrandom::Error> {
    let mut bytes = [0; LEN];
    getrandom::fill(&mut bytes)?;
    Ok(to_letters(bytes))
}

/// Converts each byte to a letter, using 5 of its bits.
fn to_letters<const LEN: usize>(bytes: [u8; LEN]) -> [u8; LEN] {
    bytes.map(|byte| ALPHABET[usize::from(byte % 32)])
}

fn checksum(text: &str) -> [u8; CHECKSUM_LEN] {
    let mut rest = crc32fast::hash(text.as_bytes());
    let mut checksum = [0; CHECKSUM_LEN];
    for letter in checksum.iter_mut().rev() {
        *letter = ALPHABET[(rest % 32) as usize];
        rest /= 32;
    }
    checksum
}

fn letters(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the alphabet is ASCII")
}

#[cfg(test)]
mod tests {
    use super::{ALPHABET, ApiKey, KeyId, SecretHash, is_letters};

    #[test]
    fn the_letters_of_a_text_are_those_of_the_alphabet() {
        for byte in 0..=u8::MAX {
            let text = char::from(byte).to_string();
            assert_eq!(is_letters(&text), ALPHABET.contains(&byte), "{text:?}");
        }
    }

    #[test]
    fn a_key_contains_its_id_and_has_the_form_that_scanners_recognise() {
        let key = ApiKey::generate("live").expect("random");
        let parts: Vec<&str> = key.reveal().split('_').collect();
        let id = key.key_id;
        assert_eq!(parts[..3], ["rb", "live", id.as_str()]);
        assert_eq!((parts.len(), parts[3].len()), (4, 32 + 7));
        assert_eq!(KeyId::of_key(key.reveal()), Some(id));
    }

    /// Subscribers hold keys of this form: the id and the hash of a key must never change.
    #[test]
    fn the_form_of_a_key_never_changes() {
        let key = "rb_live_7k2m9x4q_0123456789abcdefghjkmnpqrstvwxyz22svd9k";
        assert_eq!(KeyId::of_key(key), KeyId::parse("7k2m9x4q"));
        assert_eq!(
            String::from(SecretHash::of(key)),
            "bdf341916750a9e6ad75bf7c34ac08121a62fbfe1c58ddae75574aaf1221c2b3"
        );
    }

    #[test]
    fn the_same_secrets_derive_the_same_key() {
        let key = |secrets: &[&str]| ApiKey::derive("dev", secrets).reveal().to_owned();
        let first = key(&["ab", "c"]);
        assert!(KeyId::of_key(&first).is_some(), "{first}");
        assert_eq!(first, key(&["ab", "c"]));
        for others in [["a", "bc"].as_slice(), &["abc"], &["ab", "d"], &["c", "ab"]] {
            assert_ne!(first, key(others), "{others:?}");
        }
    }

    #[test]
    fn a_typo_is_detected_by_the_checksum() {
        let key = ApiKey::generate("dev").expect("random");
        for at in 0..key.reveal().len() {
            let mut typo = key.reveal().as_bytes().to_vec();
            typo[at] = if typo[at] == b'x' { b'y' } else { b'x' };
            let typo = String::from_utf8(typo).expect("ASCII");
            assert_eq!(KeyId::of_key(&typo), None, "at {at}");
        }
    }

    #[test]
    fn a_text_that_is_not_a_key_is_rejected() {
        let long = "a".repeat(10_000);
        for text in [
            "",
            "rb",
            "rb_",
            "rb_dev_",
            "rb_dev_12345678_",
            &long,
            "rb_dev_ä",
        ] {
            assert_eq!(KeyId::of_key(text), None, "{text:.20}");
        }
    }

    #[test]
    fn a_hash_round_trips_through_its_digits() {
        let hash = SecretHash::of("a secret");
        let digits = String::from(hash);
        assert_eq!(SecretHash::try_from(digits.clone()), Ok(hash));
        assert_eq!(SecretHash::try_from(digits.to_uppercase()), Ok(hash));
        for wrong in [&digits[1..], &format!("+{}", &digits[1..]), ""] {
            assert!(SecretHash::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn debug_shows_neither_a_key_nor_its_hash() {
        let key = ApiKey::generate("dev").expect("random");
        let shown = format!("{key:?} {:?}", key.hash());
        let secret = key.reveal().rsplit('_').next().expect("a secret");
        assert!(!shown.contains(secret) && !shown.contains(&String::from(key.hash())));
    }
}
