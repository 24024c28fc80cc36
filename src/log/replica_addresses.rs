//! Replicas of the service: where each answers requests. An entry that is not repeated ends with the term of a lease.

use std::net::{IpAddr, SocketAddr};

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
    /// Its public address, in plain HTTP.
    http: SocketAddr,
}

impl Log {
    /// Notes for the others where a replica listens. Of one that listens on all addresses, they are given the one from
    /// which it has connected to NATS.
    ///
    /// # Errors
    /// Returns a [`LogError`], such as [`LogError::Denied`] if this user may not use the bucket of leases.
    pub async fn note_replica(
        &self,
        replica: &str,
        mut listening: SocketAddr,
    ) -> Result<(), LogError> {
        let seen: Result<IpAddr, _> = self.server.nats().client.server_info().client_ip.parse();
        if let (true, Ok(seen)) = (listening.ip().is_unspecified(), seen) {
            listening.set_ip(seen);
        }
        let entry = ReplicaEntry { http: listening };
        let outgoing = Outgoing {
            subject: format!("{PREFIX}{replica}"),
            id: Uuid::now_v7().to_string(),
            payload: serde_json::to_vec(&entry).expect("an address is JSON"),
        };
        self.append_once(&outgoing).await?;
        Ok(())
    }

    /// The addresses of the replicas other than this one, as far as they have noted them lately.
    ///
    /// # Errors
    /// As [`Log::note_replica`].
    pub async fn other_replicas(&self, replica: &str) -> Result<Vec<SocketAddr>, LogError> {
        let own = format!("{PREFIX}{replica}");
        let all = format!("{PREFIX}*");
        let (mut from, mut others) = (1, Vec::new());
        for _ in 0..REPLICAS_MAX {
            let Some(found) = self.next_message(LEASES, from, &all).await? else {
                break;
            };
            from = found.seq + 1;
            let entry = serde_json::from_slice::<ReplicaEntry>(&found.payload);
            others.extend(entry.ok().filter(|_| found.subject() != own));
        }
        Ok(others.into_iter().map(|entry| entry.http).collect())
    }
}
