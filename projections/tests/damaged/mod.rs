//! Stores with a damaged value, for tests of what follows.

use super::Store;
use super::tree::Tree;

impl Store {
    /// Flips a bit of a stored value, as a damaged disk does.
    ///
    /// # Panics
    /// If there is no such value.
    pub fn flip_bit(&self, key: &str) {
        let stored = self.tree.get(key).expect("a healthy store");
        let mut stored = stored.expect("a value").to_vec();
        stored[0] ^= 1;
        match &self.tree {
            Tree::Sled(db, ..) => drop(db.insert(key, stored).expect("a healthy store")),
            Tree::Memory(entries) => drop(entries.write().insert(key.into(), stored.into())),
            #[cfg(feature = "simulation")]
            Tree::Simulated(tree) => tree.overwrite(key, &stored),
        }
    }
}
