//! [`Finish`]: the order and the times of a finish.

use crate::card::RacePlan;
use crate::rng::Rng;
use crate::twists::Twists;

/// At least so many finish: enough for every place and a dead heat.
const FINISHERS_MIN: usize = 4;

/// Runners: a bit for the index of each on the card.
pub(crate) type Combination = u32;

#[derive(Clone)]
pub(crate) struct Finish {
    /// First to last.
    pub(crate) placed: Vec<Group>,
    /// Runner, outcome, and its time if it finished.
    pub(crate) unplaced: Vec<(usize, &'static str, Option<u32>)>,
}

/// Runners that finished together, usually one.
#[derive(Clone)]
pub(crate) struct Group {
    pub(crate) runners: Vec<usize>,
    /// In hundredths of a second.
    pub(crate) time: u32,
}

impl Finish {
    pub(crate) fn of(race: &RacePlan, twists: &Twists, rng: &mut Rng) -> Self {
        let mut running: Vec<usize> = (0..race.chances.len())
            .filter(|index| Some(*index) != twists.withdrawn)
            .collect();
        let mut unplaced = Vec::new();
        for outcome in twists.mishaps {
            unplaced.push((running.remove(rng.index(running.len())), *outcome, None));
        }
        let mut placed: Vec<Group> = Vec::new();
        let mut time = winning_time(race.card.distance, rng);
        while !running.is_empty() {
            let next =
                running.remove(rng.weighted(running.len(), |index| race.chances[running[index]]));
            if running.len() >= FINISHERS_MIN && rng.below(60) == 0 {
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

    /// The combinations of runners at these positions, from 0: in a dead heat several.
    pub(crate) fn combinations(&self, positions: &[usize]) -> Vec<Combination> {
        let mut combinations = vec![0];
        for &position in positions {
            let others = |known: Combination| self.at(position).iter().map(move |r| known | 1 << r);
            combinations = combinations.into_iter().flat_map(others).collect();
        }
        // Two positions of one dead heat have two runners, each first or second.
        combinations.retain(|known| known.count_ones() as usize == positions.len());
        combinations.sort_unstable();
        combinations.dedup();
        combinations
    }

    /// The runners that share a position.
    fn at(&self, position: usize) -> &[usize] {
        let mut after = 0;
        let group = self.placed.iter().find(|group| {
            after += group.runners.len();
            position < after
        });
        group.map_or(&[], |group| &group.runners)
    }

    pub(crate) fn last_finish_ms(&self) -> u64 {
        let last = self.placed.last();
        last.map_or(0, |group| u64::from(group.time) * 10)
    }

    /// The finish with its winner disqualified, and that winner, which keeps its time.
    pub(crate) fn without_its_winner(&self) -> (Self, usize) {
        let mut finish = self.clone();
        let time = finish.placed[0].time;
        let winner = finish.placed[0].runners.remove(0);
        finish.placed.retain(|group| !group.runners.is_empty());
        finish.unplaced.insert(0, (winner, "DISQ", Some(time)));
        (finish, winner)
    }
}

/// In hundredths of a second: about 17 m/s, less over a longer distance.
fn winning_time(distance_metres: u32, rng: &mut Rng) -> u32 {
    let speed_mm_s = 17_600 - distance_metres * 45 / 100;
    distance_metres * 100_000 / speed_mm_s + u32::try_from(rng.between(0..=150)).unwrap_or(0)
}
