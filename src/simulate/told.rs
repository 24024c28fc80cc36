//! [`Told`]: one race as it is told, fact by fact.

use std::ops::RangeInclusive;

use events::{
    Event, FinishTime, OddsQuoted, Outcome, PriceState, QuotedRunner, RaceDeclared, RaceStatus,
    RaceStatusChanged, ResultDeclared, ResultRunner, ResultStatus, RiderChanged, RunnerWithdrawn,
    Text,
};

use super::card::Race;
use super::finish::Finish;
use super::pool::Pool;
use super::rng::Rng;
use super::words::{JOCKEYS, text};
use super::{MINUTE_MS, SECOND_MS};

const WITHDRAWN_BEFORE_MS: u64 = 5 * MINUTE_MS;
const RIDER_CHANGED_BEFORE_MS: u64 = 8 * MINUTE_MS;
const QUOTE_EVERY_MS: RangeInclusive<u64> = 8_500..=11_500;
/// After the last horse is home.
const PROVISIONAL_AFTER_MS: u64 = 45 * SECOND_MS;
const OFFICIAL_AFTER_MS: u64 = 4 * MINUTE_MS;
const AMENDED_AFTER_MS: u64 = 20 * MINUTE_MS;
/// Of a race's stakes, in thousandths, first to fifth.
const STAKES_SPLIT: [u64; 5] = [560, 220, 115, 60, 45];

/// What goes otherwise than on the card. A runner is its index on the card.
#[derive(Default)]
pub(super) struct Twists {
    pub(super) withdrawn: Option<usize>,
    rider_changed: Option<usize>,
    pub(super) dead_heat: bool,
    amended: bool,
}

impl Twists {
    /// In the first race the result is amended, in the second a runner is withdrawn, the third ends in a dead
    /// heat, in the last a jockey is replaced; a meeting of fewer races has it all in what it has.
    pub(super) fn of(race: &Race, races: u64, rng: &mut Rng) -> Self {
        let number = u64::from(race.card.race_number.get());
        let runners = race.horses.len();
        let withdrawn = rng.index(runners);
        Self {
            withdrawn: (number == races.min(2)).then_some(withdrawn),
            rider_changed: (number == races).then_some((withdrawn + 1) % runners),
            dead_heat: number == races.min(3),
            amended: number == 1,
        }
    }
}

/// A race as it is told, fact by fact.
pub(super) struct Told<'a> {
    race: &'a Race,
    riders: Vec<Text>,
    facts: &'a mut Vec<(u64, Event)>,
}

impl<'a> Told<'a> {
    pub(super) fn new(race: &'a Race, facts: &'a mut Vec<(u64, Event)>) -> Self {
        Self {
            race,
            riders: race.riders(),
            facts,
        }
    }

    pub(super) fn bet_and_run(&mut self, twists: &Twists, rng: &mut Rng) {
        let race = self.race;
        self.status(race.open_ms, RaceStatus::Open);
        let pool = self.bet(twists, rng);
        self.status(race.close_ms(), RaceStatus::Closed);
        self.status(race.off_ms, RaceStatus::Off);
        let finish = Finish::of(race, twists, rng);
        let home_ms = race.off_ms + finish.last_home_ms();
        self.status(home_ms, RaceStatus::Finished);
        self.result(
            home_ms + PROVISIONAL_AFTER_MS,
            1,
            ResultStatus::Provisional,
            None,
            &finish,
            &pool,
        );
        let official_ms = home_ms + OFFICIAL_AFTER_MS;
        self.result(official_ms, 2, ResultStatus::Official, None, &finish, &pool);
        self.status(official_ms, RaceStatus::Result);
        if twists.amended {
            let (finish, winner) = finish.without_its_winner();
            let reason = text(&format!(
                "{} is disqualified for careless riding",
                self.name(winner)
            ));
            self.result(
                official_ms + AMENDED_AFTER_MS,
                3,
                ResultStatus::Official,
                Some(reason),
                &finish,
                &pool,
            );
        }
    }

    /// Quotes from the opening to the close, with what is announced in between.
    fn bet(&mut self, twists: &Twists, rng: &mut Rng) -> Pool {
        let race = self.race;
        let mut pool = Pool::open(race, rng);
        let before_off = |before_ms| race.off_ms.saturating_sub(before_ms).max(race.open_ms);
        let mut withdrawn = twists
            .withdrawn
            .map(|runner| (before_off(WITHDRAWN_BEFORE_MS), runner));
        if let Some(runner) = twists.rider_changed {
            self.change_rider(before_off(RIDER_CHANGED_BEFORE_MS), runner, rng);
        }
        let mut now_ms = race.open_ms;
        while now_ms < race.close_ms() {
            self.quote(now_ms, &pool);
            now_ms = (now_ms + rng.between(QUOTE_EVERY_MS)).min(race.close_ms());
            if let Some((at_ms, runner)) = withdrawn.take_if(|(at_ms, _)| *at_ms <= now_ms) {
                self.withdraw(at_ms, runner);
                pool.refund(runner);
                self.quote(at_ms, &pool);
            }
            pool.take_bets((race.off_ms - now_ms) / SECOND_MS, &race.chances, rng);
        }
        self.quote(race.close_ms(), &pool);
        pool
    }

