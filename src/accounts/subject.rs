//! [`AccountSubject`]: the subject of an account event in the stream.

use std::fmt;
use std::sync::Arc;

use derive_more::Display;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Email, IncidentKind, KeyId, SecretHash};

/// The subject of an account event. All events about one thing share a subject, so a writer can detect that another
/// writer was first.
#[derive(Debug, Display, Clone, PartialEq, Eq)]
pub enum AccountSubject {
    #[display("accounts.key.{_0}")]
    Key(KeyId),
    #[display("accounts.subscription.{_0}")]
    Subscription(SubscriptionId),
    #[display("accounts.mail.{_0}")]
    Mail(MailId),
    /// The session that the link of a mail starts.
    #[display("accounts.session.{_0}")]
    Session(MailId),
    #[display("accounts.incident.{_0}")]
    Incident(IncidentKind),
    #[display("accounts.maintenance.{_0}")]
    Maintenance(MaintenanceId),
}

/// Ids are tokens of a subject.
const ID_LEN_MAX: usize = 64;
/// Hexadecimal digits of a derived id: 80 bits.
const ID_DIGITS: usize = 20;
/// The last digits of a UUID, which are random.
const MAINTENANCE_DIGITS: usize = 8;
const ID_FORM: &str = "an id is 1 to 64 of A-Z a-z 0-9 _ -";

macro_rules! ids {
    ($($name:ident;)*) => {
        $(
            #[derive(Debug, Display, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
            #[serde(try_from = "String")]
            pub struct $name(Arc<str>);

            impl $name {
                /// Parses an id: 1 to 64 of `A-Z a-z 0-9 _ -`. The error is the expected form.
                pub fn parse(text: &str) -> Result<Self, &'static str> {
                    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
                    if text.is_empty() || text.len() > ID_LEN_MAX || !text.bytes().all(is_allowed) {
                        return Err(ID_FORM);
                    }
                    Ok(Self(text.into()))
                }
            }

            impl TryFrom<String> for $name {
                type Error = &'static str;

                fn try_from(text: String) -> Result<Self, Self::Error> {
                    Self::parse(&text)
                }
            }
        )*
    };
}

ids! {
    SubscriptionId;
    MailId;
    MaintenanceId;
}

impl MaintenanceId {
    /// A new id, short enough to be typed.
    pub(crate) fn random() -> Self {
        let uuid = Uuid::now_v7().simple().to_string();
        Self(uuid[uuid.len() - MAINTENANCE_DIGITS..].into())
    }
}

impl SubscriptionId {
    /// The id of the subscription of a mailbox. It is the same on every replica, so a request that is sent twice
    /// creates one subscription. Without the salt it does not reveal the address.
    pub(super) fn of(email: &Email, salt: &[u8; 32]) -> Self {
        Self(blake3::keyed_hash(salt, email.mailbox().as_bytes()).to_hex()[..ID_DIGITS].into())
    }
}

impl MailId {
    /// The id of the mail that an event causes, the same on every replica. `cause` is unique among all causes.
    pub(super) fn because(cause: fmt::Arguments<'_>) -> Self {
        Self(String::from(SecretHash::of(&cause.to_string()))[..ID_DIGITS].into())
    }
}
