//! A shard: some of the clients, on a thread of their own.
//!
//! What the feed tells is written to one client after the other, all that is new in one system call each. While that
//! goes on, more comes in; so the busier it is, the more goes into a call. The clients of a shard share no lock with those of
//! another, and HTTP has its own threads.
//!
//! There are more shards than cores, and they take turns: so a shard's work is short, whatever comes while others work goes
//! out with its next turn, and half of the machine is left to all else.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::future::{pending, poll_fn};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use events::RaceKey;
use slab::Slab;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{LocalSet, spawn_local, yield_now};
use tokio::time::{MissedTickBehavior, interval, sleep_until};

use super::batch::{Batch, FeedCursor};
use super::connection::Connection;
use super::fan_out::ClientGuard;
use super::health::Health;
use super::session::{Scratch, Session, Shared};
use super::{LiveContext, NewClient};
use crate::accounts::KeyId;
use crate::live::feed::{Position, Topic};

/// Messages that a shard takes from the feed at a time.
const BATCH_MESSAGES_MAX: usize = 1_024;
/// Clients that are served between two looks at what else there is to do.
const CLIENTS_PER_TURN: usize = 512;
/// Races of which it is remembered who follows them.
const FOLLOWED_RACES_MAX: usize = 256;
/// Times that a client's connection is looked at before others have their turn.
const TURNS: usize = 4;
/// Heartbeats and conflated odds come on time to within this.
const TICK: Duration = Duration::from_millis(10);
/// How often it is looked at whether keys are still valid and the feed is well.
const LOOK_AROUND_EVERY: Duration = Duration::from_millis(500);

const KEY_NOT_VALID: (u16, &str) = (4401, "the key is no longer valid");
const NO_LIVE_ODDS: (u16, &str) = (4403, "the plan of the key does not include live odds");

type Client = Rc<RefCell<Session>>;

struct Shard {
    channel: LiveContext,
    shared: Shared,
    clients: RefCell<Slab<Client>>,
    /// Who follows a race: those whose filter it passes.
    followers: RefCell<HashMap<RaceKey, Followers>>,
    /// When which client wants to be called. An entry may be out of date.
    timers: RefCell<BinaryHeap<Reverse<(Instant, usize)>>>,
    health: RefCell<Health>,
    /// The losses of the ring of keys, as of the last look at every client.
    key_losses: Cell<u64>,
    told: Cell<FeedCursor>,
    turns: Arc<Semaphore>,
}

struct Followers {
    topic: Arc<Topic>,
    clients: Rc<[usize]>,
}

/// Serves those who arrive until the service stops and all have left.
///
/// # Errors
/// The system gives no event queue.
pub(super) fn run(
    channel: LiveContext,
    arrivals: mpsc::UnboundedReceiver<(NewClient, ClientGuard)>,
    turns: Arc<Semaphore>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let shared = Shared {
        feed: channel.feed.clone(),
        metrics: Arc::clone(&channel.metrics),
    };
    let shard = Rc::new(Shard {
        health: RefCell::new(Health::new(&channel)),
        key_losses: Cell::new(channel.keys.losses()),
        told: Cell::new(FeedCursor::from(&channel.feed.position())),
        turns,
        channel,
        shared,
        clients: RefCell::default(),
        followers: RefCell::default(),
        timers: RefCell::default(),
    });
    LocalSet::new().block_on(&runtime, shard.serve(arrivals));
    Ok(())
}

impl Shard {
    async fn serve(
        self: Rc<Self>,
        mut arrivals: mpsc::UnboundedReceiver<(NewClient, ClientGuard)>,
    ) {
        let mut news = self.channel.feed.watch();
        let mut called_at = Instant::now();
        let mut look_around = interval(LOOK_AROUND_EVERY);
        look_around.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let stopping = self.channel.shutdown.clone();
        loop {
            tokio::select! {
                arrival = arrivals.recv() => match arrival {
                    Some((arrival, seat)) => self.admit(arrival, seat),
                    None => break,
                },
                changed = news.changed(), if !self.clients.borrow().is_empty() => match changed {
                    Ok(()) => self.tell(&mut news).await,
                    Err(_) => break,
                },
                () = self.somebody_is_due(called_at) => {
                    called_at = Instant::now();
                    self.call_those_who_are_due(called_at);
                }
                _ = look_around.tick() => self.look_around(),
                () = stopping.cancelled() => break,
            }
        }
        self.close_all(&mut arrivals).await;
    }

    /// Waits until a client wants to be called, and a little so that several are called together.
    async fn somebody_is_due(&self, called_at: Instant) {
        let first = self.timers.borrow().peek().map(|Reverse((due, _))| *due);
        match first {
            Some(due) => sleep_until(due.max(called_at + TICK).into()).await,
            None => pending().await,
        }
    }

