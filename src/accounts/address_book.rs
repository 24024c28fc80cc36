//! [`AddressBook`]: the secrets of e-mail addresses, in a stream whose messages can be erased.
//!
//! The stream `ACCOUNTS` is never deleted from, so it has addresses only encrypted, each with a key of its own. The
//! keys are in the stream `ADDRESSES`. Once the key of an address is erased there, nobody can read the address any
//! more.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use super::{CommandError, Email, SubscriptionId};
use crate::log::{ADDRESSES, Log, LogError, Outgoing};

const SALT_SUBJECT: &str = "addresses.salt";
/// Base64 of an address of 254 bytes with its nonce and its tag.
const SEALED_LEN_MAX: usize = 376;

type Secret = [u8; 32];

/// Reads and writes the stream `ADDRESSES`. Clones share the salt.
#[derive(derive_more::Debug, Clone)]
#[debug("AddressBook {{ .. }}")]
pub struct AddressBook {
    log: Log,
    /// The salt of all subscription ids. It is created once and never changes.
    salt: Arc<OnceCell<Secret>>,
}

/// An encrypted e-mail address: base64 of a nonce and of what ChaCha20-Poly1305 makes of the address.
#[derive(derive_more::Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[debug("SealedEmail {{ .. }}")]
#[serde(try_from = "String")]
pub struct SealedEmail(String);

impl TryFrom<String> for SealedEmail {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let is_sealed = text.len() <= SEALED_LEN_MAX && BASE64_STANDARD.decode(&text).is_ok();
        let sealed = is_sealed.then_some(Self(text));
        sealed.ok_or("an encrypted address is at most 376 characters of base64")
    }
}

impl AddressBook {
    pub fn new(log: Log) -> Self {
        let salt = Arc::default();
        Self { log, salt }
    }

    /// The id of the subscription of an address.
    pub async fn id_of(&self, email: &Email) -> Result<SubscriptionId, CommandError> {
        let salt = self.salt.get_or_try_init(|| async {
            self.log.state(ADDRESSES).await?;
            self.secret_or_new(SALT_SUBJECT).await
        });
        Ok(SubscriptionId::of(email, salt.await?))
    }

