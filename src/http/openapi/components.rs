//! The parts of the OpenAPI document that operations refer to: parameters, headers, responses, and the schemas that are
//! no views.

use events::{EVENT_TYPES, HorseNo, RaceNumber, RacingDate};
use schemars::generate::{Contract, SchemaSettings};
use serde_json::{Map, Value, json};

use crate::http::error::{ApiError, UNAUTHORIZED_BODY};
use crate::json_schema::{generator, schema_of};
use crate::live::health::Liveness;
use crate::live::status::Phase;

/// An example of each response, by the name of its schema.
const EXAMPLES: &str = include_str!("examples.json");

/// The headers of each response to a valid key whose plan has limits.
const RATE_LIMIT_HEADERS: [&str; 3] = [
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
];
/// The headers of each response.
const COMMON_HEADERS: [&str; 3] = ["Railbird-Seq", "Railbird-Feed", "X-Request-Id"];

pub(super) fn reference(kind: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{kind}/{name}") })
}

pub(super) fn response(name: &str) -> Value {
    reference("responses", name)
}

/// A response with JSON of a schema, and its example.
pub(super) fn json_response(description: &str, schema: &str) -> Value {
    let examples: Value = serde_json::from_str(EXAMPLES).expect("the examples are JSON");
    let mut content = json!({ "schema": reference("schemas", schema) });
    if let Some(example) = examples.get(schema) {
        content["example"] = example.clone();
    }
    json!({
        "description": description,
        "headers": header_references(&COMMON_HEADERS),
        "content": { "application/json": content },
    })
}

/// The headers of a response that clients keep.
pub(super) fn cached_headers(links: bool) -> Value {
    let mut names = vec!["ETag", "Cache-Control"];
    names.extend(COMMON_HEADERS);
    names.extend(RATE_LIMIT_HEADERS);
    names.extend(links.then_some("Link"));
    header_references(&names)
}

fn header_references(names: &[&str]) -> Value {
    let references = names.iter().map(|name| (*name, reference("headers", name)));
    references.collect()
}