    fn admit(self: &Rc<Self>, arrival: NewClient, seat: ClientGuard) {
        let now = Instant::now();
        if self.clients.borrow().is_empty() {
            self.told
                .set(FeedCursor::from(&self.shared.feed.position()));
        }
        let NewClient {
            stream,
            read_ahead,
            subscription,
            since,
            ticket,
            refused,
        } = arrival;
        let wire = match Connection::open(stream, read_ahead) {
            Ok(wire) => wire,
            Err(error) => {
                tracing::debug!(%error, "a connection was lost on its way");
                return;
            }
        };
        // The key may have been lost on the way here, when this client was not yet among those that are looked at.
        let refused = refused.or_else(|| self.refusal(ticket.key_id));
        let mut session = Session::new(
            wire,
            subscription,
            since.as_ref(),
            ticket,
            self.shared.clone(),
            now,
        );
        if let Some((code, reason)) = refused {
            session.close(code, reason, now);
        } else if session.advance(now).is_err() {
            return;
        }
        let client = Rc::new(RefCell::new(session));
        let id = self.clients.borrow_mut().insert(Rc::clone(&client));
        self.followers.borrow_mut().clear();
        self.schedule(id, &mut client.borrow_mut());
        let shard = Rc::clone(self);
        spawn_local(async move {
            poll_fn(|context| shard.attend(id, &client, context)).await;
            shard.clients.borrow_mut().remove(id);
            shard.followers.borrow_mut().clear();
            drop(seat);
        });
    }

    /// Notes when a client wants to be called.
    fn schedule(&self, id: usize, session: &mut Session) {
        session.scheduled = session.due();
        self.timers
            .borrow_mut()
            .push(Reverse((session.scheduled, id)));
    }

    /// Notes it if that is earlier than before.
    fn hasten(&self, id: usize, session: &mut Session) {
        if session.due() < session.scheduled {
            self.schedule(id, session);
        }
    }

    /// Looks after the connection of a client: what it says, and whether it takes more.
    fn attend(&self, id: usize, client: &Client, context: &mut Context<'_>) -> Poll<()> {
        let mut session = client.borrow_mut();
        if !session
            .waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(context.waker()))
        {
            session.waker = Some(context.waker().clone());
        }
        let now = Instant::now();
        for _ in 0..TURNS {
            let mut ready = false;
            if session.wire.is_blocked() && session.wire.poll_unblocked(context).is_ready() {
                ready = true;
                if session.on_unblocked(self.told.get(), now).is_err() {
                    session.end();
                }
            }
            if session.can_read() && session.wire.poll_readable(context).is_ready() {
                ready = true;
                if session.hear(self.told.get(), now).is_err() {
                    session.end();
                }
            }
            if std::mem::take(&mut session.refiltered) {
                self.followers.borrow_mut().clear();
            }
            self.hasten(id, &mut session);
            if session.has_ended() {
                return Poll::Ready(());
            }
            if !ready {
                return Poll::Pending;
            }
        }
        // It has more, and the others have their turn first.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Tells what is new to those whom it concerns: one batch, so that whatever else there is to do has its turn.
    async fn tell(&self, news: &mut watch::Receiver<Position>) {
        // Nobody closes it; an error would mean that all may work at once.
        let _turn = self.turns.acquire().await;
        news.mark_unchanged();
        let told = self.told.get();
        let tail = self.shared.feed.tail(told.place, BATCH_MESSAGES_MAX);
        let Some(tail) = tail.filter(|tail| tail.position.generation == told.generation) else {
            let position = self.shared.feed.position();
            self.tell_all_anew(told).await;
            self.told.set(FeedCursor::from(&position));
            news.mark_changed();
            return;
        };
        let batch = Batch::new(told, tail.messages);
        self.deliver(&batch).await;
        let all = batch.end() == tail.position.head;
        self.told.set(FeedCursor {
            generation: told.generation,
            place: batch.end(),
            seq: match batch.messages.last() {
                Some(last) if !all => last.seq - 1,
                _ => tail.position.seq,
            },
        });
        if !all {
            news.mark_changed();
        }
    }

    async fn deliver(&self, batch: &Batch) {
        let now = Instant::now();
        let mut scratch = Scratch::default();
        for (served, id) in self.concerned(batch).into_iter().enumerate() {
            if served % CLIENTS_PER_TURN == CLIENTS_PER_TURN - 1 {
                yield_now().await;
            }
            let client = self.clients.borrow().get(id).cloned();
            if let Some(client) = client {
                let mut session = client.borrow_mut();
                if session.deliver(batch, &mut scratch, now).is_err() {
                    session.end();
                }
                self.hasten(id, &mut session);
            }
        }
    }

