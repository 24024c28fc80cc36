//! [`Views`]: the store that is served, and the folders of stores.
//!
//! Views are replaced in one way: [`Views::begin`] a new store beside the one that is served, fold the log into it, and
//! [`Views::promote`] it once it has everything. A store that is not promoted leaves nothing behind.
//!
//! `DIR/views/CURRENT` names the folder in force, and a rename puts another one in force, so a crash at any point
//! leaves a whole store. All of it may be lost: the log has everything.

use std::fs::{self, File, TryLockError};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use parking_lot::{Mutex, RwLock};
use projections::{SCHEMA_VERSION, Store, StoreError, VIEWS_VERSION, check_free_space, free_bytes};

use crate::atomic_file;

/// sled reads the whole store while it opens it. A store that takes longer than the slowest disk would is damaged: sled
/// may never end then.
const OPEN_TIMEOUT_MIN: Duration = Duration::from_secs(60);
const OPEN_BYTES_PER_SECOND_MIN: u64 = 5_000_000;

/// How often, and how many times, a replaced store is checked for requests that still read it.
const RETIRE_POLL: Duration = Duration::from_millis(100);
const RETIRE_POLLS_MAX: u32 = 600;

const CURRENT: &str = "CURRENT";
const CORRUPT_PREFIX: &str = ".corrupt-";

/// The store that is served, and the folder of all stores.
#[derive(Debug)]
pub struct Views {
    folder: PathBuf,
    current: RwLock<Option<NamedStore>>,
    /// A store that is to be continued: an earlier process had not finished it, or it is a copy.
    unfinished: Mutex<Option<String>>,
    /// Why views were not continued, empty if they were; and what became of them.
    note: Mutex<(String, &'static str)>,
    closer: Closer,
    _lock: File,
}

const UNUSED: &str = "there are no new views yet";
const REBUILT: &str = "new views were folded from the log";

/// A store and the name of its folder.
#[derive(Debug, Clone)]
pub struct NamedStore {
    pub name: String,
    /// The schema, which the name has. Every answer has it.
    pub schema: u32,
    pub store: Arc<Store>,
}

/// A store that is built beside the one that is served. Unless it is promoted, its folder is removed when it is
/// dropped.
#[derive(Debug)]
pub struct NewStore {
    folder: PathBuf,
    closer: Closer,
    built: Option<NamedStore>,
}

impl NamedStore {
    fn new(name: String, store: Store) -> Self {
        let schema = versions(&name).map_or(SCHEMA_VERSION, |(schema, _)| schema);
        let store = Arc::new(store);
        Self {
            name,
            schema,
            store,
        }
    }
}

impl NewStore {
    pub fn store(&self) -> &Arc<Store> {
        &self.built().store
    }

    pub(super) fn built(&self) -> &NamedStore {
        self.built.as_ref().expect("taken only when it is consumed")
    }
}

impl Drop for NewStore {
    fn drop(&mut self) {
        if let Some(built) = self.built.take() {
            self.closer.remove(built, &self.folder);
        }
    }
}

/// The name of a new store's folder: `v<schema>-<version of the views>-<uuid>`.
fn new_name() -> String {
    let uuid = uuid::Uuid::now_v7().simple();
    format!("v{SCHEMA_VERSION}-{VIEWS_VERSION}-{uuid}")
}

/// The schema and the version of the views in the name of a store's folder. Answers can be read from a store of this
/// version of the views, and the fold can continue in it if the schema is this one too.
fn versions(name: &str) -> Option<(u32, u32)> {
    let mut parts = name.strip_prefix('v')?.splitn(3, '-');
    let versions = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let ends_in_id = parts.next()?.bytes().all(|b| b.is_ascii_alphanumeric());
    ends_in_id.then_some(versions)
}

impl Views {
    /// Takes the views in a data folder. Nothing is served before [`Views::load`].
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created or written, or another process uses it.
    pub fn open(data: &Path) -> anyhow::Result<Self> {
        let folder = data.join("views");
        fs::create_dir_all(&folder)
            .with_context(|| format!("{} cannot be created", folder.display()))?;
        let lock = File::create(folder.join("LOCK"))
            .with_context(|| format!("{} cannot be written", folder.display()))?;
        let lock = try_lock(lock, data)?;
        Ok(Self {
            folder,
            current: RwLock::new(None),
            unfinished: Mutex::new(None),
            note: Mutex::default(),
            closer: Closer::start()?,
            _lock: lock,
        })
    }

