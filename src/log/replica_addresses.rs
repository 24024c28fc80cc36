//! Replicas of the service: where each answers requests. An entry that is not repeated ends with the term of a lease.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::{LEASES, Log, LogError, Outgoing};

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
    /// Where others can ask a replica that listens on an address. `None` if it is that of loopback, and NATS is on
    /// another machine, as other replicas may be.
    pub fn address_for_others(&self, listening: SocketAddr) -> Option<SocketAddr> {
        let seen = self.client().server_info().client_ip.parse();
        address_for_others(listening, seen.ok())
    }

    /// Notes for the others where they can ask a replica.
    ///
    /// # Errors
    /// Returns a [`LogError`], such as [`LogError::Denied`] if this user may not use the bucket of leases.
    pub async fn note_replica(&self, replica: &str, http: SocketAddr) -> Result<(), LogError> {
        let payload = serde_json::to_vec(&ReplicaEntry { http }).expect("an address is JSON");
        let outgoing = Outgoing::once(format!("{PREFIX}{replica}"), payload);
        self.append_once(&outgoing, None).await?;
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

/// The address that others use of one on which a replica listens, which NATS has seen to connect from `seen`.
fn address_for_others(listening: SocketAddr, seen: Option<IpAddr>) -> Option<SocketAddr> {
    let seen = seen.unwrap_or(listening.ip());
    if listening.ip().is_unspecified() {
        return Some(SocketAddr::new(seen, listening.port()));
    }
    let is_hidden = listening.ip().is_loopback() && !seen.is_loopback();
    (!is_hidden).then_some(listening)
}

#[cfg(test)]
mod tests {
    use super::address_for_others;

    #[test]
    fn others_are_given_an_address_that_they_can_reach() {
        for (listening, seen, expected) in [
            ("10.0.0.3:8080", "10.0.0.3", Some("10.0.0.3:8080")),
            ("10.0.0.3:8080", "127.0.0.1", Some("10.0.0.3:8080")),
            ("0.0.0.0:8080", "10.0.0.3", Some("10.0.0.3:8080")),
            ("[::]:8080", "fd00::3", Some("[fd00::3]:8080")),
            ("127.0.0.1:8081", "127.0.0.1", Some("127.0.0.1:8081")),
            ("127.0.0.1:8081", "::1", Some("127.0.0.1:8081")),
            ("127.0.0.1:8081", "10.0.0.1", None),
            ("[::1]:8081", "fd00::1", None),
        ] {
            let address = |text: &str| text.parse().expect("an address");
            let found = address_for_others(address(listening), seen.parse().ok());
            assert_eq!(found, expected.map(address), "{listening}, seen at {seen}");
        }
    }
}
