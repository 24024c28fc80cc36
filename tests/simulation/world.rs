//! [`World`]: server, replicas and feeders, and what happens to them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use events::Text;
use jiff::SignedDuration;
use parking_lot::Mutex;
use projections::simulated::{Failure, SimulatedDisk};
use projections::{Checkpoint, REPLAY_MESSAGES_MAX};
use tokio::time::sleep;

use super::chance::Chance;
use super::checks::{Checks, SLACK};
use super::client::Client;
use super::facts::Facts;
use super::feeder::Feeder;
use super::keys::{IssuedKey, change_keys};
use super::machine::{Running, panicked, uptime};
use super::oracle::{Oracle, identity};
use super::replica::Replica;
use super::scenario::{FAULTS_FOR, FEEDERS, Planned, REPLICAS, Step};
use super::server::{LogServer, Model};
use crate::health::{Liveness, STALE_AFTER};
use crate::log::simulated::stream_config;
use crate::log::{ACCOUNTS, ADDRESSES, KEY_USE, LEASES, RACING, SNAPSHOTS};
use crate::projector::announcer::RECENT;

const CLIENTS: usize = 3;
const TICK: Duration = Duration::from_millis(100);
/// What is broken heals within this time.
const HEALS_WITHIN: Duration = Duration::from_secs(150);
/// Everything must be well for this long.
const WELL_FOR: Duration = Duration::from_secs(5);
/// So many ticks after the last event, everything has it, and the rejections are announced.
const TICKS_AT_END: u64 = 100;
/// The time after which a lease ends that is not renewed.
const LEASE_TERM: Duration = Duration::from_secs(20);

pub(super) struct World {
    pub(super) server: LogServer,
    pub(super) replicas: Vec<Replica>,
    pub(super) feeders: Vec<Feeder>,
    pub(super) oracle: Oracle,
    pub(super) facts: Facts,
    pub(super) keys: Arc<Mutex<Vec<IssuedKey>>>,
    pub(super) trace: Vec<String>,
    clients: Vec<Client>,
    chance: Chance,
    /// When the replicas, their machines or their way to the log were last disturbed.
    pub(super) disturbed_at: Duration,
    /// When what was on its way to subscribers may last have been lost.
    pub(super) loses_until: Duration,
    /// All faults have ended, and what they broke has healed.
    pub(super) is_well: bool,
    /// When the log last lost messages.
    pub(super) lost_at: Option<Duration>,
    /// The first wrong answer of a machine at the moment at which it woke.
    wrong: Option<String>,
    /// What ends at a time.
    ends: Vec<(Duration, End)>,
    _folder: Folder,
    oracle_disk: SimulatedDisk,
}

#[derive(Debug, Clone, Copy)]
enum End {
    Server,
    Frozen,
    Leaderless,
    Before,
    Consumers,
    Cut(usize),
    Answers(usize),
    Delay(usize),
    SlowConsumers,
    Skips,
    SlowDisk(usize),
    Blocked(usize),
    NewWrite(usize),
    Suspended(usize),
    Full(usize),
    Down(usize),
}

/// What came of a seed.
pub(super) struct Outcome {
    pub(super) trace: Vec<String>,
    pub(super) failure: Option<String>,
}

/// A folder of a simulation, in memory where the system has such.
struct Folder(PathBuf);

impl End {
    fn is_harmless(self) -> bool {
        matches!(self, Self::Cut(host) | Self::Answers(host) if host >= REPLICAS)
    }

    fn loses_messages(self) -> bool {
        matches!(self, Self::Server | Self::Frozen | Self::Cut(_))
    }
}

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let shared = Path::new("/dev/shm");
        let root = if shared.is_dir() {
            shared.to_owned()
        } else {
            std::env::temp_dir()
        };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = root.join(format!(
            "railbird-simulation-{}-{number}",
            std::process::id()
        ));
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a plan.
pub(super) fn run(seed: u64, plan: &[Planned]) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let _running = Running::begin(seed);
        let mut world = World::new(seed);
        let failure = world.live(plan).await.err();
        Outcome {
            failure,
            trace: std::mem::take(&mut world.trace),
        }
    })
}

