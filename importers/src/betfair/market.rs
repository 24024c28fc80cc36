//! [`Market`]: what was said of a race so far, and what a message says that is new.

use std::collections::BTreeMap;

use events::{
    DeclaredRunner, Event, HorseNo, Moment, Odds, OddsQuoted, ParseError, PriceState, QuotedRunner,
    RUNNERS_MAX, RaceDeclared, RaceKey, RaceStatus, RaceStatusChanged, RunnerReinstated,
    RunnerWithdrawn, Text,
};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::FORMAT;
use super::message::{Change, Definition, MarketStatus, Runner, RunnerChange, RunnerStatus};
use super::races::{MarketRace, split_number};
use crate::{Item, Location, sealed, units};

/// A market of a file.
#[derive(Debug)]
pub(super) struct Market {
    id: String,
    race: MarketRace,
    card: Option<RaceDeclared>,
    runners: BTreeMap<u64, RunnerStatus>,
    status: Option<(RaceStatus, Option<Text>)>,
    /// When the last quote was, and its id.
    quoted: Option<(Moment, Uuid)>,
}

/// When a message was published, and on which line it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) time: Moment,
    pub(super) place: &'a Location,
}

impl At<'_> {
    fn seal(self, event: Event) -> Item {
        sealed(FORMAT, self.time, event, self.place)
    }
}

impl Market {
    pub(super) fn new(id: &str, race: MarketRace) -> Self {
        Self {
            id: id.to_owned(),
            race,
            card: None,
            runners: BTreeMap::new(),
            status: None,
            quoted: None,
        }
    }

    /// What is to be said if the file ends here: nothing, if it has told how the race ended.
    pub(super) fn unfinished(&self) -> Option<String> {
        let status = self.status.as_ref();
        let over = status.is_some_and(|(status, _)| status.is_over());
        (!over).then(|| format!("market {} is still open where the file ends", self.id))
    }

    /// Says what a change says that is new: the card, the runners, the prices and the status, in this order.
    pub(super) fn tell(&mut self, change: &Change<'_>, at: At<'_>) -> Vec<Item> {
        let mut said = Vec::new();
        let definition = change.definition().unwrap_or_else(|reason| {
            let reason = format!("the definition of market {}: {reason}", self.id);
            said.push(at.place.refused(reason));
            None
        });
        if let Some(definition) = &definition {
            match self.card(definition) {
                Ok(card) => said.extend(card.map(|card| at.seal(card))),
                Err(error) => said.push(at.place.refused(error)),
            }
            let runners = self.outs_and_ins(definition);
            said.extend(runners.into_iter().map(|event| at.seal(event)));
        }
        self.quote(change.rc.as_deref().unwrap_or_default(), at, &mut said);
        if let Some(definition) = &definition {
            said.extend(self.status(definition).map(|event| at.seal(event)));
        }
        said
    }

    /// The card, if it says something new.
    fn card(&mut self, definition: &Definition) -> Result<Option<Event>, ParseError> {
        let RaceKey {
            date,
            venue,
            race_number,
        } = self.race.key.clone();
        let (_, name) = split_number(definition.name.as_deref().unwrap_or_default());
        let shown = definition
            .runners
            .iter()
            .filter(|runner| runner.status != RunnerStatus::Hidden);
        let mut runners: Vec<DeclaredRunner> = shown.map(declared).collect::<Result<_, _>>()?;
        // A market shows them in the order of their prices, which is no news for a card.
        runners.sort_by(|a, b| (a.number, &a.horse_no).cmp(&(b.number, &b.horse_no)));
        let card = RaceDeclared {
            date,
            venue,
            race_number,
            venue_name: Some(self.race.venue_name.clone()),
            race_name: Text::parse(name)?,
            distance: distance(name),
            class: Text::default(),
            going: None,
            off_time: Some(definition.market_time),
            runners,
        };
        if self.card.as_ref() == Some(&card) {
            return Ok(None);
        }
        self.card = Some(card.clone());
        Ok(Some(Event::RaceDeclared(card)))
    }

    /// Who is out now, and who is in again.
    fn outs_and_ins(&mut self, definition: &Definition) -> Vec<Event> {
        let now = definition.runners.iter().map(|r| (r.id, r.status));
        let before = std::mem::replace(&mut self.runners, now.collect());
        let mut said = Vec::new();
        for (id, status) in &self.runners {
            let was_out = before.get(id).is_some_and(|status| status.is_out());
            let RaceKey {
                date,
                venue,
                race_number,
            } = self.race.key.clone();
            let horse_no = horse_no(*id);
            let reason = None;
            match (was_out, status.is_out()) {
                // All runners of a market that is void are removed from it: they are not withdrawn.
                (false, true) if !definition.is_void() => {
                    said.push(Event::RunnerWithdrawn(RunnerWithdrawn {
                        date,
                        venue,
                        race_number,
                        horse_no,
                        reason,
                    }));
                }
                (true, false) => said.push(Event::RunnerReinstated(RunnerReinstated {
                    date,
                    venue,
                    race_number,
                    horse_no,
                    reason,
                })),
                _ => {}
            }
        }
        said
    }

