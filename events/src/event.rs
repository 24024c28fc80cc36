//! [`Event`]: every kind of fact, and its `type` on the wire.

use serde::de::{Deserialize, Deserializer, Error};
use serde_json::value::RawValue;

use crate::error::cut_reason;
use crate::facts::{dividends, horse, invalid, odds, pools, race, result, sources};
use crate::object::Object;
use crate::{DecodeError, Foaled, Moment, ParseError, RaceKey, RacingDate, Subject};

macro_rules! events {
    ($($(#[doc = $doc:literal])* $name:ident($payload:ty) = $type:literal, $subject:ident;)*) => {
        /// A fact. Each variant wraps the struct of its name.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Event {
            $($(#[doc = $doc])* $name($payload),)*
        }

        /// The `type` of every event of this version.
        pub const EVENT_TYPES: &[&str] = &[$($type),*];

        /// The JSON Schema of each event, by its type: the files in `schemas/`, which a test makes.
        pub const SCHEMAS: &[(&str, &str)] =
            &[$(($type, include_str!(concat!("../../schemas/", $type, ".json")))),*];

        impl Event {
            /// The CloudEvents `type`.
            pub fn type_name(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => $type,)*
                }
            }

            /// The subject that the event belongs on.
            pub fn subject(&self) -> Subject {
                match self {
                    $(Self::$name(fact) => events!(@subject $subject fact),)*
                }
            }

            /// The race that the event is about; `None` for an event about a horse or sources.
            pub fn race(&self) -> Option<RaceKey> {
                match self {
                    $(Self::$name(fact) => events!(@race $subject fact),)*
                }
            }

            /// The `data` of the CloudEvent.
            pub(crate) fn data(&self) -> Box<RawValue> {
                let data = match self {
                    $(Self::$name(fact) => serde_json::value::to_raw_value(fact),)*
                };
                data.expect("facts have string keys and no failing field")
            }

            /// Parses the `data` of an event of this type, without a copy of its JSON.
            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
                type_name: &str,
                data: D,
            ) -> Result<Self, D::Error> {
                match type_name {
                    $($type => Object::<$payload>::deserialize(data).map(|Object(fact)| Self::$name(fact)),)*
                    _ => Err(D::Error::custom("an unknown type")),
                }
            }

            pub(crate) fn parse(type_name: &str, data: &str) -> Result<Self, DecodeError> {
                match type_name {
                    $($type => parse_data::<$payload>(data).map(Self::$name),)*
                    _ => Err(DecodeError::UnknownType(type_name.chars().take(TYPE_CHARS_SHOWN).collect())),
                }
            }
        }
    };
    (@subject Horse $fact:ident) => { Subject::Horse($fact.horse_no.clone()) };
    (@subject Sources $fact:ident) => {{
        let _ = $fact;
        Subject::Sources
    }};
    (@subject $subject:ident $fact:ident) => { Subject::$subject(events!(@key $fact)) };
    (@race Horse $fact:ident) => { events!(@race Sources $fact) };
    (@race Sources $fact:ident) => {{
        let _ = $fact;
        None
    }};
    (@race $subject:ident $fact:ident) => { Some(events!(@key $fact)) };
    (@key $fact:ident) => {
        RaceKey { date: $fact.date, venue: $fact.venue.clone(), race_number: $fact.race_number }
    };
}

/// The number of characters that an error quotes of an unknown type.
const TYPE_CHARS_SHOWN: usize = 80;

