//! What a disk has after a power loss, by a [`Trace`](super::trace::Trace): what was synced, and any part of the rest.
//!
//! The disk is that of a journalling file system: a sync of a file also covers its name, a sync of a folder the names
//! in it. Anything else may be lost: data in sectors, sizes, new names, renames and removals.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::trace::{FileChange, TracedCall};
use crate::conformance::rng::Rng;

const SECTOR_BYTES: usize = 512;

/// What of the changes that were not synced is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unsynced {
    /// Nothing.
    Lost,
    /// All before one of them.
    Begun,
    /// Any of them. Data may be torn.
    Scattered,
}

impl Unsynced {
    pub(super) const ALL: [Self; 3] = [Self::Lost, Self::Begun, Self::Scattered];
}

/// A file or a folder, whatever its name.
type NodeId = usize;

/// The root of the folder.
const ROOT: NodeId = 0;

/// A change of one file, or of the names in folders.
#[derive(Debug)]
enum NodeChange {
    Written {
        of: NodeId,
        at: u64,
        data: Vec<u8>,
    },
    Resized {
        of: NodeId,
        bytes: u64,
    },
    /// The names that now lead to a node, or to none.
    Named(Vec<(NodeId, PathBuf, Option<NodeId>)>),
}

#[derive(Debug)]
struct Pending {
    change: NodeChange,
    /// When the call had returned.
    returned_ns: u64,
    is_synced: bool,
}

/// The folders and files as the programs see them, with the changes that led there.
#[derive(Debug, Default)]
struct Volume {
    /// What a name in a folder leads to.
    names: BTreeMap<(NodeId, PathBuf), NodeId>,
    is_folder: Vec<bool>,
    changes: Vec<Pending>,
}

/// Writes what is on the disk after a power loss to a folder.
pub(super) fn lose_power(
    calls: &[TracedCall],
    at_ns: u64,
    unsynced: Unsynced,
    rng: &mut Rng,
    to: &Path,
) {
    let mut volume = Volume {
        is_folder: vec![true],
        ..Volume::default()
    };
    for call in calls.iter().filter(|call| call.called_ns <= at_ns) {
        match &call.change {
            FileChange::Synced { .. } if call.returned_ns > at_ns => {}
            FileChange::Synced { path } => volume.sync(path, call.called_ns),
            _ => volume.change(call),
        }
    }
    let lost = volume
        .changes
        .iter()
        .filter(|change| !change.is_synced)
        .count() as u64;
    let mut begun = rng.below(lost + 1);
    let kept = volume.changes.into_iter().filter_map(|pending| {
        if pending.is_synced {
            return Some(pending.change);
        }
        begun = begun.saturating_sub(1);
        match unsynced {
            Unsynced::Lost => None,
            Unsynced::Begun => (begun > 0).then_some(pending.change),
            Unsynced::Scattered if rng.happens(50) => None,
            Unsynced::Scattered => Some(torn(pending.change, rng)),
        }
    });
    Disk::of(&volume.is_folder, kept).write(to);
}

/// Loses sectors of a write.
fn torn(change: NodeChange, rng: &mut Rng) -> NodeChange {
    match change {
        NodeChange::Written { of, at, mut data } if rng.happens(50) => {
            let end = usize::try_from(at).unwrap() + data.len();
            let sectors = end.div_ceil(SECTOR_BYTES) as u64;
            let first_lost = usize::try_from(rng.below(sectors + 1)).unwrap() * SECTOR_BYTES;
            data.truncate(first_lost.saturating_sub(usize::try_from(at).unwrap()));
            NodeChange::Written { of, at, data }
        }
        change => change,
    }
}

impl Volume {
    fn node(&self, path: &Path) -> Option<NodeId> {
        path.iter().try_fold(ROOT, |folder, name| {
            self.names.get(&(folder, PathBuf::from(name))).copied()
        })
    }

    /// The folder of a path, and the name in it.
    fn place(&self, path: &Path) -> (NodeId, PathBuf) {
        let folder = self.node(path.parent().unwrap());
        let name = PathBuf::from(path.file_name().unwrap());
        (
            folder.unwrap_or_else(|| panic!("no folder of {path:?}")),
            name,
        )
    }

    fn change(&mut self, call: &TracedCall) {
        let changes = match &call.change {
            // Another thread has created it meanwhile.
            FileChange::Created { path, .. } if self.node(path).is_some() => return,
            FileChange::Created { path, is_folder } => {
                self.is_folder.push(*is_folder);
                self.name(vec![(path, Some(self.is_folder.len() - 1))])
            }
            FileChange::Removed { path } => self.name(vec![(path, None)]),
            FileChange::Renamed { from, to } => {
                let of = self.node(from);
                self.name(vec![(from, None), (to, of)])
            }
            FileChange::Linked { from, to } => self.name(vec![(to, self.node(from))]),
            // Of a file that was removed since.
            FileChange::Written { path, .. } | FileChange::Resized { path, .. }
                if self.node(path).is_none() =>
            {
                return;
            }
            FileChange::Written { path, at, data } => NodeChange::Written {
                of: self.node(path).unwrap(),
                at: *at,
                data: data.clone(),
            },
            FileChange::Resized { path, bytes } => NodeChange::Resized {
                of: self.node(path).unwrap(),
                bytes: *bytes,
            },
            FileChange::Synced { .. } => unreachable!("it changes nothing"),
        };
        self.changes.push(Pending {
            change: changes,
            returned_ns: call.returned_ns,
            is_synced: false,
        });
    }

