//! [`Races`]: which market is which race, found by a first reading of all files of a call.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use events::{Moment, ParseError, RaceKey, RaceNumber, RacingDate, Text, VenueCode};

use super::message::{Change, Defined, Definition};

/// Markets of a call: the races of a country in a year.
const MARKETS_MAX: usize = 20_000;
/// `1.132153978`
const MARKET_ID_BYTES_MAX: usize = 32;

/// The race that a market is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MarketRace {
    pub(super) key: RaceKey,
    pub(super) venue_name: Text,
    /// How its number was found, where that is worth a note.
    pub(super) note: Option<String>,
}

/// What a market of the call is.
#[derive(Debug)]
pub(super) enum Standing {
    Race(MarketRace),
    /// It is not read: it is of another kind.
    Other(ParseError),
    /// It should be read and cannot be.
    Refused(String),
}

/// What the first definition of a market says of its race.
#[derive(Debug)]
struct Listed {
    date: RacingDate,
    venue: VenueCode,
    venue_name: Text,
    market_time: Moment,
    /// From the market's name.
    number: Option<u16>,
}

/// What is gathered while the files are read for the first time.
#[derive(Debug, Default)]
pub(super) struct Survey {
    markets: HashMap<String, Result<Listed, Standing>>,
}

impl Survey {
    /// Notes the first definition of a market; later ones change nothing.
    pub(super) fn note(&mut self, change: &Change<'_>) {
        let Some(definition) = change.definition else {
            return;
        };
        if change.id.len() > MARKET_ID_BYTES_MAX
            || self.markets.len() >= MARKETS_MAX
            || self.markets.contains_key(&*change.id)
        {
            return;
        }
        let listed = match Defined::read(definition) {
            // The second reading refuses the line. A later definition may be right.
            Err(_) => return,
            Ok(Defined::Other(kind)) => Err(Standing::Other(kind)),
            Ok(Defined::Win(definition)) => {
                Listed::of(&definition).map_err(|error| Standing::Refused(error.to_string()))
            }
        };
        self.markets.insert(change.id.to_string(), listed);
    }

    /// Numbers the races. `said` is the number of the only one.
    pub(super) fn finish(self, said: Option<RaceNumber>) -> Races {
        let mut races = Races::default();
        let mut meetings: BTreeMap<_, BTreeMap<_, Listed>> = BTreeMap::new();
        for (id, listed) in self.markets {
            match listed {
                Err(standing) => {
                    races.markets.insert(id, standing);
                }
                Ok(listed) => {
                    let meeting = (listed.date, listed.venue.clone());
                    let place = (listed.market_time, id);
                    meetings.entry(meeting).or_default().insert(place, listed);
                }
            }
        }
        let count: usize = meetings.values().map(BTreeMap::len).sum();
        for listed in meetings.into_values() {
            match said {
                Some(_) if count > 1 => races.refuse(
                    listed,
                    &format!("--race-number is for one race, and these files have {count}"),
                ),
                _ => races.number(listed, said),
            }
        }
        races
    }
}

/// What each market of the call is.
#[derive(Debug, Default)]
pub(super) struct Races {
    markets: HashMap<String, Standing>,
}

/// The races of a meeting in the order of their times.
type Meeting = BTreeMap<(Moment, String), Listed>;

impl Races {
    /// What a market is; `None` if no file of the call defines it.
    pub(super) fn standing(&self, market: &str) -> Option<&Standing> {
        self.markets.get(market)
    }

    /// Why a market has no standing.
    pub(super) fn why_not(&self, change: &Change<'_>) -> String {
        if change.id.len() > MARKET_ID_BYTES_MAX {
            return ParseError::new("the id of a market is at most 32 bytes", &change.id)
                .to_string();
        }
        let reason = match change.definition() {
            Err(reason) => reason,
            Ok(_) if self.markets.len() >= MARKETS_MAX => {
                format!("these files have more than {MARKETS_MAX} markets; import them in parts")
            }
            Ok(_) => "no file of this call defines it".to_owned(),
        };
        format!("market {}: {reason}", change.id)
    }