    fn quote(&mut self, changes: &[RunnerChange<'_>], at: At<'_>, said: &mut Vec<Item>) {
        let mut runners: Vec<QuotedRunner> = Vec::new();
        for change in changes {
            let Some(ltp) = change.ltp else { continue };
            let win = match price(ltp) {
                Ok(win) => win,
                Err(error) => {
                    let reason = format!("the ltp of runner {}: {error}", change.id);
                    said.push(at.place.refused(reason));
                    continue;
                }
            };
            let horse_no = horse_no(change.id);
            // Two prices of a runner in one message are two ticks.
            let again = runners.iter().any(|r| r.horse_no == horse_no);
            if again || runners.len() == RUNNERS_MAX {
                said.push(self.quoted(std::mem::take(&mut runners), at));
            }
            runners.push(QuotedRunner {
                horse_no,
                horse_name: None,
                number: None,
                win,
                place: None,
                state: win.is_none().then_some(PriceState::NoMarket),
            });
        }
        if !runners.is_empty() {
            said.push(self.quoted(runners, at));
        }
    }

    /// A quote under an id of its own, also if it says what was said before within the same millisecond: of the prices
    /// 3.5, 3.6 and 3.5 the last one stands.
    fn quoted(&mut self, runners: Vec<QuotedRunner>, at: At<'_>) -> Item {
        let RaceKey {
            date,
            venue,
            race_number,
        } = self.race.key.clone();
        let mut item = at.seal(Event::OddsQuoted(OddsQuoted {
            date,
            venue,
            race_number,
            runners,
        }));
        if let Item::Event(quote) = &mut item {
            let content: Uuid = quote.id.parse().expect("a derived id is a UUID");
            let id = match self.quoted {
                Some((time, before)) if time == at.time => {
                    Uuid::new_v5(&before, content.as_bytes())
                }
                _ => content,
            };
            quote.id = id.to_string();
            self.quoted = Some((at.time, id));
        }
        item
    }

    /// Where the race stands, if it stands elsewhere than before.
    fn status(&mut self, definition: &Definition) -> Option<Event> {
        let stands = status(definition);
        if self.status.as_ref() == Some(&stands) {
            return None;
        }
        self.status = Some(stands.clone());
        let RaceKey {
            date,
            venue,
            race_number,
        } = self.race.key.clone();
        let (status, reason) = stands;
        Some(Event::RaceStatusChanged(RaceStatusChanged {
            date,
            venue,
            race_number,
            status,
            reason,
        }))
    }
}

fn horse_no(runner: u64) -> HorseNo {
    HorseNo::parse(&format!("BF_{runner}")).expect("BF_ and at most 20 digits are a horse number")
}

fn declared(runner: &Runner) -> Result<DeclaredRunner, ParseError> {
    let (number, name) = number_and_name(runner.name.as_deref().unwrap_or_default());
    Ok(DeclaredRunner {
        horse_no: horse_no(runner.id),
        horse_name: Text::parse(name)?,
        number: number.unwrap_or(0),
        jockey: Text::default(),
        trainer: Text::default(),
        draw: 0,
        weight: 0,
    })
}

/// Splits `13. Tottenham Hotspur`. Where a name has no number it is not known: the order in which a market shows its
/// runners is that of their prices.
fn number_and_name(text: &str) -> (Option<u16>, &str) {
    let found = text.split_once(". ").and_then(|(digits, name)| {
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        Some((digits.parse().ok().filter(|_| plain)?, name))
    });
    match found {
        Some((number, name)) => (Some(number), name),
        None => (None, text),
    }
}

/// The metres at the beginning of `1200m 3yo` or `1m2f Hcap`; 0 where there are none.
fn distance(name: &str) -> u32 {
    let first = name.split(' ').next().unwrap_or_default();
    match first.strip_suffix('m').map(str::parse) {
        // Nobody races over a hundred miles, or over less than a hundred metres.
        Some(Ok(metres @ 100..100_000)) => metres,
        _ => units::distance(first).unwrap_or(0),
    }
}

/// The last traded price; none where the file says that it is not a number.
fn price(ltp: &RawValue) -> Result<Option<Odds>, ParseError> {
    match ltp.get() {
        r#""NaN""# => Ok(None),
        number => Odds::parse(number).map(Some),
    }
}

fn status(definition: &Definition) -> (RaceStatus, Option<Text>) {
    let because = |reason: &str| Text::parse(reason).ok();
    match definition.status {
        MarketStatus::Closed if definition.is_void() => {
            (RaceStatus::Abandoned, because("the market was voided"))
        }
        MarketStatus::Closed => {
            let winners: Vec<&str> = definition.winners().collect();
            let reason = format!("won by {}", winners.join(" and "));
            let reason = because(&reason).filter(|_| !winners.is_empty());
            (RaceStatus::Finished, reason)
        }
        // A market is suspended in play while the race is run, or when it has been.
        _ if definition.in_play => (RaceStatus::Off, None),
        MarketStatus::Suspended => (RaceStatus::Closed, because("suspended")),
        MarketStatus::Open => (RaceStatus::Open, None),
        MarketStatus::Inactive => (RaceStatus::Scheduled, None),
    }
}

impl Definition {
    /// All bets on the market were called off.
    fn is_void(&self) -> bool {
        self.status == MarketStatus::Closed && self.runners.iter().all(|r| r.status.is_out())
    }

    /// The names of who won: several in a dead heat.
    fn winners(&self) -> impl Iterator<Item = &str> {
        let winners = self
            .runners
            .iter()
            .filter(|r| r.status == RunnerStatus::Winner);
        winners.filter_map(|r| Some(number_and_name(r.name.as_deref()?).1))
    }
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn the_distance_is_read_from_the_name() {
        for (name, metres) in [
            ("1200m 3yo", 1_200),
            ("1m Hcap", 1_609),
            ("2m4f Hcap Chs", 4_023),
            ("5f", 1_006),
            ("99m", 0),
            ("999999999m", 0),
            ("m", 0),
            ("To Be Placed", 0),
            ("", 0),
        ] {
            assert_eq!(distance(name), metres, "{name}");
        }
    }
}
