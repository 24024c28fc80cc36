//! [`Finish`]: who came in when.

use super::card::Race;
use super::rng::Rng;
use super::told::Twists;

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
        let mut finish = Self {
            placed: Vec::new(),
            unplaced: Vec::new(),
        };
        let mut left: Vec<usize> = (0..race.chances.len())
            .filter(|index| Some(*index) != twists.withdrawn)
            .collect();
        // First, second or third place is shared.
        let shared = twists.dead_heat.then(|| rng.index(3));
        let mut time = winning_time(race.card.distance, rng);
        while !left.is_empty() {
            let next = left.remove(rng.weighted(left.len(), |index| race.chances[left[index]]));
            // Enough of them come home for every place and a dead heat.
            if left.len() > 4 && rng.below(60) == 0 {
                finish.unplaced.push((next, rng.pick(&["PU", "UR"]), None));
                continue;
            }
            let shares = shared.is_some_and(|place| finish.placed.len() == place + 1);
            match finish.placed.last_mut() {
                Some(last) if shares && last.runners.len() == 1 => last.runners.push(next),
                _ => finish.placed.push(Group {
                    runners: vec![next],
                    time,
                }),
            }
            time += u32::try_from(rng.between(2..=38)).unwrap_or(2);
        }
        finish
            .unplaced
            .extend(twists.withdrawn.map(|runner| (runner, "WV", None)));
        finish
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