    fn status(&mut self, at_ms: u64, status: RaceStatus) {
        let RaceDeclared {
            date,
            venue,
            race_number,
            ..
        } = &self.race.card;
        let fact = RaceStatusChanged {
            date: *date,
            venue: venue.clone(),
            race_number: *race_number,
            status,
            reason: None,
        };
        self.facts.push((at_ms, Event::RaceStatusChanged(fact)));
    }

    fn withdraw(&mut self, at_ms: u64, runner: usize) {
        let RaceDeclared {
            date,
            venue,
            race_number,
            runners,
            ..
        } = &self.race.card;
        let fact = RunnerWithdrawn {
            date: *date,
            venue: venue.clone(),
            race_number: *race_number,
            horse_no: runners[runner].horse_no.clone(),
            reason: Some(text("Lame behind the gates, on veterinary advice")),
        };
        self.facts.push((at_ms, Event::RunnerWithdrawn(fact)));
    }

    fn change_rider(&mut self, at_ms: u64, runner: usize, rng: &mut Rng) {
        let RaceDeclared {
            date,
            venue,
            race_number,
            runners,
            ..
        } = &self.race.card;
        let free: Vec<&str> = JOCKEYS
            .into_iter()
            .filter(|name| self.riders.iter().all(|r| r.as_str() != *name))
            .collect();
        self.riders[runner] = text(rng.pick(&free));
        let fact = RiderChanged {
            date: *date,
            venue: venue.clone(),
            race_number: *race_number,
            horse_no: runners[runner].horse_no.clone(),
            jockey: self.riders[runner].clone(),
            weight: None,
        };
        self.facts.push((at_ms, Event::RiderChanged(fact)));
    }

    fn quote(&mut self, at_ms: u64, pool: &Pool) {
        let RaceDeclared {
            date,
            venue,
            race_number,
            runners,
            ..
        } = &self.race.card;
        let quoted = runners
            .iter()
            .enumerate()
            .map(|(index, runner)| QuotedRunner {
                horse_no: runner.horse_no.clone(),
                horse_name: None,
                number: Some(runner.number),
                win: pool.win(index),
                place: pool.place(index),
                state: (!pool.is_running(index)).then_some(PriceState::Scratched),
            });
        let fact = OddsQuoted {
            date: *date,
            venue: venue.clone(),
            race_number: *race_number,
            runners: quoted.collect(),
        };
        self.facts.push((at_ms, Event::OddsQuoted(fact)));
    }

    fn result(
        &mut self,
        at_ms: u64,
        revision: u32,
        status: ResultStatus,
        reason: Option<Text>,
        finish: &Finish,
        pool: &Pool,
    ) {
        let card = &self.race.card;
        let runner = |index: usize,
                      position: Option<u16>,
                      outcome: Option<&str>,
                      time: Option<u32>,
                      stakes: u64| {
            let declared = &card.runners[index];
            ResultRunner {
                horse_no: declared.horse_no.clone(),
                horse_name: declared.horse_name.clone(),
                number: Some(declared.number),
                position,
                outcome: outcome
                    .map(|code| Outcome::parse(code).expect("our own codes are well formed")),
                jockey: self.riders[index].clone(),
                trainer: declared.trainer.clone(),
                finish_time: time.and_then(|t| FinishTime::from_hundredths(t).ok()),
                win_odds: pool.win(index),
                stakes: Some(stakes),
            }
        };
        let mut runners = Vec::with_capacity(card.runners.len());
        for group in &finish.placed {
            let before = runners.len();
            let stakes = shared_stakes(self.race.stakes, before, group.runners.len());
            let position = u16::try_from(before + 1).ok();
            runners.extend(
                group
                    .runners
                    .iter()
                    .map(|&index| runner(index, position, None, Some(group.time), stakes)),
            );
        }
        let unplaced = finish
            .unplaced
            .iter()
            .map(|&(index, outcome, time)| runner(index, None, Some(outcome), time, 0));
        runners.extend(unplaced);
        let fact = ResultDeclared {
            date: card.date,
            venue: card.venue.clone(),
            race_number: card.race_number,
            venue_name: card.venue_name.clone(),
            race_name: Some(card.race_name.clone()),
            distance: Some(card.distance),
            going: card.going.clone(),
            revision,
            status,
            reason,
            runners,
        };
        self.facts.push((at_ms, Event::ResultDeclared(fact)));
    }

    fn name(&self, runner: usize) -> &Text {
        &self.race.card.runners[runner].horse_name
    }
}

/// Horses that share a place share the stakes of the places that they take.
fn shared_stakes(stakes: u64, before: usize, sharing: usize) -> u64 {
    let taken: u64 = STAKES_SPLIT.iter().skip(before).take(sharing).sum();
    stakes * taken / 1000 / sharing as u64
}
