//! [`Race`]: the card, changes and result of one race that are in force.

use std::collections::{BTreeMap, BTreeSet};

use events::{
    Currency, DeclaredRunner, DividendsDeclared, Event, HorseNo, Moment, Names, RUNNERS_MAX,
    RaceDeclared, RaceKey, RaceStatus, Recorded, ResultDeclared, ResultRunner, Text,
};
use serde::{Deserialize, Serialize};

use crate::effect::Effect;
use crate::newest::{Newest, Order};
use crate::pools::Pools;
use crate::statements::{ResultStatement, Statements};
use crate::venue::{venue_name, venue_time_zone};
use crate::{LogClock, json};

/// The largest number of horses that one map of a race holds: those of a few full cards.
const HORSES_MAX: usize = 4 * RUNNERS_MAX;

/// The facts about a race that are in force.
///
/// A card replaces the card before it, and the changes of riders and going since. A withdrawal is in force until a
/// reinstatement. [`Statements`] has the results and the dividends. [`Newest`] decides which of two facts about the
/// same thing is the later one: the status, the card, the going, the rider and the withdrawal of each horse.
#[serde_with::apply(_ => #[serde(skip_serializing_if = "json::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Race {
    pub(crate) card: Option<RaceDeclared>,
    cards: Newest,
    riders: BTreeMap<HorseNo, Latest<Rider>>,
    going: Option<Text>,
    goings: Newest,
    /// The withdrawn horses with the reasons, and the reinstated ones.
    withdrawals: BTreeMap<HorseNo, Latest<Text>>,
    status: Option<RaceStatus>,
    pub(crate) status_reason: Text,
    statuses: Newest,
    pub(crate) results: Statements<ResultStatement>,
    pub(crate) dividends: Statements<DividendsDeclared>,
    pub(crate) pools: Pools,
}

/// What is in force for a horse, and the order of the facts about it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Latest<T> {
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    in_force: Option<T>,
    order: Newest,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Rider {
    jockey: Text,
    weight: Option<u16>,
}

impl Race {
    /// Applies an event about this race, unless it was applied before or is older than the fact in force. Horses and
    /// prices change nothing here.
    pub(crate) fn apply(&mut self, recorded: &Recorded, clock: &LogClock) -> Effect {
        let order = |newest: &mut Newest| newest.take(recorded, clock);
        match &recorded.envelope.event {
            Event::RaceDeclared(card) => if_new(order(&mut self.cards), || self.declare(card)),
            Event::RunnerWithdrawn(fact) if has_room(&self.withdrawals, &fact.horse_no) => {
                let horse = self.withdrawals.entry(fact.horse_no.clone()).or_default();
                let reason = fact.reason.clone().unwrap_or_default();
                if_new(order(&mut horse.order), || set(&mut horse.in_force, reason))
            }
            Event::RunnerReinstated(fact) if has_room(&self.withdrawals, &fact.horse_no) => {
                let horse = self.withdrawals.entry(fact.horse_no.clone()).or_default();
                if_new(order(&mut horse.order), || horse.in_force.take().is_some())
            }
            Event::RiderChanged(fact) if has_room(&self.riders, &fact.horse_no) => {
                let horse = self.riders.entry(fact.horse_no.clone()).or_default();
                let rider = Rider {
                    jockey: fact.jockey.clone(),
                    weight: fact.weight,
                };
                if_new(order(&mut horse.order), || set(&mut horse.in_force, rider))
            }
            Event::GoingChanged(fact) => if_new(order(&mut self.goings), || {
                set(&mut self.going, fact.going.clone())
            }),
            Event::RaceStatusChanged(fact) => if_new(order(&mut self.statuses), || {
                let reason = fact.reason.clone().unwrap_or_default();
                let reason_changed = self.status_reason != reason;
                self.status_reason = reason;
                set(&mut self.status, fact.status) || reason_changed
            }),
            Event::ResultDeclared(result) => {
                let mut result = Box::new(result.clone());
                result.merge_names(self.declared());
                let statement = ResultStatement::Declared(result);
                self.results.state(recorded, &statement)
            }
            Event::ResultVoided(void) => {
                let statement = ResultStatement::Voided(void.clone());
                self.results.state(recorded, &statement)
            }
            Event::PoolInvested(total) => if_new(self.pools.take(recorded, total, clock), || false),
            Event::DividendsDeclared(dividends) => self.dividends.state(recorded, dividends),
            Event::RunnerWithdrawn(_)
            | Event::RunnerReinstated(_)
            | Event::RiderChanged(_)
            | Event::HorseRegistered(_)
            | Event::OddsQuoted(_)
            | Event::MarketQuoted(_)
            | Event::SourcesRanked(_) => Effect::Unchanged,
        }
    }

