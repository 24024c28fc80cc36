//! [`FanOut`]: the shards, and the way in.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::timeout;

use super::connection_limits::{ConnectionLimits, ConnectionPermit};
use super::status::Status;
use super::{NewClient, shard};
use crate::accounts::{KeyCache, KeyEntry};
use crate::live::feed::Feed;
use crate::log::ConnectionStatus;
use crate::metrics::LiveMetrics;
use crate::shutdown::Shutdown;

/// Threads that write to clients, each to some of them. A turn of one is so much shorter.
const SHARDS_PER_CORE: usize = 4;
const SHARDS_MAX: usize = 64;
/// Up to so many clients stay together: to wake one more thread for a few of them costs more than to write to them.
const CLIENTS_TOGETHER: usize = 256;

/// How long clients may take to hear that the service stops.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);

/// What the live channel is made of.
#[derive(Debug, Clone)]
pub struct LiveContext {
    /// What is told.
    pub feed: Feed,
    /// What is counted.
    pub metrics: Arc<LiveMetrics>,
    /// The keys that are valid.
    pub keys: Arc<KeyCache>,
    /// Where the projector stands.
    pub projector: watch::Receiver<Status>,
    /// Whether the log is there.
    pub connection: watch::Receiver<ConnectionStatus>,
    /// When it ends.
    pub shutdown: Shutdown,
}

/// Takes clients in and gives each to a shard.
#[derive(Debug)]
pub struct FanOut {
    shards: Vec<ShardHandle>,
    tickets: ConnectionLimits,
    places: Arc<Semaphore>,
    clients_max: usize,
}

#[derive(Debug)]
struct ShardHandle {
    arrivals: mpsc::UnboundedSender<(NewClient, ClientGuard)>,
    seat: ClientGuard,
}

/// Of every client one is kept, so that the copies tell how many clients a shard has.
pub(super) type ClientGuard = Arc<()>;

impl ShardHandle {
    fn clients(&self) -> usize {
        Arc::strong_count(&self.seat) - 1
    }
}

impl FanOut {
    /// Starts the shards, of which half as many as there are cores write at a time. They end when the service does, and their last client has left.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(channel: &LiveContext, clients_max: usize) -> anyhow::Result<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let count = (cores * SHARDS_PER_CORE).min(SHARDS_MAX);
        let turns = Arc::new(Semaphore::new((cores / 2).max(1)));
        let mut shards = Vec::with_capacity(count);
        for n in 0..count {
            // Bounded by the places that there are.
            let (send, arrivals) = mpsc::unbounded_channel();
            let (channel, turns) = (channel.clone(), Arc::clone(&turns));
            let run = move || {
                if let Err(error) = shard::run(channel, arrivals, turns) {
                    tracing::error!(%error, "a thread of the live channel ended");
                }
            };
            let thread = thread::Builder::new().name(format!("fan-out-{n}"));
            thread
                .spawn(run)
                .context("a thread of the live channel cannot be started")?;
            shards.push(ShardHandle {
                arrivals: send,
                seat: ClientGuard::default(),
            });
        }
        let places = Arc::new(Semaphore::new(clients_max));
        let tickets = ConnectionLimits::new(Arc::clone(&places), Arc::clone(&channel.metrics));
        Ok(Self {
            shards,
            tickets,
            places,
            clients_max,
        })
    }

    /// A place for a client, and whether the plan of its key allows it; `None` if there is none.
    pub(crate) fn ticket(&self, key: &KeyEntry) -> Option<(ConnectionPermit, bool)> {
        let allowed = key.meter.plan().connections.map_or(0, NonZeroU32::get);
        self.tickets.take(key.key_id, &key.holder, allowed)
    }

    pub(crate) fn admit(&self, arrival: NewClient) {
        let has_room = |shard: &&ShardHandle| shard.clients() < CLIENTS_TOGETHER;
        let shard = self
            .shards
            .iter()
            .find(has_room)
            .or_else(|| self.shards.iter().min_by_key(|shard| shard.clients()));
        let admitted = |shard: &ShardHandle| {
            let arrival = (arrival, Arc::clone(&shard.seat));
            shard.arrivals.send(arrival).is_ok()
        };
        if !shard.is_some_and(admitted) {
            tracing::debug!("a client came when the service was stopping");
        }
    }

    /// Waits, but not for long, until all clients have left.
    pub async fn left(&self) {
        let all = u32::try_from(self.clients_max).unwrap_or(u32::MAX);
        if timeout(LEAVE_TIMEOUT, self.places.acquire_many(all))
            .await
            .is_err()
        {
            tracing::warn!("some clients of the live channel did not leave in time");
        }
    }
}
