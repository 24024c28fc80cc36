//! [`SimulatedDisk`]: a model of the disk below the stores of a folder, which loses what is not synced, and fails.
//!
//! A file `db` in the folder of a store names what the model has for it. So a copied folder has a copy of what is on
//! disk.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use sled::IVec;

use crate::store::{StoreError, TreeBatch};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// What the next write or sync does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// What was written before cannot be synced.
    Sync,
    /// A commit is applied halfway.
    Write,
    /// The first commit to a store that is opened from now on is applied halfway.
    NewWrite,
}

/// A disk. Clones share it.
#[derive(Debug, Clone)]
pub struct SimulatedDisk(Arc<Mutex<Disk>>);

#[derive(Debug)]
struct Disk {
    folder: PathBuf,
    is_full: bool,
    /// Which, and the last store when it was planned.
    failure: Option<(Failure, u64)>,
    crash: Option<CommitCrash>,
}

/// A crash within a commit.
struct CommitCrash {
    /// So many commits later.
    commits: u64,
    /// The commit was handed to the disk.
    is_written: bool,
    /// Ends the machine. Does not return.
    crash: Box<dyn FnOnce() + Send>,
}

impl fmt::Debug for CommitCrash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommitCrash after {}", self.commits)
    }
}

#[derive(Debug)]
struct TreeFile {
    home: PathBuf,
    on_disk: Map,
    unsynced: Vec<TreeBatch>,
    memory: Arc<Mutex<Map>>,
    failed: bool,
    /// Its machine has crashed.
    is_stopped: bool,
    /// The process that had it open is gone.
    is_closed: bool,
}

static DISKS: Mutex<Vec<SimulatedDisk>> = Mutex::new(Vec::new());
static FILES: Mutex<(u64, BTreeMap<u64, TreeFile>)> = Mutex::new((0, BTreeMap::new()));

impl SimulatedDisk {
    /// Puts the stores below a folder on a disk.
    pub fn mount(folder: &Path) -> Self {
        let disk = Self(Arc::new(Mutex::new(Disk {
            folder: folder.to_owned(),
            is_full: false,
            failure: None,
            crash: None,
        })));
        DISKS.lock().push(disk.clone());
        disk
    }

    /// Forgets the disk and what it has.
    pub fn unmount(&self) {
        DISKS.lock().retain(|disk| !Arc::ptr_eq(&disk.0, &self.0));
        let folder = self.0.lock().folder.clone();
        FILES
            .lock()
            .1
            .retain(|_, file| !file.home.starts_with(&folder));
    }

    pub(crate) fn of(folder: &Path) -> Option<Self> {
        let disks = DISKS.lock();
        let mut disks = disks.iter();
        disks
            .find(|disk| folder.starts_with(&disk.0.lock().folder))
            .cloned()
    }

    pub fn fill(&self, is_full: bool) {
        self.0.lock().is_full = is_full;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.lock().is_full
    }

    pub fn fail(&self, failure: Option<Failure>) {
        let last = FILES.lock().0;
        self.0.lock().failure = failure.map(|failure| (failure, last));
    }

    /// Has `crash` end the machine within a commit: it does not return.
    pub fn crash_at_commit(
        &self,
        commits: u64,
        is_written: bool,
        crash: impl FnOnce() + Send + 'static,
    ) {
        let crash = Box::new(crash);
        self.0.lock().crash = Some(CommitCrash {
            commits,
            is_written,
            crash,
        });
    }

    /// Forgets the crash that was planned.
    pub fn cancel_crash(&self) {
        self.0.lock().crash = None;
    }

    /// The crash, if it is due in this commit, before it is written or after.
    fn takes_crash(&self, is_written: bool) -> Option<Box<dyn FnOnce() + Send>> {
        let mut disk = self.0.lock();
        let planned = disk.crash.as_mut()?;
        if planned.is_written != is_written {
            return None;
        }
        if planned.commits > 0 {
            planned.commits -= 1;
            return None;
        }
        disk.crash.take().map(|planned| planned.crash)
    }

    fn takes_failure(&self, failure: Failure, store: u64) -> bool {
        let mut disk = self.0.lock();
        let is_due = |(planned, last)| match planned {
            Failure::NewWrite => failure == Failure::Write && store > last,
            planned => planned == failure,
        };
        let takes = disk.failure.is_some_and(is_due);
        if takes {
            disk.failure = None;
        }
        takes
    }

    pub(crate) fn open(&self, folder: &Path) -> Result<SimulatedTree, StoreError> {
        fs::create_dir_all(folder).map_err(sled::Error::from)?;
        let name = folder.join("db");
        let named = fs::read_to_string(&name).unwrap_or_default();
        let mut files = FILES.lock();
        let known = named.parse().ok().and_then(|id: u64| files.1.get(&id));
        let on_disk = known.map(|file| file.on_disk.clone()).unwrap_or_default();
        files.0 += 1;
        let id = files.0;
        let memory = Arc::new(Mutex::new(on_disk.clone()));
        let file = TreeFile {
            home: folder.to_owned(),
            on_disk,
            unsynced: Vec::new(),
            memory: Arc::clone(&memory),
            failed: false,
            is_stopped: false,
            is_closed: false,
        };
        files.1.insert(id, file);
        fs::write(&name, id.to_string()).map_err(sled::Error::from)?;
        Ok(SimulatedTree {
            disk: self.clone(),
            id,
            memory,
        })
    }

