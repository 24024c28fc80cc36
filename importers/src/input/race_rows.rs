//! [`RaceRows`]: the rows of a table about one race, and the result and the card that they make.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use events::{
    Currency, DeclaredRunner, Event, FinishTime, HorseNo, Moment, Odds, RUNNERS_MAX, RaceKey,
    ResultRunner, Text,
};

use crate::input::race_heading::RaceHeading;
use crate::input::repeats::Repeats;
use crate::item::{InputError, Item, LineItems, Location};
use crate::placing::Placing;

#[derive(Debug)]
pub(crate) struct RaceRows {
    key: RaceKey,
    /// Its first row.
    location: Location,
    heading: RaceHeading,
    runners: Vec<(Location, RunnerRow)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunnerRow {
    pub(crate) horse_no: HorseNo,
    pub(crate) horse_name: Text,
    /// 0 where it is not known, like the draw and the weight.
    pub(crate) number: u16,
    pub(crate) placing: Placing,
    pub(crate) jockey: Text,
    pub(crate) trainer: Text,
    pub(crate) draw: u16,
    pub(crate) weight: u16,
    pub(crate) finish_time: Option<FinishTime>,
    pub(crate) win_odds: Option<Odds>,
    pub(crate) stakes: Option<(u64, Currency)>,
}

impl RaceRows {
    pub(crate) fn new(key: RaceKey, heading: RaceHeading, location: Location) -> Self {
        Self {
            key,
            location,
            heading,
            runners: Vec::new(),
        }
    }

    /// Adds a row. The heading of the first row is kept, and equal rows count once.
    pub(crate) fn add(
        &mut self,
        heading: &RaceHeading,
        runner: RunnerRow,
        out: &mut LineItems,
    ) -> Result<(), InputError> {
        let Self { key, runners, .. } = self;
        self.heading.compare(heading, key, &self.location, out);
        match runners.iter().find(|(_, r)| r.horse_no == runner.horse_no) {
            Some((_, earlier)) if *earlier == runner => {}
            Some((earlier, _)) => return Err(duplicate(&runner.horse_no, key, earlier)),
            None if runners.len() >= RUNNERS_MAX => return Err(full(key)),
            None => runners.push((out.location.clone(), runner)),
        }
        Ok(())
    }

    /// The result, and then the card: in this order the race never appears as one that is still to be run.
    fn events(self) -> (Event, Option<Event>) {
        let mut runners: Vec<RunnerRow> = self.runners.into_iter().map(|(_, r)| r).collect();
        // A reserve that was never called up is not on the card.
        let on_card = runners
            .iter()
            .filter(|r| r.number > 0 || r.placing.is_start());
        let card: Vec<DeclaredRunner> = on_card.map(RunnerRow::declared).collect();
        runners.sort_by_key(|runner| runner.placing.position().unwrap_or(u16::MAX));
        let runners = runners.into_iter().map(RunnerRow::result).collect();
        let result = self.heading.clone().result(self.key.clone(), runners);
        let card = (!card.is_empty()).then(|| self.heading.card(self.key, card));
        (Event::ResultDeclared(result), card.map(Event::RaceDeclared))
    }
}

/// Why a row with other values of a runner is rejected.
pub(crate) fn duplicate(horse: impl ToString, key: &RaceKey, earlier: &Location) -> InputError {
    let (horse, line) = (horse.to_string(), earlier.line);
    format!("{horse} is already in {key}, on line {line}, with different values").into()
}

pub(crate) fn full(key: &RaceKey) -> InputError {
    format!("{key} already has {RUNNERS_MAX} runners").into()
}

impl RunnerRow {
    fn result(self) -> ResultRunner {
        let (stakes, stakes_currency) = self.stakes.unzip();
        ResultRunner {
            horse_no: self.horse_no,
            horse_name: self.horse_name,
            number: (self.number > 0).then_some(self.number),
            position: self.placing.position(),
            outcome: self.placing.outcome().cloned(),
            jockey: self.jockey,
            trainer: self.trainer,
            finish_time: self.finish_time,
            win_odds: self.win_odds,
            stakes,
            stakes_currency,
        }
    }

    fn declared(&self) -> DeclaredRunner {
        DeclaredRunner {
            horse_no: self.horse_no.clone(),
            horse_name: self.horse_name.clone(),
            number: self.number,
            jockey: self.jockey.clone(),
            trainer: self.trainer.clone(),
            draw: self.draw,
            weight: self.weight,
        }
    }
}

/// The races that an import has read to their end.
#[derive(Debug, Default)]
pub(crate) struct CompletedRaces {
    repeats: Repeats,
    /// The last file with each race.
    files: HashMap<RaceKey, Arc<Path>>,
}

impl CompletedRaces {
    /// The result and the card of a race.
    pub(crate) fn items(&mut self, format: &str, time: Moment, race: RaceRows) -> Vec<Item> {
        let (key, mut out) = (race.key.clone(), LineItems::new(race.location.clone()));
        let (result, card) = race.events();
        let result = out.location.event(format, time, result);
        if let Item::Event(event) = &result {
            let file = &out.location.file;
            if self.files.get(&key) == Some(file) && !self.repeats.is_last(event) {
                let reason = "this race was read before: its rows must be contiguous";
                return vec![out.location.rejected(reason)];
            }
            self.files.insert(key, Arc::clone(file));
        }
        self.repeats.push("race", result, &mut out);
        if let Some(card) = card {
            out.event(format, time, card);
        }
        out.items
    }
}
