//! [`Supervisor`]: the tasks that the service cannot do without.

use std::collections::HashMap;

use tokio::runtime::Handle;
use tokio::task::{AbortHandle, Id, JoinSet};

/// The tasks that the service cannot do without: none ends before the shutdown. Where one does, the service stops, so
/// that it is never ready while a part of it is missing.
#[derive(Debug, Default)]
pub struct Supervisor {
    tasks: JoinSet<()>,
    /// The name of each task, and what aborts it: nothing if it ends by itself after the shutdown.
    names: HashMap<Id, (String, Option<AbortHandle>)>,
}

/// A task ended before the shutdown.
#[derive(Debug, thiserror::Error)]
#[error("the task {name:?} {how}; the service cannot go on without it")]
pub struct TaskEnded {
    /// The name of the task.
    pub name: String,
    how: String,
}

impl Supervisor {
    /// Starts a task that [`stop`](Self::stop) aborts. Returns a handle that aborts it before.
    pub fn spawn(
        &mut self,
        name: impl Into<String>,
        task: impl Future<Output = ()> + Send + 'static,
        runtime: &Handle,
    ) -> AbortHandle {
        let handle = self.tasks.spawn_on(task, runtime);
        let named = (name.into(), Some(handle.clone()));
        self.names.insert(handle.id(), named);
        handle
    }

    /// Starts a task that ends by itself after the shutdown.
    pub fn spawn_finishing(
        &mut self,
        name: impl Into<String>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let handle = self.tasks.spawn(task);
        self.names.insert(handle.id(), (name.into(), None));
    }

    /// Waits until a task ends.
    pub async fn ended(&mut self) -> TaskEnded {
        let (id, how) = match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => (id, "ended".to_owned()),
            // A panic has been logged, with its place.
            Some(Err(error)) if error.is_panic() => (error.id(), "panicked".to_owned()),
            Some(Err(error)) => (error.id(), "was aborted".to_owned()),
            None => return std::future::pending().await,
        };
        let (name, _) = self.names.remove(&id).unwrap_or_default();
        TaskEnded { name, how }
    }

    /// Aborts all tasks but those that end by themselves, and waits for these.
    pub async fn stop(mut self) {
        for (_, handle) in self.handles() {
            handle.abort();
        }
        while self.tasks.join_next().await.is_some() {}
    }

    /// The handles that abort each task, by name.
    pub fn handles(&self) -> impl Iterator<Item = (&str, &AbortHandle)> {
        let tasks = self.names.values();
        tasks.filter_map(|(name, abort)| Some((name.as_str(), abort.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::runtime::Handle;

    use super::Supervisor;

    #[tokio::test]
    async fn the_end_and_the_panic_of_a_task_are_noticed() {
        let mut supervisor = Supervisor::default();
        let runtime = Handle::current();
        supervisor.spawn("lasting", pending(), &runtime);
        supervisor.spawn("short", async {}, &runtime);
        let ended = supervisor.ended().await.to_string();
        assert!(ended.contains("the task \"short\" ended"), "{ended}");
        supervisor.spawn("wrong", async { panic!("on purpose") }, &runtime);
        let ended = supervisor.ended().await.to_string();
        assert!(ended.contains("the task \"wrong\" panicked"), "{ended}");
        for (name, handle) in supervisor.handles() {
            assert_eq!(name, "lasting");
            handle.abort();
        }
        let ended = supervisor.ended().await.to_string();
        assert!(
            ended.contains("the task \"lasting\" was aborted"),
            "{ended}"
        );
    }

    #[tokio::test]
    async fn a_stop_waits_for_what_ends_by_itself() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let mut supervisor = Supervisor::default();
        supervisor.spawn("lasting", pending(), &Handle::current());
        supervisor.spawn_finishing("finishing", async {
            tokio::task::yield_now().await;
            let _ = sender.send("done");
        });
        supervisor.stop().await;
        assert_eq!(receiver.await, Ok("done"));
    }
}
