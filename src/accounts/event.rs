//! [`AccountEvent`]: what happened to a key, a subscription or a mail, as it stands in the stream `ACCOUNTS`.
//!
//! CloudEvents, as in the racing log. What is in the stream stays there for ever: a type keeps its form, and every version
//! reads what every earlier one wrote.

use events::{CloudEvent, DecodeError, Moment, Text};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{ApiKey, Email, KeyId, MailId, SecretHash, Subject, SubscriptionId};
use crate::log::Outgoing;

/// The largest event that is taken. Those that are written here are under 1 KiB.
const EVENT_BYTES_MAX: usize = 16 * 1024;
/// An unknown type or a subject is quoted in an error only so far.
const CHARS_SHOWN: usize = 80;

const SOURCE: &str = "railbird";

/// An event with its identity and the writer's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountEvent {
    /// The event's identity.
    pub id: String,
    /// Who says so.
    pub source: String,
    /// When it happened.
    pub time: Moment,
    /// What happened.
    pub fact: Fact,
}

/// Why a message of the stream is no event that this version understands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotUnderstood {
    /// It is too large.
    #[error("{bytes} bytes, at most {EVENT_BYTES_MAX} are taken")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// It is no CloudEvent.
    #[error(transparent)]
    NotCloudEvent(#[from] DecodeError),
    /// A later version may know it.
    #[error("unknown event type {0:?}")]
    UnknownType(String),
    /// A field is missing or wrong.
    #[error("data: {0}")]
    Invalid(String),
    /// The subject says something else than the data.
    #[error("published on {subject}, but the data belongs on {expected}")]
    SubjectMismatch {
        /// Where it stands.
        subject: String,
        /// Where it belongs.
        expected: String,
    },
}

macro_rules! facts {
    ($($(#[doc = $doc:literal])* $name:ident = $type:literal, of $subject:ident by $id:ident;)*) => {
        /// What happened. A variant wraps the struct of its own name.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Fact {
            $($(#[doc = $doc])* $name($name),)*
        }

        impl Fact {
            /// The CloudEvents `type`.
            #[must_use]
            pub fn type_name(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => $type,)*
                }
            }

            /// What it is about.
            #[must_use]
            pub fn subject(&self) -> Subject {
                match self {
                    $(Self::$name(fact) => Subject::$subject(fact.$id.to_owned()),)*
                }
            }

            fn data(&self) -> Box<RawValue> {
                let data = match self {
                    $(Self::$name(fact) => serde_json::value::to_raw_value(fact),)*
                };
                data.expect("facts have string keys and no failing field")
            }

            fn parse(type_name: &str, data: &str) -> Result<Self, NotUnderstood> {
                match type_name {
                    $($type => serde_json::from_str(data).map(Self::$name).map_err(|e| NotUnderstood::Invalid(cut(&e.to_string()))),)*
                    _ => Err(NotUnderstood::UnknownType(cut(type_name))),
                }
            }
        }

        $(impl From<$name> for Fact {
            fn from(fact: $name) -> Self {
                Self::$name(fact)
            }
        })*
    };
}

facts! {
    /// A key is valid from now on.
    KeyIssued = "accounts.key.issued.v1", of Key by key_id;
    /// Another key takes the place of one.
    KeyRotated = "accounts.key.rotated.v1", of Key by key_id;
    /// A key is no longer valid.
    KeyRevoked = "accounts.key.revoked.v1", of Key by key_id;
    /// The holder of a key is on another plan.
    PlanChanged = "accounts.plan.changed.v1", of Key by key_id;
    /// Somebody subscribed.
    SubscriptionRequested = "accounts.subscription.requested.v1", of Subscription by subscription_id;
    /// An operator approved of it.
    SubscriptionApproved = "accounts.subscription.approved.v1", of Subscription by subscription_id;
    /// A mail with a key is to be sent.
    MailRequested = "accounts.mail.requested.v1", of Mail by mail_id;
    /// A key was made for it, and is about to be sent.
    MailAttempted = "accounts.mail.attempted.v1", of Mail by mail_id;
    /// The attempt reached the mail server.
    MailDelivered = "accounts.mail.delivered.v1", of Mail by mail_id;
    /// The attempt did not.
    MailFailed = "accounts.mail.failed.v1", of Mail by mail_id;
}

/// A key is valid from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyIssued {
    /// The key.
    pub key_id: KeyId,
    /// What is kept of it.
    pub sha256: SecretHash,
    /// The plan of a key without a subscription. A subscription has a plan of its own.
    pub plan: Text,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription_id: Option<SubscriptionId>,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Moment>,
}

