//! The published documents: OpenAPI, AsyncAPI and JSON Schemas.

mod asyncapi;
mod openapi;
mod outside_tools;
