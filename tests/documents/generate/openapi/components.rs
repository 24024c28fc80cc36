//! The parts of the OpenAPI document that operations refer to: parameters, headers, responses, and the schemas that are
//! no views.

use events::{
    EVENT_TYPES, HorseNo, LanguageTag, Moment, PoolCode, RaceNumber, RacingDate, VenueCode,
};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

use super::examples::EXAMPLES;
use crate::http::account::AccountStatus;
use crate::http::changes::{LogChange, WAIT_MS_MAX};
use crate::http::error::{ErrorResponse, RateLimitExceeded, UNAUTHORIZED_BODY};
use crate::http::paging::LIMIT_MAX;
use crate::http::readiness::{ProcessHealth, Readiness};
use crate::http::status::report::ServiceStatus;

/// The headers of each response to a valid key whose plan has limits.
const RATE_LIMIT_HEADERS: [&str; 3] = [
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
];
/// The headers of each response. Those from `Vary` on depend on the origin of the request.
const COMMON_HEADERS: [&str; 7] = [
    "Railbird-Seq",
    "Railbird-Feed",
    "X-Request-Id",
    "X-Content-Type-Options",
    "Vary",
    "Access-Control-Allow-Origin",
    "Access-Control-Expose-Headers",
];

pub(super) fn reference(kind: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{kind}/{name}") })
}

pub(super) fn response(name: &str) -> Value {
    reference("responses", name)
}

/// A response with JSON of a schema, its example, and headers beside those of each response.
pub(super) fn json_response(description: &str, schema: &str, headers: &[&str]) -> Value {
    let mut content = json!({ "schema": reference("schemas", schema) });
    if let Some(example) = EXAMPLES.get(schema) {
        content["example"] = example.clone();
    }
    json!({
        "description": description,
        "headers": header_references(headers),
        "content": { "application/json": content },
    })
}

/// The messages of the live channel. The response does not end.
pub(super) fn event_stream() -> Value {
    let headers = [
        &["Cache-Control", "X-Accel-Buffering"],
        &RATE_LIMIT_HEADERS[..],
    ]
    .concat();
    let description =
        "Events: `data` is a message as in `/asyncapi.json`, `id` its position in the log.";
    json!({
        "description": "OK",
        "headers": header_references(&headers),
        "content": { "text/event-stream": { "schema": { "type": "string", "description": description } } },
    })
}

/// A file of an export.
pub(super) fn file() -> Value {
    let headers = [&["Content-Encoding"], &cached_headers(false)[..]].concat();
    let content = [
        "application/vnd.apache.parquet",
        "application/x-ndjson",
        "text/csv",
    ];
    let content = content.map(|name| {
        (
            name.to_owned(),
            json!({ "schema": { "type": "string", "format": "binary" } }),
        )
    });
    json!({
        "description": "OK",
        "headers": header_references(&headers),
        "content": content.into_iter().collect::<serde_json::Map<_, _>>(),
    })
}

/// The headers of a response that clients keep, beside those of each response.
pub(super) fn cached_headers(links: bool) -> Vec<&'static str> {
    let mut names = vec!["Railbird-Schema", "ETag", "Cache-Control"];
    names.extend(RATE_LIMIT_HEADERS);
    names.extend(links.then_some("Link"));
    names
}

fn header_references(names: &[&str]) -> Value {
    let names = COMMON_HEADERS.iter().chain(names);
    names
        .map(|name| (*name, reference("headers", name)))
        .collect()
}

/// Adds the schemas of the service, and of values in parameters and headers.
pub(super) fn add_schemas(generator: &mut SchemaGenerator) {
    generator.subschema_for::<HorseNo>();
    generator.subschema_for::<LanguageTag>();
    generator.subschema_for::<Moment>();
    generator.subschema_for::<PoolCode>();
    generator.subschema_for::<RaceNumber>();
    generator.subschema_for::<RacingDate>();
    generator.subschema_for::<VenueCode>();
    generator.subschema_for::<ErrorResponse>();
    generator.subschema_for::<RateLimitExceeded>();
    generator.subschema_for::<ProcessHealth>();
    generator.subschema_for::<Readiness>();
    generator.subschema_for::<ServiceStatus>();
    generator.subschema_for::<AccountStatus>();
    generator.subschema_for::<ChangeList<'_>>();
}

