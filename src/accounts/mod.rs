//! API keys and their holders: events in the stream `ACCOUNTS`, the ledger folded from them, and the cache of valid
//! keys.
//!
//! [`ApiKey`] is a key, [`AccountEvent`] a change of a key, subscription, mail or session, [`Ledger`] the current
//! state, and [`KeyCache`] the keys that requests are checked against. [`ServiceRecord`] has the incidents of the
//! service, which its users see. [`AccountCommands`] appends events, and [`AddressBook`] keeps what decrypts the
//! addresses in them. [`KeyUses`] is the use of keys, which [`UseLog`] keeps in a stream of its own. Only the hash of a
//! key is stored; the key itself exists on the page or the terminal that requested it, and nowhere else.

mod actor;
mod address_book;
mod commands;
mod decide;
mod email;
mod event;
mod follow;
mod key;
mod key_cache;
mod key_uses;
mod ledger;
mod revocations;
mod service_record;
mod state;
mod subject;
#[cfg(test)]
mod tests;
mod use_counter;
mod use_log;

pub use actor::Actor;
pub use address_book::{AddressBook, SealedEmail};
pub use commands::AccountCommands;
pub use decide::{
    CommandError, LINK_LASTS, RESEND_AFTER, SESSION_LASTS, SESSION_READS, UNCONFIRMED_KEPT,
    new_link,
};
pub use email::Email;
pub use event::{
    AccountEvent, AccountEventError, AddressErased, Fact, IncidentNoted, KeyIssued, KeyRevoked,
    KeyRotated, Link, LinkRequested, MailAttempted, MailDelivered, MailFailed,
    MaintenanceCancelled, MaintenancePlanned, PlanChanged, SessionEnded, SessionStarted,
    SubscriptionApproved, SubscriptionForgotten, SubscriptionKeyIssued, SubscriptionRequested,
    SubscriptionSuppressed,
};
pub use follow::{follow, read};
pub use key::{ApiKey, DEV_ENV, KeyId, SecretHash, derive_secret, is_secret, random_secret};
pub use key_cache::{KeyCache, KeyEntry, Refusal};
pub use key_uses::{KeyUse, KeyUses, UsesByProcess};
pub use ledger::Ledger;
pub use revocations::Revocations;
pub(crate) use service_record::{CONTINUES_WITHIN, DAYS_MAX, Incident, Incidents, Maintenance};
pub use service_record::{IncidentKind, ServiceRecord};
pub use state::{
    Account, AccountSession, Change, Holder, Key, KeyState, MAILBOX_DEFERRED, Mail, MailContent,
    MailState, Revocation, Rotation, Subscription, SubscriptionState,
};
pub use subject::{AccountSubject, MailId, MaintenanceId, SubscriptionId};
pub(crate) use use_counter::SocketUse;
pub use use_counter::UseCounter;
pub use use_log::{UseLog, WRITE_USE_EVERY, read_uses};

pub(crate) fn now() -> events::Moment {
    crate::clock::now().into()
}
