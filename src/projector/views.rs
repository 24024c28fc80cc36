//! [`Views`]: which store is served, and the folders that stores lie in.
//!
//! `DIR/views/CURRENT` names the folder in force. Another is built beside it and put in force by one rename, so a crash
//! at any point leaves a whole store. All of it may be lost: the log gives it back.

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, mpsc};
use std::time::Duration;

use anyhow::{Context, bail};
use projections::{SCHEMA_VERSION, Store, StoreError};

/// Opening and checking a store reads all of it; a damaged one may never come back.
const OPEN_DEADLINE: Duration = Duration::from_secs(60);

/// How often, and how many times, it is looked whether the last answer from a replaced store was sent.
const RETIRE_POLL: Duration = Duration::from_millis(100);
const RETIRE_POLLS_MAX: u32 = 600;

const CURRENT: &str = "CURRENT";

/// The store that is served, and the folder that it is replaced in.
#[derive(Debug)]
pub struct Views {
    folder: PathBuf,
    current: RwLock<Served>,
    note: Mutex<String>,
    _lock: File,
}

#[derive(Debug, Clone)]
struct Served {
    name: String,
    store: Arc<Store>,
}

/// A store that is being built beside the one in force.
#[derive(Debug)]
pub struct Fresh {
    name: String,
    /// The store.
    pub store: Arc<Store>,
}

impl Views {
    /// Opens the views under a data folder. A damaged store is set aside and an empty one begun.
    ///
    /// # Errors
    /// The folder cannot be made or written, or another process has it.
    pub fn open(data: &Path) -> anyhow::Result<Self> {
        let folder = data.join("views");
        fs::create_dir_all(&folder)
            .with_context(|| format!("{} cannot be made", folder.display()))?;
        let lock = File::create(folder.join("LOCK"))
            .with_context(|| format!("{} cannot be written", folder.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!("{} is in use by another railbird", data.display())
            }
            Err(TryLockError::Error(error)) => {
                return Err(error)
                    .with_context(|| format!("{} cannot be locked", folder.display()));
            }
        }
        let named = fs::read_to_string(folder.join(CURRENT))
            .unwrap_or_default()
            .trim()
            .to_owned();
        let (mut served, mut note) = (None, String::new());
        if is_store_name(&named) && folder.join(&named).is_dir() {
            match open_guarded(folder.join(&named)) {
                Ok(store) => {
                    if store.checkpoint().is_none() {
                        "the store was empty and is folded from the log".clone_into(&mut note);
                    }
                    served = Some(Served {
                        name: named,
                        store: Arc::new(store),
                    });
                }
                Err(error) if matches!(error.downcast_ref(), Some(StoreError::InUse)) => {
                    return Err(error);
                }
                Err(error) => note = set_aside(&folder, &named, &format!("{error:#}")),
            }
        }
        remove_leftovers(&folder, served.as_ref().map(|s| s.name.as_str()));
        let served = match served {
            Some(served) => served,
            None => {
                let fresh = begin(&folder)?;
                point_at(&folder, &fresh.name)?;
                Served {
                    name: fresh.name,
                    store: fresh.store,
                }
            }
        };
        Ok(Self {
            folder,
            current: RwLock::new(served),
            note: Mutex::new(note),
            _lock: lock,
        })
    }

    /// The store in force.
    #[must_use]
    pub fn current(&self) -> Arc<Store> {
        Arc::clone(
            &self
                .current
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .store,
        )
    }

