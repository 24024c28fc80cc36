//! Keys and who holds them: events in the stream `ACCOUNTS`, a fold of them, and the ring that requests ask.
//!
//! [`ApiKey`] is a key, [`AccountEvent`] what happened to one, [`Ledger`] what that means, and [`KeyRing`] what is valid now. Of
//! a key only the hash is kept; the raw one is nowhere but in the mail or on the terminal that asked for it.

mod desk;
mod email;
mod event;
mod follow;
mod key;
mod ledger;
mod ring;
mod subject;
#[cfg(test)]
mod tests;

pub use desk::Desk;
pub use email::Email;
pub use event::{
    AccountEvent, Fact, KeyIssued, KeyRevoked, KeyRotated, MailAttempted, MailDelivered,
    MailFailed, MailWished, NotUnderstood, PlanChanged, SubscriptionApproved,
    SubscriptionRequested,
};
pub use follow::{follow, read};
pub use key::{ApiKey, KeyId, SecretHash, is_secret, random_secret};
pub use ledger::{
    Account, Attempt, Holder, Key, KeyState, Ledger, Mail, MailState, Revocation, Rotation,
    Subscription,
};
pub use ring::{KeyEntry, KeyRing, Refusal};
pub use subject::{MailId, Subject, SubscriptionId};
