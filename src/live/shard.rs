//! A shard: some of the clients, on a thread of their own.
//!
//! New messages are written to one client after the other, with one system call each for all of them. Meanwhile more
//! messages arrive, so under load each call carries more. The clients of a shard share no lock with those of another,
//! and HTTP has its own threads.
//!
//! There are more shards than cores, and only some of them write at a time. So a turn is short, what arrives meanwhile
//! is sent with the next turn, and half of the machine is left for everything else.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use slab::Slab;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{LocalSet, spawn_local, yield_now};
use tokio::time::{MissedTickBehavior, interval, sleep_until};

use super::batch::{FeedBatch, FeedCursor, SelectedFrames};
use super::context::ClientGuard;
use super::followers::Followers;
use super::session::Session;
use super::{CloseReason, LiveContext, NewClient};
use crate::accounts::KeyId;
use crate::feed::{Position, Topic};
use crate::health::{Liveness, SourceHealth};

/// Messages that a shard takes from the feed at a time.
const BATCH_MESSAGES_MAX: usize = 1_024;
/// Clients that are served before other tasks of the shard have their turn.
const CLIENTS_PER_TURN: usize = 512;
/// Times that the connection of a client is polled before other clients have their turn.
const POLLS_PER_TURN: usize = 4;
/// How exact timers are: those that are due within this time run together.
const TIMER_RESOLUTION: Duration = Duration::from_millis(10);
/// How often keys and the health of the feed are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// New clients, from [`FanOut`](super::FanOut).
pub(super) type NewClients = mpsc::UnboundedReceiver<(NewClient, ClientGuard)>;

struct Client {
    session: Session,
    /// When its timer runs next.
    scheduled: Instant,
}

type ClientCell = Rc<RefCell<Client>>;

struct Shard {
    context: Rc<LiveContext>,
    clients: RefCell<Slab<ClientCell>>,
    followers: RefCell<Followers>,
    /// The timer of each client. Entries of timers that were rescheduled remain until they are due.
    timers: RefCell<BinaryHeap<Reverse<(Instant, usize)>>>,
    /// The liveness of the feed when it was last checked.
    liveness: Cell<Liveness>,
    /// The states of the sources then.
    sources: RefCell<Vec<SourceHealth>>,
    /// The count of lost keys when the keys of all clients were last checked.
    lost_keys: Cell<u64>,
    /// How far the feed is delivered.
    delivered: Cell<FeedCursor>,
    /// Permits to write: fewer than there are shards.
    turns: Arc<Semaphore>,
}

/// Serves new clients on a runtime until the service stops and all have left.
pub(super) fn run(
    runtime: &Runtime,
    context: LiveContext,
    new_clients: NewClients,
    turns: Arc<Semaphore>,
) {
    let shard = Rc::new(Shard {
        liveness: Cell::new(context.monitor.liveness()),
        sources: RefCell::default(),
        lost_keys: Cell::new(context.keys.losses()),
        delivered: Cell::new(FeedCursor::from(&context.feed.position())),
        turns,
        context: Rc::new(context),
        clients: RefCell::default(),
        followers: RefCell::default(),
        timers: RefCell::default(),
    });
    LocalSet::new().block_on(runtime, shard.serve(new_clients));
}

impl Shard {
    async fn serve(self: Rc<Self>, mut new_clients: NewClients) {
        let mut position = self.context.feed.watch();
        let mut timers_run_at = Instant::now();
        let mut checks = interval(CHECK_INTERVAL);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let shutdown = self.context.shutdown.clone();
        loop {
            tokio::select! {
                client = new_clients.recv() => match client {
                    Some((client, guard)) => self.admit(client, guard),
                    None => break,
                },
                changed = position.changed(), if !self.clients.borrow().is_empty() => match changed {
                    Ok(()) => self.deliver_new(&mut position).await,
                    Err(_) => break,
                },
                () = self.next_timer(timers_run_at) => {
                    timers_run_at = Instant::now();
                    self.run_due_timers(timers_run_at);
                }
                _ = checks.tick() => self.check_keys_and_health(),
                () = shutdown.cancelled() => break,
            }
        }
        self.close_all(&mut new_clients).await;
    }

    // Clients.

    fn admit(self: &Rc<Self>, client: NewClient, guard: ClientGuard) {
        let now = Instant::now();
        if self.clients.borrow().is_empty() {
            let position = self.context.feed.position();
            self.delivered.set(FeedCursor::from(&position));
        }
        let trace = client.permit.trace;
        let health = self.context.monitor.health();
        let session = Session::open(client, Rc::clone(&self.context), health, now);
        let session = session.inspect_err(|error| {
            tracing::debug!(parent: &trace.span(), %error, "the connection could not be opened");
        });
        let Ok(mut session) = session else { return };
        // The key may have become invalid since the handshake, when this client was not among those that are checked.
        let excess = (!session.permit.within_plan).then_some(CloseReason::TooManyConnections);
        if let Some(reason) = excess.or_else(|| self.refusal(trace.key_id)) {
            session.close(&reason, now);
        } else {
            session.advance(now);
            if session.has_ended() {
                return;
            }
        }
        tracing::debug!(parent: &trace.span(), "client connected");
        let scheduled = session.next_timer();
        let client = Rc::new(RefCell::new(Client { session, scheduled }));
        let id = self.clients.borrow_mut().insert(Rc::clone(&client));
        self.update_followers(id, &client.borrow().session);
        self.schedule(id, &mut client.borrow_mut());
        let shard = Rc::clone(self);
        spawn_local(async move {
            poll_fn(|context| shard.poll_client(id, &client, context)).await;
            shard.clients.borrow_mut().remove(id);
            shard.followers.borrow_mut().update(id, |_| false);
            tracing::debug!(parent: &trace.span(), "client disconnected");
            drop(guard);
        });
    }