    /// The scheduled off, if a card has it.
    pub(crate) fn off_time(&self) -> Option<Moment> {
        self.card.as_ref()?.off_time
    }

    /// Replaces the card, and ends the changes of riders and going since the last one. Returns false if the card is
    /// equal.
    fn declare(&mut self, card: &RaceDeclared) -> bool {
        let mut merged = card.clone();
        merged.merge_names(self.card.as_ref());
        if self.card.as_ref() == Some(&merged) {
            return false;
        }
        for (runner, stated) in merged.runners.iter_mut().zip(&card.runners) {
            // The jockey of the earlier card is not the one that rides.
            if self.changed_rider(&runner.horse_no).is_some() {
                runner.jockey.clone_from(&stated.jockey);
                runner.jockey_names.clone_from(&stated.jockey_names);
            }
        }
        self.card = Some(merged);
        for horse in self.riders.values_mut() {
            horse.in_force = None;
        }
        self.going = None;
        true
    }

    /// The reason of a horse's withdrawal, if one is in force.
    pub(crate) fn withdrawal(&self, horse_no: &HorseNo) -> Option<&Text> {
        self.withdrawals.get(horse_no)?.in_force.as_ref()
    }

    /// The status of the race. A declared result overrides every status that was published. A voided race without a
    /// published status is abandoned.
    pub(crate) fn status(&self) -> RaceStatus {
        match (&self.results.in_force, self.status) {
            (Some(ResultStatement::Declared(_)), _) => RaceStatus::Result,
            (Some(ResultStatement::Voided(_)), status) => status.unwrap_or(RaceStatus::Abandoned),
            (None, status) => status.unwrap_or_default(),
        }
    }

    /// The declared result in force.
    pub(crate) fn declared(&self) -> Option<&ResultDeclared> {
        match &self.results.in_force {
            Some(ResultStatement::Declared(result)) => Some(result),
            _ => None,
        }
    }

    /// The racecourse's name: the result's, else the card's, else that of the venue code.
    pub(crate) fn venue_name<'a>(&'a self, key: &'a RaceKey) -> &'a str {
        let result = self.declared();
        let stated = result.and_then(|result| result.venue_name.as_ref());
        let on_card = || self.card.as_ref()?.venue_name.as_ref();
        venue_name(&key.venue, stated.or_else(on_card))
    }

    /// The time zone of the racecourse: the card's, else that of the venue code; empty if unknown.
    pub(crate) fn time_zone<'a>(&'a self, key: &'a RaceKey) -> &'a str {
        let stated = self.card.as_ref().and_then(|card| card.time_zone.as_ref());
        venue_time_zone(&key.venue, stated)
    }

    /// A text that the result states, else the card; `None` if it is unknown.
    pub(crate) fn text<'a>(
        &'a self,
        of_result: impl FnOnce(&'a ResultDeclared) -> Option<&'a Text>,
        of_card: impl FnOnce(&'a RaceDeclared) -> Option<&'a Text>,
    ) -> Option<&'a str> {
        let is_known = |text: &&Text| !text.is_empty();
        let stated = self.declared().and_then(of_result).filter(is_known);
        let text = stated.or_else(|| self.card.as_ref().and_then(of_card).filter(is_known));
        text.map(Text::as_str)
    }

    /// The race's name; empty if unknown.
    pub(crate) fn name(&self) -> &str {
        let result = self.declared();
        let stated = result.and_then(|r| Some((r.race_name.as_ref()?, &r.names)));
        let on_card = self.card.as_ref().map(|c| (&c.race_name, &c.names));
        Names::best([stated, on_card].into_iter().flatten()).map_or("", Text::as_str)
    }