    /// The clients that follow a race of the batch, each once.
    fn concerned(&self, batch: &Batch) -> Vec<usize> {
        let mut concerned: Vec<usize> = Vec::new();
        for lane in &batch.lanes {
            concerned.extend_from_slice(&self.followers_of(&lane.topic));
        }
        if batch.lanes.len() > 1 {
            concerned.sort_unstable();
            concerned.dedup();
        }
        concerned
    }

    fn followers_of(&self, topic: &Arc<Topic>) -> Rc<[usize]> {
        let mut followers = self.followers.borrow_mut();
        if let Some(known) = followers.get(&topic.race)
            && Arc::ptr_eq(&known.topic, topic)
        {
            return Rc::clone(&known.clients);
        }
        let clients = self.clients.borrow();
        let follow = clients
            .iter()
            .filter(|(_, client)| client.borrow().subscription.filter.passes(topic));
        let clients: Rc<[usize]> = follow.map(|(id, _)| id).collect();
        if followers.len() >= FOLLOWED_RACES_MAX {
            followers.clear();
        }
        followers.insert(
            topic.race.clone(),
            Followers {
                topic: Arc::clone(topic),
                clients: Rc::clone(&clients),
            },
        );
        clients
    }

    /// The messages behind what was told are not kept, or no longer hold: each client takes what there is instead.
    async fn tell_all_anew(&self, told: FeedCursor) {
        let now = Instant::now();
        for (served, client) in self.everyone().into_iter().enumerate() {
            if served % CLIENTS_PER_TURN == CLIENTS_PER_TURN - 1 {
                yield_now().await;
            }
            let mut session = client.borrow_mut();
            session.fall_behind(told.place, told.seq);
            if session.advance(now).is_err() {
                session.end();
            }
        }
    }

    fn everyone(&self) -> Vec<Client> {
        self.clients
            .borrow()
            .iter()
            .map(|(_, client)| Rc::clone(client))
            .collect()
    }

    fn call_those_who_are_due(&self, now: Instant) {
        let told = self.told.get();
        let health = self.health.borrow().now();
        let position = self.shared.feed.position();
        let seq = if position.head == told.place {
            position.seq
        } else {
            told.seq
        };
        while let Some((due, id)) = self.next_due(now) {
            let client = self.clients.borrow().get(id).cloned();
            let Some(client) = client else { continue };
            let mut session = client.borrow_mut();
            if session.scheduled != due || session.has_ended() {
                continue;
            }
            if session.on_time(seq, &health, now).is_err() {
                session.end();
            }
            self.schedule(id, &mut session);
        }
    }

    fn next_due(&self, now: Instant) -> Option<(Instant, usize)> {
        let mut timers = self.timers.borrow_mut();
        let due = timers.peek().is_some_and(|Reverse((due, _))| *due <= now);
        due.then(|| timers.pop())
            .flatten()
            .map(|Reverse(timer)| timer)
    }

    /// Why clients with a key may not listen any more.
    fn refusal(&self, key_id: KeyId) -> Option<(u16, &'static str)> {
        let keys = &self.channel.keys;
        let no_live_odds = || keys.is_without_live_odds(key_id).then_some(NO_LIVE_ODDS);
        let lost = keys.has_lost(key_id).then_some(KEY_NOT_VALID);
        lost.or_else(no_live_odds)
    }

    /// Closes clients whose key no longer lets them listen, and tells everyone when the feed is better or worse.
    fn look_around(&self) {
        let now = Instant::now();
        let keys = &self.channel.keys;
        let losses = keys.losses();
        if losses != self.key_losses.get() && keys.is_complete() {
            self.key_losses.set(losses);
            for client in self.everyone() {
                let mut session = client.borrow_mut();
                let refusal = self.refusal(session.key_id());
                if let Some((code, reason)) = refusal.filter(|_| session.is_open()) {
                    session.close(code, reason, now);
                }
            }
        }
        let changed = self.health.borrow_mut().has_changed();
        if let Some(health) = changed {
            for client in self.everyone() {
                let mut session = client.borrow_mut();
                session.beat(self.told.get().seq, &health, now);
                if session.write(&[], now).is_err() {
                    session.end();
                }
            }
        }
    }

    /// Says goodbye to all, also to those who arrive meanwhile, and waits until they have left.
    async fn close_all(
        self: &Rc<Self>,
        arrivals: &mut mpsc::UnboundedReceiver<(NewClient, ClientGuard)>,
    ) {
        arrivals.close();
        while let Ok((arrival, seat)) = arrivals.try_recv() {
            self.admit(arrival, seat);
        }
        let now = Instant::now();
        for client in self.everyone() {
            client
                .borrow_mut()
                .close(1001, "the service is stopping", now);
        }
        let mut tick = interval(TICK);
        while !self.clients.borrow().is_empty() {
            tick.tick().await;
            let now = Instant::now();
            for client in self.everyone() {
                let mut session = client.borrow_mut();
                if session.due() <= now {
                    session.end();
                }
            }
        }
    }
}