impl KeyIssued {
    /// A key without a subscription.
    #[must_use]
    pub fn new(key: &ApiKey, plan: Text, expires_at: Option<Moment>) -> Self {
        Self {
            key_id: key.key_id(),
            sha256: key.hash(),
            plan,
            subscription_id: None,
            expires_at,
        }
    }
}

/// Another key takes the place of one. It has the holder, and so the plan, of the old one, and expires when that would have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRotated {
    /// The old key.
    pub key_id: KeyId,
    /// The end of the overlap, in which both are valid.
    pub valid_until: Moment,
    /// The new key.
    pub new_key_id: KeyId,
    /// What is kept of it.
    pub new_sha256: SecretHash,
}

/// A key is no longer valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRevoked {
    /// The key.
    pub key_id: KeyId,
    /// Why; empty if nobody said.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub reason: Text,
}

/// The holder of a key is on another plan, with all of its keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanChanged {
    /// One of its keys.
    pub key_id: KeyId,
    /// The plan.
    pub plan: Text,
    /// Counts the changes of this holder's plan, from 1. One that is not higher than the last was said before.
    pub revision: u32,
}

/// Somebody subscribed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriptionRequested {
    /// The subscription.
    pub subscription_id: SubscriptionId,
    /// Where the key is sent.
    pub email: Email,
    /// The plan.
    pub plan: Text,
    /// It waits for nobody: the plan needs no approval. With the request, so that no crash comes between the two.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approved: bool,
}

/// An operator approved of a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriptionApproved {
    /// The subscription.
    pub subscription_id: SubscriptionId,
}

/// A mail with a key is to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailRequested {
    /// The mail.
    pub mail_id: MailId,
    /// To whom.
    pub subscription_id: SubscriptionId,
    /// What for.
    pub purpose: Text,
}

/// A key was made for a mail, and is about to be sent: it is valid, and those of earlier attempts are not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailAttempted {
    /// The mail.
    pub mail_id: MailId,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// The key.
    pub key_id: KeyId,
    /// What is kept of it.
    pub sha256: SecretHash,
    /// What is kept of the token in the mail's links.
    pub manage_sha256: SecretHash,
}

/// An attempt reached the mail server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailDelivered {
    /// The mail.
    pub mail_id: MailId,
    /// Which attempt.
    pub attempt: u32,
}

/// An attempt did not: its key is taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailFailed {
    /// The mail.
    pub mail_id: MailId,
    /// Which attempt; 0 for a mail that is given up before the first.
    pub attempt: u32,
    /// Why.
    pub reason: Text,
    /// There will be no other.
    #[serde(default, rename = "final", skip_serializing_if = "std::ops::Not::not")]
    pub is_final: bool,
}

impl AccountEvent {
    /// A new event.
    #[must_use]
    pub fn new(fact: impl Into<Fact>, time: Moment) -> Self {
        Self {
            id: Uuid::now_v7().to_string(),
            source: SOURCE.to_owned(),
            time,
            fact: fact.into(),
        }
    }