    fn client(&self, id: usize) -> Option<ClientCell> {
        self.clients.borrow().get(id).cloned()
    }

    fn for_each_session(&self, mut visit: impl FnMut(&mut Session)) {
        for (_, client) in self.clients.borrow().iter() {
            visit(&mut client.borrow_mut().session);
        }
    }

    /// Reads requests of a client, and continues to write what it had not taken. Ready when the client has left.
    fn poll_client(&self, id: usize, client: &ClientCell, context: &mut Context<'_>) -> Poll<()> {
        let mut client = client.borrow_mut();
        let now = Instant::now();
        for _ in 0..POLLS_PER_TURN {
            let active = client.session.poll(self.delivered.get(), context, now);
            if std::mem::take(&mut client.session.subscription_changed) {
                self.update_followers(id, &client.session);
            }
            self.schedule_if_earlier(id, &mut client);
            if client.session.has_ended() {
                return Poll::Ready(());
            }
            if !active {
                return Poll::Pending;
            }
        }
        // There is more to do, after the other clients had their turn.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    // New messages.

    /// Delivers one batch of new messages. If there are more, `position` is marked as changed.
    async fn deliver_new(&self, position: &mut watch::Receiver<Position>) {
        // The semaphore is never closed; if it were, all shards might write at once.
        let _turn = self.turns.acquire().await;
        position.mark_unchanged();
        let delivered = self.delivered.get();
        let feed = &self.context.feed;
        let tail = feed.tail(delivered.next_index, BATCH_MESSAGES_MAX);
        let tail = tail.filter(|tail| tail.position.generation == delivered.generation);
        let Some(tail) = tail else {
            let reset_to = feed.position();
            self.resend_all(delivered).await;
            self.delivered.set(FeedCursor::from(&reset_to));
            position.mark_changed();
            return;
        };
        let head = tail.position.head;
        let batch = FeedBatch::new(delivered, tail);
        if self.deliver(&batch).await {
            self.note_latency(&batch);
        }
        self.delivered.set(batch.end);
        if batch.end.next_index != head {
            position.mark_changed();
        }
    }

    /// Delivers a batch. Returns whether a client follows any of it.
    async fn deliver(&self, batch: &FeedBatch) -> bool {
        let now = Instant::now();
        let mut selected = SelectedFrames::default();
        let affected = self.affected_clients(batch);
        let is_followed = !affected.is_empty();
        for (served, id) in affected.into_iter().enumerate() {
            yield_between_turns(served).await;
            if let Some(client) = self.client(id) {
                let mut client = client.borrow_mut();
                client.session.deliver(batch, &mut selected, now);
                self.schedule_if_earlier(id, &mut client);
            }
        }
        is_followed
    }

    /// Notes how long ago the first event of a batch was recorded, once for all clients. So the batch costs a look-up,
    /// and a delivery nothing.
    fn note_latency(&self, batch: &FeedBatch) {
        let first = batch.messages.first();
        let Some(first) = first.filter(|_| !self.context.is_replay) else {
            return;
        };
        let generation = batch.end.generation;
        if let Some(recorded_at) = self.context.feed.recorded_at(generation, first.seq) {
            self.context.metrics.written(recorded_at.timestamp());
        }
    }

    /// The clients that follow a race of the batch, each once.
    fn affected_clients(&self, batch: &FeedBatch) -> Vec<usize> {
        let mut affected: Vec<usize> = Vec::new();
        for race in &batch.races {
            affected.extend_from_slice(&self.followers_of(&race.topic));
        }
        if batch.races.len() > 1 {
            affected.sort_unstable();
            affected.dedup();
        }
        affected
    }

    fn update_followers(&self, id: usize, session: &Session) {
        let filter = &session.subscription.filter;
        let mut followers = self.followers.borrow_mut();
        followers.update(id, |topic| filter.matches(topic));
    }

    fn followers_of(&self, topic: &Arc<Topic>) -> Rc<Vec<usize>> {
        self.followers.borrow_mut().get_or_insert(topic, || {
            let clients = self.clients.borrow();
            let follows =
                |client: &ClientCell| client.borrow().session.subscription.filter.matches(topic);
            let followers = clients.iter().filter(|(_, client)| follows(client));
            followers.map(|(id, _)| id).collect()
        })
    }

    /// Has each client take the latest images, because the messages after `delivered` are not kept or do not hold.
    async fn resend_all(&self, delivered: FeedCursor) {
        let now = Instant::now();
        let clients: Slab<ClientCell> = self.clients.borrow().clone();
        for (served, (_, client)) in clients.into_iter().enumerate() {
            yield_between_turns(served).await;
            client.borrow_mut().session.catch_up_from(delivered, now);
        }
    }

    // Timers.

    /// Waits until a timer is due, and at least the resolution of timers since they last ran.
    async fn next_timer(&self, last_run: Instant) {
        let first = self.timers.borrow().peek().map(|Reverse((due, _))| *due);
        match first {
            Some(due) => sleep_until(due.max(last_run + TIMER_RESOLUTION).into()).await,
            None => pending().await,
        }
    }

    fn schedule(&self, id: usize, client: &mut Client) {
        client.scheduled = client.session.next_timer();
        let timer = Reverse((client.scheduled, id));
        self.timers.borrow_mut().push(timer);
    }

    fn schedule_if_earlier(&self, id: usize, client: &mut Client) {
        if client.session.next_timer() < client.scheduled {
            self.schedule(id, client);
        }
    }

    fn run_due_timers(&self, now: Instant) {
        let delivered = self.delivered.get();
        let health = self.context.monitor.health();
        let position = self.context.feed.position();
        // The feed may have moved on by events without messages.
        let is_end =
            (position.generation, position.head) == (delivered.generation, delivered.next_index);
        let seq = if is_end { position.seq } else { delivered.seq };
        while let Some((due, id)) = self.pop_due_timer(now) {
            let Some(client) = self.client(id) else {
                continue;
            };
            let mut client = client.borrow_mut();
            if client.scheduled == due && !client.session.has_ended() {
                client.session.run_due_timers(seq, &health, now);
                self.schedule(id, &mut client);
            }
        }
    }

    fn pop_due_timer(&self, now: Instant) -> Option<(Instant, usize)> {
        let mut timers = self.timers.borrow_mut();
        let Reverse((due, _)) = timers.peek()?;
        let is_due = *due <= now;
        let timer = is_due.then(|| timers.pop()).flatten();
        timer.map(|Reverse(timer)| timer)
    }

    // Checks.

    /// Why clients with a key may not stay connected.
    fn refusal(&self, key_id: KeyId) -> Option<CloseReason> {
        let keys = &self.context.keys;
        if keys.has_lost(key_id) {
            return Some(CloseReason::KeyNotValid);
        }
        let is_excluded = keys.is_without_live_odds(key_id);
        is_excluded.then_some(CloseReason::LiveOddsNotIncluded)
    }

    /// Closes clients whose key has become invalid, or that another replica serves better, and sends a heartbeat to
    /// everyone if the feed's health has changed.
    fn check_keys_and_health(&self) {
        let now = Instant::now();
        let keys = &self.context.keys;
        let lost_keys = keys.losses();
        let leaving = self.context.metrics.sockets_open();
        let is_stale = keys.is_complete() && keys.is_stale();
        let stale = is_stale.then_some(CloseReason::KeysStale(leaving));
        let lags = self.context.lag.should_leave();
        if let Some(reason) = stale.or(lags.then_some(CloseReason::Lagging(leaving))) {
            self.for_each_session(|session| session.close(&reason, now));
        }
        if lost_keys != self.lost_keys.get() && keys.is_complete() {
            self.lost_keys.set(lost_keys);
            self.for_each_session(|session| {
                if let Some(reason) = self.refusal(session.permit.trace.key_id) {
                    session.close(&reason, now);
                }
            });
        }
        let health = self.context.monitor.health();
        if self.liveness.replace(health.state) != health.state {
            let seq = self.delivered.get().seq;
            self.for_each_session(|session| session.send_heartbeat(seq, &health, now));
        }
        if self.sources.replace(health.sources.clone()) != health.sources {
            self.for_each_session(|session| session.send_feed_update(&health, now));
        }
    }

    // The end.

    /// Closes all clients, also those that are still arriving, and waits until they have left.
    async fn close_all(self: &Rc<Self>, new_clients: &mut NewClients) {
        new_clients.close();
        while let Ok((client, guard)) = new_clients.try_recv() {
            self.admit(client, guard);
        }
        let now = Instant::now();
        let reason = CloseReason::ServiceStopping(self.context.metrics.sockets_open());
        self.for_each_session(|session| session.close(&reason, now));
        let mut tick = interval(TIMER_RESOLUTION);
        while !self.clients.borrow().is_empty() {
            tick.tick().await;
            let now = Instant::now();
            self.for_each_session(|session| {
                if session.next_timer() <= now {
                    session.end();
                }
            });
        }
    }
}

/// Lets other tasks of the shard run after each turn of clients.
async fn yield_between_turns(served: usize) {
    if served % CLIENTS_PER_TURN == CLIENTS_PER_TURN - 1 {
        yield_now().await;
    }
}
