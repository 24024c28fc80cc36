//! The rules for events that JSON Schema cannot express, written independently of the decoder.

use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::Value;

use super::{choices, resolve};

/// A rule: its sentence in docs/feeding.md, and the error code of an event that breaks it.
pub(crate) struct Rule {
    pub(crate) says: &'static str,
    broken: fn(&Value, &Value) -> Option<&'static str>,
}

impl Rule {
    /// The error code of an event that breaks the rule; `None` if it does not. The schema has the types of the fields.
    pub(crate) fn broken(&self, schema: &Value, event: &Value) -> Option<&'static str> {
        (self.broken)(schema, event)
    }
}

pub(crate) const RULES: [Rule; 9] = [
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
                is(of, "Odds") && decimals(value) > 3
            })
        },
    },
    Rule {
        says: "An amount of money has at most two decimals.",
        broken: |schema, event| {
            any(schema, event, |of, value| {
                is(of, "Amount") && decimals(value) > 2
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
    Rule {
        says: "No combination stands twice among the prices.",
        broken: |_, event| {
            let mut seen = BTreeSet::new();
            let mut combinations = prices(event).map(|price| &price["combination"]);
            combinations
                .any(|combination| combination.is_array() && !seen.insert(combination.to_string()))
                .then_some("invalid_data")
        },
    },
    Rule {
        says: "The low price of a range is not above the high one.",
        broken: |_, event| {
            let is_above = |price: &Value| price["low"].as_f64() > price["high"].as_f64();
            prices(event)
                .any(|price| price["high"].is_number() && is_above(price))
                .then_some("invalid_data")
        },
    },
];

fn prices(event: &Value) -> impl Iterator<Item = &Value> {
    event["data"]["prices"].as_array().into_iter().flatten()
}

/// A node of a schema, and the name of its definition, where it has one.
type Node<'a> = (&'a str, &'a Value);

fn is((name, _): Node<'_>, definition: &str) -> bool {
    name == definition
}

/// The decimals of a number. A sum of doubles has a small error, and a double has 15 exact digits.
fn decimals(value: &Value) -> usize {
    let digits = value.as_f64().map(|n| format!("{n:.14e}").parse::<f64>());
    let digits = digits.and_then(Result::ok).unwrap_or_default().to_string();
    digits
        .split_once('.')
        .map_or(0, |(_, decimals)| decimals.len())
}

fn is_integer((_, node): Node<'_>) -> bool {
    let name = &node["type"];
    name == "integer"
        || name
            .as_array()
            .is_some_and(|names| names.contains(&"integer".into()))
}

/// Whether a predicate is true of any value in the data of an event, with its node of the schema.
fn any(
    schema: &Value,
    event: &Value,
    is_broken: impl Fn(Node<'_>, &Value) -> bool,
) -> Option<&'static str> {
    fn look(
        root: &Value,
        node: &Value,
        value: &Value,
        is_broken: &dyn Fn(Node<'_>, &Value) -> bool,
    ) -> bool {
        let name = node["$ref"].as_str().unwrap_or_default();
        let node = resolve(root, node);
        let name = name.rsplit('/').next().unwrap_or_default();
        let fields = node["properties"].as_object().into_iter().flatten();
        let of_choices = choices(node).any(|choice| look(root, choice, value, is_broken));
        let of_fields = || {
            fields
                .into_iter()
                .any(|(field, node)| look(root, node, &value[field], is_broken))
        };
        let of_items = || {
            let mut items = value.as_array().into_iter().flatten();
            node.get("items")
                .is_some_and(|node| items.any(|item| look(root, node, item, is_broken)))
        };
        is_broken((name, node), value) || of_choices || of_fields() || of_items()
    }
    let data = &schema["properties"]["data"];
    look(schema, data, &event["data"], &is_broken).then_some("invalid_data")
}

fn is_out_of_time(text: &str) -> bool {
    utc_year(text).is_some_and(|year| !(1..=9998).contains(&year))
}

/// The year of a moment in UTC.
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
