//! [`PathParams`] and [`QueryParams`]: the parameters of a request, parsed into the types of `events`.

use std::time::Duration;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::Uri;
use axum::http::request::Parts;
use events::{HorseNo, RaceNumber, RacingDate};
use jiff::SignedDuration;

use super::error::ApiError;

/// The parameters of the path.
#[derive(Debug)]
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
    fn get(&self, name: &str) -> &str {
        self.0
            .iter()
            .find(|(key, _)| *key == name)
            .map_or("", |(_, value)| value)
    }

    /// The `{date}`.
    ///
    /// # Errors
    /// Returns [`ApiError::InvalidDate`] if it is not a date.
    pub(super) fn date(&self) -> Result<RacingDate, ApiError> {
        RacingDate::parse(self.get("date")).map_err(ApiError::InvalidDate)
    }

    /// The `{race_number}`.
    ///
    /// # Errors
    /// Returns [`ApiError::InvalidRaceNumber`] if it is not a race number.
    pub(super) fn race_number(&self) -> Result<RaceNumber, ApiError> {
        RaceNumber::parse(self.get("race_number")).map_err(ApiError::InvalidRaceNumber)
    }

    /// The `{horse_no}`.
    ///
    /// # Errors
    /// Returns [`ApiError::InvalidHorseNo`] if it is not a horse number.
    pub(super) fn horse_no(&self) -> Result<HorseNo, ApiError> {
        HorseNo::parse(self.get("horse_no")).map_err(ApiError::InvalidHorseNo)
    }
}

/// The parameters of the query. Endpoints ignore names that they do not know.
#[derive(Debug, Default)]
pub(super) struct QueryParams(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for QueryParams {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Self::parse(&parts.uri)
    }
}

impl QueryParams {
    /// Parses the query of a URI.
    ///
    /// # Errors
    /// Returns [`ApiError::InvalidParameter`] if the query is not URL-encoded UTF-8.
    pub(super) fn parse(uri: &Uri) -> Result<Self, ApiError> {
        if uri.query().is_none() {
            return Ok(Self::default());
        }
        let query = axum::extract::Query::try_from_uri(uri);
        query.map(|query| Self(query.0)).map_err(|error| {
            let reason = error.body_text();
            ApiError::InvalidParameter(format!("The query cannot be parsed: {reason}"))
        })
    }

    /// The value of a parameter.
    #[must_use]
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// The value of a parameter as a whole number.
    ///
    /// # Errors
    /// Returns [`ApiError::InvalidParameter`] if it is not a whole number.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        let invalid = |text: &str| {
            ApiError::InvalidParameter(format!("{name} is a whole number, not {text:?}"))
        };
        let number = self
            .get(name)
            .map(|text| text.parse().map_err(|_| invalid(text)));
        number.transpose()
    }

    /// The value of a parameter as a duration, such as `10s` or `1m 30s`.
    ///
    /// # Errors
    /// Returns [`ApiError::InvalidParameter`] if it is not a duration, or negative.
    pub(super) fn duration(&self, name: &str) -> Result<Option<Duration>, ApiError> {
        let parse = |text: &str| Duration::try_from(text.parse::<SignedDuration>().ok()?).ok();
        let invalid = |text: &str| {
            ApiError::InvalidParameter(format!("{name} is a duration such as 10s, not {text:?}"))
        };
        self.get(name)
            .map(|text| parse(text).ok_or_else(|| invalid(text)))
            .transpose()
    }

    /// `limit` as a number from 1 to `max`.
    ///
    /// # Errors
    /// Returns [`ApiError::InvalidParameter`] if it is anything else.
    pub(super) fn limit(&self, max: usize) -> Result<Option<usize>, ApiError> {
        let parse = |text: &str| text.parse().ok().filter(|limit| (1..=max).contains(limit));
        let invalid = || ApiError::InvalidParameter(format!("limit is 1 to {max}"));
        self.get("limit")
            .map(|text| parse(text).ok_or_else(invalid))
            .transpose()
    }

    /// The value of a parameter as a date.
    ///
    /// # Errors
    /// Returns [`ApiError::InvalidDate`] if it is not a date.
    pub(super) fn date(&self, name: &str) -> Result<Option<RacingDate>, ApiError> {
        self.get(name)
            .map(RacingDate::parse)
            .transpose()
            .map_err(ApiError::InvalidDate)
    }
}
