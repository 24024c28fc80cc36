//! [`NetworkConnections`]: how many connections each network has.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;

use super::network::Network;

/// How many times the connections of a network those of one customer may have together: a provider gives a customer up
/// to 65,536 networks of IPv6.
const CUSTOMER_FACTOR: usize = 4;

/// Limits the connections of each network, and of all networks of a [customer](Network::customer), so that no client
/// can hold all of them. It holds only networks with a connection, so the limit of all connections bounds it.
#[derive(Debug, Clone)]
pub struct NetworkConnections {
    connections_max: usize,
    counts: Counts,
}

/// The connections of networks, and of customers.
type Counts = Arc<Mutex<[HashMap<Network, usize>; 2]>>;

/// A connection of a network, given back when it is dropped.
#[derive(Debug)]
pub struct NetworkPermit {
    network: Network,
    counts: Counts,
}

impl NetworkConnections {
    /// Allows each network so many connections.
    pub fn new(connections_max: usize) -> Self {
        Self {
            connections_max,
            counts: Arc::default(),
        }
    }

    /// A permit for a connection; `None` if the network or its customer has as many as it may have.
    pub fn acquire(&self, client: impl Into<Network>) -> Option<NetworkPermit> {
        let network = client.into();
        let maxima = [self.connections_max, self.connections_max * CUSTOMER_FACTOR];
        let mut counts = self.counts.lock();
        let mut at_levels = counts.iter().zip(levels(network)).zip(maxima);
        if at_levels.any(|((counts, of), max)| counts.get(&of).is_some_and(|count| *count >= max)) {
            return None;
        }
        for (counts, of) in counts.iter_mut().zip(levels(network)) {
            *counts.entry(of).or_default() += 1;
        }
        drop(counts);
        Some(NetworkPermit {
            network,
            counts: Arc::clone(&self.counts),
        })
    }
}

impl Drop for NetworkPermit {
    fn drop(&mut self) {
        for (counts, of) in self.counts.lock().iter_mut().zip(levels(self.network)) {
            if let Entry::Occupied(mut count) = counts.entry(of) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }
}

/// What a connection counts for, as in [`Counts`].
fn levels(network: Network) -> [Network; 2] {
    [network, network.customer()]
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::net::IpAddr;

    use super::{CUSTOMER_FACTOR, NetworkConnections};

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
        assert_eq!(connections.counts.lock()[0].len(), 1);
    }

    #[test]
    fn a_customer_does_not_get_the_connections_of_all_its_networks() {
        let connections = NetworkConnections::new(2);
        let acquire =
            |text: String| connections.acquire(text.parse::<IpAddr>().expect("an address"));
        let of_customer = (0..50).map(|site| acquire(format!("2001:db8:0:{site:x}::1")));
        let held: Vec<_> = of_customer.flatten().collect();
        assert_eq!(held.len(), 2 * CUSTOMER_FACTOR);
        assert!(acquire("2001:db8:1::1".to_owned()).is_some());
        drop(held);
        assert!(acquire("2001:db8:0:ffff::1".to_owned()).is_some());
        assert!(connections.counts.lock().iter().all(HashMap::is_empty));
    }
}
