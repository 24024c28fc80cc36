//! [`Replica`]: a service without its HTTP: what follows the log, folds, announces and knows the keys.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use projections::simulated::SimulatedDisk;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::chance::Chance;
use super::machine::Machine;
use super::server::{Host, LogServer};
use super::watcher::Watcher;
use crate::accounts::{self, AccountCommands, KeyCache, Ledger, Revocations};
use crate::feed::Feed;
use crate::health::{FeedMonitor, Health};
use crate::limits::plans::Plans;
use crate::log::{Continuity, Lease, Log, Role};
use crate::projector::announcer::Announcer;
use crate::projector::lag::LagWatch;
use crate::projector::snapshots::SnapshotWriter;
use crate::projector::views::Views;
use crate::projector::{Projector, ProjectorHandle};
use crate::shutdown::Shutdown;

/// How long keys are accepted without a proof.
pub(super) const KEYS_STALE_MAX: Duration = Duration::from_secs(60);

/// What small files are first written as.
const DRAFTS: [&str; 2] = [".ended.json.new", ".log.json.new"];

pub(super) struct Replica {
    pub(super) machine: Machine,
    pub(super) host: Host,
    pub(super) disk: SimulatedDisk,
    root: PathBuf,
    /// Each process of the replica has a folder, with what the one before left on the disk.
    pub(super) incarnation: u64,
    /// What its crash does, if it is to crash by itself: whether it tears the store, and for how long it is down.
    pub(super) crash: Option<(bool, u64)>,
    pub(super) are_files_blocked: bool,
    /// Its data folder is new.
    pub(super) has_lost_disk: bool,
    pub(super) running: Option<Running>,
}

pub(super) struct Running {
    pub(super) health: Health,
    pub(super) projector: ProjectorHandle,
    pub(super) lease: Lease,
    pub(super) commands: AccountCommands,
    /// When a rebuild was accepted, and how many there were before.
    pub(super) rebuild: Option<(Duration, u64)>,
    /// What a watcher has found wrong.
    pub(super) wrong: Arc<Mutex<Option<String>>>,
    tasks: Vec<(&'static str, AbortOnDropHandle<()>)>,
}

impl Running {
    /// A task that has ended, which none does.
    pub(super) fn ended_task(&self) -> Option<&'static str> {
        let mut tasks = self.tasks.iter();
        let ended = tasks.find(|(_, task)| task.is_finished());
        ended.map(|(name, _)| *name)
    }

    /// Requests a rebuild.
    pub(super) fn rebuild(&mut self, now: Duration) {
        let before = self.projector.status.borrow().rebuilds;
        self.rebuild = self.projector.rebuild().then_some((now, before));
    }
}

impl Replica {
    pub(super) fn new(host: Host, root: PathBuf) -> Self {
        fs::create_dir_all(root.join("0")).expect("a folder");
        Self {
            machine: Machine::new(),
            host,
            disk: SimulatedDisk::mount(&root),
            root,
            incarnation: 0,
            crash: None,
            are_files_blocked: false,
            has_lost_disk: false,
            running: None,
        }
    }

    pub(super) fn data(&self) -> PathBuf {
        self.root.join(self.incarnation.to_string())
    }

    pub(super) fn start(&mut self, server: &LogServer) {
        self.has_lost_disk = false;
        let data = self.data();
        let host = self.host;
        let incarnation = self.incarnation;
        let machine = self.machine.clone();
        self.running = Some(
            self.machine
                .enter(|| start(&machine, host, incarnation, &data, server)),
        );
    }

    /// Ends the process. Another one finds what is on disk.
    pub(super) fn crash(&mut self, tears: bool, chance: &mut Chance) {
        let below = |n: usize| usize::try_from(chance.below(n as u64)).expect("small");
        SimulatedDisk::crash(&self.data(), tears, below);
        self.move_on();
    }

    /// Ends the process in order.
    pub(super) fn stop(&mut self) {
        if let Some(running) = &self.running {
            running.lease.resign();
            if let Some(store) = running.health.views.current() {
                let _ = store.flush();
            }
        }
        self.crash(false, &mut Chance::new(0));
    }

    pub(super) fn lose_disk(&mut self) {
        self.stop();
        fs::remove_dir_all(self.data()).expect("a folder");
        fs::create_dir_all(self.data()).expect("a folder");
        self.has_lost_disk = true;
    }

    /// Has the small files of the data folder not be written, or be written again.
    pub(super) fn block_files(&mut self, is_blocked: bool) {
        self.are_files_blocked = is_blocked;
        for draft in DRAFTS.map(|draft| self.data().join(draft)) {
            // No file can be written in place of a folder.
            match is_blocked {
                true => drop(fs::create_dir(&draft)),
                false => drop(fs::remove_dir(&draft)),
            }
        }
    }

