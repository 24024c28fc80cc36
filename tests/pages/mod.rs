//! The pages for people: the board, the documentation, the status, subscriptions.

mod board;
mod docs;
mod errors;
mod front;
mod incidents;
mod people;
mod pricing;
mod replay;
mod status;
