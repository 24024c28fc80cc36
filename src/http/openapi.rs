//! `/openapi.json`: the OpenAPI document, with the schemas of the views from their types.

use events::RacingDate;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// The headers of each response to a valid key whose plan has limits.
const RATE_LIMIT_HEADERS: [&str; 3] = [
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
];

/// The OpenAPI 3.1 document.
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let views = projections::view_schemas(&mut generator);
    let mut schemas = generator.take_definitions(true);
    let views = views.into_iter();
    schemas.extend(views.map(|(name, schema)| (name.to_owned(), schema.to_value())));
    let error = json!({
        "type": "object",
        "required": ["error", "message"],
        "properties": { "error": { "type": "string" }, "message": { "type": "string" } },
    });
    let rate_limit_exceeded = json!({
        "type": "object",
        "required": ["error", "message", "retry_after"],
        "properties": {
            "error": { "const": "rate_limit_exceeded" },
            "message": { "type": "string" },
            "retry_after": { "type": "integer", "minimum": 1, "description": "Seconds until the next request is answered, as in `Retry-After`." },
        },
    });
    schemas.insert("Error".to_owned(), error);
    schemas.insert("RateLimitExceeded".to_owned(), rate_limit_exceeded);
    let header = |minimum: u32, what: &str| json!({ "description": what, "schema": { "type": "integer", "minimum": minimum } });
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "railbird",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Horse racing data, folded from an event log. Each response under `/api/v1` has `Railbird-Seq`, the log sequence that it reflects, and `Railbird-Feed`, which is `live`, `stale` or `down`. A request with `Railbird-Min-Seq` gets a response that reflects that sequence, or 503. Each successful response has an `ETag`. Each response has an `X-Request-Id`: the one of the request, if that is 1 to 64 of `A-Z a-z 0-9 . _ -`, or a new one.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "security": [{ "key": [] }],
        "paths": paths(),
        "components": {
            "securitySchemes": { "key": { "type": "apiKey", "in": "header", "name": "X-API-Key" } },
            "schemas": schemas,
            "headers": {
                "X-RateLimit-Limit": header(1, "The limit of the plan, in a minute or in a day: the one of which fewer requests are left."),
                "X-RateLimit-Remaining": header(0, "The requests left of that limit."),
                "X-RateLimit-Reset": header(0, "Seconds until all requests of that limit are available again, if none is sent."),
                "Retry-After": header(1, "Seconds until the next request is answered."),
            },
        },
    })
}

/// References to headers of a response, by name.
fn with_headers(names: &[&str]) -> Value {
    let reference = |name: &str| json!({ "$ref": format!("#/components/headers/{name}") });
    let references = names.iter().map(|name| (*name, reference(name)));
    references.collect()
}

fn paths() -> Value {
    let horse_no = json!({ "name": "horse_no", "in": "path", "required": true, "schema": { "type": "string", "pattern": "^[A-Za-z0-9_-]{1,32}$" } });
    let day = json!({ "type": "string", "format": "date", "pattern": RacingDate::PATTERN });
    let date = json!({ "name": "date", "in": "path", "required": true, "schema": day });
    let race_number = json!({ "name": "race_number", "in": "path", "required": true, "schema": { "type": "integer", "minimum": 1, "maximum": 999 } });
    let venue = json!({ "name": "venue", "in": "query", "required": false, "description": "The venue of the meeting, by code or name.", "schema": { "type": "string" } });
    let limit = json!({ "name": "limit", "in": "query", "required": false, "description": "The maximum number of rows. A page ends earlier at 128 KiB of rows.", "schema": { "type": "integer", "minimum": 1, "maximum": 1000 } });
    let after = |what: &str| json!({ "name": "after", "in": "query", "required": false, "description": what, "schema": { "type": "string" } });
    let after_row = json!({ "name": "after", "in": "query", "required": false, "description": "Skips so many rows from the beginning, as in `next` of the page before.", "schema": { "type": "integer", "minimum": 0 } });
    let query_date = |name: &str, what: &str| json!({ "name": name, "in": "query", "required": false, "description": what, "schema": day });
    let race = |view: &str| json!({ "allOf": [meeting_head(), reference(view)] });
    let form = json!({
        "type": "object",
        "required": ["horse_no", "horse_name", "form", "unplaced", "next"],
        "properties": {
            "horse_no": { "type": "string" }, "horse_name": { "type": "string" },
            "form": list("FormRow"), "unplaced": list("FormRow"), "next": next_page(),
        },
    });
    let with_list = |base: Value, name: &str, of: &str| json!({ "allOf": [base, { "type": "object", "required": [name], "properties": { name: list(of) } }] });
    let with_page = |base: Value, name: &str, of: &str| json!({ "allOf": [base, { "type": "object", "required": [name, "next"], "properties": { name: list(of), "next": next_page() } }] });
    let meeting = |races: &str| with_list(meeting_head(), "races", races);
    let name = json!({ "name": "name", "in": "query", "required": false, "description": "The beginning of the name; case is ignored. All horses without it.", "schema": { "type": "string" } });
    let horses = json!({ "type": "object", "required": ["horses", "next"], "properties": { "horses": list("HorseProfile"), "next": next_page() } });
    json!({
        "/api/v1/horses": get("Horses by the beginning of their names, ordered by name", &[&name, &limit, &after("The last horse of the page before, as in its `next`.")], &horses),
        "/api/v1/horses/{horse_no}": get("A horse's profile", &[&horse_no], &reference("HorseProfile")),
        "/api/v1/horses/{horse_no}/form": get("A horse's form, newest first", &[&horse_no, &limit, &query_date("before", "Only races before this date."), &after("The last race of the page before, as in its `next`.")], &form),
        "/api/v1/results/today": get("The results of today's meeting", &[&venue], &meeting("RaceResult")),
        "/api/v1/results/today/{race_number}": get("The result of a race of today", &[&race_number, &venue], &race("RaceResult")),
        "/api/v1/results/{date}": get("The results of a meeting", &[&date, &venue], &meeting("RaceResult")),
        "/api/v1/results/{date}/{race_number}": get("One race's result", &[&date, &race_number, &venue], &race("RaceResult")),
        "/api/v1/results/{date}/{race_number}/revisions": get("The revisions of a race's result, oldest first", &[&date, &race_number, &venue, &limit, &after_row], &with_page(meeting_head(), "revisions", "ResultRevision")),
        "/api/v1/racecards/today": get("The race card of today's meeting", &[&venue], &meeting("RaceCard")),
        "/api/v1/racecards/{date}": get("The race card of a meeting", &[&date, &venue], &meeting("RaceCard")),
        "/api/v1/odds/today/{race_number}": get("The odds board of a race of today", &[&race_number, &venue], &reference("OddsBoard")),
        "/api/v1/odds/{date}/{race_number}": get("A race's odds board", &[&date, &race_number, &venue], &reference("OddsBoard")),
        "/api/v1/odds/{date}/{race_number}/history": get("A race's odds board with its quotes, oldest first", &[&date, &race_number, &venue, &limit, &after_row], &with_page(reference("OddsBoard"), "history", "OddsTick")),
        "/api/v1/meetings": get("Meetings, oldest first", &[&query_date("from", "The first date."), &query_date("to", "The last date."), &limit, &after("The last meeting of the page before, as in its `next`.")], &json!({
            "type": "object", "required": ["meetings", "more", "next"],
            "properties": { "meetings": list("Meeting"), "more": { "type": "boolean", "description": "Whether there are more meetings than fit into one response." }, "next": next_page() },
        })),
        "/healthz": open("Returns 200 while the process runs"),
        "/readyz": open("Returns 200 if reads are right, and with `?fresh=10s` not older than that; else 503"),
        "/openapi.json": open("This document"),
    })
}

