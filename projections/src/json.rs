//! Rendered JSON, and how to put rendered pieces together without parsing them again.
//!
//! Views are kept and sent as the bytes that were rendered once. An answer adds fields to such bytes, or makes a list
//! of them: [`JsonObject`] does both. [`fields`] and [`around_number`] give the slices of a message that is sent with
//! other fields, for callers that write the slices into one buffer themselves.

use events::Text;
use serde::Serialize;
use serde_json::value::RawValue;

/// The regular expression of a time in UTC, or of an empty text, for fields whose value may be unknown.
pub(crate) const TIME_OR_EMPTY: &str =
    r"^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z)?$";
/// The regular expression of a finish time, or of an empty text.
pub(crate) const FINISH_TIME_OR_EMPTY: &str = r"^([0-5]?[0-9]:[0-5][0-9]\.[0-9]{2})?$";

/// Room for the fields after a list, such as the path of the next page. Without it, the buffer of a large list would be
/// copied to one of twice its size.
const AFTER_LIST_BYTES: usize = 256;

/// Renders a value. Views and messages are plain structs with string keys, so this cannot fail.
///
/// # Panics
/// If the value has a map whose keys are not strings, or a field whose own serialisation fails.
pub fn render(value: &(impl Serialize + ?Sized)) -> Vec<u8> {
    let mut json = Vec::with_capacity(128);
    append(&mut json, value);
    json
}

fn append(json: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(json, value).expect("views have string keys and no failing field");
}

/// The beginning of a text that takes at most `bytes_max` in JSON, where a byte may be rendered as six.
pub(crate) fn beginning(text: &str, bytes_max: usize) -> &str {
    let mut rendered = 0;
    let end = text.char_indices().find(|(_, char)| {
        rendered += match char {
            '"' | '\\' | '\u{8}' | '\t' | '\n' | '\u{c}' | '\r' => 2,
            '\0'..' ' => 6,
            _ => char.len_utf8(),
        };
        rendered > bytes_max
    });
    end.map_or(text, |(end, _)| &text[..end])
}

/// The text of a value; empty for `None`.
pub(crate) fn text(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// A text that is left out where it is unknown.
pub(crate) fn known(text: Option<&Text>) -> Option<&str> {
    text.filter(|text| !text.is_empty()).map(Text::as_str)
}

/// A decimal number as it is written.
pub(crate) fn number(number: impl ToString) -> Box<RawValue> {
    RawValue::from_string(number.to_string()).expect("a decimal number is JSON")
}

/// Whether a value is left out of stored state.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The fields of a rendered object: what is between its braces. Empty if the bytes are not an object.
pub fn fields(object: &[u8]) -> &[u8] {
    let inside = object.strip_prefix(b"{").unwrap_or_default();
    inside.strip_suffix(b"}").unwrap_or_default()
}

/// Splits rendered JSON around the first number in a field of this name: the bytes before the number and those after
/// it. `None` if there is no such field. A string is never taken for the field, because its quotes are escaped.
pub fn around_number<'a>(json: &'a [u8], name: &str) -> Option<(&'a [u8], &'a [u8])> {
    let field = [b"\"", name.as_bytes(), b"\":"].concat();
    let at = json.windows(field.len()).position(|bytes| bytes == field)?;
    let (before, rest) = json.split_at(at + field.len());
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
    let digits = rest.iter().take_while(|byte| is_digit(byte)).count();
    (digits > 0).then(|| (before, &rest[digits..]))
}

/// A JSON object that is put together of rendered pieces, one field or more at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonObject(Vec<u8>);

impl Default for JsonObject {
    fn default() -> Self {
        Self::new()
    }
}

impl JsonObject {
    /// An object without fields.
    pub fn new() -> Self {
        let mut json = Vec::with_capacity(64);
        json.push(b'{');
        Self(json)
    }

    /// The object that a struct is rendered as, open for more fields.
    ///
    /// # Panics
    /// As [`render`].
    pub fn of(value: &impl Serialize) -> Self {
        Self::from_rendered(render(value))
    }

    /// A rendered object, open for more fields.
    pub fn from_rendered(mut object: Vec<u8>) -> Self {
        object.pop();
        if object.is_empty() {
            object.push(b'{');
        }
        Self(object)
    }

