//! [`PathParams`] and [`QueryParams`]: the parameters of a request, parsed into the types of `events`.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::Uri;
use axum::http::request::Parts;
use events::{HorseNo, LanguageTag, Moment, RaceNumber, RacingDate, VenueCode};
use jiff::SignedDuration;
use percent_encoding::percent_decode_str;

use super::error::{ApiError, capitalized};
use crate::live::unknown_name;

pub(super) struct PathParams(RawPathParams);

impl<S: Send + Sync> FromRequestParts<S> for PathParams {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        let invalid = |_| ApiError::invalid("The path is not UTF-8");
        params.map(Self).map_err(invalid)
    }
}

impl PathParams {
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().next().is_none()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        !self.get(name).is_empty()
    }

    pub(super) fn get(&self, name: &str) -> &str {
        let param = self.0.iter().find(|(key, _)| *key == name);
        param.map_or("", |(_, value)| value)
    }

    /// Checks the date, the race number and the horse that the path names.
    ///
    /// # Errors
    /// Returns the [`ApiError`] of the first one that is not valid.
    pub(super) fn check(&self) -> Result<(), ApiError> {
        for (name, _) in &self.0 {
            match name {
                "date" if !self.is_today() => _ = self.date()?,
                "race_number" => _ = self.race_number()?,
                "horse_no" => _ = self.horse_no()?,
                "other_horse_no" => _ = self.other_horse_no()?,
                "venue" => _ = self.venue()?,
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn is_today(&self) -> bool {
        self.get("date") == "today"
    }

    pub(super) fn date(&self) -> Result<RacingDate, ApiError> {
        RacingDate::parse(self.get("date")).map_err(ApiError::InvalidDate)
    }

    pub(super) fn race_number(&self) -> Result<RaceNumber, ApiError> {
        RaceNumber::parse(self.get("race_number")).map_err(ApiError::InvalidRaceNumber)
    }

    pub(super) fn venue(&self) -> Result<VenueCode, ApiError> {
        VenueCode::parse(self.get("venue")).map_err(|error| ApiError::invalid(capitalized(error)))
    }

    pub(super) fn other_horse_no(&self) -> Result<HorseNo, ApiError> {
        HorseNo::parse(self.get("other_horse_no")).map_err(ApiError::InvalidHorseNo)
    }

    pub(super) fn horse_no(&self) -> Result<HorseNo, ApiError> {
        HorseNo::parse(self.get("horse_no")).map_err(ApiError::InvalidHorseNo)
    }
}

/// Checks that the query of a URI is UTF-8: what replaces other bytes would be searched for.
///
/// # Errors
/// Returns [`ApiError::InvalidParameter`].
pub(super) fn check_utf8(uri: &Uri) -> Result<(), ApiError> {
    let query = percent_decode_str(uri.query().unwrap_or_default());
    let invalid = |_| ApiError::invalid("The query is not UTF-8");
    query.decode_utf8().map(drop).map_err(invalid)
}

/// The characters that an error quotes of a value.
const QUOTED_CHARS_MAX: usize = 40;

/// A value as an error quotes it.
pub(super) fn quoted(value: &str) -> String {
    let value: String = value.chars().take(QUOTED_CHARS_MAX).collect();
    format!("{value:?}")
}

/// The parameters of the query.
pub(super) struct QueryParams(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for QueryParams {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::parse(&parts.uri))
    }
}

impl QueryParams {
    /// The parameters of a URI, with `U+FFFD` for bytes that are not UTF-8.
    pub(super) fn parse(uri: &Uri) -> Self {
        let params = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        Self(params.into_owned().collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let param = self.0.iter().find(|(key, _)| key == name);
        param.map(|(_, value)| value.as_str())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks that all names are among these.
    ///
    /// # Errors
    /// Returns [`ApiError::InvalidParameter`] with the known names.
    pub(super) fn check_names(&self, known: &[&str]) -> Result<(), ApiError> {
        let mut names = self.0.iter().map(|(name, _)| name);
        let unknown = names.find(|name| !known.contains(&name.as_str()));
        unknown.map_or(Ok(()), |name| {
            Err(ApiError::invalid(unknown_name(name, known)))
        })
    }

    /// As [`check_names`](Self::check_names), with the known names in one text.
    pub(super) fn check_list(&self, known: &str) -> Result<(), ApiError> {
        self.check_names(&known.split(' ').collect::<Vec<_>>())
    }

    /// The value of a parameter, as `parse` reads it.
    ///
    /// # Errors
    /// Returns [`ApiError::InvalidParameter`] with what is expected and the value.
    pub(super) fn parsed<T>(
        &self,
        name: &str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, ApiError> {
        let reason = |text: &str| format!("{name} is {expected}, not {}", quoted(text));
        let parse = |text: &str| parse(text).ok_or_else(|| ApiError::invalid(reason(text)));
        self.get(name).map(parse).transpose()
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        self.parsed(name, "a whole number", |text| text.parse().ok())
    }

    /// The value of a parameter as a duration, such as `10s` or `1m 30s`.
    ///
    /// # Errors
    /// Returns [`ApiError::InvalidParameter`] if it is not a duration, or negative.
    pub(super) fn duration(&self, name: &str) -> Result<Option<Duration>, ApiError> {
        let parse = |text: &str| Duration::try_from(text.parse::<SignedDuration>().ok()?).ok();
        self.parsed(name, "a duration such as 10s", parse)
    }

    /// A number of rows, from 1 to `max`.
    pub(super) fn count(&self, name: &str, max: usize) -> Result<Option<usize>, ApiError> {
        let parse = |text: &str| text.parse().ok().filter(|count| (1..=max).contains(count));
        let invalid = || ApiError::invalid(format!("{name} is 1 to {max}"));
        let count = self.get(name).map(parse);
        count.map(|count| count.ok_or_else(invalid)).transpose()
    }

    /// The value of a parameter as a point in time.
    pub(super) fn moment(&self, name: &str) -> Result<Option<Moment>, ApiError> {
        let parse = |text: &str| Moment::parse(text).ok();
        self.parsed(name, "a time as in RFC 3339", parse)
    }

    /// The language of names that is asked for.
    pub(super) fn language(&self) -> Result<Option<LanguageTag>, ApiError> {
        let language = self.get("lang").map(LanguageTag::parse).transpose();
        language.map_err(ApiError::invalid)
    }

    /// The first and the last date of a period.
    ///
    /// # Errors
    /// Returns [`ApiError::InvalidDate`], or [`ApiError::InvalidParameter`] if the first one is after the last one.
    pub(super) fn period(&self) -> Result<[Option<RacingDate>; 2], ApiError> {
        let [from, to] = [self.date("from")?, self.date("to")?];
        match from.zip(to) {
            Some((from, to)) if from > to => Err(ApiError::invalid("from is after to")),
            _ => Ok([from, to]),
        }
    }

    pub(super) fn date(&self, name: &str) -> Result<Option<RacingDate>, ApiError> {
        let date = self.get(name).map(RacingDate::parse);
        date.transpose().map_err(ApiError::InvalidDate)
    }
}
