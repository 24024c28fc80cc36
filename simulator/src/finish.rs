//! [`Finish`]: who came in when.

use super::card::Race;
use super::rng::Rng;
use super::twists::Twists;

/// So many come home at least: enough for every place and a dead heat.
const HOME_MIN: usize = 4;

/// Who came in when.
#[derive(Clone)]
pub(super) struct Finish {
    /// First to last.
    pub(super) placed: Vec<Group>,
    /// Runner, outcome, and its time if it got home.
    pub(super) unplaced: Vec<(usize, &'static str, Option<u32>)>,
}

/// Runners that came in together, most often one.
#[derive(Clone)]
pub(super) struct Group {
    pub(super) runners: Vec<usize>,
    /// In hundredths of a second.
    pub(super) time: u32,
}

impl Finish {
    pub(super) fn of(race: &Race, twists: &Twists, rng: &mut Rng) -> Self {
        let mut left: Vec<usize> = (0..race.chances.len())
            .filter(|index| Some(*index) != twists.withdrawn)
            .collect();
        let mut unplaced = Vec::new();
        for outcome in twists.mishaps {
            unplaced.push((left.remove(rng.index(left.len())), *outcome, None));
        }
        let mut placed: Vec<Group> = Vec::new();
        let mut time = winning_time(race.card.distance, rng);
        while !left.is_empty() {
            let next = left.remove(rng.weighted(left.len(), |index| race.chances[left[index]]));
            if left.len() >= HOME_MIN && rng.below(60) == 0 {
                unplaced.push((next, rng.pick(&["PU", "UR"]), None));
                continue;
            }
            let shares = twists.shared.is_some_and(|place| placed.len() == place + 1);
            match placed.last_mut() {
                Some(last) if shares && last.runners.len() == 1 => last.runners.push(next),
                _ => placed.push(Group {
                    runners: vec![next],
                    time,
                }),
            }
            time += u32::try_from(rng.between(2..=38)).unwrap_or(2);
        }
        unplaced.extend(twists.withdrawn.map(|runner| (runner, "WV", None)));
        Self { placed, unplaced }
    }

    pub(super) fn last_home_ms(&self) -> u64 {
        self.placed
            .last()
            .map_or(0, |group| u64::from(group.time) * 10)
    }

    /// The finish with its winner disqualified, and who that was. It keeps its time.
    pub(super) fn without_its_winner(&self) -> (Self, usize) {
        let mut finish = self.clone();
        let time = finish.placed[0].time;
        let winner = finish.placed[0].runners.remove(0);
        finish.placed.retain(|group| !group.runners.is_empty());
        finish.unplaced.insert(0, (winner, "DISQ", Some(time)));
        (finish, winner)
    }
}

/// In hundredths of a second: about 17 m/s, less over a longer way.
fn winning_time(distance_metres: u32, rng: &mut Rng) -> u32 {
    let speed_mm_s = 17_600 - distance_metres * 45 / 100;
    distance_metres * 100_000 / speed_mm_s + u32::try_from(rng.between(0..=150)).unwrap_or(0)
}
