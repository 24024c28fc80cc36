//! [`Oracle`]: whether an event has to be accepted, by the schemas and the rules alone.

use std::collections::BTreeMap;

use jsonschema::Validator;
use serde_json::Value;

use super::RULES;
use super::schemas::{SchemaFile, schemas};

/// The schemas of all types.
pub(crate) struct Oracle(BTreeMap<String, (Value, Validator)>);

/// Why an event is rejected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: &'static str,
    /// The rule that it breaks, if that is the only reason and the schema allows the event.
    pub(crate) rule: Option<&'static str>,
}

impl Oracle {
    pub(crate) fn new() -> Self {
        let of_type = |file: SchemaFile| {
            let name = file.name.trim_end_matches(".json").to_owned();
            let validator = jsonschema::options()
                .should_validate_formats(true)
                .build(&file.schema)
                .expect("a schema is a JSON Schema");
            (name, (file.schema, validator))
        };
        Self(schemas().into_iter().map(of_type).collect())
    }

    /// Each type with its schema.
    pub(crate) fn schemas(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0
            .iter()
            .map(|(name, (schema, _))| (name.as_str(), schema))
    }

    /// Why an event is rejected; `None` if it is accepted. The size is checked first, then the envelope, the type and
    /// the data.
    pub(crate) fn rejection(&self, event: &Value) -> Option<Refusal> {
        let known = event["type"].as_str().and_then(|name| self.0.get(name));
        let any = self.0.values().next();
        let (schema, validator) = known.or(any).expect("there are types");
        let mut codes: Vec<(&'static str, Option<&'static str>)> = Vec::new();
        for error in validator.iter_errors(event) {
            let place = error.instance_path().to_string();
            codes.push(match place.as_str() {
                "/type" if event["type"].is_string() => ("unknown_type", None),
                "/data" => ("invalid_data", None),
                place if place.starts_with("/data/") => ("invalid_data", None),
                _ => ("not_cloud_event", None),
            });
        }
        for rule in &RULES {
            codes.extend(
                rule.broken(schema, event)
                    .map(|code| (code, Some(rule.says))),
            );
        }
        let order = [
            "too_large",
            "not_cloud_event",
            "unknown_type",
            "invalid_data",
        ];
        let code = order
            .into_iter()
            .find(|code| codes.iter().any(|(c, _)| c == code))?;
        let rule = match codes[..] {
            [(_, rule)] => rule,
            _ => None,
        };
        Some(Refusal { code, rule })
    }
}
