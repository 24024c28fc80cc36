//! [`Views`]: the store that is served, and the folders of stores.
//!
//! `DIR/views/CURRENT` names the folder in force. A new store is built beside it and put in force by one rename, so a
//! crash at any point leaves a whole store. All of it may be lost: the log has everything.

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use projections::{SCHEMA_VERSION, Store, StoreError};

/// Opening reads and checks the whole store; that of a damaged one may never end.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);

/// How often, and how many times, a replaced store is checked for requests that still read it.
const RETIRE_POLL: Duration = Duration::from_millis(100);
const RETIRE_POLLS_MAX: u32 = 600;

const CURRENT: &str = "CURRENT";
const CORRUPT_PREFIX: &str = ".corrupt-";

/// The store that is served, and the folder of all stores.
#[derive(Debug)]
pub struct Views {
    folder: PathBuf,
    current: RwLock<NamedStore>,
    note: Mutex<String>,
    _lock: File,
}

/// A store and the name of its folder.
#[derive(Debug)]
pub struct NamedStore {
    name: String,
    /// The store.
    pub store: Arc<Store>,
}

impl Views {
    /// Opens the views in a data folder. A damaged store is set aside, and an empty one takes its place.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created or written, or another process uses it.
    pub fn open(data: &Path) -> anyhow::Result<Self> {
        let folder = data.join("views");
        fs::create_dir_all(&folder)
            .with_context(|| format!("{} cannot be created", folder.display()))?;
        let lock = lock(data, &folder)?;
        let name = fs::read_to_string(folder.join(CURRENT)).unwrap_or_default();
        let name = name.trim();
        let (mut current, mut note) = (None, String::new());
        if is_store_name(name) && folder.join(name).is_dir() {
            match open_guarded(folder.join(name)) {
                Ok(store) => {
                    if store.checkpoint().is_none() {
                        "the store was empty and is folded from the log".clone_into(&mut note);
                    }
                    current = Some(NamedStore {
                        name: name.to_owned(),
                        store: Arc::new(store),
                    });
                }
                Err(error) if matches!(error.downcast_ref(), Some(StoreError::InUse)) => {
                    return Err(error);
                }
                Err(error) => note = set_aside(&folder, name, &format!("{error:#}")),
            }
        }
        remove_leftovers(&folder, current.as_ref().map(|current| &*current.name));
        let current = match current {
            Some(current) => current,
            None => {
                let new = create(&folder)?;
                write_pointer(&folder, &new.name)?;
                new
            }
        };
        Ok(Self {
            folder,
            current: RwLock::new(current),
            note: Mutex::new(note),
            _lock: lock,
        })
    }

    /// The store in force.
    pub fn current(&self) -> Arc<Store> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current.store)
    }

    /// Why this process rebuilt the views, for operators; empty if it did not.
    pub fn note(&self) -> String {
        let note = self.note.lock().unwrap_or_else(PoisonError::into_inner);
        note.clone()
    }

    /// Creates an empty store beside the one in force.
    ///
    /// # Errors
    /// Returns an I/O error.
    pub fn create(&self) -> anyhow::Result<NamedStore> {
        create(&self.folder)
    }

    /// Puts a store in force. The old one is removed when no request reads it any more.
    ///
    /// # Errors
    /// Returns an I/O error; then the old store stays in force.
    pub fn promote(&self, new: NamedStore) -> anyhow::Result<()> {
        new.store.flush()?;
        let old = self.put_in_force(new)?;
        self.retire(old);
        Ok(())
    }

    /// Puts an empty store in force in place of one of another log.
    ///
    /// # Errors
    /// Returns an I/O error; then the old store stays in force.
    pub fn replace_outdated(&self, reason: &str) -> anyhow::Result<()> {
        let old = self.put_in_force(self.create()?)?;
        self.retire(old);
        self.set_note(format!("the views are rebuilt: {reason}"));
        Ok(())
    }

    /// Puts an empty store in force in place of a damaged one, whose folder is kept for inspection.
    ///
    /// # Errors
    /// Returns an I/O error; then the old store stays in force.
    pub fn replace_damaged(&self, reason: &str) -> anyhow::Result<()> {
        let old = self.put_in_force(self.create()?)?;
        self.set_note(set_aside(&self.folder, &old.name, reason));
        // The drop flushes the store, and may take long on a slow disk.
        thread::spawn(move || drop(old.store));
        Ok(())
    }

    /// Returns the store that was in force.
    fn put_in_force(&self, new: NamedStore) -> anyhow::Result<NamedStore> {
        write_pointer(&self.folder, &new.name)?;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::replace(&mut *current, new))
    }

    fn set_note(&self, note: String) {
        tracing::warn!(note, "replaced the store");
        *self.note.lock().unwrap_or_else(PoisonError::into_inner) = note;
    }

    /// Closes a store and removes its folder once nothing reads it, on a thread of its own.
    fn retire(&self, old: NamedStore) {
        let (mut store, folder) = (old.store, self.folder.join(&old.name));
        thread::spawn(move || {
            for _ in 0..RETIRE_POLLS_MAX {
                match Arc::try_unwrap(store) {
                    Ok(store) => {
                        drop(store);
                        remove(&folder);
                        return;
                    }
                    Err(shared) => store = shared,
                }
                thread::sleep(RETIRE_POLL);
            }
            tracing::warn!(path = %folder.display(), "a replaced store is still in use, the next start removes it");
        });
    }
}

