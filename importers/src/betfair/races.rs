//! [`MarketRaces`]: which market is which race, from a first reading of all files.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use events::{Moment, ParseError, RaceKey, RaceNumber, RacingDate, Text, VenueCode};

use super::message::{MarketChange, MarketDefinition, PLACE};
use super::place_market::{PRICES_MAX, PlaceMarket, PlaceMarkets};
use crate::item::{InputError, Omitted, Result};
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
    pub(super) place: Arc<PlaceMarket>,
}

#[derive(Debug)]
pub(super) enum MarketMeaning {
    Race(MarketRace),
    /// A PLACE market, whose prices are those of the race of its WIN market.
    Place(MarketIdentity),
    /// A kind of market that is not read.
    Other(ParseError),
    /// None of its definitions has a venue.
    NoVenue,
    Rejected(InputError),
}

/// What the WIN and the PLACE market of a race have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct MarketIdentity {
    event_id: Option<String>,
    market_time: Moment,
    runners: BTreeSet<u64>,
}

impl MarketIdentity {
    fn of(definition: &MarketDefinition) -> Self {
        Self {
            event_id: definition.event_id.clone(),
            market_time: definition.market_time,
            runners: definition.runners.iter().map(|r| r.id).collect(),
        }
    }
}

/// The race of a market, from its first definition with a venue.
#[derive(Debug)]
struct ListedMarket {
    date: RacingDate,
    venue: VenueCode,
    venue_name: Text,
    identity: MarketIdentity,
    /// From the market's name.
    number: Option<u16>,
}

/// Collects the markets in the first reading.
#[derive(Debug, Default)]
pub(super) struct MarketSurvey {
    markets: BTreeMap<String, Result<ListedMarket, MarketMeaning>>,
    pub(super) places: PlaceMarkets,
}

impl MarketSurvey {
    /// Takes the first definition of a market, of a WIN market the first that has a venue; later ones change nothing.
    /// The prices of a PLACE market, or of one that is not defined yet, go to `places`.
    pub(super) fn add(&mut self, change: &MarketChange<'_>, at: Moment, places: &mut PlaceMarkets) {
        let known = self.markets.get(&*change.id);
        let is_beyond = known.is_none() && self.markets.len() >= MARKETS_MAX;
        if change.id.len() > MARKET_ID_BYTES_MAX || is_beyond {
            return;
        }
        let is_place = matches!(known, None | Some(Err(MarketMeaning::Place(_))));
        let is_open = is_place || matches!(known, Some(Err(MarketMeaning::NoVenue)));
        let definition = change.definition.filter(|_| is_open);
        let rejected = |error: ParseError| MarketMeaning::Rejected(error.into());
        // The second reading rejects an invalid one. A later definition may be valid.
        let read = |definition| MarketDefinition::read(definition, &mut Omitted::new()).ok();
        let listed = match definition.and_then(read) {
            None if is_place => return places.add(change, at),
            None => return,
            Some(Err(kind)) => Err(MarketMeaning::Other(kind)),
            Some(Ok(definition)) if definition.market_type == PLACE => {
                places.add(change, at);
                let prices = definition.starting_prices(|_| {});
                places.market(&change.id).starting_prices.extend(prices);
                Err(MarketMeaning::Place(MarketIdentity::of(&definition)))
            }
            Some(Ok(definition)) => match &definition.venue {
                None => Err(MarketMeaning::NoVenue),
                Some(venue) => ListedMarket::of(&definition, venue).map_err(rejected),
            },
        };
        if known.is_none_or(|known| matches!(known, Err(MarketMeaning::NoVenue))) {
            self.markets.insert(change.id.to_string(), listed);
        }
    }

    /// Numbers the races. `given` is the number of the only one.
    pub(super) fn finish(self, given: Option<RaceNumber>) -> MarketRaces {
        let mut races = MarketRaces::default();
        let mut meetings: BTreeMap<_, BTreeMap<_, ListedMarket>> = BTreeMap::new();
        let mut wins = HashMap::new();
        let mut places = Vec::new();
        for (id, listed) in self.markets {
            match listed {
                Err(MarketMeaning::Place(identity)) => places.push((id, identity)),
                Err(meaning) => {
                    races.markets.insert(id, meaning);
                }
                Ok(listed) => {
                    let identity = listed.identity.clone();
                    wins.entry(identity).or_insert_with(|| id.clone());
                    let meeting = (listed.date, listed.venue.clone());
                    let order = (listed.identity.market_time, id);
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
        let mut prices = self.places;
        for (id, identity) in places {
            let joined = races.join(wins.get(&identity), prices.take(&id));
            let place = |()| MarketMeaning::Place(identity);
            let meaning = joined.map_or_else(MarketMeaning::Rejected, place);
            races.markets.insert(id, meaning);
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

    /// Adds the prices of a PLACE market, unless there are too many, to the race of its WIN market.
    fn join(&mut self, win: Option<&String>, place: Option<PlaceMarket>) -> Result<()> {
        let meaning = win.and_then(|win| self.markets.get_mut(win));
        let (Some(win), Some(MarketMeaning::Race(race))) = (win, meaning) else {
            let reason = "place prices need the WIN market of the same event, time and runners, which is not imported";
            return Err(reason.into());
        };
        let Some(place) = place else {
            // Without its win prices, because place prices that are imported after them are stale.
            let reason = format!("more than {PRICES_MAX} place prices: import the files in parts");
            let rejected = MarketMeaning::Rejected(reason.clone().into());
            self.markets.insert(win.clone(), rejected);
            return Err(reason.into());
        };
        if *race.place != PlaceMarket::default() {
            return Err(format!("WIN market {win} has another PLACE market").into());
        }
        race.place = Arc::new(place);
        Ok(())
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
            identity: MarketIdentity::of(definition),
            number: split_number(definition.name.as_deref().unwrap_or_default()).0,
        })
    }

    fn numbered(self, by_name: Option<u16>, position: u16, count: usize) -> Result<MarketRace> {
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
            place: Arc::default(),
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
