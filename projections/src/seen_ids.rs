//! [`SeenIds`]: the identities of the events that were folded last.

use serde::{Deserialize, Serialize};

/// The identities of the latest events, at most `MAX`. An event that is repeated while its identity is here is skipped, so
/// that it does not undo later facts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SeenIds<const MAX: usize>(Vec<String>);

impl<const MAX: usize> SeenIds<MAX> {
    /// Adds an identity. Returns false if it was there before.
    pub(crate) fn is_new(&mut self, id: &str) -> bool {
        if self.0.iter().any(|seen| seen == id) {
            return false;
        }
        if self.0.len() == MAX {
            self.0.remove(0);
        }
        self.0.push(id.to_owned());
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::SeenIds;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut seen = SeenIds::<2>::default();
        assert!(seen.is_empty());
        assert!(seen.is_new("a") && seen.is_new("b"));
        assert!(!seen.is_new("a") && !seen.is_new("b"));
        assert!(seen.is_new("c"));
        assert!(!seen.is_new("b"));
        assert!(seen.is_new("a"));
    }
}
