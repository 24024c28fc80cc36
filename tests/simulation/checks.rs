//! [`Checks`]: the promises.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::facts::check_market_images;
use super::keys::KeyChecks;
use super::replica::Running;
use super::scenario::{Planned, Step};
use super::watcher::is_fresh;
use super::world::World;
use crate::feed::epoch;
use crate::health::{Liveness, STALE_AFTER};
use crate::log::RACING;
use crate::projector::Phase;

/// How old the end of the log may be that live views have: as old as the proof, and what a tick adds.
pub(super) const SLACK: Duration = Duration::from_millis(300);
/// So long after the last fault, replicas are connected again and live.
pub(super) const CALM: Duration = Duration::from_secs(30);
/// So long after the last fault, the feed is live.
const LIVE_WITHIN: Duration = Duration::from_secs(20);
/// A lease is taken within this time, where its holder is gone.
const LEASED_WITHIN: Duration = Duration::from_secs(30);
const REBUILT_WITHIN: Duration = Duration::from_secs(10);
/// Boards and cards are compared once in so many ticks.
const TICKS_PER_LOOK: u64 = 15;
/// What is noted of views that cannot be used.
const UNUSABLE: [&str; 2] = ["damaged", "empty"];
/// The age of rejections that are announced after a restart.
const CLOCKS_MAX: i64 = 300;

pub(super) struct Checks {
    ticks: u64,
    /// Servers answer from before, or clocks of leases move.
    answers_from_before: bool,
    moves_server_clock: bool,
    /// No clock is far off, so that recent rejections are announced.
    announces_all: bool,
    changes_history: bool,
    damages: bool,
    /// A store may be torn, or a write may fail.
    tears: bool,
    /// Clocks of feeders move.
    moves_feeder_clocks: bool,
    /// The clock of the server passes the window of ids.
    forgets_ids: bool,
    keys: KeyChecks,
}

impl Checks {
    pub(super) fn new(plan: &[Planned]) -> Self {
        let any = |is: fn(&Step) -> bool| plan.iter().any(|planned| is(&planned.step));
        let changes_history = any(|step| {
            matches!(
                step,
                Step::LoseEnd { .. } | Step::Recreate | Step::DeleteMessage
            )
        });
        let far = any(|step| match step {
            Step::MoveServerClock { seconds } | Step::MoveClock { seconds, .. } => {
                seconds.abs() > CLOCKS_MAX
            }
            _ => false,
        });
        Self {
            ticks: 0,
            answers_from_before: any(|step| matches!(step, Step::AnswerFromBefore { .. })),
            moves_server_clock: any(|step| {
                matches!(
                    step,
                    Step::MoveServerClock { .. } | Step::MoveAllClocks { .. }
                )
            }),
            announces_all: !far,
            changes_history,
            damages: any(|step| matches!(step, Step::Damage { .. })),
            tears: any(Step::may_tear),
            moves_feeder_clocks: any(|step| {
                matches!(
                    step,
                    Step::MoveFeederClock { .. } | Step::MoveAllClocks { .. }
                )
            }),
            forgets_ids: any(|step| match step {
                Step::MoveServerClock { seconds } | Step::MoveAllClocks { seconds } => {
                    *seconds > 60
                }
                _ => false,
            }),
            keys: KeyChecks::default(),
        }
    }

    /// What holds at any time.
    pub(super) fn always(&mut self, world: &World) -> Result<(), String> {
        self.ticks += 1;
        self.keys.follow(world);
        let mut holders = 0;
        for (n, replica) in world.replicas.iter().enumerate() {
            if replica.machine.is_suspended() {
                continue;
            }
            let Some(running) = &replica.running else {
                continue;
            };
            running.check(n)?;
            self.rebuild(world, n, running)?;
            replica
                .machine
                .enter(|| {
                    holders += usize::from(running.lease.held().is_some());
                    views(world, running)?;
                    if self.ticks.is_multiple_of(TICKS_PER_LOOK) {
                        self.facts(world, running)?;
                    }
                    self.socket_and_get(running)?;
                    self.freshness(world, running)?;
                    self.store(running)?;
                    self.keys.check(world, n, running)
                })
                .map_err(|wrong: String| format!("replica {n}: {wrong}"))?;
        }
        if holders > 1 && !self.moves_server_clock && !self.answers_from_before {
            return Err(format!("{holders} replicas hold a lease"));
        }
        if let Some(id) = &world.server.model.lock().announced_again
            && !self.moves_server_clock
            && !self.answers_from_before
        {
            return Err(format!("{id} was announced again, though that was noted"));
        }
        if holders == 0 && world.disturbed_at + CALM + LEASED_WITHIN < world.now() {
            return Err("no replica takes the lease".to_owned());
        }
        world
            .feeders
            .iter()
            .try_for_each(|feeder| match &feeder.state.lock().wrong {
                Some(wrong) => Err(wrong.clone()),
                None => Ok(()),
            })
    }

