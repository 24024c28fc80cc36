//! [`Subject`]: what an event is about, and where it stands in the stream.

use std::fmt;
use std::sync::Arc;

use events::Text;
use serde::{Deserialize, Serialize};

use super::{Email, KeyId, SecretHash};

/// What an event is about. All that is said of one thing stands on one subject, so that writers can see whether another one
/// was first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A key.
    Key(KeyId),
    /// A subscription.
    Subscription(SubscriptionId),
    /// A mail.
    Mail(MailId),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(id) => write!(f, "accounts.key.{id}"),
            Self::Subscription(id) => write!(f, "accounts.subscription.{id}"),
            Self::Mail(id) => write!(f, "accounts.mail.{id}"),
        }
    }
}

/// Ids are tokens of a subject.
const ID_LEN_MAX: usize = 64;
/// Digits of an id that is made of what it names: 80 bits.
const ID_DIGITS: usize = 20;
const ID_FORM: &str = "an id is 1 to 64 of A-Z a-z 0-9 _ -";

macro_rules! ids {
    ($($(#[doc = $doc:literal])* $name:ident;)*) => {
        $(
            $(#[doc = $doc])*
            #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
            #[serde(try_from = "String")]
            pub struct $name(Arc<str>);

            impl $name {
                /// Reads an id.
                ///
                /// # Errors
                /// It is not 1 to 64 of `A-Z a-z 0-9 _ -`.
                pub fn parse(text: &str) -> Result<Self, &'static str> {
                    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
                    if text.is_empty() || text.len() > ID_LEN_MAX || !text.bytes().all(plain) {
                        return Err(ID_FORM);
                    }
                    Ok(Self(text.into()))
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.pad(&self.0)
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
    /// A subscription's id.
    SubscriptionId;
    /// A mail's id.
    MailId;
}

impl SubscriptionId {
    /// The one subscription of an address to a plan: whoever subscribes twice, at whichever replica, says the same.
    #[must_use]
    pub fn of(email: &Email, plan: &Text) -> Self {
        Self(digits(&format!("{}\n{}", email.folded(), plan.as_str())))
    }
}

impl MailId {
    /// The first mail to a subscriber: whoever wishes for it says the same.
    #[must_use]
    pub fn first_to(id: &SubscriptionId) -> Self {
        Self(Arc::clone(&id.0))
    }

    /// The mail behind another one to the same subscriber: whoever wishes for it says the same.
    #[must_use]
    pub fn after(last: &Self) -> Self {
        Self(digits(&format!("behind {last}")))
    }
}

fn digits(text: &str) -> Arc<str> {
    String::from(SecretHash::of(text))[..ID_DIGITS].into()
}
