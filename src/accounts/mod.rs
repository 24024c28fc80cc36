//! API keys and their holders: events in the stream `ACCOUNTS`, the ledger folded from them, and the cache of valid
//! keys.
//!
//! [`ApiKey`] is a key, [`AccountEvent`] a change of a key, subscription or mail, [`Ledger`] the current state, and
//! [`KeyCache`] the keys that requests are checked against. [`AccountCommands`] appends events. [`KeyUses`] is the use
//! of keys, which [`UseLog`] keeps in a stream of its own. Only the hash of a key is stored; the key itself exists in
//! the mail or on the terminal that requested it, and nowhere else.

mod commands;
mod decide;
mod email;
mod event;
mod follow;
mod key;
mod key_cache;
mod key_uses;
mod ledger;
mod state;
mod subject;
#[cfg(test)]
mod tests;
mod use_counter;
mod use_log;

pub use commands::AccountCommands;
pub use decide::{CommandError, RESEND_AFTER};
pub use email::Email;
pub use event::{
    AccountEvent, AccountEventError, Fact, KeyIssued, KeyRevoked, KeyRotated, MailAttempted,
    MailDelivered, MailFailed, MailRequested, PlanChanged, SubscriptionApproved,
    SubscriptionRequested,
};
pub use follow::{follow, read};
pub use key::{ApiKey, DEV_ENV, KeyId, SecretHash, is_secret, random_secret};
pub use key_cache::{KeyCache, KeyEntry, Refusal};
pub use key_uses::{KeyUse, KeyUses, UsesByProcess};
pub use ledger::Ledger;
pub use state::{
    Account, Attempt, Holder, Key, KeyState, Mail, MailState, Revocation, Rotation, Subscription,
};
pub use subject::{AccountSubject, MailId, SubscriptionId};
pub(crate) use use_counter::SocketUse;
pub use use_counter::UseCounter;
pub use use_log::{UseLog, WRITE_USE_EVERY, read_uses};

pub(crate) fn now() -> events::Moment {
    jiff::Timestamp::now().into()
}
