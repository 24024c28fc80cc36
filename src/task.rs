//! Starts tasks, and work that blocks; in the simulation, on the machine that starts it.

#[cfg(test)]
pub(crate) use crate::simulation::machine::{spawn, spawn_blocking, spawn_on};
#[cfg(not(test))]
pub(crate) use tokio::task::{spawn, spawn_blocking};

/// Starts a task on some threads.
#[cfg(not(test))]
pub(crate) fn spawn_on<T: Send + 'static>(
    threads: &tokio::runtime::Handle,
    task: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    threads.spawn(task)
}
