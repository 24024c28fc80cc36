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
        params
            .map(Self)
            .map_err(|_| ApiError::InvalidParameter("The path is not UTF-8".to_owned()))
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
                "venue" => _ = self.venue()?,
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn file(&self) -> &str {
        self.get("file")
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
        let venue = VenueCode::parse(self.get("venue"));
        venue.map_err(|error| ApiError::InvalidParameter(capitalized(error)))
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
    let invalid = |_| ApiError::InvalidParameter("The query is not UTF-8".to_owned());
    query.decode_utf8().map(drop).map_err(invalid)
}

/// The characters that an error quotes of a value.
const QUOTED_CHARS_MAX: usize = 40;

fn invalid_value(expected: &str, found: &str) -> ApiError {
    let found: String = found.chars().take(QUOTED_CHARS_MAX).collect();
    ApiError::InvalidParameter(format!("{expected}, not {found:?}"))
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
        let query = uri.query().unwrap_or_default();
        let params = form_urlencoded::parse(query.as_bytes());
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
            Err(ApiError::InvalidParameter(unknown_name(name, known)))
        })
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        let parse = |text: &str| {
            let expected = format!("{name} is a whole number");
            text.parse().map_err(|_| invalid_value(&expected, text))
        };
        self.get(name).map(parse).transpose()
    }

    /// The value of a parameter as a duration, such as `10s` or `1m 30s`.
    ///
    /// # Errors
    /// Returns [`ApiError::InvalidParameter`] if it is not a duration, or negative.
    pub(super) fn duration(&self, name: &str) -> Result<Option<Duration>, ApiError> {
        let parse = |text: &str| Duration::try_from(text.parse::<SignedDuration>().ok()?).ok();
        let expected = format!("{name} is a duration such as 10s");
        let invalid = |text: &str| invalid_value(&expected, text);
        self.get(name)
            .map(|text| parse(text).ok_or_else(|| invalid(text)))
            .transpose()
    }

    /// A number of rows, from 1 to `max`.
    pub(super) fn count(&self, name: &str, max: usize) -> Result<Option<usize>, ApiError> {
        let parse = |text: &str| text.parse().ok().filter(|count| (1..=max).contains(count));
        let invalid = || ApiError::InvalidParameter(format!("{name} is 1 to {max}"));
        let count = self.get(name).map(parse);
        count.map(|count| count.ok_or_else(invalid)).transpose()
    }

    /// The value of a parameter as a point in time.
    pub(super) fn moment(&self, name: &str) -> Result<Option<Moment>, ApiError> {
        let parse = |text: &str| {
            let expected = format!("{name} is a time as in RFC 3339");
            Moment::parse(text).map_err(|_| invalid_value(&expected, text))
        };
        self.get(name).map(parse).transpose()
    }

    /// The language of names that is asked for.
    pub(super) fn language(&self) -> Result<Option<LanguageTag>, ApiError> {
        let language = self.get("lang").map(LanguageTag::parse).transpose();
        language.map_err(|error| ApiError::InvalidParameter(error.to_string()))
    }

    pub(super) fn date(&self, name: &str) -> Result<Option<RacingDate>, ApiError> {
        let date = self.get(name).map(RacingDate::parse);
        date.transpose().map_err(ApiError::InvalidDate)
    }
}
