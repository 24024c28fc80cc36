//! Makes the references of the HTTP API and of messages, as Markdown, from the OpenAPI and the AsyncAPI document.

mod http;
mod messages;
mod schema;

use crate::documents::{asyncapi, check};
use crate::http::documents as openapi;

#[test]
fn the_references_are_those_of_the_documents() {
    for (file, page) in http::pages(&openapi::document()) {
        check(&file, &page);
    }
    let messages = messages::markdown(&asyncapi::document());
    check("schemas/messages.markdown", &messages);
}
