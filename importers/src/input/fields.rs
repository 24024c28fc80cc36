//! [`Fields`]: the fields of a JSON object as typed values. An error names the path of its field.

use events::{ParseError, Text};
use serde_json::{Map, Value};

use crate::item::InputError;

/// How files write that something is not known.
pub(crate) const NOT_KNOWN: &str = "---";

/// An object and the path to it. A field that is null counts as absent.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> Fields<'a> {
    pub(crate) fn root(map: &'a Map<String, Value>) -> Self {
        let path = String::new();
        Self { map, path }
    }

    /// The objects of a required array.
    pub(crate) fn objects(&self, name: &str) -> Result<Vec<Fields<'a>>, InputError> {
        let list = self.required(name, |value| {
            let list = value.as_array();
            list.ok_or_else(|| ParseError::new("an array", value))
        })?;
        let object = |(index, value): (usize, &'a Value)| {
            let name = format!("{name}[{index}]");
            let map = value.as_object();
            let map = map.ok_or_else(|| self.error(&name, ParseError::new("an object", value)))?;
            let path = format!("{}{name}.", self.path);
            Ok(Fields { map, path })
        };
        list.iter().enumerate().map(object).collect()
    }

    /// A required text, parsed.
    pub(crate) fn parsed<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, ParseError>,
    ) -> Result<T, InputError> {
        self.required(name, |value| {
            let text = value.as_str();
            parse(text.ok_or_else(|| ParseError::new("a text", value))?)
        })
    }

    /// A text, empty where it is not known. A number is taken for its digits.
    pub(crate) fn text(&self, name: &str) -> Result<Text, InputError> {
        let text = self.converted(name, |value| match value {
            Value::String(text) if text.trim() == NOT_KNOWN => Ok(Text::default()),
            Value::String(text) => Text::parse(text),
            Value::Number(number) => Text::parse(&number.to_string()),
            other => Err(ParseError::new("a text", other)),
        })?;
        Ok(text.unwrap_or_default())
    }

    pub(crate) fn whole<T: TryFrom<u64>>(&self, name: &str) -> Result<Option<T>, InputError> {
        self.converted(name, |value| {
            let number = value.as_u64().or_else(|| whole_float(value.as_f64()?));
            let number = number.and_then(|n| T::try_from(n).ok());
            number.ok_or_else(|| ParseError::new("a whole number in its range", value))
        })
    }

    pub(crate) fn number<T>(
        &self,
        name: &str,
        convert: impl FnOnce(f64) -> Result<T, ParseError>,
    ) -> Result<Option<T>, InputError> {
        self.converted(name, |value| {
            let number = value.as_f64();
            convert(number.ok_or_else(|| ParseError::new("a number", value))?)
        })
    }

    pub(crate) fn optional(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    fn converted<T>(
        &self,
        name: &str,
        convert: impl FnOnce(&'a Value) -> Result<T, ParseError>,
    ) -> Result<Option<T>, InputError> {
        let converted = self.optional(name).map(convert).transpose();
        converted.map_err(|error| self.error(name, error))
    }

    fn required<T>(
        &self,
        name: &str,
        convert: impl FnOnce(&'a Value) -> Result<T, ParseError>,
    ) -> Result<T, InputError> {
        self.converted(name, convert)?
            .ok_or_else(|| self.error(name, "is missing"))
    }

    pub(crate) fn error(&self, name: &str, reason: impl std::fmt::Display) -> InputError {
        format!("{}{name}: {reason}", self.path).into()
    }
}

fn whole_float(number: f64) -> Option<u64> {
    let whole = (0.0..=f64::from(u32::MAX)).contains(&number) && number.fract() == 0.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "in range, whole"
    )]
    whole.then_some(number as u64)
}
