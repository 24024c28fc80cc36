//! [`RaceScript`]: one race as it is told, fact by fact.

use events::{
    Event, FinishTime, GoingChanged, OddsQuoted, Outcome, QuotedRunner, RaceKey, RaceStatus,
    RaceStatusChanged, ResultDeclared, ResultRunner, ResultStatus, ResultVoided, RiderChanged,
    RunnerReinstated, RunnerWithdrawn, Text,
};

use super::card::Race;
use super::finish::Finish;
use super::pool::Pool;
use super::rng::Rng;
use super::twists::{Ending, Twists};
use super::words::{JOCKEYS, text};
use super::{MINUTE_MS, SECOND_MS};

/// After the last horse is home.
const PROVISIONAL_AFTER_MS: u64 = 45 * SECOND_MS;
const OFFICIAL_AFTER_MS: u64 = 4 * MINUTE_MS;
/// After the official result.
const AMENDED_AFTER_MS: u64 = 10 * MINUTE_MS;
/// Of a race's stakes, in thousandths, first to fifth.
const STAKES_SPLIT: [u64; 5] = [560, 220, 115, 60, 45];

/// A race as it is told, fact by fact.
pub(super) struct RaceScript<'a> {
    pub(super) race: &'a Race,
    pub(super) twists: &'a Twists,
    /// Who rides now, in the order of the card.
    riders: Vec<Text>,
    facts: Vec<(u64, Event)>,
}

impl<'a> RaceScript<'a> {
    pub(super) fn new(race: &'a Race, twists: &'a Twists) -> Self {
        let riders = race.card.runners.iter().map(|r| r.jockey.clone());
        Self {
            race,
            twists,
            riders: riders.collect(),
            facts: Vec::new(),
        }
    }

    /// All that is said of the race behind its card, each with its milliseconds after midnight.
    pub(super) fn all(mut self, rng: &mut Rng) -> Vec<(u64, Event)> {
        if let Some((at_ms, going)) = &self.race.rain {
            self.going(*at_ms, going.clone());
        }
        self.status(self.race.open_ms, RaceStatus::Open, None);
        let pool = self.bet(rng);
        if self.twists.ending == Ending::Abandoned {
            self.abandon(pool);
        } else {
            self.run(&pool, rng);
        }
        self.facts
    }

    fn run(&mut self, pool: &Pool, rng: &mut Rng) {
        let race = self.race;
        let finish = Finish::of(race, self.twists, rng);
        let home_ms = race.off_ms + finish.last_home_ms();
        let official_ms = home_ms + OFFICIAL_AFTER_MS;
        // What is quoted last is what is paid.
        self.quote(race.close_ms(), pool);
        self.status(race.close_ms(), RaceStatus::Closed, None);
        self.status(race.off_ms, RaceStatus::Off, None);
        self.status(home_ms, RaceStatus::Finished, None);
        let provisional = self.result(1, ResultStatus::Provisional, &finish, pool);
        self.say(
            home_ms + PROVISIONAL_AFTER_MS,
            Event::ResultDeclared(provisional),
        );
        if self.twists.ending == Ending::Voided {
            self.void(official_ms, 2, "Void: the starter had recalled the field");
            return;
        }
        let official = self.result(2, ResultStatus::Official, &finish, pool);
        self.say(official_ms, Event::ResultDeclared(official));
        self.status(official_ms, RaceStatus::Result, None);
        if self.twists.ending == Ending::Amended {
            let (finish, winner) = finish.without_its_winner();
            let mut amended = self.result(3, ResultStatus::Official, &finish, pool);
            amended.reason = Some(text(&format!(
                "{} is disqualified for careless riding",
                race.card.runners[winner].horse_name
            )));
            self.say(
                official_ms + AMENDED_AFTER_MS,
                Event::ResultDeclared(amended),
            );
        }
    }

    pub(super) fn status(&mut self, at_ms: u64, status: RaceStatus, reason: Option<&str>) {
        let key = self.key();
        let fact = RaceStatusChanged {
            date: key.date,
            venue: key.venue,
            race_number: key.race_number,
            status,
            reason: reason.map(text),
        };
        self.say(at_ms, Event::RaceStatusChanged(fact));
    }

    fn going(&mut self, at_ms: u64, going: Text) {
        let key = self.key();
        let fact = GoingChanged {
            date: key.date,
            venue: key.venue,
            race_number: key.race_number,
            going,
        };
        self.say(at_ms, Event::GoingChanged(fact));
    }

    pub(super) fn withdraw(&mut self, at_ms: u64, runner: usize, reason: &str) {
        let key = self.key();
        let fact = RunnerWithdrawn {
            date: key.date,
            venue: key.venue,
            race_number: key.race_number,
            horse_no: self.race.card.runners[runner].horse_no.clone(),
            reason: Some(text(reason)),
        };
        self.say(at_ms, Event::RunnerWithdrawn(fact));
    }