    /// Opens the store in force, checks every byte of it, and serves it. A damaged store is set aside. Then, and
    /// without a store that this version can read, there is nothing to serve until one is built. This blocks.
    ///
    /// # Errors
    /// Returns the reason why the store cannot be opened now, though it may be sound.
    pub fn load(&self) -> anyhow::Result<()> {
        let name = &read_pointer(&self.folder)?;
        let path = self.folder.join(name);
        let is_readable = versions(name).is_some_and(|(_, views)| views == VIEWS_VERSION);
        if is_readable && path.is_dir() {
            match open_checked(&path) {
                Ok(store) if store.checkpoint().is_some() => {
                    *self.current.write() = Some(NamedStore::new(name.to_owned(), store));
                }
                Ok(_) => self.note_unused("the store was empty".to_owned()),
                Err(OpenError::Store(error)) if error.is_of_disk() => {
                    return Err(error).with_context(|| path.display().to_string());
                }
                Err(error) => self.note_unused(set_aside(&self.folder, name, &error.to_string())),
            }
        }
        self.remove_leftovers(name);
        Ok(())
    }

    /// Removes all stores but the one in force. If another one is to be built, the last one that an earlier process had
    /// begun is kept to be continued.
    fn remove_leftovers(&self, in_force: &str) {
        let is_this = |name: &str| versions(name) == Some((SCHEMA_VERSION, VIEWS_VERSION));
        let is_leftover = |name: &String| name.starts_with('v') && name != in_force;
        let mut leftovers: Vec<_> = names(&self.folder).filter(is_leftover).collect();
        // Ordered by the time of their creation, which is in the name.
        leftovers.sort();
        let is_current = self.read_current().is_some() && is_this(in_force);
        if !is_current && leftovers.last().is_some_and(|name| is_this(name)) {
            *self.unfinished.lock() = leftovers.pop();
        }
        if self.read_current().is_none() && in_force.starts_with('v') {
            leftovers.push(in_force.to_owned());
        }
        for name in leftovers {
            remove(&self.folder.join(name));
        }
    }

    /// Opens a copy of the store in force of a service that does not run. Nothing in the data folder changes.
    ///
    /// # Errors
    /// Returns an error if there are no views that this version made, they are damaged, or a service uses them.
    pub fn open_copy(data: &Path, copy: &Path) -> anyhow::Result<NamedStore> {
        let folder = data.join("views");
        let none = "has no views; --data names the folder of `railbird serve --data`";
        let name = fs::read_to_string(folder.join(CURRENT));
        let name = name.with_context(|| format!("{} {none}", data.display()))?;
        let name = name.trim();
        let schema = versions(name).map(|(schema, _)| schema);
        if schema != Some(SCHEMA_VERSION) {
            bail!("the views {name} are not of schema {SCHEMA_VERSION}, which this version makes");
        }
        let lock = File::open(folder.join("LOCK")).ok();
        let _lock = lock.map(|lock| try_lock(lock, data)).transpose()?;
        copy_folder(&folder.join(name), copy)
            .with_context(|| format!("cannot copy the views to {}", copy.display()))?;
        Ok(NamedStore::new(name.to_owned(), open_guarded(copy)?))
    }

    /// Whether the data folder names views in force, whole or not.
    pub fn is_in_force(&self) -> bool {
        self.folder.join(CURRENT).exists()
    }

    /// The free space of the disk of the stores; `None` if the file system does not report it.
    pub fn free_bytes(&self) -> Option<u64> {
        free_bytes(&self.folder)
    }

    /// The store that is served.
    pub fn current(&self) -> Option<Arc<Store>> {
        Some(Arc::clone(&self.current.read().as_ref()?.store))
    }

    /// The store that is served, with its name.
    pub fn read_current(&self) -> Option<NamedStore> {
        self.current.read().clone()
    }

    /// Why the process did not continue views, and whether new ones are in force, for operators; empty if it continued
    /// all.
    pub fn note(&self) -> String {
        let (reason, outcome) = &*self.note.lock();
        match reason.as_str() {
            "" => String::new(),
            reason => format!("{reason}; {outcome}"),
        }
    }

    /// Begins a store beside the one that is served, or continues an unfinished one. This blocks.
    ///
    /// # Errors
    /// Returns an error if the disk is full or the folder cannot be written.
    pub fn begin(&self) -> anyhow::Result<NewStore> {
        let unfinished = self.unfinished.lock().take();
        if let Some(name) = unfinished {
            let path = self.folder.join(&name);
            match open_checked(&path) {
                Ok(store) => return Ok(self.new_store(name, store)),
                Err(OpenError::Store(error)) if error.is_of_disk() => {
                    *self.unfinished.lock() = Some(name);
                    return Err(error).with_context(|| path.display().to_string());
                }
                Err(_) => remove(&path),
            }
        }
        self.begin_empty()
    }

