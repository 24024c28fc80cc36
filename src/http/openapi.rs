//! `/openapi.json`: the HTTP interface, described from the types of the views.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// What every answer has that a valid key got, where its plan has limits.
const LIMITS: [&str; 3] = [
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
];

/// OpenAPI 3.1.
#[must_use]
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let views = projections::view_schemas(&mut generator);
    let mut schemas = generator.take_definitions(true);
    schemas.extend(
        views
            .into_iter()
            .map(|(name, schema)| (name.to_owned(), schema.to_value())),
    );
    schemas.insert("Error".to_owned(), error());
    schemas.insert("RateLimitExceeded".to_owned(), rate_limit_exceeded());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "railbird",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Horse racing data, folded from an event log. Every answer carries `Railbird-Seq`, the place in the log that it reflects, and an `ETag`.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "security": [{ "key": [] }],
        "paths": paths(),
        "components": {
            "securitySchemes": { "key": { "type": "apiKey", "in": "header", "name": "X-API-Key" } },
            "schemas": schemas,
            "headers": headers(),
        },
    })
}

fn error() -> Value {
    json!({
        "type": "object",
        "required": ["error", "message"],
        "properties": { "error": { "type": "string" }, "message": { "type": "string" } },
    })
}

fn rate_limit_exceeded() -> Value {
    json!({
        "type": "object",
        "required": ["error", "message", "retry_after"],
        "properties": {
            "error": { "const": "rate_limit_exceeded" },
            "message": { "type": "string" },
            "retry_after": { "type": "integer", "minimum": 1, "description": "Seconds until it is of use to ask again, as in `Retry-After`." },
        },
    })
}

fn headers() -> Value {
    let header = |minimum: u32, what: &str| json!({ "description": what, "schema": { "type": "integer", "minimum": minimum } });
    json!({
        "X-RateLimit-Limit": header(1, "Requests that the plan allows: in a minute or in a day, of which fewer are left."),
        "X-RateLimit-Remaining": header(0, "Of them, those that are left now."),
        "X-RateLimit-Reset": header(0, "Seconds until all of them are there again, if nothing more is asked for."),
        "Retry-After": header(1, "Seconds until it is of use to ask again."),
    })
}

/// Headers of an answer, by name.
fn with_headers(names: &[&str]) -> Value {
    let reference = |name: &&str| {
        let reference = json!({ "$ref": format!("#/components/headers/{name}") });
        ((*name).to_owned(), reference)
    };
    names.iter().map(reference).collect::<Map<_, _>>().into()
}

fn paths() -> Value {
    let horse_no = path_parameter(
        "horse_no",
        &json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{1,32}$" }),
    );
    let date = path_parameter("date", &json!({ "type": "string", "format": "date" }));
    let race_number = path_parameter(
        "race_number",
        &json!({ "type": "integer", "minimum": 1, "maximum": 999 }),
    );
    let venue = query_parameter(
        "venue",
        "Which meeting of the day, by code or name.",
        &json!({ "type": "string" }),
    );
    let limit = query_parameter(
        "limit",
        "Rows at most.",
        &json!({ "type": "integer", "minimum": 1, "maximum": 1000 }),
    );
    let day = |name: &str, what: &str| {
        query_parameter(name, what, &json!({ "type": "string", "format": "date" }))
    };
    let meeting = |races: &str| json!({ "allOf": [meeting_head(), { "type": "object", "required": ["races"], "properties": { "races": list(races) } }] });
    let race = |view: &str| json!({ "allOf": [meeting_head(), reference(view)] });
    let form = json!({
        "type": "object",
        "required": ["horse_no", "horse_name", "form", "unplaced"],
        "properties": {
            "horse_no": { "type": "string" }, "horse_name": { "type": "string" },
            "form": list("FormRow"), "unplaced": list("FormRow"),
        },
    });
    let with_list = |base: Value, name: &str, of: &str| json!({ "allOf": [base, { "type": "object", "required": [name], "properties": { name: list(of) } }] });
    json!({
        "/api/v1/horses/{horse_no}": get("A horse's profile", &[&horse_no], &reference("HorseProfile")),
        "/api/v1/horses/{horse_no}/form": get("A horse's form, newest first", &[&horse_no, &limit, &day("before", "Only races before this date.")], &form),
        "/api/v1/results/{date}": get("The results of a meeting", &[&date, &venue], &meeting("RaceResult")),
        "/api/v1/results/{date}/{race_number}": get("One race's result", &[&date, &race_number, &venue], &race("RaceResult")),
        "/api/v1/results/{date}/{race_number}/revisions": get("Every statement of a race's result", &[&date, &race_number, &venue], &with_list(meeting_head(), "revisions", "ResultRevision")),
        "/api/v1/racecards/today": get("The race card of today's meeting", &[&venue], &meeting("RaceCard")),
        "/api/v1/racecards/{date}": get("The race card of a meeting", &[&date, &venue], &meeting("RaceCard")),
        "/api/v1/odds/{date}/{race_number}": get("A race's odds board", &[&date, &race_number, &venue], &reference("OddsBoard")),
        "/api/v1/odds/{date}/{race_number}/history": get("A race's odds board with every quote", &[&date, &race_number, &venue], &with_list(reference("OddsBoard"), "history", "OddsTick")),
        "/api/v1/meetings": get("Meetings, oldest first", &[&day("from", "The first date."), &day("to", "The last date.")], &json!({
            "type": "object", "required": ["meetings", "more"],
            "properties": { "meetings": list("Meeting"), "more": { "type": "boolean", "description": "There are more than fit into one answer." } },
        })),
        "/healthz": open("The process runs"),
        "/readyz": open("The views are up to date with the log"),
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
            "other_venues": { "type": "array", "items": { "type": "string" }, "description": "Codes of the day's other meetings." },
        },
    })
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn list(schema: &str) -> Value {
    json!({ "type": "array", "items": reference(schema) })
}

fn path_parameter(name: &str, schema: &Value) -> Value {
    json!({ "name": name, "in": "path", "required": true, "schema": schema })
}

fn query_parameter(name: &str, what: &str, schema: &Value) -> Value {
    json!({ "name": name, "in": "query", "required": false, "description": what, "schema": schema })
}

fn get(summary: &str, parameters: &[&Value], body: &Value) -> Value {
    let content = |schema: &Value| json!({ "application/json": { "schema": schema } });
    let refusal =
        |what: &str| json!({ "description": what, "content": content(&reference("Error")) });
    let failure = |what: &str| json!({ "description": what, "headers": with_headers(&LIMITS), "content": content(&reference("Error")) });
    let over = with_headers(&[&LIMITS[..], &["Retry-After"]].concat());
    json!({ "get": {
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": { "description": "OK", "headers": with_headers(&LIMITS), "content": content(body) },
            "304": { "description": "Not modified: the ETag is the one in If-None-Match", "headers": with_headers(&LIMITS) },
            "400": failure("A parameter is wrong"),
            "401": refusal("The key is missing or not valid"),
            "404": failure("There is no such thing"),
            "405": failure("Only GET and HEAD are allowed"),
            "406": failure("The client takes no JSON"),
            "413": refusal("A large body came with the request"),
            "414": refusal("The path and query are too long"),
            "429": { "description": "More requests than the plan of the key allows, or too many without a valid key from one network address", "headers": over, "content": content(&reference("RateLimitExceeded")) },
            "500": failure("Something went wrong in the service"),
            "503": failure("The views do not reflect the log yet"),
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
