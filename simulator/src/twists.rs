//! [`Twists`]: what goes otherwise than on the card.

use super::RaceDay;
use super::card::Race;
use super::meeting::{Meeting, Session};
use super::rng::Rng;

/// What goes otherwise than on the card. A runner is its index on the card.
pub(super) struct Twists {
    /// Taken out of the race shortly before the off.
    pub(super) withdrawn: Option<usize>,
    /// Taken out, and put back.
    pub(super) reinstated: Option<usize>,
    pub(super) rider_changed: Option<usize>,
    /// What befalls runners on the way: an outcome for each.
    pub(super) mishaps: &'static [&'static str],
    /// The place, from 0, that two share.
    pub(super) shared: Option<usize>,
    pub(super) ending: Ending,
}

/// How a race ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// With an official result.
    Official,
    /// With one from which the stewards take the winner.
    Amended,
    /// With a provisional one that counts for nobody.
    Voided,
    /// Before it was run.
    Abandoned,
}

impl Twists {
    /// On a full day everything happens where it stands here, and some of it elsewhere, too, by chance. On a shorter one
    /// what stands at a race that is not there does not happen.
    pub(super) fn of(meeting: &Meeting<'_>, race: &Race, rng: &mut Rng) -> Self {
        use Session::{Afternoon, Evening};
        let here = |session, nth| meeting.session == session && race.nth == nth;
        let mut runners: Vec<usize> = (0..race.horses.len()).collect();
        rng.shuffle(&mut runners);
        let mut by_chance = |one_in: u64| rng.below(one_in) == 0;
        let full = meeting.races() >= RaceDay::FULL_RACES.into();
        let ending = match () {
            () if here(Afternoon, 1) => Ending::Amended,
            () if here(Evening, 2) => Ending::Voided,
            () if full && here(Afternoon, meeting.races()) => Ending::Abandoned,
            () if by_chance(20) => Ending::Amended,
            () => Ending::Official,
        };
        let withdrawn = here(Afternoon, 2) || by_chance(6);
        let rider_changed = here(Evening, 1) || by_chance(4);
        let shared = match () {
            () if here(Afternoon, 3) => Some(0),
            () if here(Evening, 3) => Some(2),
            () if by_chance(15) => Some(rng.index(3)),
            () => None,
        };
        Self {
            withdrawn: withdrawn.then_some(runners[0]),
            reinstated: here(Evening, 1).then_some(runners[1]),
            rider_changed: rider_changed.then_some(runners[2]),
            mishaps: if here(Evening, 3) {
                &["FE", "UR", "PU"]
            } else {
                &[]
            },
            shared,
            ending,
        }
    }
}