    /// Begins a store beside the one that is served. This blocks.
    ///
    /// # Errors
    /// As [`Views::begin`].
    pub fn begin_empty(&self) -> anyhow::Result<NewStore> {
        check_free_space(&self.folder)?;
        let name = new_name();
        let path = self.folder.join(&name);
        match open_guarded(&path) {
            Ok(store) => Ok(self.new_store(name, store)),
            Err(error) => {
                remove(&path);
                Err(error).with_context(|| path.display().to_string())
            }
        }
    }

    fn new_store(&self, name: String, store: Store) -> NewStore {
        NewStore {
            folder: self.folder.clone(),
            closer: self.closer.clone(),
            built: Some(NamedStore::new(name, store)),
        }
    }

    /// Puts a new store in force, on disk first, and serves it. The old one is removed when no request reads it any
    /// more; a damaged one is kept for inspection. This blocks.
    ///
    /// # Errors
    /// Returns an I/O error. Then the old store stays in force, and the new one is removed.
    pub fn promote(&self, mut new: NewStore, reason: Option<&str>) -> anyhow::Result<()> {
        new.store().flush()?;
        let before = read_pointer(&self.folder)?;
        write_pointer(&self.folder, &new.built().name)?;
        let old = std::mem::replace(&mut *self.current.write(), new.built.take());
        self.note.lock().1 = REBUILT;
        if let Some(reason) = reason {
            self.note_replaced(format!("the views were replaced: {reason}"));
        }
        if let Some(old) = old {
            if let Some(damage) = old.store.damage() {
                self.note_replaced(set_aside(&self.folder, &old.name, damage));
                self.closer.send(old, None);
            } else {
                self.closer.remove(old, &self.folder);
            }
        } else if versions(&before).is_some() && self.folder.join(&before).is_dir() {
            remove(&self.folder.join(before));
        }
        Ok(())
    }

    /// Has a copy of what is on disk of the store in force continued as a new one, after a write that failed: sled
    /// accepts no other. The copy may be behind what clients have read, so it is not served before it is caught up; a
    /// part of the last commit in it shows in the digest. A store whose last commit failed halfway is served no longer.
    /// This blocks.
    ///
    /// # Errors
    /// Returns an error if there is no copy.
    pub fn continue_copy(&self) -> anyhow::Result<()> {
        let failed = self.read_current().context("there are no views")?;
        let from = self.folder.join(&failed.name);
        if failed.store.is_torn() {
            *self.current.write() = None;
            // It stays in force on disk until another one is promoted.
            self.closer.send(failed, None);
        }
        check_free_space(&self.folder)?;
        let name = new_name();
        let path = self.folder.join(&name);
        let copied = copy_folder(&from, &path);
        let useless = match copied {
            Ok(()) => self.unfinished.lock().replace(name),
            Err(_) => Some(name),
        };
        useless.inspect(|name| remove(&self.folder.join(name)));
        Ok(copied?)
    }

    fn note_unused(&self, reason: String) {
        tracing::warn!(reason, "the views in the data folder are not used");
        *self.note.lock() = (reason, UNUSED);
    }

    fn note_replaced(&self, reason: String) {
        tracing::warn!(reason, "new views are in force");
        *self.note.lock() = (reason, REBUILT);
    }
}

/// The thread that closes stores once nothing reads them. A close flushes the store, which takes long on a slow disk.
/// It starts with the service: later the system may refuse another thread.
#[derive(Debug, Clone)]
struct Closer(Sender<ClosingStore>);

/// A store, the folder to remove, and how often something was found to read the store.
type ClosingStore = (Arc<Store>, Option<PathBuf>, u32);

impl Closer {
    fn start() -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let thread = thread::Builder::new().name("store-closer".to_owned());
        thread.spawn(move || close_stores(&receiver))?;
        Ok(Self(sender))
    }

    /// Closes a store, and then removes its folder in that of all.
    fn remove(&self, old: NamedStore, folder: &Path) {
        let folder = folder.join(&old.name);
        self.send(old, Some(folder));
    }

    /// Closes a store, and then removes the folder.
    fn send(&self, old: NamedStore, folder: Option<PathBuf>) {
        #[cfg(test)]
        if crate::simulation::machine::uptime().is_some() {
            return folder.as_deref().into_iter().for_each(remove);
        }
        let sent = self.0.send((old.store, folder, 0));
        sent.expect("the thread lives as long as a sender");
    }
}

