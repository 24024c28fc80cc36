//! [`FanOut`]: the shards of the live channel, and the way to them.

use std::convert::Infallible;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use futures::FutureExt;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use super::connection_limits::{ConnectionLimits, ConnectionPermit};
use super::context::ClientGuard;
use super::{ConnectionRefused, LiveContext, NewClient, shard};
use crate::accounts::{Holder, KeyEntry};
use crate::feed::Feed;
use crate::limits::{Network, NetworkConnections};
use crate::log::runtime::DetachedRuntime;

/// Threads that write to clients. The more there are, the fewer clients each has, and the shorter is its turn.
const SHARDS_PER_CORE: usize = 4;
const SHARDS_MAX: usize = 64;
/// A shard takes this many clients before the next one is used: waking another thread costs more than writing to a few
/// clients.
const CLIENTS_PER_SHARD: usize = 256;

const NOT_STARTED: &str = "a thread of the live channel could not be started";
/// How long clients may take to leave when the service stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Admits clients and assigns each to a shard.
#[derive(Debug)]
pub struct FanOut {
    shards: Vec<ShardHandle>,
    limits: ConnectionLimits,
    context: LiveContext,
    /// Permits of replays to write.
    replay_turns: Arc<Semaphore>,
}

#[derive(Debug)]
struct ShardHandle {
    /// Unbounded, because the connection limits bound it.
    new_clients: mpsc::UnboundedSender<(NewClient, ClientGuard)>,
    guard: ClientGuard,
    runtime: Handle,
}

impl ShardHandle {
    /// Starts a shard. The future resolves when its thread has ended, also by a panic.
    fn start(
        name: &str,
        context: LiveContext,
        turns: Arc<Semaphore>,
    ) -> anyhow::Result<(Self, impl Future<Output = ()> + use<>)> {
        let (new_clients, receiver) = mpsc::unbounded_channel();
        let (alive, ended) = oneshot::channel::<Infallible>();
        // Without a thread it is dropped here, in async code.
        let runtime = DetachedRuntime::build(&mut Builder::new_current_thread());
        let runtime = runtime.context(NOT_STARTED)?;
        let shard = Self {
            new_clients,
            guard: ClientGuard::default(),
            runtime: runtime.handle().clone(),
        };
        let run = move || {
            let _alive = alive;
            shard::run(runtime.runtime(), context, receiver, turns);
        };
        let thread = thread::Builder::new().name(name.to_owned());
        thread.spawn(run).context(NOT_STARTED)?;
        Ok((shard, ended.map(drop)))
    }

    fn clients(&self) -> usize {
        Arc::strong_count(&self.guard) - 1
    }
}

impl FanOut {
    /// Starts the shards. Half as many as there are cores write at a time. They end when the service stops and their
    /// last client has left. Returns futures that resolve when a shard has ended.
    ///
    /// # Errors
    /// Returns an error if the system starts no thread.
    pub fn start(
        context: &LiveContext,
        clients_max: usize,
        per_network: NetworkConnections,
    ) -> anyhow::Result<(Self, Vec<impl Future<Output = ()> + use<>>)> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let turns = Arc::new(Semaphore::new((cores / 2).max(1)));
        let started = (0..(cores * SHARDS_PER_CORE).min(SHARDS_MAX)).map(|n| {
            ShardHandle::start(&format!("fan-out-{n}"), context.clone(), Arc::clone(&turns))
        });
        let started: Vec<_> = started.collect::<anyhow::Result<_>>()?;
        let (shards, ended) = started.into_iter().unzip();
        let limits = ConnectionLimits::new(clients_max, per_network, Arc::clone(&context.metrics));
        let fan_out = Self {
            shards,
            limits,
            context: context.clone(),
            replay_turns: Arc::new(Semaphore::new(1)),
        };
        Ok((fan_out, ended))
    }

    /// The runtimes of the shards, each with a thread.
    pub fn runtimes(&self) -> impl Iterator<Item = Handle> {
        self.shards.iter().map(|shard| shard.runtime.clone())
    }

    /// The number of clients.
    pub(crate) fn clients(&self) -> usize {
        self.shards.iter().map(ShardHandle::clients).sum()
    }

    /// A permit for a client with a key in a network.
    ///
    /// # Errors
    /// Returns [`ConnectionRefused`] if the service or the network has as many clients as it may have.
    pub(crate) fn acquire(
        &self,
        key: &KeyEntry,
        network: Option<Network>,
    ) -> Result<ConnectionPermit, ConnectionRefused> {
        let holder_max = key.meter.plan.connections.map_or(0, NonZeroU32::get);
        let mut permit = (self.limits).acquire(key.key_id, &key.holder, holder_max, network)?;
        permit.key_use = Some(key.use_counter.open_socket());
        Ok(permit)
    }

    /// The number of clients of a key holder.
    pub(crate) fn clients_of(&self, holder: &Holder) -> u32 {
        self.limits.of_holder(holder)
    }

    /// Hands a client over to a shard.
    pub(crate) fn admit(&self, client: NewClient) {
        let has_room = |shard: &&ShardHandle| shard.clients() < CLIENTS_PER_SHARD;
        let shard = self.shards.iter().find(has_room);
        let shard = shard.or_else(|| self.shards.iter().min_by_key(|shard| shard.clients()));
        let trace = client.permit.trace;
        let admitted = shard.is_some_and(|shard| {
            let client = (client, Arc::clone(&shard.guard));
            shard.new_clients.send(client).is_ok()
        });
        if !admitted {
            tracing::debug!(parent: &trace.span(), "a client connected while the service was stopping");
        }
    }

    /// Plays a feed to a client, on a thread of its own. `play` ends when the client has left.
    ///
    /// # Errors
    /// Returns an error if the system starts no thread.
    pub(crate) fn replay(
        &self,
        client: NewClient,
        feed: Feed,
        play: impl Future<Output = ()> + Send + 'static,
    ) -> anyhow::Result<()> {
        let context = LiveContext {
            feed,
            is_replay: true,
            ..self.context.clone()
        };
        let (shard, _) = ShardHandle::start("replay", context, Arc::clone(&self.replay_turns))?;
        let client = (client, Arc::clone(&shard.guard));
        // It fails only while the service stops.
        let _ = shard.new_clients.send(client);
        shard.runtime.clone().spawn(async move {
            play.await;
            drop(shard);
        });
        Ok(())
    }

    /// Waits until all clients have left, or the time for that is over.
    pub async fn drain(&self) {
        let drained = timeout(DRAIN_TIMEOUT, self.limits.all_released()).await;
        if drained.is_err() {
            tracing::warn!("some clients of the live channel did not leave in time");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::Semaphore;
    use tokio::time::timeout;

    use super::ShardHandle;
    use crate::live::session::tests::context;

    #[tokio::test]
    async fn the_end_of_a_shard_is_noticed() {
        let turns = Arc::new(Semaphore::new(1));
        let (shard, ended) = ShardHandle::start("fan-out", context(), turns).expect("a thread");
        tokio::pin!(ended);
        let early = timeout(Duration::from_millis(100), &mut ended).await;
        assert!(early.is_err(), "it serves");
        // A shard that gets no more clients ends.
        drop(shard);
        let noticed = timeout(Duration::from_secs(30), ended).await;
        assert!(noticed.is_ok());
    }
}
