//! Railbird, an event-sourced horse racing data service: adapters between the world and the pure crates
//! [`events`] and [`projections`].

pub mod accounts;
pub mod app;
pub mod asyncapi;
pub mod cli;
pub mod clock;
pub mod http;
pub mod limits;
pub mod live;
pub mod log;
pub mod mail;
pub mod metrics;
pub mod projector;
pub mod shutdown;
