//! Keys and who holds them: events in the stream `ACCOUNTS`, a fold of them, and the ring that requests ask.
//!
//! [`ApiKey`] is a key, [`AccountEvent`] what happened to one, [`Ledger`] what that means, and [`KeyCache`] what is valid now. Of
//! a key only the hash is kept; the raw one is nowhere but in the mail or on the terminal that asked for it.

mod commands;
mod email;
mod event;
mod follow;
mod key;
mod key_cache;
mod ledger;
mod subject;
#[cfg(test)]
mod tests;

pub use commands::AccountCommands;
pub use email::Email;
pub use event::{
    AccountEvent, Fact, KeyIssued, KeyRevoked, KeyRotated, MailAttempted, MailDelivered,
    MailFailed, MailRequested, NotUnderstood, PlanChanged, SubscriptionApproved,
    SubscriptionRequested,
};
pub use follow::{follow, read};
pub use key::{ApiKey, KeyId, SecretHash, is_secret, random_secret};
pub use key_cache::{KeyCache, KeyEntry, Refusal};
pub use ledger::{
    Account, Attempt, Holder, Key, KeyState, Ledger, Mail, MailState, Revocation, Rotation,
    Subscription,
};
pub use subject::{MailId, Subject, SubscriptionId};
