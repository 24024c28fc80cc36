//! [`Fields`]: the fields of a JSON object as typed values. An error names the path of its field.

use std::cell::RefCell;
use std::collections::BTreeSet;

use events::{ParseError, Text, cut_reason};
use serde_json::{Map, Value};

use crate::item::{InputError, Omitted, Result};

/// How files write that something is not known.
pub(crate) const NOT_KNOWN: &str = "---";

/// An object and the path to it. A field that is null counts as absent.
pub(crate) struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: String,
    /// The names that were asked for.
    read: RefCell<BTreeSet<String>>,
}

impl<'a> Fields<'a> {
    pub(crate) fn root(map: &'a Map<String, Value>) -> Self {
        Self::at(map, String::new())
    }

    fn at(map: &'a Map<String, Value>, path: String) -> Self {
        let read = RefCell::default();
        Self { map, path, read }
    }

    /// Counts the known values of the fields that nobody has asked for.
    pub(crate) fn omit(&self, omitted: &mut Omitted) {
        let read = self.read.borrow();
        for (name, value) in self.map {
            let is_known = match value {
                Value::Null => false,
                Value::Array(list) => !list.is_empty(),
                Value::String(text) => !["", "-", NOT_KNOWN].contains(&text.trim()),
                _ => true,
            };
            if is_known && !read.contains(name) {
                *omitted.entry(cut_reason(name)).or_default() += 1;
            }
        }
    }

    /// The fields of an object, in their order.
    pub(crate) fn object(&self, name: &str) -> Result<Option<Fields<'a>>> {
        let object = self.converted(name, |value| {
            let map = value.as_object();
            map.ok_or_else(|| ParseError::new("an object", value))
        })?;
        Ok(object.map(|map| Self::at(map, format!("{}{name}.", self.path))))
    }

    /// The names of all fields.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.map.keys().map(String::as_str)
    }

    /// A list of whole numbers; empty where it is not known.
    pub(crate) fn wholes<T: TryFrom<u64>>(&self, name: &str) -> Result<Vec<T>> {
        let list = self.converted(name, |value| {
            let wrong = || ParseError::new("an array of whole numbers", value);
            let list = value.as_array().ok_or_else(wrong)?.iter();
            list.map(|value| whole(value).ok_or_else(wrong)).collect()
        })?;
        Ok(list.unwrap_or_default())
    }

    /// The objects of a required array.
    pub(crate) fn objects(&self, name: &str) -> Result<Vec<Fields<'a>>> {
        let list = self.required(name, |value| {
            let list = value.as_array();
            list.ok_or_else(|| ParseError::new("an array", value))
        })?;
        let object = |(index, value): (usize, &'a Value)| {
            let name = format!("{name}[{index}]");
            let map = value.as_object();
            let map = map.ok_or_else(|| self.error(&name, ParseError::new("an object", value)))?;
            Ok(Self::at(map, format!("{}{name}.", self.path)))
        };
        list.iter().enumerate().map(object).collect()
    }

    /// A required text, parsed.
    pub(crate) fn parsed<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, ParseError>,
    ) -> Result<T> {
        self.required(name, |value| {
            let text = value.as_str();
            parse(text.ok_or_else(|| ParseError::new("a text", value))?)
        })
    }

    /// A text, empty where it is not known. A number is taken for its digits.
    pub(crate) fn text(&self, name: &str) -> Result<Text> {
        let text = self.converted(name, |value| match value {
            Value::String(text) if text.trim() == NOT_KNOWN => Ok(Text::default()),
            Value::String(text) => Text::parse(text),
            Value::Number(number) => Text::parse(&number.to_string()),
            other => Err(ParseError::new("a text", other)),
        })?;
        Ok(text.unwrap_or_default())
    }

    pub(crate) fn whole<T: TryFrom<u64>>(&self, name: &str) -> Result<Option<T>> {
        self.converted(name, |value| {
            whole(value).ok_or_else(|| ParseError::new("a whole number in its range", value))
        })
    }

    pub(crate) fn number<T>(
        &self,
        name: &str,
        convert: impl FnOnce(f64) -> Result<T, ParseError>,
    ) -> Result<Option<T>> {
        self.converted(name, |value| {
            let number = value.as_f64();
            convert(number.ok_or_else(|| ParseError::new("a number", value))?)
        })
    }

    pub(crate) fn optional(&self, name: &str) -> Option<&'a Value> {
        self.read.borrow_mut().insert(name.to_owned());
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// Whether a field is a text. Another one is not read.
    pub(crate) fn is(&self, name: &str, text: &str) -> bool {
        let value = self.map.get(name).and_then(Value::as_str);
        let is = value.is_some_and(|value| value.trim() == text);
        if is {
            self.read.borrow_mut().insert(name.to_owned());
        }
        is
    }

    fn converted<T>(
        &self,
        name: &str,
        convert: impl FnOnce(&'a Value) -> Result<T, ParseError>,
    ) -> Result<Option<T>> {
        let converted = self.optional(name).map(convert).transpose();
        converted.map_err(|error| self.error(name, error))
    }

    fn required<T>(
        &self,
        name: &str,
        convert: impl FnOnce(&'a Value) -> Result<T, ParseError>,
    ) -> Result<T> {
        (self.converted(name, convert)?).ok_or_else(|| self.error(name, "is missing"))
    }

    pub(crate) fn error(&self, name: &str, reason: impl std::fmt::Display) -> InputError {
        format!("{}{name}: {reason}", self.path).into()
    }
}

fn whole<T: TryFrom<u64>>(value: &Value) -> Option<T> {
    T::try_from(value.as_u64().or_else(|| whole_float(value.as_f64()?))?).ok()
}

fn whole_float(number: f64) -> Option<u64> {
    let whole = (0.0..=f64::from(u32::MAX)).contains(&number) && number.fract() == 0.0;
    // In range, and whole.
    whole.then_some(number as u64)
}
