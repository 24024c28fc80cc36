//! [`Supervisor`]: the tasks that the service cannot do without.

use std::collections::HashMap;

use tokio::runtime::Handle;
use tokio::task::{AbortHandle, Id, JoinSet};

/// The tasks that the service cannot do without: none ends before the shutdown. Where one does, the service stops, so
/// that it is never ready while a part of it is missing.
#[derive(Debug, Default)]
pub struct Supervisor {
    tasks: JoinSet<()>,
    names: HashMap<Id, Task>,
}

#[derive(Debug)]
struct Task {
    name: String,
    /// `None` for a task that ends by itself after the shutdown.
    abort: Option<AbortHandle>,
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
        let name = name.into();
        let abort = Some(handle.clone());
        self.names.insert(handle.id(), Task { name, abort });
        handle
    }

    /// Starts a task that ends by itself after the shutdown.
    pub fn spawn_finishing(
        &mut self,
        name: impl Into<String>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let handle = self.tasks.spawn(task);
        let name = name.into();
        let abort = None;
        self.names.insert(handle.id(), Task { name, abort });
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
        let name = self.names.remove(&id).map(|task| task.name);
        TaskEnded {
            name: name.unwrap_or_default(),
            how,
        }
    }

    /// Aborts all tasks but those that end by themselves, and waits for these.
    pub async fn stop(mut self) {
        for abort in self.names.values().filter_map(|task| task.abort.as_ref()) {
            abort.abort();
        }
        while self.tasks.join_next().await.is_some() {}
    }

    /// The handles that abort each task, by name. For tests of what follows when one fails.
    pub fn handles(&self) -> impl Iterator<Item = (&str, &AbortHandle)> {
        let tasks = self.names.values();
        tasks.filter_map(|task| Some((task.name.as_str(), task.abort.as_ref()?)))
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
