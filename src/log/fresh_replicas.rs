//! Replicas of the service: which of them have fresh views. An entry that is not repeated ends with the term of a
//! lease.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::append::Outgoing;
use super::connection::Log;
use super::error::LogError;
use super::stream::LEASES;

const PREFIX: &str = "$KV.LEASES.replica.";

/// Entries that are read: more than replicas. Each takes a request.
const REPLICAS_MAX: usize = 64;

/// An entry of a replica.
#[derive(Debug, Serialize, Deserialize)]
struct ReplicaEntry {
    is_fresh: bool,
    /// The last event of its views.
    seq: u64,
}

impl Log {
    /// Notes for the others whether the views of a replica are fresh.
    ///
    /// # Errors
    /// Returns a [`LogError`], such as [`LogError::Denied`] if this user may not use the bucket of leases.
    pub async fn note_replica(
        &self,
        replica: &str,
        is_fresh: bool,
        seq: u64,
    ) -> Result<(), LogError> {
        let entry = ReplicaEntry { is_fresh, seq };
        let outgoing = Outgoing {
            subject: format!("{PREFIX}{replica}"),
            id: Uuid::now_v7().to_string(),
            payload: serde_json::to_vec(&entry).expect("numbers are JSON"),
        };
        self.append_once(&outgoing).await?;
        Ok(())
    }

    /// Whether a replica other than this one has fresh views, as far as it has noted that lately.
    ///
    /// # Errors
    /// As [`Log::note_replica`].
    pub async fn another_is_fresh(&self, replica: &str) -> Result<bool, LogError> {
        let own = format!("{PREFIX}{replica}");
        let all = format!("{PREFIX}*");
        let mut from = 1;
        for _ in 0..REPLICAS_MAX {
            let Some(found) = self.next_message(LEASES, from, &all).await? else {
                return Ok(false);
            };
            from = found.seq + 1;
            let entry = serde_json::from_slice::<ReplicaEntry>(&found.payload);
            if found.subject() != own && entry.is_ok_and(|entry| entry.is_fresh) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
