//! [`Followers`]: which clients of a shard follow a race.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use events::RaceKey;

use crate::feed::Topic;

/// Races whose followers are remembered.
const RACES_MAX: usize = 256;

/// A cache. A client that connects, leaves or changes its filter is moved in it: that costs a look at each remembered
/// race, and none at the other clients.
#[derive(Debug, Default)]
pub(super) struct Followers {
    races: HashMap<RaceKey, (Arc<Topic>, Rc<Vec<usize>>)>,
}

impl Followers {
    /// Updates the races that a client follows.
    pub(super) fn update(&mut self, client: usize, follows: impl Fn(&Topic) -> bool) {
        for (topic, clients) in self.races.values_mut() {
            match (clients.binary_search(&client), follows(topic)) {
                (Err(at), true) => Rc::make_mut(clients).insert(at, client),
                (Ok(at), false) => _ = Rc::make_mut(clients).remove(at),
                (Ok(_), true) | (Err(_), false) => {}
            }
        }
    }

    /// The clients that follow a race, ascending, which `find` looks up if they are not known.
    pub(super) fn get_or_insert(
        &mut self,
        topic: &Arc<Topic>,
        find: impl FnOnce() -> Vec<usize>,
    ) -> Rc<Vec<usize>> {
        if let Some((known, clients)) = self.races.get(&topic.race)
            && Arc::ptr_eq(known, topic)
        {
            return Rc::clone(clients);
        }
        let clients = Rc::new(find());
        if self.races.len() >= RACES_MAX {
            self.races.clear();
        }
        let entry = (Arc::clone(topic), Rc::clone(&clients));
        self.races.insert(topic.race.clone(), entry);
        clients
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use events::{RaceKey, RaceNumber, RacingDate, VenueCode};

    use super::{Followers, RACES_MAX};
    use crate::feed::Topic;

    fn topics() -> Vec<Arc<Topic>> {
        let topic = |number| {
            Arc::new(Topic {
                race: RaceKey {
                    date: RacingDate::parse("2026-11-21").expect("a date"),
                    venue: VenueCode::parse("ST").expect("a code"),
                    race_number: RaceNumber::try_from(number).expect("a number"),
                },
                venue: String::new(),
                runners: Vec::new(),
            })
        };
        (1..=u16::try_from(RACES_MAX).expect("small"))
            .map(topic)
            .collect()
    }

    /// A client that changes its filter again and again costs nobody else: no other client is looked at.
    #[test]
    fn a_client_that_changes_its_filter_causes_no_look_at_others() {
        const CLIENTS: usize = 1_000;
        const CHANGES: usize = 200;
        let topics = topics();
        let mut followers = Followers::default();
        let looked_up = Cell::new(0);
        let followed = |followers: &mut Followers| -> Vec<Vec<usize>> {
            let get = |topic| {
                let find = || {
                    looked_up.set(looked_up.get() + 1);
                    (0..CLIENTS).filter(|client| client % 3 == 0).collect()
                };
                followers.get_or_insert(topic, find).to_vec()
            };
            topics.iter().map(get).collect()
        };
        let before = followed(&mut followers);
        assert_eq!(looked_up.get(), topics.len());
        let matched = Cell::new(0);
        for change in 0..CHANGES {
            followers.update(CLIENTS / 2, |topic| {
                matched.set(matched.get() + 1);
                (usize::from(topic.race.race_number.get()) + change) % 2 == 0
            });
            for (topic, clients) in topics.iter().zip(followed(&mut followers)) {
                let follows = (usize::from(topic.race.race_number.get()) + change) % 2 == 0;
                assert_eq!(clients.binary_search(&(CLIENTS / 2)).is_ok(), follows);
                assert!(clients.is_sorted());
            }
        }
        assert_eq!(looked_up.get(), topics.len(), "of changes");
        assert_eq!(matched.get(), RACES_MAX * CHANGES);
        followers.update(CLIENTS / 2, |_| false);
        assert_eq!(followed(&mut followers), before);
    }
}
