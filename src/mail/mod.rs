//! Mail with keys: the outbox sends what the ledger wishes, over SMTP, or in `dev` into a folder.
//!
//! [`Mailing`] is what is configured, [`Outbox`] what is done. A wish stands in the stream `ACCOUNTS`, and never a key: each attempt
//! makes a fresh one. Nothing else names lettre.

mod failure;
mod folder;
mod key_email;
mod outbox;
mod post;
mod schedule;
mod settings;
mod smtp;

pub use failure::{Failure, Reason};
pub use folder::Folder;
pub use outbox::Outbox;
pub use post::Transport;
pub use settings::{Mailing, PublicUrl, Sender, WrongSetting};
pub use smtp::Smtp;