    /// Encrypts the address of a subscription, with a new key unless it has one. Each generation of the subscription
    /// has a key of its own: if that of one that was forgotten is erased late, the address of the next one stays.
    pub async fn seal(
        &self,
        id: &SubscriptionId,
        generation: u32,
        email: &Email,
    ) -> Result<SealedEmail, CommandError> {
        let key = self.secret_or_new(&subject(id, generation)).await?;
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce)?;
        Ok(seal(&key, nonce, id, email))
    }

    /// Decrypts the address of a subscription; `None` if its key is erased.
    pub async fn open(
        &self,
        id: &SubscriptionId,
        generation: u32,
        sealed: &SealedEmail,
    ) -> Result<Option<Email>, CommandError> {
        let subject = subject(id, generation);
        let Some(key) = self.secret(&subject).await? else {
            return Ok(None);
        };
        let email = open(&key, id, sealed);
        email.map(Some).ok_or(CommandError::WrongSecret(subject))
    }

    /// Erases the key of an address. The server overwrites it on its disk.
    pub async fn erase(&self, id: &SubscriptionId, generation: u32) -> Result<(), CommandError> {
        Ok(self.log.erase(ADDRESSES, &subject(id, generation)).await?)
    }

    async fn secret(&self, subject: &str) -> Result<Option<Secret>, CommandError> {
        let Some(message) = self.log.last_message(ADDRESSES, subject).await? else {
            return Ok(None);
        };
        let secret = BASE64_STANDARD.decode(&message.payload).ok();
        let secret = secret.and_then(|bytes| Secret::try_from(bytes).ok());
        let wrong = || CommandError::WrongSecret(subject.to_owned());
        secret.map(Some).ok_or_else(wrong)
    }

    /// The secret on a subject, which is created unless another replica was first.
    async fn secret_or_new(&self, subject: &str) -> Result<Secret, CommandError> {
        loop {
            if let Some(secret) = self.secret(subject).await? {
                return Ok(secret);
            }
            let mut secret = Secret::default();
            getrandom::fill(&mut secret)?;
            let payload = BASE64_STANDARD.encode(secret).into_bytes();
            let outgoing = Outgoing::once(subject.to_owned(), payload);
            match self.log.append_expecting(ADDRESSES, outgoing, 0).await {
                Ok(_) => return Ok(secret),
                Err(LogError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn subject(id: &SubscriptionId, generation: u32) -> String {
    format!("addresses.key.{id}.{generation}")
}

fn cipher(key: &Secret) -> LessSafeKey {
    let key = UnboundKey::new(&CHACHA20_POLY1305, key);
    LessSafeKey::new(key.expect("the key has the length of the algorithm"))
}

/// The id is authenticated with the address, so that an encrypted address fits one subscription.
fn seal(key: &Secret, nonce: [u8; NONCE_LEN], id: &SubscriptionId, email: &Email) -> SealedEmail {
    let mut address = email.reveal().as_bytes().to_vec();
    let unique = Nonce::assume_unique_for_key(nonce);
    cipher(key)
        .seal_in_place_append_tag(unique, Aad::from(id.to_string()), &mut address)
        .expect("an address is shorter than the longest text of the algorithm");
    SealedEmail(BASE64_STANDARD.encode([&nonce[..], &address].concat()))
}

fn open(key: &Secret, id: &SubscriptionId, sealed: &SealedEmail) -> Option<Email> {
    let mut sealed = BASE64_STANDARD.decode(&sealed.0).ok()?;
    let (nonce, address) = sealed.split_first_chunk_mut()?;
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let opened = cipher(key).open_in_place(nonce, Aad::from(id.to_string()), address);
    Email::parse(std::str::from_utf8(opened.ok()?).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::{SEALED_LEN_MAX, SealedEmail, Secret, open, seal};
    use crate::accounts::{Email, SubscriptionId};

    fn email(text: &str) -> Email {
        Email::parse(text).expect("an address")
    }

    #[test]
    fn an_address_opens_with_its_key_in_its_subscription_alone() {
        let key = [7; 32];
        let other = [8; 32];
        let ids = ["one", "other"].map(|id| SubscriptionId::parse(id).expect("an id"));
        let address = email("rail.bird@racing.example");
        let sealed = seal(&key, [1; 12], &ids[0], &address);
        assert_eq!(open(&key, &ids[0], &sealed), Some(address));
        assert_eq!(open(&other, &ids[0], &sealed), None);
        assert_eq!(open(&key, &ids[1], &sealed), None);
        let cut = SealedEmail(sealed.0[..8].to_owned());
        assert_eq!(open(&key, &ids[0], &cut), None);
    }

    #[test]
    fn the_longest_address_has_the_longest_encrypted_form() {
        let id = SubscriptionId::parse("one").expect("an id");
        let longest = format!("{}@racing.example", "a".repeat(254 - 15));
        let sealed = seal(&Secret::default(), [0; 12], &id, &email(&longest));
        assert_eq!(sealed.0.len(), SEALED_LEN_MAX);
        assert_eq!(SealedEmail::try_from(sealed.0.clone()), Ok(sealed.clone()));
        assert!(SealedEmail::try_from(sealed.0 + "AAAA").is_err());
        assert!(SealedEmail::try_from("a@racing.example".to_owned()).is_err());
    }

    #[test]
    fn the_id_of_a_mailbox_depends_on_the_salt() {
        let id = |text, salt| SubscriptionId::of(&email(text), &[salt; 32]);
        assert_eq!(id("a@racing.example", 1), id("A+odds@racing.example", 1));
        assert_ne!(id("a@racing.example", 1), id("a@racing.example", 2));
        assert_ne!(id("a@racing.example", 1), id("b@racing.example", 1));
    }
}
