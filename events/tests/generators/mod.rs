//! Events at the edges of their schemas, and just beyond. Each is the example in the schema with some changes, which
//! are found by walking through the schema.

mod oracle;
mod rules;
pub(crate) mod schemas;

pub(crate) use oracle::Oracle;
pub(crate) use rules::RULES;

use proptest::strategy::{Strategy, ValueTree};
use proptest::string::string_regex;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

/// The new value of a field of an event; `None` to leave the field out.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) at: String,
    value: Option<Value>,
}

/// Changes that are made together.
pub(crate) type Changes = Vec<Change>;

/// The example in a schema with some changes. A change of a field that does not exist is skipped.
pub(crate) fn changed(schema: &Value, changes: &[Change]) -> Value {
    let mut event = schema["examples"][0].clone();
    for Change { at, value } in changes {
        let Some((parent, field)) = at.rsplit_once('/') else {
            event = value.clone().unwrap_or_default();
            continue;
        };
        match (event.pointer_mut(parent), value) {
            (Some(Value::Object(fields)), Some(value)) => {
                fields.insert(field.to_owned(), value.clone());
            }
            (Some(Value::Object(fields)), None) => {
                fields.remove(field);
            }
            (Some(Value::Array(items)), Some(value)) => {
                let index = field.parse::<usize>().ok();
                if let Some(item) = index.and_then(|index| items.get_mut(index)) {
                    *item = value.clone();
                }
            }
            _ => {}
        }
    }
    event
}

/// All changes that lead to an edge of a schema, each alone.
pub(crate) fn edges(schema: &Value) -> Vec<Changes> {
    let mut walk = Walk {
        root: schema,
        runner: TestRunner::deterministic(),
        found: Vec::new(),
    };
    walk.node(schema, "");
    walk.found
}

/// Two or three of these changes at a time, chosen at random with a fixed seed.
pub(crate) fn combined(edges: &[Changes], count: usize) -> Vec<Changes> {
    let mut runner = TestRunner::deterministic();
    let some = proptest::collection::vec(0..edges.len(), 2..=3);
    let mut choose = || some.new_tree(&mut runner).expect("a choice").current();
    let all_of = |chosen: Vec<usize>| chosen.into_iter().flat_map(|i| edges[i].clone()).collect();
    (0..count).map(|_| all_of(choose())).collect()
}

/// The schema of a node, after its reference is followed.
pub(crate) fn resolve<'a>(root: &'a Value, node: &'a Value) -> &'a Value {
    match node["$ref"].as_str() {
        Some(reference) => root.pointer(&reference[1..]).expect("a definition"),
        None => node,
    }
}

/// The alternatives of a node.
pub(crate) fn choices(node: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["anyOf", "oneOf"].map(|key| node[key].as_array());
    lists.into_iter().flatten().flatten()
}

struct Walk<'a> {
    root: &'a Value,
    runner: TestRunner,
    found: Vec<Changes>,
}

impl<'a> Walk<'a> {
    fn put(&mut self, at: &str, value: Option<Value>) {
        let at = at.to_owned();
        self.found.push(vec![Change { at, value }]);
    }

    fn node(&mut self, node: &'a Value, at: &str) {
        let node = resolve(self.root, node);
        let mut values = vec![
            json!(null),
            json!(true),
            json!(0),
            json!(-1),
            json!(1.5),
            json!(""),
            json!("A"),
            json!([]),
            json!({}),
        ];
        values.extend(node.get("const").cloned());
        values.extend(node["enum"].as_array().into_iter().flatten().cloned());
        match node["type"].as_str().or(node["type"][0].as_str()) {
            Some("integer" | "number") => values.extend(numbers(node)),
            Some("string") => values.extend(self.strings(node)),
            Some("array") => values.extend(self.lists(node, at)),
            _ => {}
        }
        for value in values {
            self.put(at, Some(value));
        }
        if let Some(properties) = node["properties"].as_object() {
            for (name, property) in properties {
                let at = format!("{at}/{name}");
                self.put(&at, None);
                self.node(property, &at);
            }
            self.put(
                &format!("{at}/hereafter"),
                Some(json!({ "deep": [null, 1e300] })),
            );
            self.together(node, at);
        } else {
            for choice in choices(node) {
                self.node(choice, at);
            }
        }
        if let Some(items) = node.get("items") {
            self.node(items, &format!("{at}/0"));
        }
        if at.is_empty() {
            self.put(
                "/hereafter",
                Some("x".repeat(events::EVENT_BYTES_MAX).into()),
            );
        }
    }

