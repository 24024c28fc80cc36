//! `?as_of=`: the answer of a resource as of an earlier message of the log.

use std::collections::BTreeSet;
use std::time::Duration;

use events::Moment;
use jiff::{SignedDuration, Timestamp};
use projections::{Checkpoint, keys};
use tokio::time::timeout;

use super::days::{NEXT, next_days};
use super::meetings::meetings_of_days;
use super::request::AsOf;
use super::results::choose_race;
use super::{ApiError, ApiRequest, QueryParams, capitalized};
use crate::past::{Part, PastError};

const OF_NO_RACE: &str = "as_of is off only where the path names a race";
const NOT_MADE: &str = "The views as of then are not made yet: ask again";
/// With the wait for `Railbird-Min-Seq`, less than a handler has: a server of the log that does not answer is no fault
/// of the service.
const REWOUND_WITHIN: Duration = Duration::from_secs(6);
const NOT_CAUGHT_UP: &str = "The views do not reflect all events up to as_of yet; see /readyz";
const EXPECTED: &str = "as_of is a sequence of the log, a time as in RFC 3339, or off";
/// Views that are live have all messages that were stored this long ago: a replica notices within 15 s that it is cut
/// off, and the clocks of servers differ by less than the rest.
const SETTLED: SignedDuration = SignedDuration::from_secs(30);

/// The value of `as_of`.
enum Place {
    Seq(u64),
    Time(Moment),
    /// When the race of the request was off.
    Off,
}

impl Place {
    fn of(query: &QueryParams) -> Result<Option<Self>, ApiError> {
        let parse = |text: &str| match text {
            "off" => Some(Self::Off),
            number if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                number.parse().ok().filter(|seq| *seq > 0).map(Self::Seq)
            }
            time => Moment::parse(time).ok().map(Self::Time),
        };
        let place = query.get("as_of").map(parse);
        let invalid = || ApiError::invalid(EXPECTED);
        place.map(|place| place.ok_or_else(invalid)).transpose()
    }
}

impl ApiRequest {
    /// Replaces the views by those as of which the request wants its answer, if it does.
    ///
    /// # Errors
    /// Returns [`ApiError::InvalidParameter`] if the place is after the last event, [`ApiError::Gone`] if the log does
    /// not reach it, [`ApiError::NotFound`] if the race was never off, and [`ApiError::NotReady`] if the log cannot be
    /// read.
    pub(super) async fn rewound(self) -> Result<Self, ApiError> {
        let Some(place) = Place::of(&self.query)? else {
            return Ok(self);
        };
        let rewound = timeout(REWOUND_WITHIN, self.rewind(place)).await;
        rewound.unwrap_or_else(|_| Err(ApiError::NotReady(NOT_MADE.to_owned())))
    }

    async fn rewind(mut self, place: Place) -> Result<Self, ApiError> {
        let whole = self.store.checkpoint().ok_or_else(|| beyond(0))?;
        let as_of = self.find(&place, &whole).await?;
        // What the views of then do not have did not exist.
        self.was_caught_up = true;
        self.at(as_of, whole).await
    }

    /// As [`rewound`](Self::rewound), or as of the last event, for an answer that is also made of events of the log.
    ///
    /// # Errors
    /// As that.
    pub(super) async fn rewound_to_one_event(self) -> Result<Self, ApiError> {
        let mut request = self.rewound().await?;
        if request.as_of.is_none() {
            let whole = request.store.checkpoint().ok_or_else(|| beyond(0))?;
            let as_of = AsOf {
                seq: whole.seq,
                time: request.now(),
                is_settled: false,
            };
            request = request.at(as_of, whole).await?;
        }
        Ok(request)
    }

    /// Replaces the views by those as of an event before the checkpoint `whole`.
    async fn at(mut self, as_of: AsOf, whole: Checkpoint) -> Result<Self, ApiError> {
        self.as_of = Some(as_of);
        let part = self.part()?;
        let has_names = self.query.language()?.is_some();
        let past = self.app.past.store(whole, part, has_names, as_of.seq);
        self.store = past.await?;
        Ok(self)
    }

    /// Finds a place in the log up to the checkpoint of its views.
    async fn find(&self, place: &Place, whole: &Checkpoint) -> Result<AsOf, ApiError> {
        let past = &self.app.past;
        let last = whole.seq;
        let (seq, time, is_settled) = match place {
            Place::Seq(seq) if *seq > last => return Err(beyond(last)),
            Place::Seq(seq) => (*seq, None, true),
            Place::Time(time) => {
                let age = Timestamp::now().duration_since(time.timestamp());
                if age.is_negative() {
                    return Err(beyond(last));
                }
                if Some(*time) > whole.recorded_at && !self.was_caught_up {
                    return Err(ApiError::NotReady(NOT_CAUGHT_UP.to_owned()));
                }
                (past.seq_at(*time, last).await?, Some(*time), age > SETTLED)
            }
            Place::Off => {
                if !self.path.has("race_number") {
                    return Err(ApiError::invalid(OF_NO_RACE));
                }
                let (_, race) = choose_race(self)?;
                let off = past.off(&race, last).await?;
                let never = || ApiError::NotFound(format!("The race {race} was never off"));
                (off.ok_or_else(never)?, None, true)
            }
        };
        if seq == 0 {
            return Err(ApiError::Gone("The log begins after as_of".to_owned()));
        }
        let time = match time {
            Some(time) => time,
            None => past.recorded_at(seq).await?.ok_or_else(|| beyond(last))?,
        };
        Ok(AsOf {
            seq,
            time: time.timestamp(),
            is_settled,
        })
    }

    /// The races and horses that the answer depends on.
    fn part(&self) -> Result<Part, ApiError> {
        if self.path.has("horse_no") {
            let horse_no = self.path.horse_no()?;
            let mut races = Vec::new();
            for row in self.store.scan(&keys::form(&horse_no)) {
                races.extend(keys::parse_race(&row?.0));
            }
            return Ok(Part::Horse { horse_no, races });
        }
        if self.path.has("venue") {
            return Ok(Part::Races {
                date: self.date()?,
                venue: Some(self.path.venue()?),
                race_number: None,
            });
        }
        if self.path.has("date") {
            let is_odds = self.uri.path().starts_with("/api/v1/odds/");
            let has_odds = is_odds || self.query.get("moves") == Some("true");
            let odds_of = has_odds.then(|| self.path.race_number()).transpose()?;
            let dates = BTreeSet::from([self.date()?]);
            return Ok(Part::Days { dates, odds_of });
        }
        if self.uri.path() == NEXT {
            let (dates, odds_of) = (next_days(&self.app.clock, self.now()).collect(), None);
            return Ok(Part::Days { dates, odds_of });
        }
        let dates = meetings_of_days(self)?.map(|meeting| Ok(meeting?.date));
        let (dates, odds_of) = (dates.collect::<Result<_, ApiError>>()?, None);
        Ok(Part::Days { dates, odds_of })
    }
}

pub(super) fn beyond(last: u64) -> ApiError {
    let reason = format!("as_of is after the last event of the log, which is {last}");
    ApiError::InvalidParameter(reason)
}

impl From<PastError> for ApiError {
    fn from(error: PastError) -> Self {
        match error {
            PastError::TooLarge => Self::InvalidParameter(capitalized(error)),
            PastError::Gone => Self::Gone(capitalized(error)),
            PastError::Busy => Self::NotReady(capitalized(error)),
            PastError::Log(_) => Self::NotReady("The log cannot be read".to_owned()),
            PastError::Store(_) | PastError::Ended(_) => Self::internal(error),
        }
    }
}