    /// Boards and cards show what the log has, where the views are at its end.
    fn facts(&self, world: &World, running: &Running) -> Result<(), String> {
        let Some(store) = running.health.views.current() else {
            return Ok(());
        };
        let checkpoint = store.checkpoint().filter(|_| !store.is_torn());
        let are_of = checkpoint.is_some_and(|checkpoint| world.facts.are_of(&checkpoint));
        if !are_of || world.oracle.has_holes || self.damages {
            return Ok(());
        }
        world.facts.check(&store)?;
        if running.health.state().fold.phase == Phase::Live
            && running.health.feed.position().seq == store.seq()
        {
            world.facts.check_images(&running.health.feed)?;
            check_market_images(&running.health.feed, &store)?;
        }
        Ok(())
    }

    /// No views are given up where nothing has damaged them, and what waits for a position is woken.
    fn store(&self, running: &Running) -> Result<(), String> {
        let note = running.health.views.note();
        if !self.damages && !self.tears && UNUSABLE.iter().any(|reason| note.contains(reason)) {
            return Err(note);
        }
        let feed = &running.health.feed;
        let [at, notified] = [feed.position().seq, feed.watch().borrow().seq];
        match at == notified {
            true => Ok(()),
            false => Err(format!(
                "the feed is at {at}, and those who wait for it know {notified}"
            )),
        }
    }

    /// A GET knows what a socket has received.
    fn socket_and_get(&self, running: &Running) -> Result<(), String> {
        let position = running.health.feed.position();
        let Some(store) = running.health.views.current() else {
            return Ok(());
        };
        // Where an operator accepted another history, the views come first.
        let is_replaced = self.changes_history && running.health.state().fold.phase != Phase::Live;
        if is_replaced || position.generation == 0 || store.is_torn() {
            return Ok(());
        }
        let seq = store.seq();
        if seq < position.seq {
            return Err(format!(
                "sockets know event {}, and the views have {seq}",
                position.seq
            ));
        }
        Ok(())
    }

    /// The feed is live only if it has what the log had a while ago, and a while after the last fault.
    fn freshness(&self, world: &World, running: &Running) -> Result<(), String> {
        let model = world.server.model.lock();
        is_fresh(&model, &running.health)?;
        drop(model);
        let state = running.health.state();
        let is_live = state.liveness() == Liveness::Live;
        let is_calm = world.disturbed_at + LIVE_WITHIN < world.now();
        if !is_live && is_calm && !self.changes_history && !self.damages {
            let (phase, failure) = (state.fold.phase, &state.fold.failure);
            return Err(format!("the feed is not live: {phase:?} {failure:?}"));
        }
        let is_long_ago = |at: Duration| at + STALE_AFTER + SLACK < world.now();
        let checkpoint = running.health.views.current();
        let checkpoint = checkpoint.and_then(|store| store.checkpoint());
        if is_live
            && !self.answers_from_before
            && world.lost_at.is_some_and(is_long_ago)
            && !world.oracle.has_holes
            && let Some(checkpoint) = checkpoint
            && !world.is_of_log(&checkpoint)
        {
            let seq = checkpoint.seq;
            return Err(format!(
                "the feed at {seq} is live, and the log has lost that event"
            ));
        }
        Ok(())
    }

    /// A rebuild that was requested ends in new views, while events arrive.
    fn rebuild(&self, world: &World, n: usize, running: &Running) -> Result<(), String> {
        let Some((at, before)) = running.rebuild else {
            return Ok(());
        };
        let is_undisturbed = world.is_well || world.disturbed_at + CALM < at;
        let is_due = at + REBUILT_WITHIN < world.now();
        let rebuilds = running.projector.status.borrow().rebuilds;
        if is_undisturbed && is_due && rebuilds == before {
            return Err(format!(
                "replica {n}: a rebuild that was requested did not end"
            ));
        }
        Ok(())
    }

    /// What holds a while after the last fault.
    pub(super) fn well(&self, world: &World) -> Result<(), String> {
        let model = world.server.model.lock();
        let last_seq = model
            .streams
            .all
            .get(RACING.name)
            .map_or(0, |stream| stream.last_seq);
        drop(model);
        let mut holders = 0;
        for (n, replica) in world.replicas.iter().enumerate() {
            let Some(running) = &replica.running else {
                return Err(format!("replica {n} is down"));
            };
            holders += usize::from(running.lease.held().is_some());
            let state = running.health.state();
            let unready = state.unready(None);
            let fold = &state.fold;
            let damage = running
                .health
                .views
                .current()
                .and_then(|store| store.damage().map(str::to_owned));
            let views = running.health.views.current();
            let checkpoint = views.and_then(|views| views.checkpoint());
            let is_of_log = checkpoint.is_some_and(|checkpoint| world.is_of_log(&checkpoint));
            let is_current = fold.seq + 100 >= last_seq && fold.phase == Phase::Live && is_of_log;
            if !unready.is_empty()
                || state.liveness() != Liveness::Live
                || !is_current
                || damage.is_some()
            {
                let failure = &fold.failure;
                return Err(format!(
                    "replica {n} is at {} of {last_seq}, {:?}, {:?}: {unready} {failure:?} {damage:?}",
                    fold.seq,
                    fold.phase,
                    state.liveness()
                ));
            }
            self.keys.well(world, n, running)?;
            // A reader who meets damage has it healed.
            let mut views = running.health.views.current().into_iter();
            if self.damages && views.any(|views| views.scan("").any(|view| view.is_err())) {
                return Err(format!("the views of replica {n} are damaged"));
            }
        }
        if holders != 1 {
            return Err(format!("{holders} replicas hold the lease"));
        }
        Ok(())
    }