impl World {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let folder = Folder::new();
        let is_clustered = chance.one_in(2);
        let server = LogServer::new(chance.fork(), is_clustered);
        server.change(|model| {
            for stream in [RACING, ACCOUNTS, ADDRESSES, KEY_USE, LEASES, SNAPSHOTS] {
                model.create(stream.name, &stream_config(stream));
            }
        });
        // The log may have lost its beginning, and be about to begin another period of the replay.
        if chance.one_in(4) {
            let before = chance.between(0, 400);
            let seq = chance.between(1, 3) * REPLAY_MESSAGES_MAX - before;
            server.change(|model| model.streams.begin_at(RACING.name, seq));
        }
        let root = folder.0.join("oracle");
        let oracle_disk = SimulatedDisk::mount(&root);
        let replica = |n: usize| Replica::new(n, folder.0.join(format!("replica-{n}")));
        let mut world = Self {
            replicas: (0..REPLICAS).map(replica).collect(),
            feeders: Vec::new(),
            oracle: Oracle::new(&root),
            facts: Facts::default(),
            keys: Arc::default(),
            trace: Vec::new(),
            clients: Vec::new(),
            disturbed_at: Duration::ZERO,
            loses_until: Duration::ZERO,
            is_well: false,
            lost_at: None,
            wrong: None,
            ends: Vec::new(),
            oracle_disk,
            _folder: folder,
            server,
            chance,
        };
        for n in 0..FEEDERS {
            let feeder = Feeder::new(n, REPLICAS + n, &world.server, &mut world.chance);
            world.feeders.push(feeder);
        }
        let clients = (0..CLIENTS).map(|_| Client::new(world.chance.fork()));
        world.clients = clients.collect();
        let keys = world.chance.between(1, 6);
        for _ in 0..keys {
            world.change_keys(1);
        }
        world.note(format!("seed {seed}, clustered: {is_clustered}"));
        world
    }

    pub(super) fn note(&mut self, text: String) {
        let at = uptime().unwrap_or_default();
        self.trace.push(format!("{:>8.3} {text}", at.as_secs_f64()));
    }

    async fn live(&mut self, plan: &[Planned]) -> Result<(), String> {
        let mut checks = Checks::new(plan);
        for replica in &mut self.replicas {
            replica.start(&self.server);
        }
        for feeder in &mut self.feeders {
            feeder.start();
        }
        let mut plan = plan.iter().peekable();
        while self.now() < FAULTS_FOR || plan.peek().is_some() {
            self.end_what_ends();
            while let Some(planned) = plan.next_if(|planned| planned.at <= self.now()) {
                self.note(format!("{:?}", planned.step));
                if !planned.step.is_harmless() {
                    self.disturbed_at = self.now();
                }
                if planned.step.loses_messages() {
                    self.loses_until = self.now();
                }
                self.apply(planned.step);
            }
            self.tick(&mut checks).await?;
        }
        self.heal();
        self.note("all faults have ended".to_owned());
        let deadline = self.now() + HEALS_WITHIN;
        let mut well_since = None;
        loop {
            self.tick(&mut checks).await?;
            match checks.well(self) {
                Ok(()) if well_since.is_some_and(|since| since + WELL_FOR < self.now()) => break,
                Ok(()) => drop(well_since.get_or_insert(self.now())),
                Err(ill) if self.now() > deadline => return Err(format!("not healed: {ill}")),
                Err(_) => well_since = None,
            }
        }
        self.note("everything is well".to_owned());
        self.rebuild_all(&mut checks).await?;
        for feeder in &mut self.feeders {
            feeder.stop();
        }
        for _ in 0..TICKS_AT_END {
            self.tick(&mut checks).await?;
        }
        checks.at_the_end(self)
    }

    /// Has all views rebuilt, while events arrive.
    async fn rebuild_all(&mut self, checks: &mut Checks) -> Result<(), String> {
        self.is_well = true;
        let now = self.now();
        for replica in &self.replicas {
            replica.machine.slow_disk(self.chance.one_in(3));
        }
        let running = self.replicas.iter_mut();
        running
            .filter_map(|replica| replica.running.as_mut())
            .for_each(|running| running.rebuild(now));
        while self.replicas.iter().any(Replica::is_rebuilding) {
            self.tick(checks).await?;
        }
        for replica in &self.replicas {
            replica.machine.slow_disk(false);
        }
        Ok(())
    }

    async fn tick(&mut self, checks: &mut Checks) -> Result<(), String> {
        sleep(TICK).await;
        if let Some(panic) = panicked() {
            return Err(format!("a task panicked: {panic}"));
        }
        if self.ends.iter().any(|(_, end)| !end.is_harmless()) {
            self.disturbed_at = self.now();
        }
        if self.ends.iter().any(|(_, end)| end.loses_messages()) {
            self.loses_until = self.now() + SLACK;
        }
        self.end_crashed();
        self.work();
        if let Some(wrong) = self.wrong.take() {
            return Err(wrong);
        }
        for client in &mut self.clients {
            client.act(&self.replicas, &self.oracle)?;
        }
        checks.always(self)
    }

    /// What follows where a machine has crashed by itself.
    fn end_crashed(&mut self) {
        for n in 0..self.replicas.len() {
            if self.replicas[n].has_crashed() {
                self.note(format!("replica {n} has crashed"));
                let (tears, ms) = self.replicas[n].crash.unwrap_or((false, 1_000));
                self.replicas[n].crash(tears, &mut self.chance);
                self.end_at(ms, End::Down(n));
            }
        }
    }

    pub(super) fn now(&self) -> Duration {
        uptime().expect("a simulation")
    }

    /// Syncs disks, and accepts other histories as operators do, at random.
    fn work(&mut self) {
        for replica in &self.replicas {
            if self.chance.one_in(5) {
                replica.disk.sync();
            }
            if let Some(running) = &replica.running
                && self.chance.one_in(50)
                && !running.health.continuity.divergences().is_empty()
            {
                running.health.continuity.accept();
            }
        }
        self.follow();
    }

    /// Has the oracle take what the log has.
    fn follow(&mut self) {
        let model = self.server.model.lock();
        if let Some(stream) = model.streams.all.get(RACING.name) {
            self.oracle.follow(stream);
            self.facts.follow(stream);
        }
    }

    /// Whether the log has the event of a checkpoint.
    pub(super) fn is_of_log(&self, checkpoint: &Checkpoint) -> bool {
        let model = self.server.model.lock();
        let Some(stream) = model.streams.all.get(RACING.name) else {
            return false;
        };
        let last = stream.messages.get(&checkpoint.seq);
        let recorded_at = last.map(|last| last.recorded_at.into());
        identity(stream) == checkpoint.log && recorded_at == checkpoint.recorded_at
    }

    fn end_at(&mut self, ms: u64, end: End) {
        self.ends
            .push((self.now() + Duration::from_millis(ms), end));
    }

    fn end_what_ends(&mut self) {
        let now = self.now();
        let (due, rest): (Vec<_>, Vec<_>) = self.ends.drain(..).partition(|(at, _)| *at <= now);
        self.ends = rest;
        due.into_iter().for_each(|(_, end)| self.end(end));
    }

    fn heal(&mut self) {
        self.end_crashed();
        let ends = std::mem::take(&mut self.ends);
        ends.into_iter().for_each(|(_, end)| self.end(end));
        for replica in &mut self.replicas {
            replica.disk.fail(None);
            replica.cancel_crash();
        }
    }

    fn end(&mut self, end: End) {
        self.note(format!("end of {end:?}"));
        let server = &self.server;
        match end {
            End::Server => server.change(|model| model.is_up = true),
            End::Frozen => server.change(|model| model.is_frozen = false),
            End::Leaderless => server.change(|model| model.is_leaderless = false),
            End::Before => server.change(|model| model.before = None),
            End::Consumers => server.change(|model| model.consumers_fail = false),
            End::Cut(host) => server.change(|model| model.cut.retain(|cut| *cut != host)),
            End::Answers(host) => {
                server.change(|model| model.loses_answers.retain(|loses| *loses != host))
            }
            End::Delay(host) => {
                server.change(|model| model.delays.retain(|(delayed, _)| *delayed != host));
            }
            End::SlowConsumers => server.change(|model| model.slow_consumers = None),
            End::Skips => server.change(|model| model.consumers_skip = false),
            End::SlowDisk(n) => self.replicas[n].machine.slow_disk(false),
            End::NewWrite(n) => self.replicas[n].disk.fail(None),
            End::Blocked(n) => self.replicas[n].block_files(false),
            End::Suspended(n) => self.wake(n),
            End::Full(n) => self.replicas[n].disk.fill(false),
            End::Down(n) if self.replicas[n].running.is_none() => self.replicas[n].start(server),
            End::Down(_) => {}
        }
    }

    /// Ends the suspend of a machine, and asks it before any of its tasks has run.
    fn wake(&mut self, n: usize) {
        let replica = &self.replicas[n];
        let slept = replica.machine.resume();
        if let Some(running) = &replica.running {
            let state = replica.machine.enter(|| running.health.state().liveness());
            if slept > STALE_AFTER && state == Liveness::Live {
                self.wrong = Some(format!("replica {n} is live after it slept for {slept:?}"));
            }
            let is_held = replica.machine.enter(|| running.lease.held().is_some());
            if is_held && slept > LEASE_TERM {
                self.wrong = Some(format!("replica {n} holds a lease after it slept"));
            }
        }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Crash { replica, tears, ms } => {
                self.replicas[replica].crash(tears, &mut self.chance);
                self.end_at(ms, End::Down(replica));
            }
            Step::CrashAfter {
                replica,
                polls,
                tears,
                ms,
            } => {
                self.replicas[replica].machine.crash_after(polls);
                self.replicas[replica].crash = Some((tears, ms));
            }
            Step::CrashInCommit {
                replica,
                commits,
                is_written,
                tears,
                ms,
            } => {
                self.replicas[replica].crash_at_commit(commits, is_written);
                self.replicas[replica].crash = Some((tears, ms));
            }
            Step::LoseDisk { replica, ms } => {
                self.replicas[replica].lose_disk();
                self.end_at(ms, End::Down(replica));
            }
            Step::Stop { replica, ms } => {
                self.replicas[replica].stop();
                self.end_at(ms, End::Down(replica));
            }
            step @ (Step::MoveClock { .. }
            | Step::MoveFeederClock { .. }
            | Step::MoveAllClocks { .. }) => self.move_clocks(step),
            Step::RestartFeeder { feeder } => self.feeders[feeder].start(),
            Step::Flood {
                feeder,
                events,
                reset_after,
            } => {
                self.feeders[feeder].state.lock().flood += events;
                let reset_after = reset_after.map(|messages| (REPLICAS + feeder, messages));
                self.server.change(|model| model.reset_after = reset_after);
            }
            Step::ChangeKeys { commands } => self.change_keys(commands),
            Step::RevokeKey { replica } => self.revoke_key(replica),
            step => self.apply_to_machine(step),
        }
    }

    fn apply_to_machine(&mut self, step: Step) {
        match step {
            Step::Suspend { replica, ms } => {
                self.replicas[replica].machine.suspend();
                self.end_at(ms, End::Suspended(replica));
            }
            Step::FillDisk { replica, ms } => {
                self.replicas[replica].disk.fill(true);
                self.end_at(ms, End::Full(replica));
            }
            Step::SlowDisk { replica, ms } => {
                self.replicas[replica].machine.slow_disk(true);
                self.end_at(ms, End::SlowDisk(replica));
            }
            Step::BlockFiles { replica, ms } => {
                self.replicas[replica].block_files(true);
                self.end_at(ms, End::Blocked(replica));
            }
            Step::FailWrite { replica } => self.replicas[replica].disk.fail(Some(Failure::Write)),
            Step::FailSync { replica } => self.replicas[replica].disk.fail(Some(Failure::Sync)),
            Step::FailNewWrite { replica, ms } => {
                self.replicas[replica].disk.fail(Some(Failure::NewWrite));
                self.end_at(ms, End::NewWrite(replica));
            }
            Step::Damage { replica } => self.damage(replica),
            Step::Rebuild { replica } => {
                let now = self.now();
                if let Some(running) = &mut self.replicas[replica].running {
                    running.rebuild(now);
                }
            }
            step => self.apply_to_network(step),
        }
    }

    fn apply_to_network(&mut self, step: Step) {
        let server = self.server.clone();
        let cut = |world: &mut Self, host, ms| {
            server.change(|model| model.cut.push(host));
            world.end_at(ms, End::Cut(host));
        };
        match step {
            Step::Cut { replica, ms } => cut(self, replica, ms),
            Step::CutFeeder { feeder, ms } => cut(self, REPLICAS + feeder, ms),
            Step::LoseAnswers { replica, ms } => self.lose_answers(replica, ms),
            Step::LoseAnswersOfFeeder { feeder, ms } => self.lose_answers(REPLICAS + feeder, ms),
            Step::DelayAnswers {
                replica,
                delay_ms,
                ms,
            } => {
                let delay = Duration::from_millis(delay_ms);
                server.change(|model| model.delays.push((replica, delay)));
                self.end_at(ms, End::Delay(replica));
            }
            Step::SlowConsumers { pause_ms, ms } => {
                let pause = Duration::from_millis(pause_ms);
                server.change(|model| model.slow_consumers = Some(pause));
                self.end_at(ms, End::SlowConsumers);
            }
            Step::ConsumersSkip { ms } => {
                server.change(|model| model.consumers_skip = true);
                self.end_at(ms, End::Skips);
            }
            step => self.apply_to_server(step),
        }
    }

    fn move_clocks(&mut self, step: Step) {
        match step {
            Step::MoveClock { replica, seconds } => {
                self.replicas[replica]
                    .machine
                    .move_clock(SignedDuration::from_secs(seconds));
            }
            Step::MoveFeederClock { feeder, seconds } => {
                self.feeders[feeder]
                    .machine
                    .move_clock(SignedDuration::from_secs(seconds));
            }
            Step::MoveAllClocks { seconds } => {
                let by = SignedDuration::from_secs(seconds);
                // Rejections that a replica folds later, and was not live before, are too old to be announced.
                if by > RECENT {
                    self.loses_until = self.loses_until.max(self.now());
                }
                self.server.change(|model| model.streams.ahead += by);
                self.replicas
                    .iter()
                    .for_each(|replica| replica.machine.move_clock(by));
                self.feeders
                    .iter()
                    .for_each(|feeder| feeder.machine.move_clock(by));
            }
            step => unreachable!("{step:?} moves no clock"),
        }
    }

    fn apply_to_server(&mut self, step: Step) {
        // The replicas may have read what the server loses.
        self.follow();
        let server = self.server.clone();
        match step {
            Step::KillServer { ms } => {
                let forgets = self.chance.one_in(2);
                server.change(|model| model.kill(forgets));
                self.end_at(ms, End::Server);
            }
            Step::FreezeServer { ms } => {
                server.change(|model| model.is_frozen = true);
                self.end_at(ms, End::Frozen);
            }
            Step::Elect { ms } => {
                server.change(|model| model.is_leaderless = true);
                self.end_at(ms, End::Leaderless);
            }
            Step::AnswerFromBefore { ms } => {
                server.change(Model::answer_from_before);
                self.end_at(ms, End::Before);
            }
            Step::ConsumersFail { ms } => {
                server.change(|model| {
                    model.consumers_fail = true;
                    model.consumers += 1;
                });
                self.end_at(ms, End::Consumers);
            }
            Step::LoseEnd { messages } => {
                self.lost_at = Some(self.now());
                server.change(|model| {
                    model.has_lost = true;
                    model.lose_end(RACING.name, messages);
                });
                self.end_at(500, End::Server);
            }
            Step::RestoreKeys { events } => {
                server.change(|model| {
                    model.has_lost_accounts = true;
                    model.lose_end(ACCOUNTS.name, events);
                });
                self.end_at(500, End::Server);
            }
            Step::Recreate => {
                self.lost_at = Some(self.now());
                server.change(|model| model.recreate(RACING.name, &stream_config(RACING)));
                self.end_at(500, End::Server);
            }
            Step::RejectMessages { messages } => server.change(|model| model.rejects += messages),
            Step::DeleteMessage => self.delete_message(),
            Step::MoveServerClock { seconds } => {
                let by = SignedDuration::from_secs(seconds);
                server.change(|model| model.streams.ahead += by);
            }
            step => unreachable!("{step:?}"),
        }
    }

    fn lose_answers(&mut self, host: usize, ms: u64) {
        self.server.change(|model| model.loses_answers.push(host));
        self.end_at(ms, End::Answers(host));
    }

    fn damage(&mut self, replica: usize) {
        let Some(running) = &self.replicas[replica].running else {
            return;
        };
        let Some(current) = running.health.views.read_current() else {
            return;
        };
        let folder = self.replicas[replica]
            .data()
            .join("views")
            .join(&current.name);
        let chance = &mut self.chance;
        let below = |n: usize| usize::try_from(chance.below(n as u64)).expect("small");
        let key = SimulatedDisk::damage(&folder, below);
        self.note(format!("damaged {key:?}"));
    }

    fn delete_message(&mut self) {
        let mut model = self.server.model.lock();
        let Some(stream) = model.streams.all.get_mut(RACING.name) else {
            return;
        };
        if stream.last_seq > 2 {
            let seq = self.chance.between(1, stream.last_seq - 1);
            stream.delete(seq);
            self.oracle.has_holes = true;
            let stream = stream.clone();
            model.has_lost = true;
            drop(model);
            self.oracle.begin(&stream);
        }
    }

    fn change_keys(&mut self, commands: u64) {
        let now = self.now();
        let mut keys = self.keys.lock();
        change_keys(&self.server, &mut keys, commands, now, &mut self.chance);
    }

    /// A key that is issued to all is revoked at a replica.
    fn revoke_key(&mut self, replica: usize) {
        let Some(running) = &self.replicas[replica].running else {
            return;
        };
        let keys = Arc::clone(&self.keys);
        let open = |key: &IssuedKey| key.revoked_at.is_none() && !key.is_taken;
        let Some(n) = keys.lock().iter().position(open) else {
            return;
        };
        keys.lock()[n].is_taken = true;
        let commands = running.commands.clone();
        self.replicas[replica].machine.spawn(async move {
            let key_id = keys.lock()[n].key.key_id;
            if commands.revoke(key_id, Text::default()).await.is_ok() {
                keys.lock()[n]
                    .revoked_at
                    .get_or_insert(uptime().unwrap_or_default());
            }
        });
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.oracle_disk.unmount();
        self.feeders.clear();
        self.replicas.clear();
    }
}
