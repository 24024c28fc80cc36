//! Starts tasks, and work that blocks; in the simulation, on the machine that starts it.

#[cfg(test)]
pub(crate) use crate::simulation::machine::{spawn, spawn_blocking};
#[cfg(not(test))]
pub(crate) use tokio::task::{spawn, spawn_blocking};
