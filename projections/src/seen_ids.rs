//! [`SeenIds`]: which events were folded in last.

use serde::{Deserialize, Serialize};

/// The identities of the events that came last, at most `MAX` of them. An event that comes again within them is the same
/// event, and must not undo what was said since.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SeenIds<const MAX: usize>(Vec<String>);

impl<const MAX: usize> SeenIds<MAX> {
    /// Notes an event. False if it was seen before.
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