    fn name(&mut self, names: Vec<(&PathBuf, Option<NodeId>)>) -> NodeChange {
        let places = names.into_iter().map(|(path, of)| {
            let (folder, name) = self.place(path);
            (folder, name, of)
        });
        let places: Vec<_> = places.collect();
        for (folder, name, of) in &places {
            let place = (*folder, name.clone());
            match of {
                Some(of) => self.names.insert(place, *of),
                None => self.names.remove(&place),
            };
        }
        NodeChange::Named(places)
    }

    /// All that had been done to a file or a folder when its sync was called is on disk, and its names with their
    /// folders.
    fn sync(&mut self, path: &Path, called_ns: u64) {
        let Some(of) = self.node(path) else {
            return;
        };
        let mut nodes = vec![of];
        let earlier = self.changes.iter_mut().rev();
        for pending in earlier.filter(|pending| pending.returned_ns <= called_ns) {
            let is_of_it = match &pending.change {
                NodeChange::Written { of: written, .. }
                | NodeChange::Resized { of: written, .. } => *written == of,
                NodeChange::Named(names) => {
                    let leads_there = names.iter().any(|(folder, _, to)| {
                        *folder == of || to.is_some_and(|to| nodes.contains(&to))
                    });
                    if leads_there {
                        nodes.extend(names.iter().map(|(folder, ..)| *folder));
                    }
                    leads_there
                }
            };
            pending.is_synced |= is_of_it;
        }
    }
}

/// The bytes that the disk has.
#[derive(Debug, Default)]
struct Disk<'a> {
    names: BTreeMap<(NodeId, PathBuf), NodeId>,
    is_folder: &'a [bool],
    content: BTreeMap<NodeId, Vec<u8>>,
}

impl<'a> Disk<'a> {
    fn of(is_folder: &'a [bool], changes: impl Iterator<Item = NodeChange>) -> Self {
        let mut disk = Self {
            is_folder,
            ..Self::default()
        };
        for change in changes {
            match change {
                NodeChange::Written { of, at, data } => {
                    let content = disk.content.entry(of).or_default();
                    let at = usize::try_from(at).unwrap();
                    if !data.is_empty() {
                        content.resize(content.len().max(at + data.len()), 0);
                        content[at..at + data.len()].copy_from_slice(&data);
                    }
                }
                NodeChange::Resized { of, bytes } => {
                    let content = disk.content.entry(of).or_default();
                    content.resize(usize::try_from(bytes).unwrap(), 0);
                }
                NodeChange::Named(names) => {
                    for (folder, name, of) in names {
                        match of {
                            Some(of) => disk.names.insert((folder, name), of),
                            None => disk.names.remove(&(folder, name)),
                        };
                    }
                }
            }
        }
        disk
    }

    fn write(&self, to: &Path) {
        self.write_folder(ROOT, to);
    }

    fn write_folder(&self, of: NodeId, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for ((folder, name), node) in &self.names {
            if *folder != of {
                continue;
            }
            let path = to.join(name);
            if self.is_folder[*node] {
                self.write_folder(*node, &path);
            } else {
                let empty = Vec::new();
                fs::write(path, self.content.get(node).unwrap_or(&empty)).unwrap();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(changes: Vec<FileChange>) -> Vec<TracedCall> {
        let times = (0..).step_by(2);
        let calls = changes.into_iter().zip(times);
        calls
            .map(|(change, called_ns)| TracedCall {
                called_ns,
                returned_ns: called_ns + 1,
                change,
            })
            .collect()
    }

    /// What is read after a loss of all that was not synced.
    fn left(changes: Vec<FileChange>, name: &str) -> Option<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let mut rng = Rng::new(1);
        lose_power(
            &calls(changes),
            u64::MAX,
            Unsynced::Lost,
            &mut rng,
            folder.path(),
        );
        fs::read(folder.path().join(name)).ok()
    }

    fn path(name: &str) -> PathBuf {
        PathBuf::from(name)
    }

    fn written(name: &str, data: &str) -> Vec<FileChange> {
        let written = FileChange::Written {
            path: path(name),
            at: 0,
            data: data.into(),
        };
        let created = FileChange::Created {
            path: path(name),
            is_folder: false,
        };
        vec![created, written]
    }

    #[test]
    fn what_was_synced_is_there_and_nothing_else() {
        let synced = |name| FileChange::Synced { path: path(name) };
        let renamed = FileChange::Renamed {
            from: path("new"),
            to: path("file"),
        };
        let mut changes = written("new", "1");
        assert_eq!(left(changes.clone(), "new"), None);
        changes.push(synced("new"));
        changes.push(renamed.clone());
        assert_eq!(left(changes.clone(), "new"), Some(b"1".into()));
        assert_eq!(left(changes.clone(), "file"), None);
        changes.push(synced(""));
        assert_eq!(left(changes.clone(), "new"), None);
        assert_eq!(left(changes.clone(), "file"), Some(b"1".into()));
        changes.extend(written("new", "2"));
        changes.push(renamed);
        changes.push(synced(""));
        assert_eq!(
            left(changes, "file"),
            Some(b"".into()),
            "renamed before its bytes were synced"
        );
    }
}