    /// Reads an event from the bytes of a message and the subject that it stands on.
    ///
    /// # Errors
    /// This version does not understand it.
    pub fn decode(subject: &str, bytes: &[u8]) -> Result<Self, NotUnderstood> {
        if bytes.len() > EVENT_BYTES_MAX {
            return Err(NotUnderstood::TooLarge { bytes: bytes.len() });
        }
        let wire = CloudEvent::from_json(bytes)?;
        let fact = Fact::parse(&wire.type_name, wire.data.get())?;
        let expected = fact.subject().to_string();
        if subject != expected {
            let subject = cut(subject);
            return Err(NotUnderstood::SubjectMismatch { subject, expected });
        }
        Ok(Self {
            id: wire.id.into_owned(),
            source: wire.source.into_owned(),
            time: wire.time,
            fact,
        })
    }
}

impl From<&AccountEvent> for Outgoing {
    fn from(event: &AccountEvent) -> Self {
        let AccountEvent {
            id,
            source,
            time,
            fact,
        } = event;
        let data = fact.data();
        let wire = CloudEvent::new(id, source, fact.type_name(), *time, &data);
        Self {
            subject: fact.subject().to_string(),
            id: id.clone(),
            payload: wire.to_json(),
        }
    }
}

fn cut(text: &str) -> String {
    text.chars().take(CHARS_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{AccountEvent, Fact, NotUnderstood};
    use crate::log::Outgoing;

    const SHA256: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

    /// Every type as it stands on the wire, with its subject. What is written here is in logs: it never changes.
    fn golden() -> Vec<(&'static str, &'static str, Value)> {
        let expires_at = "2027-01-01T00:00:00Z";
        vec![
            (
                "accounts.key.7k2m9x4q",
                "accounts.key.issued.v1",
                json!({ "key_id": "7k2m9x4q", "sha256": SHA256, "plan": "default" }),
            ),
            (
                "accounts.key.7k2m9x4q",
                "accounts.key.issued.v1",
                json!({ "key_id": "7k2m9x4q", "sha256": SHA256, "plan": "basic", "subscription_id": "sub-1", "expires_at": expires_at }),
            ),
            (
                "accounts.key.7k2m9x4q",
                "accounts.key.rotated.v1",
                json!({ "key_id": "7k2m9x4q", "valid_until": expires_at, "new_key_id": "8z8z8z8z", "new_sha256": SHA256 }),
            ),
            (
                "accounts.key.7k2m9x4q",
                "accounts.key.revoked.v1",
                json!({ "key_id": "7k2m9x4q" }),
            ),
            (
                "accounts.key.7k2m9x4q",
                "accounts.key.revoked.v1",
                json!({ "key_id": "7k2m9x4q", "reason": "seen in a repository" }),
            ),
            (
                "accounts.key.7k2m9x4q",
                "accounts.plan.changed.v1",
                json!({ "key_id": "7k2m9x4q", "plan": "pro", "revision": 1 }),
            ),
            (
                "accounts.subscription.sub-1",
                "accounts.subscription.requested.v1",
                json!({ "subscription_id": "sub-1", "email": "a@racing.example", "plan": "basic" }),
            ),
            (
                "accounts.subscription.sub-1",
                "accounts.subscription.requested.v1",
                json!({ "subscription_id": "sub-1", "email": "a@racing.example", "plan": "basic", "approved": true }),
            ),
            (
                "accounts.subscription.sub-1",
                "accounts.subscription.approved.v1",
                json!({ "subscription_id": "sub-1" }),
            ),
            (
                "accounts.mail.mail-1",
                "accounts.mail.requested.v1",
                json!({ "mail_id": "mail-1", "subscription_id": "sub-1", "purpose": "welcome" }),
            ),
            (
                "accounts.mail.mail-1",
                "accounts.mail.attempted.v1",
                json!({ "mail_id": "mail-1", "attempt": 1, "key_id": "7k2m9x4q", "sha256": SHA256, "manage_sha256": SHA256 }),
            ),
            (
                "accounts.mail.mail-1",
                "accounts.mail.delivered.v1",
                json!({ "mail_id": "mail-1", "attempt": 1 }),
            ),
            (
                "accounts.mail.mail-1",
                "accounts.mail.failed.v1",
                json!({ "mail_id": "mail-1", "attempt": 1, "reason": "450 busy" }),
            ),
            (
                "accounts.mail.mail-1",
                "accounts.mail.failed.v1",
                json!({ "mail_id": "mail-1", "attempt": 2, "reason": "550 no such user", "final": true }),
            ),
        ]
    }

    fn wire(type_name: &str, data: &Value) -> Value {
        json!({
            "specversion": "1.0", "id": "0192", "source": "railbird", "type": type_name, "time": "2026-11-21T06:32:00Z", "data": data,
        })
    }

    #[test]
    fn every_type_is_read_from_the_wire_and_written_as_it_was() {
        for (subject, type_name, data) in golden() {
            let event = wire(type_name, &data);
            let read = AccountEvent::decode(subject, event.to_string().as_bytes());
            let read = read.unwrap_or_else(|error| panic!("{error}: {event}"));
            let written = Outgoing::from(&read);
            assert_eq!(
                (written.subject.as_str(), written.id.as_str()),
                (subject, "0192")
            );
            let written: Value = serde_json::from_slice(&written.payload).expect("JSON");
            assert_eq!(written, event);
        }
    }

    #[test]
    fn what_is_added_later_is_ignored() {
        for (subject, type_name, mut data) in golden() {
            data["added"] = json!({ "later": true });
            let mut event = wire(type_name, &data);
            event["tracestate"] = json!("kept");
            assert!(AccountEvent::decode(subject, event.to_string().as_bytes()).is_ok());
        }
    }

    #[test]
    fn what_is_not_understood_says_why() {
        let data = json!({ "key_id": "7k2m9x4q" });
        let decode = |subject: &str, event: &str| AccountEvent::decode(subject, event.as_bytes());
        let revoked = wire("accounts.key.revoked.v1", &data);
        let unknown = decode(
            "accounts.key.7k2m9x4q",
            &wire("accounts.key.lent.v9", &data).to_string(),
        );
        assert_eq!(
            unknown,
            Err(NotUnderstood::UnknownType(
                "accounts.key.lent.v9".to_owned()
            ))
        );
        assert!(matches!(
            decode("accounts.key.8z8z8z8z", &revoked.to_string()),
            Err(NotUnderstood::SubjectMismatch { .. })
        ));
        // The values of an event in their order are no event.
        let values = ["specversion", "id", "source", "type", "time", "data"];
        let list = json!(values.map(|name| &revoked[name])).to_string();
        for nonsense in ["", "[]", "null", "{}", r#"{"specversion":"0.3"}"#, &list] {
            assert!(matches!(
                decode("accounts.key.7k2m9x4q", nonsense),
                Err(NotUnderstood::NotCloudEvent(_))
            ));
        }
        let long = format!("{revoked}{}", " ".repeat(20_000));
        assert!(matches!(
            decode("accounts.key.7k2m9x4q", &long),
            Err(NotUnderstood::TooLarge { .. })
        ));
        for (subject, type_name, data) in golden() {
            for field in [
                "key_id",
                "subscription_id",
                "mail_id",
                "sha256",
                "new_sha256",
                "email",
            ] {
                let mut wrong = data.clone();
                if wrong.get(field).is_some() {
                    wrong[field] = json!("not one, by far");
                    let found = decode(subject, &wire(type_name, &wrong).to_string());
                    let why = found.expect_err("a wrong field").to_string();
                    assert!(!why.contains("by far"), "it may be a secret: {why}");
                }
            }
        }
    }

    #[test]
    fn a_mail_address_is_in_no_debug_output() {
        let (subject, type_name, data) = golden().swap_remove(6);
        let event = AccountEvent::decode(subject, wire(type_name, &data).to_string().as_bytes());
        let event = event.expect("an event");
        assert!(matches!(event.fact, Fact::SubscriptionRequested(_)));
        assert!(!format!("{event:?}").contains("a@racing"));
    }
}