    /// Whether a rebuild was requested that has not ended.
    pub(super) fn is_rebuilding(&self) -> bool {
        let requested = |running: &Running| {
            let rebuilds = running.projector.status.borrow().rebuilds;
            running
                .rebuild
                .is_some_and(|(_, before)| rebuilds == before)
        };
        self.running.as_ref().is_some_and(requested)
    }

    pub(super) fn has_crashed(&self) -> bool {
        self.machine.has_crashed()
    }

    /// Has it crash within a commit.
    pub(super) fn crash_at_commit(&self, commits: u64, is_written: bool) {
        let (machine, disk) = (self.machine.clone(), self.disk.clone());
        self.disk.crash_at_commit(commits, is_written, move || {
            disk.stop();
            machine.crash_now();
        });
    }

    /// It does not crash by itself any more.
    pub(super) fn cancel_crash(&mut self) {
        self.machine.cancel_crash();
        self.disk.cancel_crash();
        self.crash = None;
    }

    fn move_on(&mut self) {
        self.cancel_crash();
        self.machine = self.machine.reboot();
        let before = self.data();
        self.incarnation += 1;
        copy(&before, &self.data());
        self.running = None;
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.running = None;
        self.disk.unmount();
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("a file");
        }
    }
}

fn start(
    machine: &Machine,
    host: Host,
    incarnation: u64,
    data: &Path,
    server: &LogServer,
) -> Running {
    let mut tasks = Vec::new();
    let mut spawn = |name, task: BoxFuture<'static, ()>| {
        tasks.push((name, AbortOnDropHandle::new(machine.spawn(task))));
    };
    let [events, log] = [(); 2].map(|()| Log::simulated(server.connect(host)));
    let views = Arc::new(Views::open(data).expect("a folder"));
    let continuity = Continuity::open(data).expect("a file");
    spawn("continuity", Box::pin(continuity.clone().keep()));
    let streams = continuity.clone().keep_streams(log.clone());
    spawn("streams", Box::pin(streams));
    let feed = Feed::default();
    let replica = format!("{host}-{incarnation}");
    let (lease, keeping) = events.lease(Role::Announcer, &replica);
    spawn("lease", Box::pin(keeping));
    let (announcer, announcing) = Announcer::new(events.clone(), lease.clone());
    spawn("announcer", Box::pin(announcing));
    let followed = (events.clone(), continuity.clone());
    let (task, projector) = Projector::new(
        followed,
        Arc::clone(&views),
        feed.clone(),
        announcer,
        None,
        Handle::current(),
    );
    spawn("projector", Box::pin(task.run()));
    let (keys, ledger, following) = follow_accounts(log.clone(), continuity.clone(), data);
    spawn("keys", following);
    let status = projector.status.clone();
    let zero = Duration::ZERO;
    let (_, lag) = LagWatch::new(events.clone(), replica.into(), None, zero, status.clone());
    let read = Arc::clone(&views);
    let (_, snapshots) = SnapshotWriter::new(events.clone(), read, status.clone(), None, zero);
    let health = Health {
        monitor: FeedMonitor::new(status, events.connection()),
        feed,
        views,
        keys,
        ledger: ledger.clone(),
        continuity,
        durability: watch::channel(None).1,
        lag,
        snapshots,
        draining: Shutdown::new(),
        can_mail: false,
    };
    let sources = health.monitor.sources.clone();
    spawn("sources", Box::pin(sources.follow(events)));
    let watched = (health.clone(), projector.status.clone());
    let watcher = Watcher::new(watched, server.clone());
    let wrong = Arc::clone(&watcher.wrong);
    spawn("watcher", Box::pin(watcher.run()));
    Running {
        health,
        projector,
        lease,
        commands: AccountCommands::new(log, ledger),
        rebuild: None,
        wrong,
        tasks,
    }
}

fn follow_accounts(
    log: Log,
    continuity: Continuity,
    data: &Path,
) -> (
    Arc<KeyCache>,
    watch::Receiver<Ledger>,
    BoxFuture<'static, ()>,
) {
    let keys = Arc::new(KeyCache::new(Plans::default(), KEYS_STALE_MAX));
    let (sender, ledger) = watch::channel(Ledger::default());
    let revocations = Revocations::open(data).expect("a file");
    let following = accounts::follow((log, continuity), Arc::clone(&keys), sender, revocations);
    (keys, ledger, Box::pin(following))
}
