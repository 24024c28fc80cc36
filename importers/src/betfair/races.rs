//! [`MarketRaces`]: which market is which race, from a first reading of all files.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use events::{Moment, ParseError, RaceKey, RaceNumber, RacingDate, Text, VenueCode};

use super::message::{DefinedMarket, MarketChange, MarketDefinition};
use crate::item::{InputError, Omitted};
use crate::units;
use crate::venue_code::venue_code;

/// The races of a country in a year.
const MARKETS_MAX: usize = 20_000;
/// `1.132153978`
const MARKET_ID_BYTES_MAX: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MarketRace {
    pub(super) key: RaceKey,
    pub(super) venue_name: Text,
    /// How its number was found, unless it is in the name.
    pub(super) note: Option<String>,
}

#[derive(Debug)]
pub(super) enum MarketMeaning {
    Race(MarketRace),
    /// A kind of market that is not read.
    Other(ParseError),
    /// None of its definitions has a venue.
    NoVenue,
    Rejected(InputError),
}

/// The race of a market, from its first definition with a venue.
#[derive(Debug)]
struct ListedMarket {
    date: RacingDate,
    venue: VenueCode,
    venue_name: Text,
    market_time: Moment,
    /// From the market's name.
    number: Option<u16>,
}

/// Collects the markets in the first reading.
#[derive(Debug, Default)]
pub(super) struct MarketSurvey {
    markets: HashMap<String, Result<ListedMarket, MarketMeaning>>,
}

impl MarketSurvey {
    /// Takes the first definition of a market that has a venue; later ones change nothing.
    pub(super) fn add(&mut self, change: &MarketChange<'_>) {
        let Some(definition) = change.definition else {
            return;
        };
        if change.id.len() > MARKET_ID_BYTES_MAX
            || self.markets.len() >= MARKETS_MAX
            || self
                .markets
                .get(&*change.id)
                .is_some_and(|known| !matches!(known, Err(MarketMeaning::NoVenue)))
        {
            return;
        }
        let listed = match DefinedMarket::read(definition, &mut Omitted::new()) {
            // The second reading rejects the line. A later definition may be valid.
            Err(_) => return,
            Ok(DefinedMarket::Other(kind)) => Err(MarketMeaning::Other(kind)),
            Ok(DefinedMarket::Win(definition)) => match &definition.venue {
                None => Err(MarketMeaning::NoVenue),
                Some(venue) => ListedMarket::of(&definition, venue)
                    .map_err(|error| MarketMeaning::Rejected(error.into())),
            },
        };
        self.markets.insert(change.id.to_string(), listed);
    }

    /// Numbers the races. `given` is the number of the only one.
    pub(super) fn finish(self, given: Option<RaceNumber>) -> MarketRaces {
        let mut races = MarketRaces::default();
        let mut meetings: BTreeMap<_, BTreeMap<_, ListedMarket>> = BTreeMap::new();
        for (id, listed) in self.markets {
            match listed {
                Err(meaning) => {
                    races.markets.insert(id, meaning);
                }
                Ok(listed) => {
                    let meeting = (listed.date, listed.venue.clone());
                    let order = (listed.market_time, id);
                    meetings.entry(meeting).or_default().insert(order, listed);
                }
            }
        }
        let count: usize = meetings.values().map(BTreeMap::len).sum();
        for listed in meetings.into_values() {
            match given {
                Some(_) if count > 1 => {
                    let reason =
                        format!("--race-number applies to one race, and these files have {count}");
                    let rejected = || MarketMeaning::Rejected(reason.clone().into());
                    let markets = listed.into_keys().map(|(_, id)| (id, rejected()));
                    races.markets.extend(markets);
                }
                _ => races.number(listed, given),
            }
        }
        races
    }
}

#[derive(Debug, Default)]
pub(super) struct MarketRaces {
    markets: HashMap<String, MarketMeaning>,
}