events! {
    /// The identity of a horse.
    HorseRegistered(horse::HorseRegistered) = "racing.horse.registered.v1", Horse;
    /// A race card.
    RaceDeclared(race::RaceDeclared) = "racing.race.declared.v1", Race;
    /// A withdrawal.
    RunnerWithdrawn(race::RunnerWithdrawn) = "racing.runner.withdrawn.v1", Race;
    /// The end of a withdrawal.
    RunnerReinstated(race::RunnerReinstated) = "racing.runner.reinstated.v1", Race;
    /// A change of jockey.
    RiderChanged(race::RiderChanged) = "racing.rider.changed.v1", Race;
    /// A change of the going.
    GoingChanged(race::GoingChanged) = "racing.going.changed.v1", Race;
    /// A change of a race's status.
    RaceStatusChanged(race::RaceStatusChanged) = "racing.race.status_changed.v1", Race;
    /// A result.
    ResultDeclared(result::ResultDeclared) = "racing.result.declared.v1", Result;
    /// The voiding of a result.
    ResultVoided(result::ResultVoided) = "racing.result.voided.v1", Result;
    /// What pools pay.
    DividendsDeclared(dividends::DividendsDeclared) = "racing.dividends.declared.v1", Result;
    /// Prices.
    OddsQuoted(odds::OddsQuoted) = "racing.odds.quoted.v1", Odds;
    /// Prices of another market.
    MarketQuoted(odds::MarketQuoted) = "racing.market.quoted.v1", Odds;
    /// The total of a pool.
    PoolInvested(pools::PoolInvested) = "racing.pool.invested.v1", Odds;
    /// A ranking of sources.
    SourcesRanked(sources::SourcesRanked) = "racing.sources.ranked.v1", Sources;
}

/// Makes an [`Event`] about a race: `race_event!(key => OddsQuoted { runners })`.
#[macro_export]
macro_rules! race_event {
    ($race:expr => $fact:ident { $($fields:tt)* }) => {{
        let $crate::RaceKey { date, venue, race_number } = $race;
        $crate::Event::$fact($crate::$fact { date, venue, race_number, $($fields)* })
    }};
}

impl Event {
    /// Checks the rules that go beyond the type of a single field.
    pub(crate) fn check(&self) -> Result<(), DecodeError> {
        match self {
            Self::HorseRegistered(fact) => fact.check(),
            Self::RaceDeclared(fact) => fact.check(),
            Self::ResultDeclared(fact) => fact.check(),
            Self::DividendsDeclared(fact) => fact.check(),
            Self::OddsQuoted(fact) => fact.check(),
            Self::MarketQuoted(fact) => fact.check(),
            Self::SourcesRanked(fact) => fact.check(),
            _ => Ok(()),
        }
    }

    /// Checks the dates and times of an event that was made by code. Parsing accepts no others, but code can make them
    /// from any date and any timestamp.
    pub(crate) fn check_ranges(&self) -> Result<(), DecodeError> {
        let date = self.race().map(|race| race.date);
        check_text("data.date", date, RacingDate::parse)?;
        match self {
            Self::HorseRegistered(fact) => {
                check_text("data.age_as_of", fact.age_as_of, RacingDate::parse)?;
                check_text("data.foaled", fact.foaled, Foaled::parse)
            }
            Self::RaceDeclared(fact) => check_text("data.off_time", fact.off_time, Moment::parse),
            _ => Ok(()),
        }
    }
}

/// Checks that a value's text can be parsed again.
fn check_text<T: ToString>(
    path: &str,
    value: Option<T>,
    parse: fn(&str) -> Result<T, ParseError>,
) -> Result<(), DecodeError> {
    match value.map(|value| parse(&value.to_string())) {
        Some(Err(error)) => Err(invalid(path, error.to_string())),
        _ => Ok(()),
    }
}

fn parse_data<'de, T: serde::Deserialize<'de>>(data: &'de str) -> Result<T, DecodeError> {
    if let Ok(Object(data)) = serde_json::from_str(data) {
        return Ok(data);
    }
    // Finding the path to a field is slow, so only invalid data is parsed again for it.
    let mut json = serde_json::Deserializer::from_str(data);
    let parsed = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = match error.path().to_string() {
            root if root == "." => "data".to_owned(),
            path => format!("data.{path}"),
        };
        invalid(path, without_line(&error.into_inner().to_string()))
    });
    parsed.map(|Object(data)| data)
}

/// Removes the line and the column within `data` from a message. The path of the field is more useful to a feeder.
fn without_line(message: &str) -> String {
    cut_reason(&message[..message.rfind(" at line ").unwrap_or(message.len())])
}
