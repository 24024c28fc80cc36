//! [`RaceRows`]: the runners of a race, and the result and the card that they make.

use std::collections::BTreeMap;

use events::{
    DeclaredRunner, Event, HorseNo, Moment, Outcome, RUNNERS_MAX, RaceDeclared, RaceKey,
    ResultDeclared, ResultRunner,
};

use crate::input::race_heading::RaceHeading;
use crate::input::repeats::Repeats;
use crate::item::{InputError, Item, LineItems, Location, Result};

#[derive(Debug)]
pub(crate) struct RaceRows {
    pub(crate) key: RaceKey,
    /// Its first row.
    pub(crate) location: Location,
    pub(crate) heading: RaceHeading,
    /// Without a position and an outcome on a card, and where the file does not have them.
    pub(crate) runners: Vec<(Location, ResultRunner)>,
    /// What only a card has.
    pub(crate) card_runners: BTreeMap<HorseNo, DeclaredRunner>,
}

impl RaceRows {
    pub(crate) fn new(key: RaceKey, heading: RaceHeading, location: Location) -> Self {
        Self {
            key,
            location,
            heading,
            runners: Vec::new(),
            card_runners: BTreeMap::new(),
        }
    }

    pub(crate) fn has(&self, horse_no: &HorseNo) -> bool {
        self.runners.iter().any(|(_, r)| r.horse_no == *horse_no)
    }

    /// Adds a row, in two parts: what a result has, and what only a card has. The heading of the first row is kept, and
    /// equal rows count once.
    pub(crate) fn add(
        &mut self,
        heading: &RaceHeading,
        runner: ResultRunner,
        card_runner: DeclaredRunner,
        out: &mut LineItems,
    ) -> Result<()> {
        let Self { key, runners, .. } = self;
        self.heading.compare(heading, key, &self.location, out);
        let horse_no = &runner.horse_no;
        let is_equal = |earlier: &ResultRunner| {
            *earlier == runner && self.card_runners.get(horse_no) == Some(&card_runner)
        };
        match runners.iter().find(|(_, r)| r.horse_no == *horse_no) {
            Some((_, earlier)) if is_equal(earlier) => {}
            Some((earlier, _)) => return Err(duplicate(horse_no, key, earlier)),
            None if runners.len() >= RUNNERS_MAX => return Err(full(key)),
            None => {
                self.card_runners.insert(horse_no.clone(), card_runner);
                runners.push((out.location.clone(), runner));
            }
        }
        Ok(())
    }

    /// The card; a reserve that was never called up is not on it.
    pub(crate) fn card(&self) -> RaceDeclared {
        let runners = self.runners.iter().map(|(_, runner)| runner);
        let is_start = |r: &ResultRunner| r.outcome.as_ref().is_none_or(Outcome::is_start);
        let on_card = runners.filter(|r| r.number.is_some() || is_start(r));
        let on_card = on_card.map(|r| declared(r, self.card_runners.get(&r.horse_no)));
        let mut card = self.heading.card.clone();
        card.runners = on_card.collect();
        card
    }

    fn result(self) -> ResultDeclared {
        let mut runners: Vec<_> = self.runners.into_iter().map(|(_, r)| r).collect();
        runners.sort_by_key(|runner| runner.position.unwrap_or(u16::MAX));
        self.heading.result(self.key, runners)
    }

    /// The result, and then the card, if the rows have what only a card has: in this order the race never appears as
    /// one that is still to be run. Each has a format and a time.
    pub(crate) fn items(
        self,
        of_result: (&str, Moment),
        of_card: (&str, Moment),
        repeats: &mut Repeats,
    ) -> Vec<Item> {
        let mut out = LineItems::new(self.location.clone());
        let card = self.card();
        let (format, time) = of_result;
        let result = Event::ResultDeclared(self.result());
        let result = out.location.event(format, time, result);
        let is_declared = matches!(result, Item::Event(_));
        repeats.push("race", result, &mut out);
        let has_more = |runner: &DeclaredRunner| runner.draw > 0 || runner.weight > 0;
        let has_more = card.runners.iter().any(has_more);
        let has_more = has_more || !card.class.is_empty() || card.off_time.is_some();
        if is_declared && has_more && !card.runners.is_empty() {
            let (format, time) = of_card;
            out.event(format, time, Event::RaceDeclared(card));
        }
        out.items
    }
}

/// Why a row with other values of a runner is rejected.
pub(crate) fn duplicate(horse: impl ToString, key: &RaceKey, earlier: &Location) -> InputError {
    let horse = horse.to_string();
    let line = earlier.line;
    format!("{horse} is already in {key}, on line {line}, with different values").into()
}

pub(crate) fn full(key: &RaceKey) -> InputError {
    format!("{key} already has {RUNNERS_MAX} runners").into()
}

/// A number that is not 0.
pub(crate) fn known_number(number: Option<u16>) -> Option<u16> {
    number.filter(|number| *number > 0)
}

fn declared(runner: &ResultRunner, card_runner: Option<&DeclaredRunner>) -> DeclaredRunner {
    let unknown = || DeclaredRunner::of(runner.horse_no.clone());
    DeclaredRunner {
        horse_name: runner.horse_name.clone(),
        names: runner.names.clone(),
        number: runner.number.unwrap_or(0),
        jockey: runner.jockey.clone(),
        jockey_names: runner.jockey_names.clone(),
        trainer: runner.trainer.clone(),
        trainer_names: runner.trainer_names.clone(),
        draw: runner.draw.unwrap_or(0),
        weight: runner.weight.unwrap_or(0),
        body_weight: runner.body_weight,
        gear: runner.gear.clone(),
        ..card_runner.cloned().unwrap_or_else(unknown)
    }
}
