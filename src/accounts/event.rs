//! [`AccountEvent`]: a change of a key, a subscription, a mail or the service, as stored in the stream `ACCOUNTS`.
//!
//! The events are CloudEvents, as in the racing log, and each names its actor. They are stored for ever: the form of a
//! type never changes, and every version reads the events of all earlier versions.

use events::{CloudEvent, DecodeError, Moment, Text};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use uuid::Uuid;

use super::{
    AccountSubject, Actor, ApiKey, IncidentKind, KeyId, MailId, MaintenanceId, SealedEmail,
    SecretHash, SubscriptionId,
};
use crate::log::Outgoing;

/// The largest event that is decoded. Events written by this service are under 1 KiB.
const EVENT_BYTES_MAX: usize = 16 * 1024;
/// The length at which an unknown type or a subject is cut in an error.
const CHARS_SHOWN: usize = 80;

const SOURCE: &str = "railbird";

/// An event with its identity, its cause and the writer's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountEvent {
    pub id: String,
    pub time: Moment,
    pub actor: Actor,
    pub fact: Fact,
}

/// The `data` of an event.
#[derive(Serialize)]
struct Data<'a, F> {
    actor: &'a Actor,
    #[serde(flatten)]
    fact: &'a F,
}

#[derive(Deserialize)]
struct ActorOfData {
    actor: Actor,
}

/// A message of the stream is not an event that this version can decode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccountEventError {
    #[error("the event has {bytes} bytes; the maximum is {EVENT_BYTES_MAX}")]
    TooLarge { bytes: usize },
    #[error(transparent)]
    NotCloudEvent(#[from] DecodeError),
    /// The type is unknown. A later version may have added it.
    #[error("unknown event type {0:?}")]
    UnknownType(String),
    #[error("data: {0}")]
    Invalid(String),
    #[error("published on {subject}, but the data belongs on {expected}")]
    SubjectMismatch { subject: String, expected: String },
}