    pub(super) fn reinstate(&mut self, at_ms: u64, runner: usize, reason: &str) {
        let key = self.key();
        let fact = RunnerReinstated {
            date: key.date,
            venue: key.venue,
            race_number: key.race_number,
            horse_no: self.race.card.runners[runner].horse_no.clone(),
            reason: Some(text(reason)),
        };
        self.say(at_ms, Event::RunnerReinstated(fact));
    }

    /// A jockey who has no ride in the race takes over, and may be a pound or two over the weight.
    pub(super) fn change_rider(&mut self, at_ms: u64, runner: usize, rng: &mut Rng) {
        let free: Vec<&str> = JOCKEYS
            .into_iter()
            .filter(|name| self.riders.iter().all(|r| r.as_str() != *name))
            .collect();
        self.riders[runner] = text(rng.pick(&free));
        let over = u16::try_from(rng.below(3)).unwrap_or(0);
        let declared = &self.race.card.runners[runner];
        let key = self.key();
        let fact = RiderChanged {
            date: key.date,
            venue: key.venue,
            race_number: key.race_number,
            horse_no: declared.horse_no.clone(),
            jockey: self.riders[runner].clone(),
            weight: (over > 0).then_some(declared.weight + over),
        };
        self.say(at_ms, Event::RiderChanged(fact));
    }

    pub(super) fn quote(&mut self, at_ms: u64, pool: &Pool) {
        let key = self.key();
        let runners = self.race.card.runners.iter().enumerate();
        let quoted = runners.map(|(index, runner)| QuotedRunner {
            horse_no: runner.horse_no.clone(),
            horse_name: None,
            number: Some(runner.number),
            win: pool.win(index),
            place: pool.place(index),
            state: pool.closed(index),
        });
        let fact = OddsQuoted {
            date: key.date,
            venue: key.venue,
            race_number: key.race_number,
            runners: quoted.collect(),
        };
        self.say(at_ms, Event::OddsQuoted(fact));
    }

    fn void(&mut self, at_ms: u64, revision: u32, reason: &str) {
        let key = self.key();
        let fact = ResultVoided {
            date: key.date,
            venue: key.venue,
            race_number: key.race_number,
            revision,
            reason: Some(text(reason)),
        };
        self.say(at_ms, Event::ResultVoided(fact));
    }

    fn result(
        &self,
        revision: u32,
        status: ResultStatus,
        finish: &Finish,
        pool: &Pool,
    ) -> ResultDeclared {
        let card = &self.race.card;
        let going = self.race.rain.as_ref().map(|(_, going)| going.clone());
        ResultDeclared {
            date: card.date,
            venue: card.venue.clone(),
            race_number: card.race_number,
            venue_name: card.venue_name.clone(),
            race_name: Some(card.race_name.clone()),
            distance: Some(card.distance),
            going: going.or_else(|| card.going.clone()),
            revision,
            status,
            reason: None,
            runners: self.lines(finish, pool),
        }
    }

    /// The placed runners in their order, then the others.
    fn lines(&self, finish: &Finish, pool: &Pool) -> Vec<ResultRunner> {
        let mut lines = Vec::with_capacity(self.race.card.runners.len());
        for group in &finish.placed {
            let before = lines.len();
            let stakes = shared_stakes(self.race.stakes, before, group.runners.len());
            lines.extend(group.runners.iter().map(|&runner| ResultRunner {
                position: u16::try_from(before + 1).ok(),
                finish_time: FinishTime::from_hundredths(group.time).ok(),
                stakes: Some(stakes),
                ..self.line(runner, pool)
            }));
        }
        let unplaced = finish.unplaced.iter();
        lines.extend(unplaced.map(|&(runner, outcome, time)| ResultRunner {
            outcome: Some(Outcome::parse(outcome).expect("our own codes are well formed")),
            finish_time: time.and_then(|time| FinishTime::from_hundredths(time).ok()),
            ..self.line(runner, pool)
        }));
        lines
    }

    /// What is said of a runner however it ran.
    fn line(&self, runner: usize, pool: &Pool) -> ResultRunner {
        let declared = &self.race.card.runners[runner];
        ResultRunner {
            horse_no: declared.horse_no.clone(),
            horse_name: declared.horse_name.clone(),
            number: Some(declared.number),
            position: None,
            outcome: None,
            jockey: self.riders[runner].clone(),
            trainer: declared.trainer.clone(),
            finish_time: None,
            win_odds: pool.win(runner),
            stakes: Some(0),
        }
    }

    fn key(&self) -> RaceKey {
        let card = &self.race.card;
        RaceKey {
            date: card.date,
            venue: card.venue.clone(),
            race_number: card.race_number,
        }
    }

    fn say(&mut self, at_ms: u64, event: Event) {
        self.facts.push((at_ms, event));
    }
}

/// Horses that share a place share the stakes of the places that they take.
fn shared_stakes(stakes: u64, before: usize, sharing: usize) -> u64 {
    let taken: u64 = STAKES_SPLIT.iter().skip(before).take(sharing).sum();
    stakes * taken / 1000 / sharing as u64
}
