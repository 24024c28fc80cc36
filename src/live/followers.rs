//! [`Followers`]: which clients of a shard follow a race.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use events::RaceKey;

use super::feed::Topic;

/// Races whose followers are remembered.
const RACES_MAX: usize = 256;

/// A cache: it must be cleared when a client comes, goes, or changes its filter.
#[derive(Debug, Default)]
pub(super) struct Followers {
    races: HashMap<RaceKey, (Arc<Topic>, Rc<[usize]>)>,
}

impl Followers {
    pub(super) fn clear(&mut self) {
        self.races.clear();
    }

    /// The clients that follow a race, which `find` looks up if they are not known.
    pub(super) fn get_or_insert(
        &mut self,
        topic: &Arc<Topic>,
        find: impl FnOnce() -> Rc<[usize]>,
    ) -> Rc<[usize]> {
        if let Some((known, clients)) = self.races.get(&topic.race)
            && Arc::ptr_eq(known, topic)
        {
            return Rc::clone(clients);
        }
        let clients = find();
        if self.races.len() >= RACES_MAX {
            self.races.clear();
        }
        let entry = (Arc::clone(topic), Rc::clone(&clients));
        self.races.insert(topic.race.clone(), entry);
        clients
    }
}
