//! `/asyncapi.json`: the AsyncAPI document of the live channel and the log, made from the types of their messages.

mod document;
mod live;
mod log;

use serde_json::Value;

use document::Document;

/// The AsyncAPI 3.0 document of a service on this machine.
pub fn document() -> Value {
    document_of("127.0.0.1:8080", false)
}

/// The AsyncAPI 3.0 document of the service on a host, with or without TLS.
pub(crate) fn document_of(host: &str, is_encrypted: bool) -> Value {
    let mut document = Document::new();
    live::describe(&mut document, host, is_encrypted);
    log::describe(&mut document);
    document.json
}
