//! [`RaceRows`]: the runners of a race, and the result and the card that they make.

use events::{
    Currency, DeclaredRunner, Event, FinishTime, HorseNo, Margin, Moment, Odds, Outcome,
    RUNNERS_MAX, RaceDeclared, RaceKey, ResultDeclared, ResultRunner, Text,
};

use crate::input::race_heading::{RaceHeading, known};
use crate::input::repeats::Repeats;
use crate::item::{InputError, Item, LineItems, Location};
use crate::placing::Placing;

#[derive(Debug)]
pub(crate) struct RaceRows {
    pub(crate) key: RaceKey,
    /// Its first row.
    pub(crate) location: Location,
    pub(crate) heading: RaceHeading,
    pub(crate) runners: Vec<(Location, RunnerRow)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunnerRow {
    pub(crate) horse_no: HorseNo,
    pub(crate) horse_name: Text,
    /// 0 where it is not known, like the draw and the weight.
    pub(crate) number: u16,
    /// `None` on a card, and where the file does not have it.
    pub(crate) placing: Option<Placing>,
    pub(crate) jockey: Text,
    pub(crate) trainer: Text,
    pub(crate) draw: u16,
    pub(crate) weight: u16,
    pub(crate) finish_time: Option<FinishTime>,
    pub(crate) win_odds: Option<Odds>,
    pub(crate) stakes: Option<(u64, Currency)>,
    pub(crate) details: RowDetails,
}

/// What is known of a runner beside that.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RowDetails {
    pub(crate) margin: Option<Margin>,
    pub(crate) running_positions: Vec<u16>,
    pub(crate) rating: Option<u16>,
    pub(crate) body_weight: Option<u16>,
    pub(crate) gear: Text,
}

impl RowDetails {
    /// Takes what these details lack from others.
    pub(crate) fn fill(&mut self, other: &Self) {
        self.margin = self.margin.or(other.margin);
        self.body_weight = self.body_weight.or(other.body_weight);
        if self.running_positions.is_empty() {
            self.running_positions.clone_from(&other.running_positions);
        }
    }
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

    pub(crate) fn has(&self, horse_no: &HorseNo) -> bool {
        self.runners.iter().any(|(_, r)| r.horse_no == *horse_no)
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

    /// The card; a reserve that was never called up is not on it.
    pub(crate) fn card(&self) -> RaceDeclared {
        let runners = self.runners.iter().map(|(_, runner)| runner);
        let on_card = runners.filter(|r| r.number > 0 || r.is_start());
        let on_card = on_card.map(RunnerRow::declared).collect();
        self.heading.clone().card(self.key.clone(), on_card)
    }

    fn result(self) -> ResultDeclared {
        let mut runners: Vec<RunnerRow> = self.runners.into_iter().map(|(_, r)| r).collect();
        runners.sort_by_key(|runner| runner.position().unwrap_or(u16::MAX));
        let runners = runners.into_iter().map(RunnerRow::result).collect();
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

impl RunnerRow {
    pub(crate) fn position(&self) -> Option<u16> {
        self.placing.as_ref().and_then(Placing::position)
    }

    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        self.placing.as_ref().and_then(Placing::outcome)
    }

    /// Whether the runner took part, as far as is known.
    fn is_start(&self) -> bool {
        self.placing.as_ref().is_none_or(Placing::is_start)
    }

    fn result(self) -> ResultRunner {
        let position = self.position();
        let outcome = self.outcome().cloned();
        let (stakes, stakes_currency) = self.stakes.unzip();
        let known_number = |number: u16| (number > 0).then_some(number);
        ResultRunner {
            number: known_number(self.number),
            position,
            outcome,
            horse_name: self.horse_name,
            jockey: self.jockey,
            trainer: self.trainer,
            finish_time: self.finish_time,
            win_odds: self.win_odds,
            stakes,
            stakes_currency,
            margin: self.details.margin,
            running_positions: self.details.running_positions,
            draw: known_number(self.draw),
            weight: known_number(self.weight),
            body_weight: self.details.body_weight,
            gear: known(self.details.gear),
            ..ResultRunner::of(self.horse_no)
        }
    }

    fn declared(&self) -> DeclaredRunner {
        DeclaredRunner {
            horse_name: self.horse_name.clone(),
            number: self.number,
            jockey: self.jockey.clone(),
            trainer: self.trainer.clone(),
            draw: self.draw,
            weight: self.weight,
            rating: self.details.rating,
            body_weight: self.details.body_weight,
            gear: known(self.details.gear.clone()),
            ..DeclaredRunner::of(self.horse_no.clone())
        }
    }
}