fn lock(data: &Path, folder: &Path) -> anyhow::Result<File> {
    let lock = File::create(folder.join("LOCK"))
        .with_context(|| format!("{} cannot be written", folder.display()))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => {
            bail!("{} is in use by another railbird", data.display())
        }
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("{} cannot be locked", folder.display()))
        }
    }
}

/// Whether a folder is a store of this schema, `v<schema>-<uuid>`. Stores of other schemas are removed as leftovers.
fn is_store_name(name: &str) -> bool {
    name.starts_with(&format!("v{SCHEMA_VERSION}-")) && !name.contains(['/', '.'])
}

fn create(folder: &Path) -> anyhow::Result<NamedStore> {
    let name = format!("v{SCHEMA_VERSION}-{}", uuid::Uuid::now_v7().simple());
    let store = open_guarded(folder.join(&name))?;
    Ok(NamedStore {
        name,
        store: Arc::new(store),
    })
}

/// Opens a store and compares its content with the digest in its checkpoint: sled may open with less than was written.
fn open_checked(path: &Path) -> Result<Store, StoreError> {
    let store = Store::open(path)?;
    let expected = store
        .checkpoint()
        .map(|checkpoint| checkpoint.digest)
        .unwrap_or_default();
    let (_, found) = store.recount()?;
    if found == expected {
        return Ok(store);
    }
    Err(StoreError::Corrupt {
        key: "all of it".to_owned(),
        reason: format!("the digest is {found}, not {expected}"),
    })
}

/// Opens a store on a thread of its own: sled may panic or hang on a damaged folder.
fn open_guarded(path: PathBuf) -> anyhow::Result<Store> {
    let (sender, receiver) = mpsc::channel();
    let shown = path.display().to_string();
    thread::spawn(move || {
        let opened = catch_unwind(AssertUnwindSafe(|| open_checked(&path)));
        // After the timeout nobody receives it, and the store is dropped here.
        let _ = sender.send(opened);
    });
    match receiver.recv_timeout(OPEN_TIMEOUT) {
        Ok(Ok(Ok(store))) => Ok(store),
        Ok(Ok(Err(error))) => Err(error).with_context(|| shown),
        Ok(Err(_)) => bail!("{shown}: sled panicked while opening"),
        Err(_) => bail!("{shown}: sled did not open within {OPEN_TIMEOUT:?}"),
    }
}

/// Renames the folder of a damaged store, and removes those of earlier ones. Returns a note for operators.
fn set_aside(folder: &Path, name: &str, reason: &str) -> String {
    let aside = format!("{CORRUPT_PREFIX}{}", jiff::Timestamp::now().as_second());
    for earlier in names(folder).filter(|name| name.starts_with(CORRUPT_PREFIX)) {
        remove(&folder.join(earlier));
    }
    match fs::rename(folder.join(name), folder.join(&aside)) {
        Ok(()) => format!(
            "a damaged store was set aside as {aside} and is rebuilt from the log: {reason}"
        ),
        Err(error) => format!(
            "a damaged store is rebuilt from the log, and could not be set aside ({error}): {reason}"
        ),
    }
}

fn remove_leftovers(folder: &Path, current: Option<&str>) {
    let is_leftover = |name: &String| name.starts_with('v') && Some(name.as_str()) != current;
    for name in names(folder).filter(is_leftover) {
        remove(&folder.join(name));
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

/// Writes `CURRENT` so that a crash leaves the old or the new name, never a part of one.
fn write_pointer(folder: &Path, name: &str) -> anyhow::Result<()> {
    let write = || {
        let draft = folder.join("CURRENT.new");
        let mut file = File::create(&draft)?;
        writeln!(file, "{name}")?;
        file.sync_all()?;
        fs::rename(&draft, folder.join(CURRENT))?;
        File::open(folder)?.sync_all()
    };
    write().with_context(|| format!("{} cannot be written", folder.join(CURRENT).display()))
}
