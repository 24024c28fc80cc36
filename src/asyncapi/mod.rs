//! `/asyncapi.json`: the AsyncAPI document of the live channel and the log, made from the types of their messages.

mod document;
mod live;
mod log;

use serde_json::Value;

use document::Document;

/// The AsyncAPI 3.0 document of the service.
#[must_use]
pub fn document() -> Value {
    let mut document = Document::new();
    live::describe(&mut document);
    log::describe(&mut document);
    document.json
}
