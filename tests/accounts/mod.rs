//! Keys, plans, their use, and mails.

mod account_api;
mod key_use;
mod keys;
mod mail;
mod plans;