    /// The distance in metres; 0 if unknown.
    pub(crate) fn distance(&self) -> u32 {
        let stated = self.declared().and_then(|result| result.distance);
        stated
            .filter(|metres| *metres > 0)
            .or_else(|| Some(self.card.as_ref()?.distance))
            .unwrap_or(0)
    }

    /// The class; empty if unknown.
    pub(crate) fn class(&self) -> &str {
        let class = self.text(|r| r.class.as_ref(), |c| Some(&c.class));
        class.unwrap_or_default()
    }

    /// The going: the result's, else as last changed, else the card's; empty if unknown.
    pub(crate) fn going(&self) -> &str {
        let stated = self.declared().and_then(|result| result.going.as_ref());
        stated
            .filter(|going| !going.is_empty())
            .or(self.going.as_ref())
            .or_else(|| self.card.as_ref()?.going.as_ref())
            .map_or("", Text::as_str)
    }

    /// The prize money and its currency.
    pub(crate) fn prize(&self) -> Option<(u64, Option<&str>)> {
        let of_result = self.declared().map(|r| (r.prize, &r.prize_currency));
        let on_card = self.card.as_ref().map(|c| (c.prize, &c.prize_currency));
        let mut stated = [of_result, on_card].into_iter().flatten();
        stated.find_map(|(prize, currency)| Some((prize?, currency.as_ref().map(Currency::as_str))))
    }

    /// A horse's entry on the card.
    pub(crate) fn declared_runner(&self, horse_no: &HorseNo) -> Option<&DeclaredRunner> {
        let mut runners = self.card.as_ref()?.runners.iter();
        runners.find(|runner| runner.horse_no == *horse_no)
    }

    /// The runners that were withdrawn and that the declared result leaves out. None without a result.
    pub(crate) fn scratched(&self) -> impl Iterator<Item = &DeclaredRunner> {
        let in_result = self.declared().map(|result| &result.runners);
        let card = self.card.iter().flat_map(|card| &card.runners);
        card.filter(move |on_card| {
            let is_same = |runner: &ResultRunner| runner.horse_no == on_card.horse_no;
            self.withdrawal(&on_card.horse_no).is_some()
                && in_result.is_some_and(|runners| !runners.iter().any(is_same))
        })
    }

    /// The jockey of a runner of the card and the weight that it carries, after all changes.
    pub(crate) fn rider<'a>(&'a self, runner: &'a DeclaredRunner) -> (&'a Text, u16) {
        match self.changed_rider(&runner.horse_no) {
            Some(rider) => (&rider.jockey, rider.weight.unwrap_or(runner.weight)),
            None => (&runner.jockey, runner.weight),
        }
    }

    /// The jockey of a horse, on the card or not, and the weight that it carries; empty and 0 if unknown.
    pub(crate) fn rider_of(&self, horse_no: &HorseNo) -> (&str, u16) {
        if let Some(runner) = self.declared_runner(horse_no) {
            let (jockey, weight) = self.rider(runner);
            return (jockey.as_str(), weight);
        }
        self.changed_rider(horse_no).map_or(("", 0), |rider| {
            (rider.jockey.as_str(), rider.weight.unwrap_or(0))
        })
    }

    fn changed_rider(&self, horse_no: &HorseNo) -> Option<&Rider> {
        self.riders.get(horse_no)?.in_force.as_ref()
    }

    /// The horses on the card and the quoted ones, sorted, each once.
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

/// Whether a map has room for a horse. It bounds a race for which a feeder names new horses without end.
pub(crate) fn has_room<T>(horses: &BTreeMap<HorseNo, T>, horse_no: &HorseNo) -> bool {
    horses.len() < HORSES_MAX || horses.contains_key(horse_no)
}

/// Applies a fact if it is new. `apply` returns whether anything changed.
fn if_new(order: Order, apply: impl FnOnce() -> bool) -> Effect {
    match order {
        Order::New if apply() => Effect::Changed,
        Order::New => Effect::Unchanged,
        Order::Repeated => Effect::Repeated,
        Order::Stale => Effect::Stale,
    }
}

/// Sets a value. Returns whether it is another one.
fn set<T: PartialEq>(place: &mut Option<T>, value: T) -> bool {
    let changed = place.as_ref() != Some(&value);
    *place = Some(value);
    changed
}
