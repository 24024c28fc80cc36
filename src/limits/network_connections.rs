//! [`NetworkConnections`]: how many connections each network has.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;

use super::network::Network;

/// Limits the connections of each network, so that no client can hold all of them. It holds only networks with a
/// connection, so the limit of all connections bounds it.
#[derive(Debug, Clone)]
pub struct NetworkConnections {
    connections_max: usize,
    counts: Arc<Mutex<HashMap<Network, usize>>>,
}

/// A connection of a network, given back when it is dropped.
#[derive(Debug)]
pub struct NetworkPermit {
    network: Network,
    counts: Arc<Mutex<HashMap<Network, usize>>>,
}

impl NetworkConnections {
    /// Allows each network so many connections.
    #[must_use]
    pub fn new(connections_max: usize) -> Self {
        Self {
            connections_max,
            counts: Arc::default(),
        }
    }

    /// A permit for a connection; `None` if the network has as many as it may have.
    pub fn acquire(&self, client: impl Into<Network>) -> Option<NetworkPermit> {
        let network = client.into();
        let mut counts = self.counts.lock();
        let count = counts.entry(network).or_default();
        if *count >= self.connections_max {
            return None;
        }
        *count += 1;
        Some(NetworkPermit {
            network,
            counts: Arc::clone(&self.counts),
        })
    }
}

impl Drop for NetworkPermit {
    fn drop(&mut self) {
        if let Entry::Occupied(mut count) = self.counts.lock().entry(self.network) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::NetworkConnections;

    #[test]
    fn each_network_has_its_own_permits_and_leaves_nothing_behind() {
        let connections = NetworkConnections::new(2);
        let acquire = |text: &str| connections.acquire(text.parse::<IpAddr>().expect(text));
        let held = [acquire("192.0.2.1"), acquire("192.0.2.1")];
        assert!(held.iter().all(Option::is_some));
        assert!(acquire("192.0.2.1").is_none());
        assert!(acquire("::ffff:192.0.2.1").is_none());
        assert!(acquire("192.0.2.2").is_some());
        let _site = [acquire("2001:db8::1"), acquire("2001:db8::2")];
        assert!(acquire("2001:db8::3").is_none());
        assert!(acquire("2001:db8:0:1::3").is_some());
        drop(held);
        assert!(acquire("192.0.2.1").is_some());
        assert_eq!(connections.counts.lock().len(), 1);
    }
}
