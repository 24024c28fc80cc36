//! [`Replica`]: a service without its HTTP: what follows the log, folds, announces and knows the keys.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use projections::simulated::SimulatedDisk;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::chance::Chance;
use super::machine::Machine;
use super::server::{Host, LogServer};
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

pub(super) struct Replica {
    pub(super) machine: Machine,
    pub(super) host: Host,
    pub(super) disk: SimulatedDisk,
    root: PathBuf,
    /// Each process of the replica has a folder, with what the one before left on the disk.
    incarnation: u64,
    pub(super) running: Option<Running>,
}

pub(super) struct Running {
    pub(super) health: Health,
    pub(super) projector: ProjectorHandle,
    pub(super) lease: Lease,
    pub(super) commands: AccountCommands,
    _tasks: Vec<AbortOnDropHandle<()>>,
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
            running: None,
        }
    }

    pub(super) fn data(&self) -> PathBuf {
        self.root.join(self.incarnation.to_string())
    }

    pub(super) fn start(&mut self, server: &LogServer) {
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
    }

    fn move_on(&mut self) {
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
    let mut spawn = |task: futures::future::BoxFuture<'static, ()>| {
        tasks.push(AbortOnDropHandle::new(machine.spawn(task)));
    };
    let [events, log] = [(); 2].map(|()| Log::simulated(server.connect(host)));
    let views = Arc::new(Views::open(data).expect("a folder"));
    let continuity = Continuity::open(data).expect("a file");
    spawn(Box::pin(continuity.clone().keep()));
    spawn(Box::pin(continuity.clone().keep_streams(log.clone())));
    let feed = Feed::default();
    let replica = format!("{host}-{incarnation}");
    let (lease, keeping) = events.lease(Role::Announcer, &replica);
    spawn(Box::pin(keeping));
    let (announcer, announcing) = Announcer::new(events.clone(), lease.clone());
    spawn(Box::pin(announcing));
    let followed = (events.clone(), continuity.clone());
    let (task, projector) =
        Projector::new(followed, Arc::clone(&views), feed.clone(), announcer, None);
    spawn(Box::pin(task.run()));
    let keys = Arc::new(KeyCache::new(Plans::default(), KEYS_STALE_MAX));
    let (sender, ledger) = watch::channel(Ledger::default());
    spawn(Box::pin(accounts::follow(
        (log.clone(), continuity.clone()),
        Arc::clone(&keys),
        sender,
        Revocations::open(data).expect("a file"),
    )));
    let status = projector.status.clone();
    let (_, lag) = LagWatch::new(
        events.clone(),
        replica.into(),
        None,
        Duration::ZERO,
        status.clone(),
    );
    let (_, snapshots) = SnapshotWriter::new(
        events.clone(),
        Arc::clone(&views),
        status.clone(),
        None,
        Duration::ZERO,
    );
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
    Running {
        health,
        projector,
        lease,
        commands: AccountCommands::new(log, ledger),
        _tasks: tasks,
    }
}
