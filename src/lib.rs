//! Railbird, an event-sourced horse racing data service: adapters between the world and the pure crates
//! [`events`] and [`projections`].

pub mod accounts;
pub mod announcer;
pub mod app;
pub mod asyncapi;
pub mod cli;
pub mod clock;
pub mod feed;
pub mod http;
pub mod import;
pub mod limits;
pub mod log;
pub mod mail;
pub mod metrics;
pub mod plans;
pub mod projector;
mod reading;
pub mod recall;
pub mod shutdown;
pub mod simulate;
pub mod state;
pub mod views;
pub mod ws;