fn meeting_head() -> Value {
    json!({
        "type": "object",
        "required": ["date", "venue", "venue_code", "meeting_status", "other_venues"],
        "properties": {
            "date": { "type": "string", "format": "date" },
            "venue": { "type": "string", "description": "The racecourse's name." },
            "venue_code": { "type": "string" },
            "meeting_status": { "enum": ["scheduled", "finished", "abandoned"] },
            "other_venues": { "type": "array", "items": { "type": "string" }, "description": "The venue codes of the day's other meetings." },
        },
    })
}

fn next_page() -> Value {
    json!({ "type": "string", "description": "The path of the next page, as in `Link: <...>; rel=\"next\"`; empty on the last page." })
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn list(schema: &str) -> Value {
    json!({ "type": "array", "items": reference(schema) })
}

fn get(summary: &str, parameters: &[&Value], body: &Value) -> Value {
    let content = |schema: &Value| json!({ "application/json": { "schema": schema } });
    let rejection =
        |what: &str| json!({ "description": what, "content": content(&reference("Error")) });
    let failure = |what: &str| json!({ "description": what, "headers": with_headers(&RATE_LIMIT_HEADERS), "content": content(&reference("Error")) });
    let rate_limited = with_headers(&[&RATE_LIMIT_HEADERS[..], &["Retry-After"]].concat());
    json!({ "get": {
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": { "description": "OK", "headers": with_headers(&RATE_LIMIT_HEADERS), "content": content(body) },
            "304": { "description": "Not modified: the ETag is the one in If-None-Match", "headers": with_headers(&RATE_LIMIT_HEADERS) },
            "400": failure("A parameter is invalid"),
            "401": rejection("The key is missing or not valid"),
            "404": failure("The resource does not exist"),
            "405": failure("Only GET and HEAD are allowed"),
            "406": failure("The Accept header excludes JSON"),
            "413": rejection("The request has a large body"),
            "414": rejection("The path and query are too long"),
            "429": { "description": "A limit of the plan is used up, or the network has sent too many requests without a valid key", "headers": rate_limited, "content": content(&reference("RateLimitExceeded")) },
            "500": failure("The service failed"),
            "503": failure("The views or the keys have not been read from the log yet"),
        },
    } })
}

fn open(summary: &str) -> Value {
    json!({ "get": {
        "summary": summary,
        "security": [],
        "responses": { "200": { "description": "OK", "content": { "application/json": { "schema": { "type": "object" } } } } },
    } })
}

#[cfg(test)]
mod tests {
    use super::{RacingDate, paths};

    /// A fuzzer once sent `0195-05-26`, which the published schema allowed and the parser rejects.
    #[test]
    fn every_date_of_a_request_has_the_pattern_of_the_parser() {
        let (paths, mut dates) = (paths(), 0);
        let operations = paths.as_object().expect("paths").values();
        for parameter in operations
            .filter_map(|path| path["get"]["parameters"].as_array())
            .flatten()
        {
            if parameter["schema"]["format"] == "date" {
                assert_eq!(
                    parameter["schema"]["pattern"],
                    RacingDate::PATTERN,
                    "{parameter}"
                );
                dates += 1;
            }
        }
        assert!(dates > 5, "{dates} parameters are dates");
    }
}
