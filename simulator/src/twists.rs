//! [`Twists`]: the deviations of a race from its card.

use std::ops::Range;

use crate::card::RacePlan;
use crate::day::{MeetingTime, RaceDay};
use crate::meeting::MeetingPlan;
use crate::rng::Rng;

/// A runner is its index on the card.
pub(crate) struct Twists {
    /// Withdrawn shortly before the off.
    pub(crate) withdrawn: Option<usize>,
    /// Withdrawn, and reinstated.
    pub(crate) reinstated: Option<usize>,
    pub(crate) rider_changed: Option<usize>,
    /// The outcomes of runners that do not finish.
    pub(crate) mishaps: &'static [&'static str],
    /// The place, from 0, of a dead heat.
    pub(crate) shared: Option<usize>,
    pub(crate) ending: Ending,
    /// When the bookmaker is down, at all races.
    pub(crate) outage_ms: Range<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With an official result.
    Official,
    /// With an official result whose winner is disqualified later.
    Amended,
    /// With a provisional result that is voided.
    Voided,
    /// Before the off.
    Abandoned,
}

impl Twists {
    /// On a full day everything happens at the races named here, and some of it by chance at others. A shorter day
    /// lacks the twists of the races that it does not have.
    pub(crate) fn of(meeting: &MeetingPlan<'_>, race: &RacePlan, rng: &mut Rng) -> Self {
        use MeetingTime::{Afternoon, Evening};
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
        let falls = here(Evening, 3);
        Self {
            withdrawn: withdrawn.then_some(runners[0]),
            reinstated: here(Evening, 1).then_some(runners[1]),
            rider_changed: rider_changed.then_some(runners[2]),
            mishaps: if falls { &["FE", "UR", "PU"] } else { &[] },
            shared,
            ending,
            outage_ms: meeting.day.outage_ms(),
        }
    }
}
