//! Snapshots of the views in an object store of NATS: a new replica loads the latest, and folds the rest of the log.

#[cfg(feature = "fuzzing")]
#[path = "../../../tests/fuzz/doors/snapshots.rs"]
pub(crate) mod fuzzing;
mod load;
mod parts;
mod secret;
mod writer;

use std::collections::BTreeMap;

use projections::{Checkpoint, SCHEMA_VERSION, VIEWS_VERSION};
use serde_json::{Value, json};

pub(super) use self::load::load_latest;
pub use self::load::{RefusedSnapshot, restore};
pub use self::secret::SnapshotSecret;
pub use self::writer::{SnapshotError, SnapshotRequests, SnapshotWriter};
use crate::log::{Log, LogError, StoredObject};

/// The keys of the metadata.
const CHECKPOINT: &str = "checkpoint";
const SCHEMA: &str = "schema";
const VIEWS: &str = "views";

/// A snapshot, as the object store lists it.
#[derive(Debug, Clone)]
pub struct ViewsSnapshot {
    pub object: StoredObject,
    pub checkpoint: Checkpoint,
    /// The version of the views, as in [`SCHEMA_VERSION`].
    pub schema: u32,
    /// The version of what answers are read from, as in [`VIEWS_VERSION`].
    pub views: u32,
}

impl ViewsSnapshot {
    /// The snapshots in the object store, the latest first. Each is an error if its metadata is not that of a snapshot.
    ///
    /// # Errors
    /// As [`Log::objects`].
    pub async fn list(log: &Log) -> Result<Vec<Result<Self, RefusedSnapshot>>, LogError> {
        Ok(log.objects().await?.into_iter().map(Self::parse).collect())
    }

    /// The snapshot as the admin address and `railbird snapshot list --json` print it.
    pub fn to_json(&self) -> Value {
        let info = &self.object.info;
        let checkpoint = &self.checkpoint;
        json!({
            "name": info.name,
            "log": checkpoint.log,
            "seq": checkpoint.seq,
            "recorded_at": checkpoint.recorded_at,
            "schema": self.schema,
            "views_version": self.views,
            "digest": checkpoint.digest.to_string(),
            "bytes": info.size,
            "parts": info.chunks,
            "written_at": info.written_at,
        })
    }

    fn parse(object: StoredObject) -> Result<Self, RefusedSnapshot> {
        let get = |key: &str| object.info.metadata.get(key);
        let version = |key| get(key).and_then(|version| version.parse().ok());
        let checkpoint = get(CHECKPOINT).and_then(|json| serde_json::from_str(json).ok());
        match (checkpoint, version(SCHEMA), version(VIEWS)) {
            (Some(checkpoint), Some(schema), Some(views)) => Ok(Self {
                checkpoint,
                schema,
                views,
                object,
            }),
            _ => Err(RefusedSnapshot {
                name: object.info.name,
                reason: "its metadata is not that of a snapshot".to_owned(),
            }),
        }
    }

    /// Whether a replica with this secret has written it.
    fn is_signed(&self, secret: &SnapshotSecret) -> bool {
        let info = &self.object.info;
        secret.has_signed(&info.metadata, &info.digest)
    }

    /// Whether this version can continue it.
    fn is_of_this_schema(&self) -> bool {
        (self.schema, self.views) == (SCHEMA_VERSION, VIEWS_VERSION)
    }
}

fn metadata(checkpoint: &Checkpoint) -> BTreeMap<String, String> {
    let checkpoint = serde_json::to_string(checkpoint).expect("no keys but text");
    BTreeMap::from([
        (CHECKPOINT.to_owned(), checkpoint),
        (SCHEMA.to_owned(), SCHEMA_VERSION.to_string()),
        (VIEWS.to_owned(), VIEWS_VERSION.to_string()),
    ])
}