macro_rules! facts {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident = $type:literal, of $subject:ident by $id:ident {
            $($(#[$meta:meta])* $field:ident: $field_type:ty,)*
        }
    )*) => {
        /// What happened. A variant wraps the struct of its own name.
        #[derive(Debug, Clone, PartialEq, Eq, derive_more::From)]
        pub enum Fact {
            $($(#[doc = $doc])* $name($name),)*
        }

        $(
            $(#[doc = $doc])*
            #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
            pub struct $name {
                $($(#[$meta])* pub $field: $field_type,)*
            }
        )*

        impl Fact {
            /// The subject in the stream.
            pub fn subject(&self) -> AccountSubject {
                match self {
                    $(Self::$name(fact) => AccountSubject::$subject(fact.$id.to_owned()),)*
                }
            }

            /// The CloudEvents `type` and `data`.
            fn type_and_data(&self, actor: &Actor) -> (&'static str, Box<RawValue>) {
                let (type_name, data) = match self {
                    $(Self::$name(fact) => ($type, to_raw_value(&Data { actor, fact })),)*
                };
                (type_name, data.expect("facts have string keys and no failing field"))
            }

            fn parse(type_name: &str, data: &str) -> Result<Self, AccountEventError> {
                let parsed = match type_name {
                    $($type => serde_json::from_str(data).map(Self::$name),)*
                    _ => return Err(AccountEventError::UnknownType(cut(type_name))),
                };
                parsed.map_err(AccountEventError::invalid)
            }
        }
    };
}

facts! {
    /// An operator issued a key without a subscription. It is valid.
    KeyIssued = "accounts.key.issued.v1", of Key by key_id {
        key_id: KeyId,
        sha256: SecretHash,
        plan: Text,
        /// What the key is for; empty if its holder gave no name.
        #[serde(default, skip_serializing_if = "Text::is_empty")]
        name: Text,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<Moment>,
    }
    /// A key was replaced by a new one, which has the same holder, plan, name and expiry.
    KeyRotated = "accounts.key.rotated.v1", of Key by key_id {
        key_id: KeyId,
        /// The end of the overlap, in which both keys are valid.
        valid_until: Moment,
        new_key_id: KeyId,
        new_sha256: SecretHash,
    }
    KeyRevoked = "accounts.key.revoked.v1", of Key by key_id {
        key_id: KeyId,
        /// The reason; empty if none was given.
        #[serde(default, skip_serializing_if = "Text::is_empty")]
        reason: Text,
    }
    /// The holder of a key was put on another plan, with all its keys.
    PlanChanged = "accounts.plan.changed.v1", of Key by key_id {
        /// One of the holder's keys.
        key_id: KeyId,
        plan: Text,
        /// The number of this change of the holder's plan, from 1. A number that is not higher than the last one is a
        /// repetition.
        revision: u32,
    }
    SubscriptionRequested = "accounts.subscription.requested.v1", of Subscription by subscription_id {
        subscription_id: SubscriptionId,
        /// How often the address was subscribed, from 1: again after it was forgotten.
        generation: u32,
        email: SealedEmail,
        plan: Text,
        /// Whether the plan needs no approval. It is part of the request, so that no crash can separate the two.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        approved: bool,
    }
    /// An operator approved a subscription.
    SubscriptionApproved = "accounts.subscription.approved.v1", of Subscription by subscription_id {
        subscription_id: SubscriptionId,
        /// The number of this approval, from 1. A number that is not higher than the last one is a repetition.
        revision: u32,
    }
    /// A subscriber created a key.
    SubscriptionKeyIssued = "accounts.subscription.key_issued.v1", of Subscription by subscription_id {
        subscription_id: SubscriptionId,
        key_id: KeyId,
        sha256: SecretHash,
        /// What the key is for; empty if none was given.
        #[serde(default, skip_serializing_if = "Text::is_empty")]
        name: Text,
    }
    /// A mail with a link to the account page was requested.
    LinkRequested = "accounts.subscription.link_requested.v1", of Subscription by subscription_id {
        subscription_id: SubscriptionId,
        mail_id: MailId,
    }
    /// The person at the address did not subscribe. The address gets no mail again, for ever.
    SubscriptionSuppressed = "accounts.subscription.suppressed.v1", of Subscription by subscription_id {
        subscription_id: SubscriptionId,
    }
    /// The subscription ended with all its keys, and its address is to be erased.
    SubscriptionForgotten = "accounts.subscription.forgotten.v1", of Subscription by subscription_id {
        subscription_id: SubscriptionId,
        generation: u32,
    }
    /// The key of the address was erased: nobody can read the address any more.
    AddressErased = "accounts.subscription.address_erased.v1", of Subscription by subscription_id {
        subscription_id: SubscriptionId,
        generation: u32,
    }
    /// A mail is about to be sent. The links of earlier attempts do not work any more.
    MailAttempted = "accounts.mail.attempted.v1", of Mail by mail_id {
        mail_id: MailId,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The link in the mail, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        link: Option<Link>,
    }
    /// The mail server accepted the mail.
    MailDelivered = "accounts.mail.delivered.v1", of Mail by mail_id {
        mail_id: MailId,
        attempt: u32,
    }
    /// The mail server did not accept the mail: its link does not work.
    MailFailed = "accounts.mail.failed.v1", of Mail by mail_id {
        mail_id: MailId,
        /// The number of the attempt; 0 for a mail that is given up before the first one.
        attempt: u32,
        reason: Text,
        /// Whether there will be no further attempt.
        #[serde(default, rename = "final", skip_serializing_if = "std::ops::Not::not")]
        is_final: bool,
    }
    /// Someone used the link of a mail, which cannot be used again.
    SessionStarted = "accounts.session.started.v1", of Session by mail_id {
        /// The mail with the link. It is also the name of the session.
        mail_id: MailId,
        /// The hash of the session's cookie.
        sha256: SecretHash,
        expires_at: Moment,
    }
    /// A replica noticed an incident. Others may have noticed the same one.
    IncidentNoted = "accounts.incident.noted.v1", of Incident by kind {
        kind: IncidentKind,
        started_at: Moment,
        /// When it was over; left out while it lasts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ended_at: Option<Moment>,
        /// How often it happened within this time.
        times: u64,
    }
    /// An operator planned maintenance.
    MaintenancePlanned = "accounts.maintenance.planned.v1", of Maintenance by maintenance_id {
        maintenance_id: MaintenanceId,
        starts_at: Moment,
        ends_at: Moment,
        /// What it means for users.
        text: Text,
    }
    MaintenanceCancelled = "accounts.maintenance.cancelled.v1", of Maintenance by maintenance_id {
        maintenance_id: MaintenanceId,
    }
    /// Someone signed out, or said that a link was not meant for them: neither session nor link work any more.
    SessionEnded = "accounts.session.ended.v1", of Session by mail_id {
        mail_id: MailId,
    }
}

/// The link in a mail, which starts a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The hash of its token.
    pub sha256: SecretHash,
    pub expires_at: Moment,
}

impl KeyIssued {
    /// A key without a name.
    pub fn new(key: &ApiKey, plan: Text, expires_at: Option<Moment>) -> Self {
        Self {
            key_id: key.key_id,
            sha256: key.hash(),
            plan,
            name: Text::default(),
            expires_at,
        }
    }
}

impl AccountEventError {
    fn invalid(error: serde_json::Error) -> Self {
        Self::Invalid(cut(&error.to_string()))
    }
}

impl AccountEvent {
    /// Creates an event with a new id.
    pub fn new(actor: Actor, fact: impl Into<Fact>, time: Moment) -> Self {
        Self {
            id: Uuid::now_v7().to_string(),
            time,
            actor,
            fact: fact.into(),
        }
    }

    /// Decodes a message that was published on `subject`.
    pub fn decode(subject: &str, bytes: &[u8]) -> Result<Self, AccountEventError> {
        if bytes.len() > EVENT_BYTES_MAX {
            return Err(AccountEventError::TooLarge { bytes: bytes.len() });
        }
        let wire = CloudEvent::from_json(bytes)?;
        let data = wire.data.get();
        let fact = Fact::parse(&wire.type_name, data)?;
        let of_data = serde_json::from_str(data).map_err(AccountEventError::invalid);
        let ActorOfData { actor } = of_data?;
        let expected = fact.subject().to_string();
        if subject != expected {
            let subject = cut(subject);
            return Err(AccountEventError::SubjectMismatch { subject, expected });
        }
        Ok(Self {
            id: wire.id.into_owned(),
            time: wire.time,
            actor,
            fact,
        })
    }
}

impl From<&AccountEvent> for Outgoing {
    fn from(event: &AccountEvent) -> Self {
        let (type_name, data) = event.fact.type_and_data(&event.actor);
        let wire = CloudEvent::new(&event.id, SOURCE, type_name, event.time, &data);
        Self {
            subject: event.fact.subject().to_string(),
            id: event.id.clone(),
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

    use super::{AccountEvent, AccountEventError};
    use crate::log::Outgoing;

    const SHA256: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

    const KEY: &str = "accounts.key.7k2m9x4q";
    const SUBSCRIPTION: &str = "accounts.subscription.sub-1";
    const MAIL: &str = "accounts.mail.mail-1";
    const SESSION: &str = "accounts.session.mail-1";
    const MAINTENANCE: &str = "accounts.maintenance.7k2m9x4q";
    const SEALED: &str = "AAAAAAAAAAAAAAAA0zFk";

    /// Every event type in its wire form, with its subject. Logs contain these forms: they never change.
    fn golden() -> Vec<(&'static str, &'static str, Value)> {
        let all = [
            golden_keys(),
            golden_subscriptions(),
            golden_mails(),
            golden_service(),
        ];
        let service = json!({ "kind": "service" });
        let with_actor = |(subject, type_name, mut data): (_, _, Value)| {
            data["actor"] = service.clone();
            (subject, type_name, data)
        };
        all.into_iter().flatten().map(with_actor).collect()
    }

    fn golden_keys() -> Vec<(&'static str, &'static str, Value)> {
        let expires_at = "2027-01-01T00:00:00Z";
        vec![
            (
                KEY,
                "accounts.key.issued.v1",
                json!({ "key_id": "7k2m9x4q", "sha256": SHA256, "plan": "default" }),
            ),
            (
                KEY,
                "accounts.key.issued.v1",
                json!({ "key_id": "7k2m9x4q", "sha256": SHA256, "plan": "basic", "name": "the website", "expires_at": expires_at }),
            ),
            (
                KEY,
                "accounts.key.rotated.v1",
                json!({ "key_id": "7k2m9x4q", "valid_until": expires_at, "new_key_id": "8z8z8z8z", "new_sha256": SHA256 }),
            ),
            (
                KEY,
                "accounts.key.revoked.v1",
                json!({ "key_id": "7k2m9x4q" }),
            ),
            (
                KEY,
                "accounts.key.revoked.v1",
                json!({ "key_id": "7k2m9x4q", "reason": "seen in a repository" }),
            ),
            (
                KEY,
                "accounts.plan.changed.v1",
                json!({ "key_id": "7k2m9x4q", "plan": "pro", "revision": 1 }),
            ),
        ]
    }

    fn golden_subscriptions() -> Vec<(&'static str, &'static str, Value)> {
        vec![
            (
                SUBSCRIPTION,
                "accounts.subscription.requested.v1",
                json!({ "subscription_id": "sub-1", "generation": 1, "email": SEALED, "plan": "basic" }),
            ),
            (
                SUBSCRIPTION,
                "accounts.subscription.requested.v1",
                json!({ "subscription_id": "sub-1", "generation": 2, "email": SEALED, "plan": "basic", "approved": true }),
            ),
            (
                SUBSCRIPTION,
                "accounts.subscription.approved.v1",
                json!({ "subscription_id": "sub-1", "revision": 1 }),
            ),
            (
                SUBSCRIPTION,
                "accounts.subscription.key_issued.v1",
                json!({ "subscription_id": "sub-1", "key_id": "7k2m9x4q", "sha256": SHA256 }),
            ),
            (
                SUBSCRIPTION,
                "accounts.subscription.key_issued.v1",
                json!({ "subscription_id": "sub-1", "key_id": "7k2m9x4q", "sha256": SHA256, "name": "the website" }),
            ),
            (
                SUBSCRIPTION,
                "accounts.subscription.link_requested.v1",
                json!({ "subscription_id": "sub-1", "mail_id": "mail-1" }),
            ),
            (
                SUBSCRIPTION,
                "accounts.subscription.suppressed.v1",
                json!({ "subscription_id": "sub-1" }),
            ),
            (
                SUBSCRIPTION,
                "accounts.subscription.forgotten.v1",
                json!({ "subscription_id": "sub-1", "generation": 1 }),
            ),
            (
                SUBSCRIPTION,
                "accounts.subscription.address_erased.v1",
                json!({ "subscription_id": "sub-1", "generation": 1 }),
            ),
        ]
    }

    fn golden_mails() -> Vec<(&'static str, &'static str, Value)> {
        let link = json!({ "sha256": SHA256, "expires_at": "2027-01-01T00:00:00Z" });
        vec![
            (
                MAIL,
                "accounts.mail.attempted.v1",
                json!({ "mail_id": "mail-1", "attempt": 1 }),
            ),
            (
                MAIL,
                "accounts.mail.attempted.v1",
                json!({ "mail_id": "mail-1", "attempt": 2, "link": link }),
            ),
            (
                MAIL,
                "accounts.mail.delivered.v1",
                json!({ "mail_id": "mail-1", "attempt": 1 }),
            ),
            (
                MAIL,
                "accounts.mail.failed.v1",
                json!({ "mail_id": "mail-1", "attempt": 1, "reason": "450 busy" }),
            ),
            (
                MAIL,
                "accounts.mail.failed.v1",
                json!({ "mail_id": "mail-1", "attempt": 2, "reason": "550 no such user", "final": true }),
            ),
            (
                SESSION,
                "accounts.session.started.v1",
                json!({ "mail_id": "mail-1", "sha256": SHA256, "expires_at": "2027-01-01T00:00:00Z" }),
            ),
            (
                SESSION,
                "accounts.session.ended.v1",
                json!({ "mail_id": "mail-1" }),
            ),
        ]
    }

    fn golden_service() -> Vec<(&'static str, &'static str, Value)> {
        let [start, end] = ["2027-01-01T00:00:00Z", "2027-01-01T00:05:00Z"];
        vec![
            (
                "accounts.incident.disk_full",
                "accounts.incident.noted.v1",
                json!({ "kind": "disk_full", "started_at": start, "ended_at": end, "times": 2 }),
            ),
            (
                MAINTENANCE,
                "accounts.maintenance.planned.v1",
                json!({ "maintenance_id": "7k2m9x4q", "starts_at": start, "ends_at": end, "text": "New disks." }),
            ),
            (
                MAINTENANCE,
                "accounts.maintenance.cancelled.v1",
                json!({ "maintenance_id": "7k2m9x4q" }),
            ),
        ]
    }

    /// Every actor in its wire form.
    fn actors() -> Vec<Value> {
        vec![
            json!({ "kind": "operator", "name": "alice" }),
            json!({ "kind": "subscriber", "network": "203.0.113.0/24" }),
            json!({ "kind": "subscriber", "network": "203.0.113.0/24", "session": "mail-1" }),
            json!({ "kind": "service" }),
        ]
    }

    fn wire(type_name: &str, data: &Value) -> Value {
        json!({
            "specversion": "1.0", "id": "0192", "source": "railbird", "type": type_name, "time": "2026-11-21T06:32:00Z", "data": data,
        })
    }

    #[test]
    fn every_type_round_trips_through_its_wire_form() {
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
    fn every_actor_round_trips_and_an_event_without_one_is_rejected() {
        let mut data = json!({ "key_id": "7k2m9x4q" });
        let mut decode = |actor: Option<Value>| {
            data["actor"] = actor.unwrap_or_default();
            let event = wire("accounts.key.revoked.v1", &data).to_string();
            AccountEvent::decode(KEY, event.as_bytes())
        };
        for actor in actors() {
            let event = decode(Some(actor.clone())).expect("an actor");
            let written: Value =
                serde_json::from_slice(&Outgoing::from(&event).payload).expect("JSON");
            assert_eq!(written["data"]["actor"], actor);
        }
        for wrong in [None, Some(json!({ "kind": "nobody" }))] {
            assert!(matches!(decode(wrong), Err(AccountEventError::Invalid(_))));
        }
    }

    #[test]
    fn unknown_fields_are_ignored() {
        for (subject, type_name, mut data) in golden() {
            data["added"] = json!({ "later": true });
            let mut event = wire(type_name, &data);
            event["tracestate"] = json!("kept");
            assert!(AccountEvent::decode(subject, event.to_string().as_bytes()).is_ok());
        }
    }

    #[test]
    fn an_event_that_cannot_be_decoded_gives_the_reason() {
        let data = json!({ "actor": { "kind": "service" }, "key_id": "7k2m9x4q" });
        let decode = |subject: &str, event: &str| AccountEvent::decode(subject, event.as_bytes());
        let revoked = wire("accounts.key.revoked.v1", &data);
        let unknown = decode(
            "accounts.key.7k2m9x4q",
            &wire("accounts.key.lent.v9", &data).to_string(),
        );
        assert_eq!(
            unknown,
            Err(AccountEventError::UnknownType(
                "accounts.key.lent.v9".to_owned()
            ))
        );
        assert!(matches!(
            decode("accounts.key.8z8z8z8z", &revoked.to_string()),
            Err(AccountEventError::SubjectMismatch { .. })
        ));
        // An array of the values of an event is not an event.
        let values = ["specversion", "id", "source", "type", "time", "data"];
        let list = json!(values.map(|name| &revoked[name])).to_string();
        for nonsense in ["", "[]", "null", "{}", r#"{"specversion":"0.3"}"#, &list] {
            assert!(matches!(
                decode("accounts.key.7k2m9x4q", nonsense),
                Err(AccountEventError::NotCloudEvent(_))
            ));
        }
        let long = format!("{revoked}{}", " ".repeat(20_000));
        assert!(matches!(
            decode("accounts.key.7k2m9x4q", &long),
            Err(AccountEventError::TooLarge { .. })
        ));
        for (subject, type_name, data) in golden() {
            for field in [
                "key_id",
                "subscription_id",
                "mail_id",
                "maintenance_id",
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
}
