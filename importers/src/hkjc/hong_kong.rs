//! Racing in Hong Kong: its clock, racecourses and currency.

use events::{Currency, Moment, ParseError, RacingDate, Text, VenueCode};
use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{Timestamp, ToSpan};

use crate::units::{time_of_day, whole};

/// The racecourses whose names the files omit (JSON), or give instead of a code (CSV).
pub(crate) const VENUES: [(&str, &str); 2] = [("ST", "Sha Tin"), ("HV", "Happy Valley")];

/// The currency of stakes.
pub(crate) fn currency() -> Currency {
    Currency::parse("HKD").expect("a code")
}

/// Positions at the points of a race, `12 7 1`.
pub(crate) fn positions(text: &str) -> Result<Vec<u16>, ParseError> {
    let positions: Option<Vec<u16>> = text.split_whitespace().map(whole).collect();
    positions.ok_or_else(|| ParseError::new("positions are whole numbers", text))
}

pub(crate) fn venue_name(code: &VenueCode) -> Option<Text> {
    let (_, name) = VENUES.iter().find(|(known, _)| *known == code.as_str())?;
    Text::parse(name).ok()
}

/// A clock time. Hong Kong has had UTC+8 without summer time since 1979.
pub(crate) fn moment(time: DateTime) -> Moment {
    let time = Offset::constant(8).to_timestamp(time);
    time.expect("racing dates end with 2999").into()
}

/// A race before this hour belongs to the meeting of the evening before.
const FIRST_HOUR: i8 = 6;

/// A clock time on the day of a meeting, or in the night after it.
pub(crate) fn time_of_meeting(meeting: RacingDate, clock: &str) -> Result<Moment, ParseError> {
    let time = time_of_day(clock)
        .filter(|_| clock.len() == 5)
        .ok_or_else(|| ParseError::new("a time is HH:MM", clock))?;
    let nights = i64::from(time.hour() < FIRST_HOUR);
    let day = meeting.civil().saturating_add(nights.days());
    Ok(moment(day.to_datetime(time)))
}

pub(crate) fn midnight(date: RacingDate) -> Moment {
    moment(date.civil().into())
}

/// The format of race cards.
pub(crate) const CARDS: &str = "hkjc-cards";

/// The format and the time of a card that a result makes. Cards of one source are ordered by their times, so a real
/// card, which has more, is in force whichever was imported last.
pub(crate) fn card_of_result() -> (&'static str, Moment) {
    (CARDS, time(None))
}

/// Midnight of the day on which facts were true. Without one it is a fixed time, so that the ids of events are the same
/// in every import.
pub(crate) fn time(as_of: Option<RacingDate>) -> Moment {
    as_of.map_or(Timestamp::UNIX_EPOCH.into(), midnight)
}