    /// Writes what the stores have in memory to disk, as they do from time to time.
    pub fn sync(&self) {
        let of_disk = |file: &&mut TreeFile| file.home.starts_with(&self.0.lock().folder);
        for file in FILES.lock().1.values_mut().filter(of_disk) {
            if !file.unsynced.is_empty() && self.takes_failure(Failure::Sync, 0) {
                file.failed = true;
            }
            file.sync();
        }
    }

    /// Stops the disk, as its machine crashes: what is written later is lost.
    pub fn stop(&self) {
        let of_disk = |file: &&mut TreeFile| file.home.starts_with(&self.0.lock().folder);
        for file in FILES.lock().1.values_mut().filter(of_disk) {
            file.is_stopped = true;
        }
    }

    /// Ends all processes that use a folder, without a sync: each store keeps some of its last commits, and of the next
    /// one a part. `chance` returns a number below its argument.
    pub fn crash(folder: &Path, tears: bool, mut chance: impl FnMut(usize) -> usize) {
        let of_folder = |file: &&mut TreeFile| file.home.starts_with(folder) && !file.is_closed;
        for file in FILES.lock().1.values_mut().filter(of_folder) {
            let kept = chance(file.unsynced.len() + 1);
            let mut lost = file.unsynced.split_off(kept).into_iter();
            file.is_stopped = false;
            file.sync();
            if tears && let Some(mut torn) = lost.next() {
                torn.truncate(chance(torn.len() + 1));
                write(&mut file.on_disk, &torn);
            }
            file.unsynced.clear();
            file.is_closed = true;
        }
    }

    /// Flips a bit of a value of a store. `chance` returns a number below its argument.
    pub fn damage(folder: &Path, mut chance: impl FnMut(usize) -> usize) -> Option<String> {
        let mut files = FILES.lock();
        let mut files = files.1.values_mut().rev();
        let file = files.find(|file| file.home == folder && !file.is_closed)?;
        let mut memory = file.memory.lock();
        let key = memory.keys().nth(chance(memory.len().max(1)))?.clone();
        for map in [&mut *memory, &mut file.on_disk] {
            if let Some(byte) = map.get_mut(&key).and_then(|value| value.first_mut()) {
                *byte ^= 1;
            }
        }
        String::from_utf8(key).ok()
    }
}

impl TreeFile {
    fn sync(&mut self) {
        if !self.failed && !self.is_stopped && !self.is_closed {
            for batch in self.unsynced.drain(..) {
                write(&mut self.on_disk, &batch);
            }
        }
    }
}

fn write(map: &mut Map, batch: &TreeBatch) {
    for (key, value) in batch {
        match value {
            Some(value) => drop(map.insert(key.clone().into_bytes(), value.clone())),
            None => drop(map.remove(key.as_bytes())),
        }
    }
}

/// The tree of a store on a model disk.
#[derive(Debug)]
pub(crate) struct SimulatedTree {
    disk: SimulatedDisk,
    id: u64,
    memory: Arc<Mutex<Map>>,
}

impl SimulatedTree {
    fn with_file<T>(&self, work: impl FnOnce(&mut TreeFile) -> T) -> Option<T> {
        FILES.lock().1.get_mut(&self.id).map(work)
    }

    pub(crate) fn get(&self, key: &str) -> Option<IVec> {
        let memory = self.memory.lock();
        memory
            .get(key.as_bytes())
            .map(|value| value.as_slice().into())
    }

    pub(crate) fn range(&self, from: Bound<Vec<u8>>, to: Bound<Vec<u8>>) -> Vec<(IVec, IVec)> {
        let memory = self.memory.lock();
        let entries = memory.range((from, to));
        entries
            .map(|(key, value)| (key.as_slice().into(), value.as_slice().into()))
            .collect()
    }

    pub(crate) fn apply(&self, batch: TreeBatch, begin: impl FnOnce()) -> Result<(), StoreError> {
        if self.with_file(|file| file.failed).unwrap_or(true) {
            return Err(StoreError::Torn);
        }
        begin();
        if let Some(crash) = self.disk.takes_crash(false) {
            crash();
        }
        if self.disk.takes_failure(Failure::Write, self.id) {
            let half = batch[..batch.len() / 2].to_vec();
            write(&mut self.memory.lock(), &half);
            self.with_file(|file| {
                file.sync();
                write(&mut file.on_disk, &half);
                file.failed = true;
            });
            return Err(failed().into());
        }
        write(&mut self.memory.lock(), &batch);
        self.with_file(|file| file.unsynced.push(batch));
        if let Some(crash) = self.disk.takes_crash(true) {
            crash();
        }
        Ok(())
    }

    pub(crate) fn check(&self) -> sled::Result<()> {
        match self.with_file(|file| file.failed) {
            Some(true) => Err(failed()),
            _ => Ok(()),
        }
    }

    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        self.check()?;
        self.with_file(TreeFile::sync);
        Ok(())
    }

    pub(crate) fn overwrite(&self, key: &str, value: &[u8]) {
        self.memory
            .lock()
            .insert(key.as_bytes().to_vec(), value.to_vec());
    }
}

/// As the processes end that have it open in order.
impl Drop for SimulatedTree {
    fn drop(&mut self) {
        self.with_file(TreeFile::sync);
    }
}

fn failed() -> sled::Error {
    io::Error::other("the model disk failed").into()
}
