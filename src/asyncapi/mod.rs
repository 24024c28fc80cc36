//! `/asyncapi.json`: the channels of the live odds and of the log, described from the types of their messages.

mod document;
mod live;
mod log;

use serde_json::Value;

use document::Document;

/// The AsyncAPI 3.0 document of the service.
#[must_use]
pub fn document() -> Value {
    let mut document = Document::default();
    live::describe(&mut document);
    log::describe(&mut document);
    document.finish()
}
