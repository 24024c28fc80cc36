//! Mails to subscribers: the outbox sends the mails that the ledger requests, over SMTP or, in `dev`, into a folder.
//!
//! [`Mailing`] is the configuration, [`Outbox`] the task that sends. No mail has a key, and the stream `ACCOUNTS` has
//! no link: each attempt creates a new one. No other module names lettre.

mod deliver;
mod delivery_error;
mod message;
mod outbox;
mod schedule;
mod settings;
mod smtp;
mod text;
mod transport;

pub use delivery_error::{DeliveryError, FailureReason};
pub use outbox::Outbox;
pub use settings::{Mailing, Sender};
pub use smtp::Smtp;
pub use transport::Transport;