/// The schemas of values in parameters, headers and the body of `/readyz`.
fn values() -> [(&'static str, Value); 5] {
    let mut generator = generator(SchemaSettings::draft2020_12(), Contract::Serialize);
    [
        ("HorseNo", schema_of::<HorseNo>(&mut generator)),
        ("RaceNumber", schema_of::<RaceNumber>(&mut generator)),
        ("RacingDate", schema_of::<RacingDate>(&mut generator)),
        ("FeedState", schema_of::<Liveness>(&mut generator)),
        ("ProjectorPhase", schema_of::<Phase>(&mut generator)),
    ]
    .map(|(name, schema)| (name, schema.to_value()))
}

/// The schemas that are not in the schema of a view.
pub(super) fn schemas() -> Map<String, Value> {
    let error = json!({
        "type": "object",
        "description": "An error.",
        "required": ["error", "message"],
        "properties": {
            "error": reference("schemas", "ErrorCode"),
            "message": { "type": "string", "description": "The error in words, for people." },
        },
    });
    let rate_limit_exceeded = json!({
        "type": "object",
        "description": "A limit is used up.",
        "required": ["error", "message", "retry_after"],
        "properties": {
            "error": { "type": "string", "const": "rate_limit_exceeded", "description": "The kind of error." },
            "message": { "type": "string", "description": "The error in words, for people." },
            "retry_after": { "type": "integer", "minimum": 1, "description": "Seconds until the next request is answered, as in `Retry-After`." },
        },
    });
    let document = json!({ "type": "object", "description": "A document as JSON.", "additionalProperties": true });
    let health = json!({
        "type": "object",
        "description": "The process runs.",
        "required": ["status"],
        "properties": { "status": { "type": "string", "const": "ok", "description": "Always `ok`." } },
    });
    let schemas = [
        (
            "ErrorCode",
            json!({ "type": "string", "enum": ApiError::CODES, "description": "The kind of error." }),
        ),
        ("ErrorResponse", error),
        ("RateLimitExceeded", rate_limit_exceeded),
        ("Document", document),
        ("Health", health),
        ("Readiness", readiness()),
    ];
    let schemas = schemas.into_iter().chain(values());
    schemas
        .map(|(name, schema)| (name.to_owned(), schema))
        .collect()
}

/// The body of `/readyz`, as far as programs use it. It has more fields, for operators.
fn readiness() -> Value {
    let object = |description: &str, properties: Value| {
        let required: Vec<&String> = properties
            .as_object()
            .into_iter()
            .flat_map(Map::keys)
            .collect();
        json!({ "type": "object", "description": description, "required": required, "properties": properties })
    };
    let count =
        |description: &str| json!({ "type": "integer", "minimum": 0, "description": description });
    object(
        "Whether reads are right.",
        json!({
            "ready": { "type": "boolean", "description": "Whether reads are right." },
            "reason": { "type": "string", "description": "Why they are not; empty if they are." },
            "phase": reference("schemas", "ProjectorPhase"),
            "log": object("The progress of the views in the log.", json!({
                "connected": { "type": "boolean", "description": "Whether the log can be reached." },
                "seq": count("The log sequence that the views reflect."),
                "pending": count("Events after that."),
                "progress": { "type": "number", "minimum": 0, "maximum": 1, "description": "The part of the log that the views reflect." },
            })),
            "feed": object("The state of the feed.", json!({
                "state": reference("schemas", "FeedState"),
                "age_ms": count("Milliseconds since the views were known to reflect the whole log."),
            })),
        }),
    )
}

#[rustfmt::skip]
pub(super) fn parameters() -> Value {
    let path = |name: &str, description: &str, schema: Value| json!({
        "name": name, "in": "path", "required": true, "description": description, "schema": schema,
    });
    let query = |name: &str, description: &str, schema: Value| json!({
        "name": name, "in": "query", "description": description, "schema": schema,
    });
    let header = |name: &str, description: &str, schema: Value| json!({
        "name": name, "in": "header", "description": description, "schema": schema,
    });
    let schema = |name: &str| reference("schemas", name);
    let text = || json!({ "type": "string" });
    let files: Vec<String> = EVENT_TYPES.iter().map(|name| format!("{name}.json")).collect();
    json!({
        "horse_no": path("horse_no", "The horse.", schema("HorseNo")),
        "date": path("date", "The meeting's date.", schema("RacingDate")),
        "race_number": path("race_number", "The race's number.", schema("RaceNumber")),
        "file": path("file", "The event's type, with `.json`.", json!({ "type": "string", "enum": files })),
        "name": query("name", "The beginning of the name; case is ignored. All horses without it.", text()),
        "venue": query("venue", "The venue of the meeting, by code or name in any case.", text()),
        "limit": query("limit", "The maximum number of rows. A page ends earlier at 128 KiB of rows.",
            json!({ "type": "integer", "minimum": 1, "maximum": 1000, "default": 1000 })),
        "before": query("before", "Only races before this date.", schema("RacingDate")),
        "after": query("after", "The last row of the page before, as in its `next`.", text()),
        "after_row": query("after", "Skips so many rows from the beginning, as in `next` of the page before.",
            json!({ "type": "integer", "minimum": 0 })),
        "from": query("from", "The first date.", schema("RacingDate")),
        "to": query("to", "The last date.", schema("RacingDate")),
        "fresh": query("fresh", "The largest age of the views, a duration such as `10s`.", text()),
        "if_none_match": header("If-None-Match", "The `ETag` of a body that the client has. If it is still the same, the response is 304.", text()),
        "min_seq": header("Railbird-Min-Seq", "A log sequence that the response must reflect. If the views do not within 2 seconds, it is 503.",
            json!({ "type": "integer", "minimum": 0 })),
        "request_id": header("X-Request-Id", "An id for the service's log, which the response repeats.",
            json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$" })),
    })
}

pub(super) fn headers() -> Value {
    let header =
        |schema: Value, description: &str| json!({ "description": description, "schema": schema });
    let always = |schema: Value, description: &str| json!({ "description": description, "required": true, "schema": schema });
    let count = |minimum: u32| json!({ "type": "integer", "minimum": minimum });
    let text = || json!({ "type": "string" });
    json!({
        "Railbird-Seq": always(count(0), "The response includes all events up to this log sequence."),
        "Railbird-Feed": always(reference("schemas", "FeedState"), "The state of the feed."),
        "X-Request-Id": always(text(), "The request's own, or a new one. The service's log has it."),
        "ETag": always(text(), "A weak entity tag of the body. It is the same on all replicas."),
        "Cache-Control": always(text(), "`private, no-cache`: revalidate with `If-None-Match`. `no-store` on errors."),
        "Link": header(text(), "`rel=\"next\"`: the next page. `rel=\"alternate\"`: another meeting of the day."),
        "Allow": always(text(), "`GET, HEAD`."),
        "Retry-After": always(count(1), "Seconds until the next request is answered."),
        "X-RateLimit-Limit": header(count(1), "The limit of the plan, in a minute or in a day: the one of which fewer requests are left."),
        "X-RateLimit-Remaining": header(count(0), "The requests left of that limit."),
        "X-RateLimit-Reset": header(count(0), "Seconds until all requests of that limit are available again, if none is sent."),
    })
}

/// The responses that operations share.
pub(super) fn responses() -> Value {
    let not_modified = json!({
        "description": "The body with the `ETag` in `If-None-Match` is still the same",
        "headers": cached_headers(true),
    });
    // Before the plan of a key is known, there is no rate limit to report.
    let before_plan = &[][..];
    let counted = &RATE_LIMIT_HEADERS[..];
    let counted_and = |name| [counted, &[name]].concat();
    json!({
        "NotModified": not_modified,
        "BadRequest": failure("A parameter is invalid", "invalid_date", "A date is YYYY-MM-DD, not \"2026-13-01\"", counted),
        "Unauthorized": unauthorized(),
        "NotIncluded": failure("The plan of the key does not include it", "live_odds_not_included", "The plan \"free\" does not include live odds", counted),
        "NotFound": failure("The resource does not exist", "not_found", "No meeting is known for 1999-01-01", counted),
        "MethodNotAllowed": failure("Only GET and HEAD are allowed", "method_not_allowed", "Only GET and HEAD are allowed here", &counted_and("Allow")),
        "NotAcceptable": failure("The Accept header excludes JSON", "not_acceptable", "Responses are application/json, which the Accept header excludes", counted),
        "PayloadTooLarge": failure("The request has a large body", "payload_too_large", "A GET request needs no body", before_plan),
        "UriTooLong": failure("The path and query are too long", "uri_too_long", "The path and query are too long", before_plan),
        "RateLimitExceeded": rate_limited(),
        "Internal": failure("The service failed", "internal", "The request failed because of an error in the service", counted),
        "NotReady": failure("The views or the keys have not been read from the log yet", "not_ready", "The keys have not been read from the log yet", &counted_and("Retry-After")),
    })
}

fn failure(description: &str, code: &str, message: &str, headers: &[&str]) -> Value {
    let mut response = json_response(description, "ErrorResponse");
    response["headers"] =
        header_references(&[&COMMON_HEADERS[..], &["Cache-Control"], headers].concat());
    response["content"]["application/json"]["example"] =
        json!({ "error": code, "message": message });
    response
}

fn unauthorized() -> Value {
    let mut response = failure("The key is missing or not valid", "", "", &[]);
    let body: Value = serde_json::from_str(UNAUTHORIZED_BODY).expect("the body is JSON");
    response["content"]["application/json"]["example"] = body;
    response
}

fn rate_limited() -> Value {
    let mut response = json_response(
        "A limit of the plan is used up, or the network has sent too many requests without a valid key",
        "RateLimitExceeded",
    );
    let headers = [
        &COMMON_HEADERS[..],
        &["Cache-Control", "Retry-After"],
        &RATE_LIMIT_HEADERS,
    ]
    .concat();
    response["headers"] = header_references(&headers);
    response
}

#[cfg(test)]
mod tests {
    use super::{RacingDate, parameters, schemas};

    /// A fuzzer once sent `0195-05-26`, which the published schema allowed and the parser rejects.
    #[test]
    fn every_date_of_a_request_has_the_pattern_of_the_parser() {
        let parameters = parameters();
        for name in ["date", "before", "from", "to"] {
            let schema = &parameters[name]["schema"];
            assert_eq!(schema["$ref"], "#/components/schemas/RacingDate", "{name}");
        }
        assert_eq!(schemas()["RacingDate"]["pattern"], RacingDate::PATTERN);
    }
}