    /// Fields that go together or exclude each other: with a value, null, and left out, in all combinations.
    fn together(&mut self, node: &Value, at: &str) {
        let rules = ["if", "then", "else"].map(|part| node[part]["properties"].as_object());
        let rules = rules.into_iter().flatten();
        let mut names: Vec<&String> = rules.flat_map(|properties| properties.keys()).collect();
        names.sort();
        names.dedup();
        let mut combinations: Vec<Changes> = vec![Vec::new()];
        for name in &names {
            let plain = self.plain(&node["properties"][*name]);
            let states = [None, Some(Value::Null), Some(plain)].map(|value| Change {
                at: format!("{at}/{name}"),
                value,
            });
            let with_each = |changes: Changes| {
                let more = |state: &Change| changes.iter().chain([state]).cloned().collect();
                states.iter().map(more).collect::<Vec<Changes>>()
            };
            combinations = combinations.into_iter().flat_map(with_each).collect();
        }
        if !names.is_empty() {
            self.found.extend(combinations);
        }
    }

    /// A value that a node allows.
    fn plain(&self, node: &Value) -> Value {
        let node = resolve(self.root, node);
        let given = ["examples", "enum"].map(|list| &node[list][0]);
        let mut given = given.into_iter().chain([&node["const"], &node["minimum"]]);
        let given = given.find(|value| !value.is_null());
        given.cloned().unwrap_or_else(|| {
            let choice = choices(node).next();
            choice.map_or_else(|| "A".into(), |choice| self.plain(choice))
        })
    }

    /// Lists at the edges of the length, of different horses and with one horse twice.
    fn lists(&self, node: &Value, at: &str) -> Vec<Value> {
        let bound = |name: &str| node[name].as_u64().and_then(|n| usize::try_from(n).ok());
        let (min, max) = (
            bound("minItems").unwrap_or(0),
            bound("maxItems").unwrap_or(8),
        );
        let example = &self.root["examples"][0];
        let item = example
            .pointer(&format!("{at}/0"))
            .expect("an example of a list has an item");
        let horse = |n: usize| {
            let mut item = item.clone();
            if item.is_object() {
                item["horse_no"] = format!("H{n}").into();
                if item.get("combination").is_some() {
                    item["combination"] = json!([n]);
                }
            }
            item
        };
        let of_length = |n: usize| (0..n).map(horse).collect::<Vec<_>>();
        let twice = |n: usize, again: usize| [of_length(n), vec![horse(again)]].concat();
        let mut lists = [min.saturating_sub(1), min, max, max + 1]
            .map(of_length)
            .to_vec();
        lists.extend([twice(1, 0), twice(max - 1, 0), twice(max - 1, max - 2)]);
        lists.into_iter().map(Value::from).collect()
    }

    /// Texts that match the pattern of a node, texts that nearly match, and odd ones.
    fn strings(&mut self, node: &Value) -> Vec<Value> {
        let mut texts: Vec<String> = ODD.iter().map(|text| (*text).to_owned()).collect();
        for (text, times) in LONG {
            texts.extend(times.map(|n| text.repeat(n)));
        }
        if let Some(pattern) = node["pattern"].as_str() {
            // A validator judges the samples, so they need not match exactly.
            let whole = pattern.trim_start_matches('^').trim_end_matches('$');
            let samples = string_regex(whole).expect("a pattern");
            for _ in 0..24 {
                let sample = samples
                    .new_tree(&mut self.runner)
                    .expect("a sample")
                    .current();
                texts.extend(near(&sample));
                texts.push(sample);
            }
        }
        texts.into_iter().map(Value::from).collect()
    }
}

