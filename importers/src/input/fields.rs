//! [`Fields`]: the fields of a JSON object as typed values, with the path to whatever is wrong.

use events::{Odds, ParseError, Text};
use serde_json::{Map, Value};

use crate::names::split_brands;

/// A field that is missing or has a wrong value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub(crate) struct FieldError {
    path: String,
    reason: String,
}

/// An object and the path to it. A field that is null counts as absent.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

type Found<T> = Result<T, FieldError>;

impl<'a> Fields<'a> {
    pub(crate) fn root(map: &'a Map<String, Value>) -> Self {
        Self {
            map,
            path: String::new(),
        }
    }

    /// The objects of an array.
    pub(crate) fn objects(&self, name: &str) -> Found<Vec<Fields<'a>>> {
        let value = self.required(name)?;
        let list = value
            .as_array()
            .ok_or_else(|| self.error(name, ParseError::new("an array", value)))?;
        let object = |(index, value): (usize, &'a Value)| {
            let path = format!("{}{name}[{index}]", self.path);
            match value.as_object() {
                Some(map) => Ok(Fields {
                    map,
                    path: format!("{path}."),
                }),
                None => Err(FieldError {
                    path,
                    reason: ParseError::new("an object", value).to_string(),
                }),
            }
        };
        list.iter().enumerate().map(object).collect()
    }

    /// A text that has to be there, parsed.
    pub(crate) fn parsed<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, ParseError>,
    ) -> Found<T> {
        let value = self.required(name)?;
        let text = value
            .as_str()
            .ok_or_else(|| self.error(name, ParseError::new("a text", value)))?;
        parse(text).map_err(|error| self.error(name, error))
    }

    /// A text, empty where it is not known. A number is taken for its digits.
    pub(crate) fn text(&self, name: &str) -> Found<Text> {
        let text = match self.optional(name) {
            None => String::new(),
            Some(Value::String(text)) if text.trim() == NOT_KNOWN => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            Some(other) => return Err(self.error(name, ParseError::new("a text", other))),
        };
        Text::parse(&text).map_err(|error| self.error(name, error))
    }

    /// A horse's name without the brand behind it.
    pub(crate) fn horse_name(&self, name: &str) -> Found<Text> {
        self.parsed(name, |text| match split_brands(text).0 {
            "" => Err(ParseError::new("a name", text)),
            name => Text::parse(name),
        })
    }

    pub(crate) fn whole<T: TryFrom<u64>>(&self, name: &str) -> Found<Option<T>> {
        let Some(value) = self.optional(name) else {
            return Ok(None);
        };
        let number = value.as_u64().or_else(|| whole_float(value.as_f64()?));
        match number.and_then(|n| T::try_from(n).ok()) {
            Some(number) => Ok(Some(number)),
            None => Err(self.error(name, ParseError::new("a whole number in its range", value))),
        }
    }

    pub(crate) fn float(&self, name: &str) -> Found<Option<f64>> {
        let Some(value) = self.optional(name) else {
            return Ok(None);
        };
        value
            .as_f64()
            .map(Some)
            .ok_or_else(|| self.error(name, ParseError::new("a number", value)))
    }

    pub(crate) fn odds(&self, name: &str) -> Found<Option<Odds>> {
        let Some(number) = self.float(name)? else {
            return Ok(None);
        };
        Odds::from_number(number)
            .map(Some)
            .map_err(|error| self.error(name, error))
    }

    pub(crate) fn optional(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn required(&self, name: &str) -> Found<&'a Value> {
        self.optional(name)
            .ok_or_else(|| self.error(name, "is missing"))
    }

    pub(crate) fn error(&self, name: &str, reason: impl ToString) -> FieldError {
        FieldError {
            path: format!("{}{name}", self.path),
            reason: reason.to_string(),
        }
    }
}

/// How the files write that something is not known.
pub(crate) const NOT_KNOWN: &str = "---";

fn whole_float(number: f64) -> Option<u64> {
    let whole = (0.0..=f64::from(u32::MAX)).contains(&number) && number.fract() == 0.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "in range, whole"
    )]
    whole.then_some(number as u64)
}
