//! The documents that describe the interfaces, beside [`events::SCHEMAS`]: files in `schemas/`, which tests make of
//! types.

use serde_json::Value;

/// The text of `schemas/openapi.json`.
pub const OPENAPI: &str = include_str!("../../schemas/openapi.json");

/// The text of `schemas/asyncapi.json`.
pub const ASYNCAPI: &str = include_str!("../../schemas/asyncapi.json");

/// The OpenAPI 3.1 document.
pub fn openapi() -> Value {
    parse(OPENAPI)
}

/// The AsyncAPI 3.0 document of a service on this machine.
pub fn asyncapi() -> Value {
    parse(ASYNCAPI)
}

pub(super) fn parse(document: &str) -> Value {
    serde_json::from_str(document).expect("a test has made it")
}