    /// What holds when nothing happens any more.
    pub(super) fn at_the_end(&mut self, world: &World) -> Result<(), String> {
        self.always(world)?;
        let model = world.server.model.lock();
        let stream = &model.streams.all[RACING.name];
        let mut digests = BTreeSet::new();
        for replica in &world.replicas {
            let running = replica.running.as_ref().ok_or("a replica is down")?;
            let store = running.health.views.current().ok_or("there are no views")?;
            let recount = match store.recount() {
                Ok(recount) => recount,
                // Nobody has read the damaged value: the next start finds it.
                Err(_) if self.damages => continue,
                Err(error) => return Err(error.to_string()),
            };
            self.facts(world, running)?;
            let checkpoint = recount.checkpoint.ok_or("there is no checkpoint")?;
            if checkpoint.seq != stream.last_seq {
                return Err(format!(
                    "the views end at {} of {}",
                    checkpoint.seq, stream.last_seq
                ));
            }
            if checkpoint.digest != recount.digest {
                return Err("the views have another digest than their checkpoint".to_owned());
            }
            digests.insert((
                serde_json::to_string(&checkpoint.history).expect("JSON"),
                recount.digest.to_string(),
            ));
        }
        let histories: BTreeMap<_, _> = digests.iter().cloned().collect();
        if histories.len() != digests.len() {
            return Err(format!("replicas of one history differ: {digests:?}"));
        }
        let sent = world.feeders.iter().map(|feeder| feeder.state.lock());
        let sent: Vec<_> = sent.collect();
        let repeated = sent.iter().flat_map(|state| &state.sent);
        let repeated = repeated.filter(|sent| sent.may_be_there_twice());
        let repeated: BTreeSet<_> = repeated.map(|sent| &sent.outgoing.payload[..]).collect();
        let mut positions: BTreeMap<&[u8], u64> = BTreeMap::new();
        for (seq, message) in &stream.messages {
            let first = *positions.entry(&message.payload).or_insert(*seq);
            // An answer from before may lack the event that a duplicate is of: it is then published under another id.
            let may_repeat = self.forgets_ids
                || self.answers_from_before
                || repeated.contains(&message.payload[..]);
            if first < *seq && !may_repeat && !model.has_lost && !model.has_forgotten_ids {
                return Err(format!("event {seq} was stored before"));
            }
        }
        for state in &sent {
            state.check(&positions, &model.arrived, model.has_lost)?;
            if !model.has_lost && !self.moves_feeder_clocks {
                state.check_prices(&world.facts)?;
            }
        }
        self.announcements(world, &model.announced)
    }

    fn announcements(&self, world: &World, announced: &[(String, String)]) -> Result<(), String> {
        if !self.announces_all {
            return Ok(());
        }
        let announced: BTreeSet<&str> = announced.iter().map(|(_, id)| id.as_str()).collect();
        for (log, at, rejection) in world.oracle.announcements() {
            // Core NATS loses what is on its way.
            if at <= world.loses_until {
                continue;
            }
            let stored_us = rejection.recorded_at.timestamp().as_microsecond();
            let id = format!("{}-{}-{stored_us}", epoch(&log), rejection.seq);
            if !announced.contains(id.as_str()) {
                return Err(format!(
                    "the rejection of event {} was not announced",
                    rejection.seq
                ));
            }
        }
        Ok(())
    }
}

/// The views are those of the log at their checkpoint.
fn views(world: &World, running: &Running) -> Result<(), String> {
    let Some(store) = running.health.views.current() else {
        return Ok(());
    };
    let Some(checkpoint) = store.checkpoint().filter(|_| !store.is_torn()) else {
        return Ok(());
    };
    match world.oracle.digest(&checkpoint) {
        Some(digest) if digest == checkpoint.digest => Ok(()),
        Some(_) => Err(format!(
            "the views at {} are not those of the log",
            checkpoint.seq
        )),
        None if checkpoint.seq == 0 || world.oracle.has_holes => Ok(()),
        None => Err(format!(
            "the views at {} are of no history of the log",
            checkpoint.seq
        )),
    }
}

impl Running {
    /// No task has ended, and nothing was published too early.
    fn check(&self, n: usize) -> Result<(), String> {
        if let Some(name) = self.ended_task() {
            return Err(format!("replica {n}: the task {name} has ended"));
        }
        match &*self.wrong.lock() {
            Some(wrong) => Err(format!("replica {n}: {wrong}")),
            None => Ok(()),
        }
    }
}