/// The markets of a meeting by time.
type MeetingMarkets = BTreeMap<(Moment, String), ListedMarket>;

impl MarketRaces {
    /// The meaning of a market; `None` if no file defines it.
    pub(super) fn meaning(&self, market: &str) -> Option<&MarketMeaning> {
        self.markets.get(market)
    }

    /// Why the meaning of a market is not known.
    pub(super) fn unknown(&self, change: &MarketChange<'_>) -> InputError {
        if change.id.len() > MARKET_ID_BYTES_MAX {
            return ParseError::new("the id of a market is at most 32 bytes", &change.id).into();
        }
        let reason = match change.definition(&mut Omitted::new()) {
            Err(reason) => reason.to_string(),
            Ok(_) if self.markets.len() >= MARKETS_MAX => {
                format!("these files have more than {MARKETS_MAX} markets; import them in parts")
            }
            Ok(_) => "no file of this import defines it".to_owned(),
        };
        format!("market {}: {reason}", change.id).into()
    }

    fn number(&mut self, meeting: MeetingMarkets, given: Option<RaceNumber>) {
        let count = meeting.len();
        let mut names = None;
        let mut taken = BTreeSet::new();
        for (position, ((_, id), listed)) in (1..).zip(meeting) {
            let by_name = given.map(RaceNumber::get).or(listed.number);
            let meaning = listed.numbered(by_name, position, count).and_then(|race| {
                let name = names.get_or_insert_with(|| race.venue_name.clone());
                if *name != race.venue_name {
                    let other = &race.venue_name;
                    let code = &race.key.venue;
                    return Err(format!("{name} and {other} are both {code}").into());
                }
                if !taken.insert(race.key.race_number) {
                    let key = &race.key;
                    return Err(format!("another market of this import is race {key} too").into());
                }
                Ok(race)
            });
            let meaning = meaning.map_or_else(MarketMeaning::Rejected, MarketMeaning::Race);
            self.markets.insert(id, meaning);
        }
    }
}

impl ListedMarket {
    fn of(definition: &MarketDefinition, venue: &str) -> Result<Self, ParseError> {
        let venue_name = Text::parse(venue)?;
        let country = definition.country_code.as_deref().unwrap_or_default();
        // The day is that of the first race: the last one may be run after midnight.
        let day = definition.open_date.unwrap_or(definition.market_time);
        let zone = jiff::tz::TimeZone::get(&definition.timezone).map_err(|_| {
            let expected = "a timezone is one of the IANA database";
            ParseError::new(expected, &definition.timezone)
        })?;
        Ok(Self {
            date: zone.to_datetime(day.timestamp()).date().into(),
            // Two countries may race at a Newcastle on one day.
            venue: venue_code(&format!("{country}{venue}"))?,
            venue_name,
            market_time: definition.market_time,
            number: definition
                .name
                .as_deref()
                .and_then(|name| split_number(name).0),
        })
    }

    fn numbered(
        self,
        by_name: Option<u16>,
        position: u16,
        count: usize,
    ) -> Result<MarketRace, InputError> {
        let note = by_name.is_none().then(|| {
            format!(
                "numbered {position} of {count} by its time among the races of {} on {} in this import; \
                 --race-number overrides it",
                self.venue_name, self.date
            )
        });
        Ok(MarketRace {
            key: RaceKey {
                date: self.date,
                venue: self.venue,
                race_number: RaceNumber::try_from(by_name.unwrap_or(position))?,
            },
            venue_name: self.venue_name,
            note,
        })
    }
}

/// Splits `R1 1200m 3yo` into the number and the rest.
pub(super) fn split_number(name: &str) -> (Option<u16>, &str) {
    let found = name.strip_prefix('R').and_then(|rest| {
        let (digits, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        Some((units::whole(digits)?, rest.trim()))
    });
    found.map_or((None, name), |(number, rest)| (Some(number), rest))
}