fn close_stores(closing: &Receiver<ClosingStore>) {
    let mut in_use: Vec<ClosingStore> = Vec::new();
    loop {
        let next = match in_use.is_empty() {
            true => closing.recv().map_err(RecvTimeoutError::from),
            false => closing.recv_timeout(RETIRE_POLL),
        };
        match next {
            Ok(closing) => in_use.push(closing),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) if in_use.is_empty() => return,
            Err(RecvTimeoutError::Disconnected) => thread::sleep(RETIRE_POLL),
        }
        in_use = in_use.into_iter().filter_map(try_close).collect();
    }
}

/// Returns the store if something reads it, unless that takes too long.
fn try_close((store, folder, polls): ClosingStore) -> Option<ClosingStore> {
    match Arc::try_unwrap(store) {
        Ok(store) => {
            // sled may panic where its files are damaged.
            if catch_unwind(AssertUnwindSafe(|| drop(store))).is_err() {
                tracing::warn!("a replaced store could not be closed in order");
            }
            folder.as_deref().inspect(|folder| remove(folder));
            None
        }
        Err(store) if polls < RETIRE_POLLS_MAX => Some((store, folder, polls + 1)),
        Err(_) => {
            let in_use = "a replaced store is still in use, and is not closed";
            tracing::warn!(?folder, "{in_use}");
            None
        }
    }
}

fn try_lock(lock: File, data: &Path) -> anyhow::Result<File> {
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => bail!("{} is in use by another railbird", data.display()),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("{} cannot be locked", data.display()))
        }
    }
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("sled panicked while opening")]
    Panicked,
    #[error("sled did not open within {0:?}")]
    TimedOut(Duration),
}

/// Opens a store and compares its content with the digest in its checkpoint: sled may open with less than was written.
fn open_checked(path: &Path) -> Result<Store, OpenError> {
    let store = open_guarded(path)?;
    catch_unwind(AssertUnwindSafe(|| store.check())).map_err(|_| OpenError::Panicked)??;
    Ok(store)
}

/// Opens a store on a thread of its own: sled may panic or hang on a damaged folder.
fn open_guarded(path: &Path) -> Result<Store, OpenError> {
    let (sender, receiver) = mpsc::channel();
    let timeout = open_timeout(path);
    let path = path.to_owned();
    let opening = move || {
        let opened = catch_unwind(AssertUnwindSafe(|| Store::open(&path)));
        // After the timeout nobody receives it, and the store is dropped here.
        let _ = sender.send(opened);
    };
    let thread = thread::Builder::new().spawn(opening);
    thread.map_err(StoreError::NoThread)?;
    let opened = receiver.recv_timeout(timeout);
    let opened = opened.map_err(|_| OpenError::TimedOut(timeout))?;
    Ok(opened.map_err(|_| OpenError::Panicked)??)
}

/// The time that a store of this size may take to open.
fn open_timeout(path: &Path) -> Duration {
    let files = fs::read_dir(path).into_iter().flatten().flatten();
    let sizes = files.filter_map(|file| Some(file.metadata().ok()?.len()));
    OPEN_TIMEOUT_MIN + Duration::from_secs(sizes.sum::<u64>() / OPEN_BYTES_PER_SECOND_MIN)
}

/// Renames the folder of a damaged store, and removes those of earlier ones. Returns a note for operators.
fn set_aside(folder: &Path, name: &str, reason: &str) -> String {
    let aside = format!("{CORRUPT_PREFIX}{}", jiff::Timestamp::now().as_second());
    for earlier in names(folder).filter(|name| name.starts_with(CORRUPT_PREFIX)) {
        remove(&folder.join(earlier));
    }
    match fs::rename(folder.join(name), folder.join(&aside)) {
        Ok(()) => format!("a damaged store was set aside as {aside}: {reason}"),
        Err(error) => format!("a damaged store could not be set aside ({error}): {reason}"),
    }
}

fn names(folder: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok())
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_dir_all(path) {
        tracing::warn!(path = %path.display(), %error, "cannot remove an unused folder");
    }
}

/// The name of the store in force; empty if there is none.
fn read_pointer(folder: &Path) -> anyhow::Result<String> {
    let name = match fs::read(folder.join(CURRENT)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read.context(CURRENT)?,
    };
    Ok(String::from_utf8_lossy(&name).trim().to_owned())
}

fn write_pointer(folder: &Path, name: &str) -> anyhow::Result<()> {
    let path = folder.join(CURRENT);
    let written = atomic_file::replace(&path, format!("{name}\n").as_bytes());
    written.with_context(|| format!("{} cannot be written", path.display()))
}
