//! The rules for events that no JSON Schema can say, in other words than those of the decoder.

use std::ops::Range;

use serde_json::Value;

use super::{choices, resolve};

/// A rule: how docs/feeding.md has it, and the code under which an event is refused that breaks it.
pub(crate) struct Rule {
    pub(crate) says: &'static str,
    broken: fn(&Value, &Value) -> Option<&'static str>,
}

impl Rule {
    /// The code under which an event is refused; `None` if it keeps the rule. The schema tells what its fields are.
    pub(crate) fn broken(&self, schema: &Value, event: &Value) -> Option<&'static str> {
        (self.broken)(schema, event)
    }
}

pub(crate) const RULES: [Rule; 6] = [
    Rule {
        says: "An event is at most 64 KiB.",
        broken: |_, event| (event.to_string().len() > 65_536).then_some("too_large"),
    },
    Rule {
        says: "A text is at most 256 bytes, an `id` or a `source` at most 128. The schemas count characters.",
        broken: |schema, event| {
            let long = |name: &str| event[name].as_str().is_some_and(|text| text.len() > 128);
            if long("id") || long("source") {
                return Some("not_cloud_event");
            }
            let trimmed = |text: &str| text.trim_matches(char::is_whitespace).len();
            any(schema, event, |of, value| {
                is(of, "Text") && value.as_str().is_some_and(|text| trimmed(text) > 256)
            })
        },
    },
    Rule {
        says: "A time lies in the years 1 to 9998 in UTC.",
        broken: |schema, event| {
            if event["time"].as_str().is_some_and(is_out_of_time) {
                return Some("not_cloud_event");
            }
            any(schema, event, |of, value| {
                is(of, "Moment") && value.as_str().is_some_and(is_out_of_time)
            })
        },
    },
    Rule {
        says: "An integer is written without a fraction and without an exponent: `7`, not `7.0`.",
        broken: |schema, event| any(schema, event, |of, value| is_integer(of) && value.is_f64()),
    },
    Rule {
        says: "A price has at most three decimals.",
        broken: |schema, event| {
            any(schema, event, |of, value| {
                // A sum of doubles is off by dust; 15 digits are what a double holds for sure.
                let digits = value.as_f64().map(|n| format!("{n:.14e}").parse::<f64>());
                let digits = digits.and_then(Result::ok).unwrap_or_default().to_string();
                let decimals = digits.split_once('.');
                is(of, "Odds") && decimals.is_some_and(|(_, decimals)| decimals.len() > 3)
            })
        },
    },
    Rule {
        says: "No horse stands twice among the runners.",
        broken: |_, event| {
            let runners = event["data"]["runners"].as_array();
            let horses: Vec<&Value> = runners
                .into_iter()
                .flatten()
                .map(|r| &r["horse_no"])
                .collect();
            let is_again =
                |(n, horse): (usize, &&Value)| horse.is_string() && horses[..n].contains(horse);
            horses
                .iter()
                .enumerate()
                .any(is_again)
                .then_some("invalid_data")
        },
    },
];

/// A node of a schema, and the name of its definition, where it has one.
type Node<'a> = (&'a str, &'a Value);

fn is((name, _): Node<'_>, definition: &str) -> bool {
    name == definition
}

fn is_integer((_, node): Node<'_>) -> bool {
    let name = &node["type"];
    name == "integer"
        || name
            .as_array()
            .is_some_and(|names| names.contains(&"integer".into()))
}

/// Whether something holds of a value in the data of an event and of what the schema has for it.
fn any(
    schema: &Value,
    event: &Value,
    what: impl Fn(Node<'_>, &Value) -> bool,
) -> Option<&'static str> {
    fn look(
        root: &Value,
        node: &Value,
        value: &Value,
        what: &dyn Fn(Node<'_>, &Value) -> bool,
    ) -> bool {
        let name = node["$ref"].as_str().unwrap_or_default();
        let node = resolve(root, node);
        let name = name.rsplit('/').next().unwrap_or_default();
        let fields = node["properties"].as_object().into_iter().flatten();
        let of_choices = choices(node).any(|choice| look(root, choice, value, what));
        let of_fields = || {
            fields
                .into_iter()
                .any(|(field, node)| look(root, node, &value[field], what))
        };
        let of_items = || {
            let mut items = value.as_array().into_iter().flatten();
            node.get("items")
                .is_some_and(|node| items.any(|item| look(root, node, item, what)))
        };
        what((name, node), value) || of_choices || of_fields() || of_items()
    }
    let data = &schema["properties"]["data"];
    look(schema, data, &event["data"], &what).then_some("invalid_data")
}

fn is_out_of_time(text: &str) -> bool {
    utc_year(text).is_some_and(|year| !(1..=9998).contains(&year))
}

/// The year of a moment, put into UTC.
fn utc_year(text: &str) -> Option<i32> {
    let number = |range: Range<usize>| text.get(range)?.parse::<i32>().ok();
    let clock = |at: usize| Some(number(at..at + 2)? * 60 + number(at + 3..at + 5)?);
    let sign = text.len().checked_sub(6)?;
    let offset = match text.as_bytes()[sign] {
        b'+' => clock(sign + 1)?,
        b'-' => -clock(sign + 1)?,
        _ => 0,
    };
    let carried = match (text.get(5..10)?, clock(11)? - offset) {
        ("01-01", ..0) => -1,
        ("12-31", 1440..) => 1,
        _ => 0,
    };
    Some(number(0..4)? + carried)
}