    fn refuse(&mut self, meeting: Meeting, reason: &str) {
        let refused = meeting
            .into_keys()
            .map(|(_, id)| (id, Standing::Refused(reason.to_owned())));
        self.markets.extend(refused);
    }

    fn number(&mut self, meeting: Meeting, said: Option<RaceNumber>) {
        let (count, mut names, mut taken) = (meeting.len(), None, BTreeSet::new());
        for (place, ((_, id), listed)) in (1..).zip(meeting) {
            let by_name = said.map(RaceNumber::get).or(listed.number);
            let standing = listed.numbered(by_name, place, count).and_then(|race| {
                let name = names.get_or_insert_with(|| race.venue_name.clone());
                if *name != race.venue_name {
                    return Err(format!(
                        "{name} and {} are both {}",
                        race.venue_name, race.key.venue
                    ));
                }
                if !taken.insert(race.key.race_number) {
                    return Err(format!(
                        "another market of this call is race {} as well",
                        race.key
                    ));
                }
                Ok(race)
            });
            let standing = standing.map_or_else(Standing::Refused, Standing::Race);
            self.markets.insert(id, standing);
        }
    }
}

impl Listed {
    fn of(definition: &Definition) -> Result<Self, ParseError> {
        let venue_name = Text::parse(&definition.venue)?;
        let country = definition.country_code.as_deref().unwrap_or_default();
        // The first race of a meeting says its day: the last may be run after midnight.
        let day = definition.open_date.unwrap_or(definition.market_time);
        let zone = jiff::tz::TimeZone::get(&definition.timezone).map_err(|_| {
            ParseError::new(
                "a timezone is one of the IANA database",
                &definition.timezone,
            )
        })?;
        Ok(Self {
            date: zone.to_datetime(day.timestamp()).date().into(),
            venue: venue_code(country, &definition.venue)?,
            venue_name,
            market_time: definition.market_time,
            number: definition.name.as_deref().and_then(number_in),
        })
    }

    fn numbered(
        self,
        by_name: Option<u16>,
        place: u16,
        count: usize,
    ) -> Result<MarketRace, String> {
        let note = by_name.is_none().then(|| {
            format!(
                "numbered {place} of {count} by its time among the races of {} on {} in this call; --race-number says another",
                self.venue_name, self.date
            )
        });
        let number =
            RaceNumber::try_from(by_name.unwrap_or(place)).map_err(|error| error.to_string())?;
        Ok(MarketRace {
            key: RaceKey {
                date: self.date,
                venue: self.venue,
                race_number: number,
            },
            venue_name: self.venue_name,
            note,
        })
    }
}

/// The country and the first letters and digits of the name: Newcastle is in two countries that race on one day.
fn venue_code(country: &str, name: &str) -> Result<VenueCode, ParseError> {
    const LENGTH: usize = 8;
    let letters = country.chars().chain(name.chars());
    let code = letters.filter(char::is_ascii_alphanumeric).take(LENGTH);
    VenueCode::parse(&code.collect::<String>().to_ascii_uppercase())
        .map_err(|_| ParseError::new("the name of a venue has a letter of A-Z or a digit", name))
}

/// The number in `R1 1200m 3yo`.
fn number_in(name: &str) -> Option<u16> {
    let (number, _) = split_number(name);
    number
}

/// Splits `R1 1200m 3yo` into the number and the rest.
pub(super) fn split_number(name: &str) -> (Option<u16>, &str) {
    let found = name.strip_prefix('R').and_then(|rest| {
        let (digits, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        Some((digits.parse().ok().filter(|_| plain)?, rest.trim()))
    });
    match found {
        Some((number, rest)) => (Some(number), rest),
        None => (None, name),
    }
}
