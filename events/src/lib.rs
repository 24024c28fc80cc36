//! Racing events as pure types, and their wire form.
//!
//! An event is a CloudEvents 1.0 JSON object on a subject of the log. [`Envelope::decode`] parses and checks both, and
//! returns a [`DecodeError`] with the field and the reason if they are not an event. All values of an envelope are
//! parsed: a [`HorseNo`] is well formed, [`Odds`] are exact thousandths.
//!
//! This crate has no I/O, no async code and no clock. Time comes in with the event.

mod amount;
mod cloud_event;
mod currency;
mod date;
mod decimal;
mod envelope;
mod error;
mod event;
mod facts;
mod finish_time;
mod horse_no;
mod margin;
mod names;
mod object;
mod odds;
mod one_pass;
mod outcome;
mod pool_code;
mod race;
mod string_form;
mod subject;
mod text;
mod time;

pub use amount::Amount;
pub use cloud_event::CloudEvent;
pub use currency::Currency;
pub use date::RacingDate;
pub use envelope::{ATTRIBUTE_BYTES_MAX, EVENT_BYTES_MAX, Envelope, Recorded};
pub use error::{DecodeError, ParseError, cut_reason};
pub use event::{EVENT_TYPES, Event, SCHEMAS};
pub use facts::dividends::{Dividend, DividendState, DividendStatus, DividendsDeclared};
pub use facts::horse::{Career, Foaled, HorseRegistered};
pub use facts::odds::{MarketQuoted, OddsQuoted, PriceState, QuotedPrice, QuotedRunner};
pub use facts::pools::PoolInvested;
pub use facts::race::{
    DeclaredRunner, EachWayTerms, GoingChanged, RaceDeclared, RaceStatus, RaceStatusChanged,
    RiderChanged, RunnerReinstated, RunnerWithdrawn,
};
pub use facts::result::{ResultDeclared, ResultRunner, ResultStatus, ResultVoided};
pub use facts::sources::{SOURCES_MAX, SourcesRanked};
pub use finish_time::FinishTime;
pub use horse_no::HorseNo;
pub use margin::Margin;
pub use names::{LanguageTag, Names};
pub use odds::Odds;
pub use outcome::Outcome;
pub use pool_code::PoolCode;
pub use race::{RaceKey, RaceNumber, VenueCode};
pub use subject::{SUBJECTS, Subject};
pub use text::Text;
pub use time::Moment;

/// The largest number of runners in a race. The largest fields in the world have about 40.
pub const RUNNERS_MAX: usize = 64;
