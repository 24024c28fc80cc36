//! [`Race`]: what has been said of one race, and what of it is in force.

use std::collections::{BTreeMap, BTreeSet};

use events::{
    DeclaredRunner, Event, HorseNo, RUNNERS_MAX, RaceDeclared, RaceKey, RaceStatus, ResultDeclared,
    ResultRunner, ResultVoided, Text,
};
use serde::{Deserialize, Serialize};

use crate::live::LiveKind;
use crate::seen_ids::SeenIds;
use crate::venue_name;

/// Horses of one race of which something is noted: those of a few full cards.
const HORSES_NOTED_MAX: usize = 4 * RUNNERS_MAX;

/// What of all that was said of a race is in force.
///
/// A card replaces the card before it, with the riders and the going that were changed since. A withdrawal stands until
/// a reinstatement. Of two result statements the one with the higher revision stands, of equals the later one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Race {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) card: Option<RaceDeclared>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    riders: BTreeMap<HorseNo, Rider>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    going: Option<Text>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) withdrawn: BTreeMap<HorseNo, Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<RaceStatus>,
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub(crate) status_reason: Text,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<Statement>,
    #[serde(default, skip_serializing_if = "SeenIds::is_empty")]
    seen: SeenIds<FACT_IDS_MAX>,
    #[serde(default, skip_serializing_if = "is_zero")]
    statements: u32,
    /// The place of the last message of the live channel of each kind but the board's, which keeps its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) last_seq_by_kind: BTreeMap<LiveKind, u64>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out a reference"
)]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// A few dozen facts are said of a race; beyond this an old repetition is taken for a new fact.
const FACT_IDS_MAX: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Rider {
    jockey: Text,
    weight: Option<u16>,
}

/// A statement of how the race ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Statement {
    Declared(ResultDeclared),
    Voided(ResultVoided),
}

impl Statement {
    pub(crate) fn revision(&self) -> u32 {
        match self {
            Self::Declared(result) => result.revision,
            Self::Voided(void) => void.revision,
        }
    }
}

/// What an event did to a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// None: it was said before.
    None,
    /// Nothing is in force that was not, but the event is known now.
    Noted,
    /// Something is in force that was not.
    Changed,
    /// A statement of a result, the `index`th of this race. It may be in force, or stale.
    Stated { index: u32, in_force: bool },
}

impl Race {
    /// Applies an event about this race, unless it was applied before. Events of other kinds change nothing.
    pub(crate) fn apply(&mut self, event_id: &str, event: &Event) -> Effect {
        if !self.seen.is_new(event_id) {
            return Effect::None;
        }
        match event {
            Event::RaceDeclared(card) => {
                if self.card.as_ref() == Some(card) {
                    return Effect::Noted;
                }
                self.card = Some(card.clone());
                self.riders.clear();
                self.going = None;
                Effect::Changed
            }
            Event::RunnerWithdrawn(fact) if has_place(&self.withdrawn, &fact.horse_no) => {
                let reason = fact.reason.clone().unwrap_or_default();
                changed(
                    self.withdrawn.insert(fact.horse_no.clone(), reason.clone()) != Some(reason),
                )
            }
            Event::RunnerReinstated(fact) => {
                changed(self.withdrawn.remove(&fact.horse_no).is_some())
            }
            Event::RiderChanged(fact) if has_place(&self.riders, &fact.horse_no) => {
                let rider = Rider {
                    jockey: fact.jockey.clone(),
                    weight: fact.weight,
                };
                changed(self.riders.insert(fact.horse_no.clone(), rider.clone()) != Some(rider))
            }
            Event::GoingChanged(fact) => {
                changed(self.going.replace(fact.going.clone()).as_ref() != Some(&fact.going))
            }
            Event::RaceStatusChanged(fact) => {
                let reason = fact.reason.clone().unwrap_or_default();
                let same_reason =
                    std::mem::replace(&mut self.status_reason, reason.clone()) == reason;
                changed(self.status.replace(fact.status) != Some(fact.status) || !same_reason)
            }
            Event::ResultDeclared(result) => self.state(Statement::Declared(result.clone())),
            Event::ResultVoided(void) => self.state(Statement::Voided(void.clone())),
            Event::RunnerWithdrawn(_)
            | Event::RiderChanged(_)
            | Event::HorseRegistered(_)
            | Event::OddsQuoted(_) => Effect::Noted,
        }
    }

    fn state(&mut self, statement: Statement) -> Effect {
        if self.result.as_ref() == Some(&statement) {
            return Effect::Noted;
        }
        let index = self.statements;
        self.statements += 1;
        let in_force = self
            .result
            .as_ref()
            .is_none_or(|current| statement.revision() >= current.revision());
        if in_force {
            self.result = Some(statement);
        }
        Effect::Stated { index, in_force }
    }