fn numbers(node: &Value) -> Vec<Value> {
    let mut numbers = vec![
        json!(1.0005),
        json!(1.1 + 2.2),
        json!(1e300),
        json!(u64::MAX),
        json!(i64::MIN),
        json!("1"),
    ];
    for bound in ["minimum", "maximum"] {
        let Some(bound) = node[bound].as_i64() else {
            continue;
        };
        numbers.extend([bound - 1, bound, bound + 1].map(Value::from));
        #[expect(clippy::cast_precision_loss, reason = "bounds are below 2^53")]
        numbers.extend([0.0, 0.5, -0.001, 0.001].map(|more| Value::from(bound as f64 + more)));
    }
    numbers
}

/// Texts one step away.
fn near(text: &str) -> [String; 4] {
    let mut letters = text.chars();
    let first = letters.next().unwrap_or('0');
    let other_case = |c: char| {
        if c.is_lowercase() {
            c.to_ascii_uppercase()
        } else {
            c.to_ascii_lowercase()
        }
    };
    [
        letters.as_str().to_owned(),
        format!("{text}{first}"),
        format!(" {text}\n"),
        text.chars().map(other_case).collect(),
    ]
}

const LONG: [(&str, [usize; 6]); 4] = [
    ("x", [8, 9, 32, 33, 256, 257]),
    ("y", [128, 129, 64, 65, 2, 1_000]),
    ("馬", [42, 43, 85, 86, 128, 256]),
    ("\u{1f40e}", [32, 33, 64, 65, 128, 129]),
];

const ODD: &[&str] = &[
    " ",
    "\n",
    "\0",
    "a\nb",
    "\u{7f}",
    "\u{85}a\u{3000}",
    "\u{feff}",
    "\u{2028}",
    "L'\u{c9}TOILE \"\\",
    "\u{202e}",
    "沙田",
    "1.0",
    "0.3",
    "01",
    "+1",
    "---",
    "null",
    "2014",
    "1699",
    "1700",
    "2999",
    "3000",
    "2014-02-30",
    "2024-02-29",
    "2026-02-29",
    "1699-12-31",
    "1700-01-01",
    "2999-12-31",
    "3000-01-01",
    "2026-1-1",
    "2026-11-21",
    "2026-11-21T14:32:00",
    "2026-11-21T14:32:00Z",
    "2026-11-21t14:32:00.123456789z",
    "2026-11-21T14:32:00.1234567890Z",
    "2026-11-21T14:32:00.Z",
    "2026-11-21T14:32:00-00:00",
    "2026-11-21T14:32:00+24:00",
    "2026-11-21T14:32:00+23:59",
    "2026-11-21T14:32:00+0800",
    "2026-11-21T24:00:00Z",
    "2026-11-21T14:32:60Z",
    "2016-12-31T23:59:60Z",
    "2017-01-01T07:59:60+08:00",
    "2016-12-31T23:59:60+08:00",
    "2026-02-29T14:32:00Z",
    "0000-01-01T00:00:00Z",
    "0000-12-31T23:59:59-12:00",
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+08:00",
    "9998-12-31T23:59:59Z",
    "9998-12-31T23:59:59-12:00",
    "9999-12-31T23:59:59Z",
    "2026-11-21 14:32:00Z",
    "2026-11-21T14:32:00+08:00[Asia/Hong_Kong]",
    "0:00.00",
    "00:00.00",
    "0:00.01",
    "1:60.00",
    "59:59.99",
    "60:00.00",
    "05:00.00",
    "racing.odds.quoted.v1",
    "racing.race.declared.v1",
    "racing.runner.withdrawn.v1",
    "racing.tote.opened.v1",
];
