//! The published documents: OpenAPI, AsyncAPI and JSON Schemas.

mod asyncapi;
mod client_types;
mod openapi;
mod outside_tools;