    /// Where the race stands: a result that is in force says more than any status. Without one, it stands where it was
    /// said to; a void race of which nothing was said is abandoned.
    #[must_use]
    pub fn status(&self) -> RaceStatus {
        match (&self.result, self.status) {
            (Some(Statement::Declared(_)), _) => RaceStatus::Result,
            (Some(Statement::Voided(_)), status) => status.unwrap_or(RaceStatus::Abandoned),
            (None, status) => status.unwrap_or_default(),
        }
    }

    /// The declared result in force.
    pub(crate) fn declared(&self) -> Option<&ResultDeclared> {
        match &self.result {
            Some(Statement::Declared(result)) => Some(result),
            _ => None,
        }
    }

    /// The racecourse's name, as far as this race knows it.
    pub(crate) fn venue_name<'a>(&'a self, key: &'a RaceKey) -> &'a str {
        let said = self
            .declared()
            .and_then(|result| result.venue_name.as_ref());
        venue_name(
            &key.venue,
            said.or_else(|| self.card.as_ref()?.venue_name.as_ref()),
        )
    }

    /// The race's name; empty where nobody said it.
    pub(crate) fn name(&self) -> &str {
        let said = self
            .declared()
            .and_then(|result| result.race_name.as_ref())
            .filter(|name| !name.is_empty());
        said.or_else(|| Some(&self.card.as_ref()?.race_name))
            .map_or("", Text::as_str)
    }

    /// Metres; 0 where nobody said it.
    pub(crate) fn distance(&self) -> u32 {
        let said = self
            .declared()
            .and_then(|result| result.distance)
            .filter(|metres| *metres > 0);
        said.or_else(|| Some(self.card.as_ref()?.distance))
            .unwrap_or(0)
    }

    /// The class; empty where nobody said it.
    pub(crate) fn class(&self) -> &str {
        self.card.as_ref().map_or("", |card| card.class.as_str())
    }

    /// The going: the result's, else as last changed, else the card's.
    pub(crate) fn going(&self) -> &str {
        let said = self
            .declared()
            .and_then(|result| result.going.as_ref())
            .filter(|going| !going.is_empty());
        said.or(self.going.as_ref())
            .or_else(|| self.card.as_ref()?.going.as_ref())
            .map_or("", Text::as_str)
    }

    /// A horse's line on the card.
    pub(crate) fn declared_runner(&self, horse_no: &HorseNo) -> Option<&DeclaredRunner> {
        self.card
            .as_ref()?
            .runners
            .iter()
            .find(|runner| runner.horse_no == *horse_no)
    }

    /// The runners that were withdrawn from the card and that the declared result leaves out; none without a result.
    pub(crate) fn scratched(&self) -> impl Iterator<Item = &DeclaredRunner> {
        let said = self.declared().map(|result| &result.runners);
        let card = self.card.iter().flat_map(|card| &card.runners);
        card.filter(move |on_card| {
            let is = |runner: &ResultRunner| runner.horse_no == on_card.horse_no;
            self.withdrawn.contains_key(&on_card.horse_no)
                && said.is_some_and(|said| !said.iter().any(is))
        })
    }

    /// Who rides a runner of the card now, and with what weight.
    pub(crate) fn rider<'a>(&'a self, runner: &'a DeclaredRunner) -> (&'a Text, u16) {
        match self.riders.get(&runner.horse_no) {
            Some(rider) => (&rider.jockey, rider.weight.unwrap_or(runner.weight)),
            None => (&runner.jockey, runner.weight),
        }
    }

    /// Who rides a horse now, on the card or not, and with what weight; empty and 0 where nobody said it.
    pub(crate) fn rider_of(&self, horse_no: &HorseNo) -> (&str, u16) {
        if let Some(runner) = self.declared_runner(horse_no) {
            let (jockey, weight) = self.rider(runner);
            return (jockey.as_str(), weight);
        }
        self.riders.get(horse_no).map_or(("", 0), |rider| {
            (rider.jockey.as_str(), rider.weight.unwrap_or(0))
        })
    }

    /// The horses on the card and those that were quoted, sorted, each once.
    pub(crate) fn horses<'a>(
        &'a self,
        quoted: impl IntoIterator<Item = &'a HorseNo>,
    ) -> Vec<HorseNo> {
        let card = self.card.iter().flat_map(|card| &card.runners);
        let mut horses: BTreeSet<&HorseNo> = card.map(|runner| &runner.horse_no).collect();
        horses.extend(quoted);
        horses.into_iter().cloned().collect()
    }
}

/// Whether a horse may be noted beside those that are: a feeder that names ever new horses must not make a race grow.
pub(crate) fn has_place<T>(noted: &BTreeMap<HorseNo, T>, horse_no: &HorseNo) -> bool {
    noted.len() < HORSES_NOTED_MAX || noted.contains_key(horse_no)
}

fn changed(changed: bool) -> Effect {
    if changed {
        Effect::Changed
    } else {
        Effect::Noted
    }
}