/// The events of the log after a place.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "the service renders it row by row")]
struct ChangeList<'a> {
    /// The changes, in the order of the log.
    changes: Vec<LogChange<'a>>,
    /// The sequence up to which these are all changes: the `after` of the next page.
    after: u64,
    /// Whether the log has more events, which may be changes.
    more: bool,
    /// The path of the next page, as in `Link: <...>; rel="next"`. The last page has one, too: of what is yet to come.
    next: String,
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
    let seq = || json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX });
    let files: Vec<String> = EVENT_TYPES.iter().map(|name| format!("{name}.json")).collect();
    json!({
        "horse_no": path("horse_no", "The horse.", schema("HorseNo")),
        "other_horse_no": path("other_horse_no", "The other horse.", schema("HorseNo")),
        "key": path("key", "The `key` of a row of the list.", text()),
        "by": query("by", "What the rides are grouped by.", schema("RidesBy")),
        "date": path("date", "The meeting's date.", schema("RacingDate")),
        "kind": path("kind", "What the rows are: of results and race cards runners, of odds the runners of each quote, of \
            dividends their lines, of forms the runs of the meeting.",
            json!({ "type": "string", "enum": ["results", "racecards", "odds", "dividends", "form"] })),
        "venue_code": path("venue", "The code of the meeting's venue.", schema("VenueCode")),
        "race_number": path("race_number", "The race's number.", schema("RaceNumber")),
        "file": path("file", "The event's type, with `.json`.", json!({ "type": "string", "enum": files })),
        "name": query("name", "A text in the name, in any language; case is ignored. All without it.", text()),
        "venue": query("venue", "The venue of the meeting, by code or name in any case.", text()),
        "moves": query("moves", "Whether to add `moves`, for a plan with these odds.",
            json!({ "type": "boolean", "default": false })),
        "market": query("market", "Another market than win and place, by its pool.", schema("PoolCode")),
        "source": query("source", "The source whose board it is; that of the primary source without it.", text()),
        "limit": query("limit", "The maximum number of rows. A page ends earlier at 128 KiB of rows.",
            json!({ "type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_MAX })),
        "before": query("before", "Only races before this date.", schema("RacingDate")),
        "after": query("after", "The last row of the page before, as in its `next`.", text()),
        "after_seq": query("after", "A log sequence: only later events. The beginning of the log without it.", seq()),
        "types": query("types", "Only events of these types, with commas between them, such as `racing.result.declared.v1`.", text()),
        "wait_ms": query("wait_ms", "Without any change, how long to wait for the next one, in milliseconds.",
            json!({ "type": "integer", "minimum": 0, "maximum": WAIT_MS_MAX, "default": 0 })),
        "after_row": query("after", "Skips so many rows from the beginning, as in `next` of the page before.", seq()),
        "lang": query("lang", "The language of names, where it is known; that of the feeder without it.", schema("LanguageTag")),
        "as_of": query("as_of", "The answer as it was after an event of the log: a sequence, a time, for the last event \
            that the log had then, or `off` where the path names a race, for the event by which it was off.", text()),
        "source_of_quotes": query("source", "Only quotes of this source; of all without it. Steps have one, the primary source without it.", text()),
        "runner": query("runner", "Only a runner, by horse or number; of other markets, the combinations with it.", text()),
        "from_time": query("from", "Only what the log stored at this time or later.", schema("Moment")),
        "to_time": query("to", "Only what the log stored before this time.", schema("Moment")),
        "every": query("every", "The length of steps such as `1m`, at least `1s`: `steps` instead of quotes.", text()),
        "last": query("last", "Only the newest rows, so many, newest first. Without `after` and `limit`.",
            json!({ "type": "integer", "minimum": 1, "maximum": LIMIT_MAX })),
        "from": query("from", "The first date.", schema("RacingDate")),
        "to": query("to", "The last date.", schema("RacingDate")),
        "fresh": query("fresh", "The largest age of the views, a duration such as `10s`.",
            json!({ "type": "string", "pattern": "^[0-9]{1,6}(ms|s|m|h)$" })),
        "if_none_match": header("If-None-Match", "The `ETag` of a body that the client has. If it is still the same, the response is 304.", text()),
        "min_seq": header("Railbird-Min-Seq", "A log sequence that the response must reflect. If the views do not within 2 seconds, it is 503.", seq()),
        "last_event_id": header("Last-Event-ID", "The `id` of the last event received, to resume after it. It goes before `since`.", text()),
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
        "Railbird-Schema": always(count(1), "The schema of the views that the response was read from. Responses of one schema and `Railbird-Seq` are equal on all replicas."),
        "Railbird-Feed": always(reference("schemas", "FeedState"), "The state of the feed."),
        "X-Request-Id": always(text(), "The request's own, or a new one. The service's log has it."),
        "ETag": always(text(), "A weak entity tag of the body. It is the same on all replicas of one `Railbird-Schema`."),
        "Cache-Control": always(text(), "`private, no-cache`, and `no-cache` without a key: revalidate with `If-None-Match`. `no-store` on errors, the account and the live channel."),
        "Link": header(text(), "`rel=\"next\"`: the next page. `rel=\"alternate\"`: another meeting of the day."),
        "Vary": header(text(), "The headers of the request that the response depends on: `accept`, `accept-encoding`, `origin`."),
        "Content-Encoding": header(json!({ "type": "string", "const": "gzip" }), "`gzip`, if the client accepts it and the body has 1 KiB or more."),
        "X-Accel-Buffering": always(json!({ "type": "string", "const": "no" }), "nginx passes on each message at once."),
        "X-Content-Type-Options": always(json!({ "type": "string", "const": "nosniff" }), "The body is of the type in `Content-Type`."),
        "Access-Control-Allow-Origin": header(text(), "The web pages that may read the response: `*` without a key, else those that the operator allows."),
        "Access-Control-Expose-Headers": header(text(), "The headers that these pages may read."),
        "WWW-Authenticate": always(text(), "How to send a key, for clients that ask. `X-API-Key` does as well."),
        "Allow": always(text(), "`GET, HEAD`."),
        "Retry-After": always(count(1), "Seconds until the next request is answered."),
        "X-RateLimit-Limit": header(count(1), "The limit of the plan, in a minute or in a day: the one of which fewer requests are left."),
        "X-RateLimit-Remaining": header(count(0), "The requests left of that limit."),
        "X-RateLimit-Reset": header(count(0), "Seconds until all requests of that limit are available again, if none is sent."),
    })
}

/// The responses that operations share.
pub(super) fn responses() -> Value {
    let not_modified = |headers: &[&str]| {
        json!({
            "description": "The body with the `ETag` in `If-None-Match` is still the same",
            "headers": header_references(headers),
        })
    };
    // Before the plan of a key is known, there is no rate limit to report.
    let before_plan = &[][..];
    let counted = &RATE_LIMIT_HEADERS[..];
    let counted_and = |name| [counted, &[name]].concat();
    json!({
        "NotModified": not_modified(&cached_headers(true)),
        "DocumentNotModified": not_modified(&["ETag", "Cache-Control"]),
        "BadRequest": failure("A parameter is invalid", "invalid_date", "A date is YYYY-MM-DD, not \"2026-13-01\"", counted),
        "Unauthorized": unauthorized(),
        "Forbidden": failure("The plan of the key does not include it, or web pages of this origin may not send a key", "live_odds_not_included", "The plan \"free\" does not include live odds", counted),
        "NotFound": failure("The resource does not exist", "not_found", "No meeting is known for 1999-01-01", counted),
        "Gone": failure("The log does not reach back to `as_of`", "gone", "The log begins after as_of", counted),
        "MethodNotAllowed": failure("Only GET and HEAD are allowed", "method_not_allowed", "Only GET and HEAD are allowed here", &counted_and("Allow")),
        "NotAcceptable": failure("The Accept header excludes all formats", "not_acceptable", "Responses are application/json, lists also text/csv and application/x-ndjson, and exports these or application/vnd.apache.parquet; the Accept header excludes them", counted),
        "PayloadTooLarge": failure("The request has a large body", "payload_too_large", "A GET request needs no body", before_plan),
        "UriTooLong": failure("The path and query are too long", "uri_too_long", "The path and query are too long", before_plan),
        "RateLimitExceeded": rate_limited(),
        "HeadTooLarge": { "description": "The head of the request has more than 16 KiB. The response has no body" },
        "Internal": failure("The service failed", "internal", "The request failed because of an error in the service", counted),
        "NotReady": failure("The views or the keys have not been read from the log yet", "not_ready", "The keys have not been read from the log yet", &counted_and("Retry-After")),
    })
}

fn failure(description: &str, code: &str, message: &str, headers: &[&str]) -> Value {
    let headers = [&["Cache-Control"], headers].concat();
    let mut response = json_response(description, "ErrorResponse", &headers);
    response["content"]["application/json"]["example"] =
        json!({ "error": code, "message": message });
    response
}

fn unauthorized() -> Value {
    let mut response = failure(
        "The key is missing or not valid",
        "",
        "",
        &["WWW-Authenticate"],
    );
    let body: Value = serde_json::from_str(UNAUTHORIZED_BODY).expect("the body is JSON");
    response["content"]["application/json"]["example"] = body;
    response
}

fn rate_limited() -> Value {
    let headers = [&["Cache-Control", "Retry-After"], &RATE_LIMIT_HEADERS[..]].concat();
    let mut response = json_response(
        "A limit of the plan is used up, or the network has sent too many requests without a valid key",
        "RateLimitExceeded",
        &headers,
    );
    response["content"]["application/json"]["example"] = json!({
        "error": "rate_limit_exceeded",
        "message": "The plan \"free\" allows 60 requests a minute",
        "retry_after": 1,
    });
    response
}

/// A fuzzer once sent `0195-05-26`, which the published schema allowed and the parser rejects.
#[test]
fn every_date_of_a_request_has_the_pattern_of_the_parser() {
    let parameters = parameters();
    for name in ["date", "before", "from", "to"] {
        let schema = &parameters[name]["schema"];
        assert_eq!(schema["$ref"], "#/components/schemas/RacingDate", "{name}");
    }
    let document = crate::http::openapi();
    let schema = &document["components"]["schemas"]["RacingDate"];
    assert_eq!(schema["pattern"], events::RacingDate::PATTERN);
}
