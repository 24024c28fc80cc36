//! `/asyncapi.json`: the live channel, described from the types of its messages.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::message::{Request, Said};

/// AsyncAPI 3.0.
#[must_use]
pub fn document() -> Value {
    let settings = SchemaSettings::draft07()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let _ = generator.root_schema_for::<Said<'static>>();
    let _ = generator.root_schema_for::<Request>();
    json!({})
}