    /// Adds a field.
    ///
    /// # Panics
    /// As [`render`].
    pub fn field(mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Self {
        self.name(name);
        append(&mut self.0, value);
        self
    }

    /// Adds all fields of a rendered object.
    pub fn fields_of(mut self, object: &[u8]) -> Self {
        let fields = fields(object);
        if !fields.is_empty() {
            self.0.reserve(fields.len() + 32);
            self.comma();
            self.0.extend_from_slice(fields);
        }
        self
    }

    /// Adds a list of rendered rows. A row may itself be several rows with commas between them.
    pub fn list(mut self, name: &str, rows: impl IntoIterator<Item: AsRef<[u8]>>) -> Self {
        let rows: Vec<_> = rows.into_iter().collect();
        let bytes: usize = rows.iter().map(|row| row.as_ref().len() + 1).sum();
        self.0.reserve(name.len() + bytes + AFTER_LIST_BYTES);
        self.name(name);
        self.0.push(b'[');
        for (index, row) in rows.iter().enumerate() {
            if index > 0 {
                self.0.push(b',');
            }
            self.0.extend_from_slice(row.as_ref());
        }
        self.0.push(b']');
        self
    }

    /// The bytes of the object.
    pub fn finish(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }

    fn name(&mut self, name: &str) {
        self.comma();
        append(&mut self.0, name);
        self.0.push(b':');
    }

    fn comma(&mut self) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::{JsonObject, around_number, fields, render};

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[ -~\u{e9}\u{99ac}\n]{0,12}".prop_map(Value::from),
            Just(json!("\"seq\":7,}]")),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..4).prop_map(Value::from),
                btree_map("[a-z\"]{1,3}", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    fn object() -> impl Strategy<Value = Map<String, Value>> {
        btree_map("[a-z\"]{1,3}", value(), 0..5).prop_map(|fields| fields.into_iter().collect())
    }

    fn parsed(json: &[u8]) -> Value {
        serde_json::from_slice(json)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(json)))
    }

    #[test]
    fn the_fields_after_a_large_list_have_room_in_its_buffer() {
        let row = vec![b'1'; 100_000];
        let next = format!(
            "/api/v1/odds/2026-11-21/11/history?venue={}&after=1000",
            "x".repeat(64)
        );
        let json = JsonObject::of(&json!({ "seq": 1 }))
            .list("history", [row])
            .field("next", &next)
            .finish();
        assert!(json.capacity() < 101_000, "{}", json.capacity());
    }

    proptest! {
        #[test]
        fn an_object_has_the_fields_of_all_its_pieces(
            first in object(),
            second in object(),
            rows in vec(value(), 0..4),
            number in any::<u64>(),
        ) {
            let rendered: Vec<Vec<u8>> = rows.iter().map(render).collect();
            let object = JsonObject::of(&first)
                .fields_of(&render(&second))
                .field("the number", &number)
                .list("the rows", &rendered);
            let mut expected = first;
            expected.extend(second);
            expected.insert("the number".to_owned(), number.into());
            expected.insert("the rows".to_owned(), rows.into());
            prop_assert_eq!(parsed(&object.finish()), Value::Object(expected));
        }

        #[test]
        fn fields_are_what_is_between_the_braces(object in object()) {
            let rendered = render(&object);
            let again = [b"{".as_slice(), fields(&rendered), b"}"].concat();
            prop_assert_eq!(&again, &rendered);
            let empty = JsonObject::new().fields_of(&rendered);
            prop_assert_eq!(empty.finish(), rendered);
        }

        #[test]
        fn a_number_is_replaced_and_nothing_else(
            text in "[ -~]{0,8}(\"number\":7,)?",
            before in any::<i64>(),
            after in value(),
            number in any::<u64>(),
        ) {
            let object = |number: Value| json!({ "a": text, "number": number, "z": after });
            let rendered = render(&object(before.into()));
            let (head, tail) = around_number(&rendered, "number").expect("it has the field");
            let replaced = [head, number.to_string().as_bytes(), tail].concat();
            prop_assert_eq!(parsed(&replaced), object(number.into()));
        }
    }

    #[test]
    fn bytes_that_are_not_an_object_have_no_fields() {
        for bytes in ["", "{", "}", "[1]", "7", "{}"] {
            assert_eq!(fields(bytes.as_bytes()), b"", "{bytes:?}");
        }
    }

    #[test]
    fn a_field_that_is_missing_or_not_a_number_is_not_found() {
        for json in [
            r#"{"a":1}"#,
            r#"{"seq":"1"}"#,
            r#"{"a":"\"seq\":1"}"#,
            "{}",
            "",
        ] {
            assert_eq!(around_number(json.as_bytes(), "seq"), None, "{json}");
        }
    }
}
