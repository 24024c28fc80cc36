//! [`SeenIds`]: the identities of the events that were folded last.

use serde::{Deserialize, Serialize};

/// The identities of the latest events, at most `MAX`. An event that is repeated while its identity is here leaves no
/// second row in a history. Views in force never rest on this: [`Newest`](crate::newest::Newest) orders those.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SeenIds<const MAX: usize>(Vec<u64>);

impl<const MAX: usize> SeenIds<MAX> {
    /// Adds an identity. Returns false if it was there before.
    pub(crate) fn is_new(&mut self, identity: u64) -> bool {
        if self.0.contains(&identity) {
            return false;
        }
        if self.0.len() == MAX {
            self.0.remove(0);
        }
        self.0.push(identity);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::SeenIds;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut seen = SeenIds::<2>::default();
        assert!(seen.0.is_empty());
        assert!(seen.is_new(1) && seen.is_new(2));
        assert!(!seen.is_new(1) && !seen.is_new(2));
        assert!(seen.is_new(3));
        assert!(!seen.is_new(2));
        assert!(seen.is_new(1));
    }
}