    /// Why the views were begun anew, since this process started; empty if they were not.
    #[must_use]
    pub fn note(&self) -> String {
        self.note
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Begins an empty store beside the one in force.
    ///
    /// # Errors
    /// The disk says no.
    pub fn begin(&self) -> anyhow::Result<Fresh> {
        begin(&self.folder)
    }

    /// Puts a store in force. The one before is removed when its last answer was sent.
    ///
    /// # Errors
    /// The disk says no.
    pub fn promote(&self, fresh: Fresh) -> anyhow::Result<()> {
        fresh.store.flush()?;
        point_at(&self.folder, &fresh.name)?;
        let old = self.swap(fresh);
        let folder = self.folder.join(&old.name);
        std::thread::spawn(move || retire(old.store, &folder));
        Ok(())
    }

    /// Begins anew in place of a store that cannot be used. With `damaged`, its folder is kept for a look.
    ///
    /// # Errors
    /// The disk says no.
    pub fn replace(&self, reason: &str, damaged: bool) -> anyhow::Result<()> {
        let fresh = begin(&self.folder)?;
        point_at(&self.folder, &fresh.name)?;
        let old = self.swap(fresh);
        let note = if damaged {
            let note = set_aside(&self.folder, &old.name, reason);
            // It is written out once more, and the disk may take its time.
            std::thread::spawn(move || drop(old.store));
            note
        } else {
            let folder = self.folder.join(&old.name);
            std::thread::spawn(move || retire(old.store, &folder));
            format!("the views were begun anew: {reason}")
        };
        tracing::warn!("{note}");
        *self.note.lock().unwrap_or_else(PoisonError::into_inner) = note;
        Ok(())
    }

    fn swap(&self, fresh: Fresh) -> Served {
        let served = Served {
            name: fresh.name,
            store: fresh.store,
        };
        std::mem::replace(
            &mut *self.current.write().unwrap_or_else(PoisonError::into_inner),
            served,
        )
    }
}

/// The names of stores of this schema, `v<schema>-<uuid>`. Other schemas are left to be removed.
fn is_store_name(name: &str) -> bool {
    name.starts_with(&format!("v{SCHEMA_VERSION}-")) && !name.contains(['/', '.'])
}

fn begin(folder: &Path) -> anyhow::Result<Fresh> {
    let name = format!("v{SCHEMA_VERSION}-{}", uuid::Uuid::now_v7().simple());
    let store = open_guarded(folder.join(&name))?;
    Ok(Fresh {
        name,
        store: Arc::new(store),
    })
}

/// Opens a store, and holds what lies in it to the digest in its checkpoint: sled may come up with less than was there.
fn open_whole(path: &Path) -> Result<Store, StoreError> {
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
    let (send, receive) = mpsc::channel();
    let shown = path.display().to_string();
    std::thread::spawn(move || {
        let opened = catch_unwind(AssertUnwindSafe(|| open_whole(&path)));
        // Nobody listens after the deadline: then the store is dropped here.
        let _ = send.send(opened);
    });
    match receive.recv_timeout(OPEN_DEADLINE) {
        Ok(Ok(Ok(store))) => Ok(store),
        Ok(Ok(Err(error))) => Err(error).with_context(|| shown),
        Ok(Err(_)) => bail!("{shown}: sled panicked while it opened"),
        Err(_) => bail!(
            "{shown}: sled did not open within {} s",
            OPEN_DEADLINE.as_secs()
        ),
    }
}

/// Renames a damaged folder, and keeps one such folder. Returns what to tell the operator.
fn set_aside(folder: &Path, name: &str, reason: &str) -> String {
    let aside = format!(".corrupt-{}", jiff::Timestamp::now().as_second());
    for entry in names(folder).filter(|name| name.starts_with(".corrupt-")) {
        remove(&folder.join(entry));
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
    let stores =
        names(folder).filter(|name| name.starts_with('v') && Some(name.as_str()) != current);
    for name in stores {
        remove(&folder.join(name));
    }
}

fn names(folder: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok())
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_dir_all(path) {
        tracing::warn!(path = %path.display(), %error, "a folder that is no longer used could not be removed");
    }
}

/// Writes the pointer so that a crash leaves the old one or the new one, and never half a name.
fn point_at(folder: &Path, name: &str) -> anyhow::Result<()> {
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

fn retire(mut store: Arc<Store>, folder: &Path) {
    for _ in 0..RETIRE_POLLS_MAX {
        match Arc::try_unwrap(store) {
            Ok(store) => {
                drop(store);
                remove(folder);
                return;
            }
            Err(shared) => store = shared,
        }
        std::thread::sleep(RETIRE_POLL);
    }
    tracing::warn!(path = %folder.display(), "a replaced store is still read; the next start removes it");
}
