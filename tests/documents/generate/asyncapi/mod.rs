//! Makes `schemas/asyncapi.json`: the AsyncAPI document of the live channel and the log, from the types of messages.

pub(crate) mod document;
mod log;

use serde_json::Value;

use self::document::Document;
use super::check_json;
use crate::live::documents as live;

/// The AsyncAPI 3.0 document of a service on this machine.
pub(crate) fn document() -> Value {
    let mut document = Document::new();
    live::describe(&mut document);
    log::describe(&mut document);
    document.json
}

#[test]
fn the_asyncapi_document_is_that_of_the_code() {
    check_json("schemas/asyncapi.json", &document());
}
