//! Makes `schemas/openapi.json`: the OpenAPI document, with the schemas of the responses from their types.

mod components;
mod examples;

use schemars::generate::{Contract, SchemaSettings};
use serde_json::{Value, json};

use crate::documents::check_json;
use crate::documents::json_schema::generator;

const DESCRIPTION: &str = "Horse racing data, folded from an event log. Each response has `Railbird-Seq`, the log sequence that it reflects, and \
    `Railbird-Feed`, the state of the feed. A request with `Railbird-Min-Seq` gets a response that reflects that sequence, or 503. \
    HEAD is GET without the body. Ignore fields that you do not know. The live channel is described in `/asyncapi.json`.";

/// The groups of operations.
const TAGS: [(&str, &str); 9] = [
    ("Horses", "Profiles and form."),
    (
        "Results",
        "Results of meetings and races, with their revisions and dividends.",
    ),
    ("Race cards", "Declared runners."),
    ("Odds", "Odds boards and their history."),
    ("Meetings", "The list of meetings."),
    (
        "Changes",
        "The events of the log, for copies that stay exact.",
    ),
    ("Exports", "Files of whole meetings."),
    ("Account", "The plan of the key, and what is used of it."),
    (
        "Service",
        "Health, readiness and the descriptions of the interfaces. No key is needed.",
    ),
];

/// The OpenAPI 3.1 document.
pub(crate) fn document() -> Value {
    let mut generator = generator(SchemaSettings::draft2020_12(), Contract::Serialize);
    projections::schemas::add_response_schemas(&mut generator);
    components::add_schemas(&mut generator);
    let mut schemas = generator.take_definitions(true);
    schemas.insert("Document".to_owned(), json!({ "type": "object", "description": "A document as JSON.", "additionalProperties": true }));
    let tags = TAGS.map(|(name, description)| json!({ "name": name, "description": description }));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "railbird",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/", "description": "The service that serves this document." }],
        "security": [{ "key": [] }, { "bearer": [] }],
        "tags": tags,
        "paths": paths(),
        "components": {
            "securitySchemes": {
                "key": { "type": "apiKey", "in": "header", "name": "X-API-Key" },
                "bearer": { "type": "http", "scheme": "bearer", "description": "The key as a bearer token." },
            },
            "schemas": schemas,
            "parameters": components::parameters(),
            "headers": components::headers(),
            "responses": components::responses(),
        },
    })
}

#[rustfmt::skip]
fn paths() -> Value {
    json!({
        "/api/v1/horses": Operation::new("listHorses", "Horses", "Horses by the beginning of their names, ordered by name")
            .with(&["name", "lang"]).in_pages("after").answers("HorseList"),
        "/api/v1/horses/{horse_no}": Operation::new("getHorse", "Horses", "A horse's profile")
            .with(&["horse_no", "lang"]).answers("HorseProfile"),
        "/api/v1/horses/{horse_no}/form": Operation::new("getHorseForm", "Horses", "A horse's form, newest first")
            .with(&["horse_no", "before", "lang"]).in_pages("after").answers("HorseForm"),
        "/api/v1/results": Operation::new("listResults", "Results", "The results of all meetings of some days, oldest first")
            .with(&["from", "to", "venue", "lang"]).in_pages("after").answers("ResultList"),
        "/api/v1/results/today": Operation::new("getTodaysResults", "Results", "The results of today's meeting")
            .of_a_meeting().in_rows().answers("MeetingResults"),
        "/api/v1/results/today/{race_number}": Operation::new("getTodaysResult", "Results", "The result of a race of today")
            .with(&["race_number"]).of_a_meeting().answers("RaceResult"),
        "/api/v1/results/{date}": Operation::new("getMeetingResults", "Results", "The results of a meeting")
            .with(&["date"]).of_a_meeting().in_rows().answers("MeetingResults"),
        "/api/v1/results/{date}/{race_number}": Operation::new("getRaceResult", "Results", "A race's result")
            .with(&["date", "race_number"]).of_a_meeting().answers("RaceResult"),
        "/api/v1/results/{date}/{race_number}/revisions": Operation::new("getResultRevisions", "Results", "The revisions of a race's result, oldest first")
            .with(&["date", "race_number"]).of_a_meeting().in_pages("after_row").answers("ResultRevisions"),
        "/api/v1/results/{date}/{race_number}/dividends": Operation::new("getRaceDividends", "Results", "What the pools of a race pay")
            .with(&["date", "race_number"]).of_a_meeting().answers("RaceDividends"),
        "/api/v1/racecards": Operation::new("listRacecards", "Race cards", "The race cards of all meetings of some days, oldest first")
            .with(&["from", "to", "venue", "lang"]).in_pages("after").answers("RacecardList"),
        "/api/v1/racecards/today": Operation::new("getTodaysRacecard", "Race cards", "The race card of today's meeting")
            .of_a_meeting().in_rows().answers("Racecard"),
        "/api/v1/racecards/{date}": Operation::new("getRacecard", "Race cards", "The race card of a meeting")
            .with(&["date"]).of_a_meeting().in_rows().answers("Racecard"),
        "/api/v1/odds/today/{race_number}": Operation::new("getTodaysOddsBoard", "Odds", "The odds board of a race of today")
            .with(&["race_number", "venue", "market", "source", "lang"]).answers("OddsBoard"),
        "/api/v1/odds/{date}/{race_number}": Operation::new("getOddsBoard", "Odds", "A race's odds board")
            .with(&["date", "race_number", "venue", "market", "source", "lang"]).answers("OddsBoard"),
        "/api/v1/odds/{date}/{race_number}/sources": Operation::new("getOddsSources", "Odds", "The sources that have quoted a race")
            .with(&["date", "race_number", "venue", "lang"]).answers("OddsSources"),
        "/api/v1/odds/{date}/{race_number}/history": Operation::new("getOddsHistory", "Odds", "A race's odds board with its quotes, oldest first, or with their prices by steps of time")
            .with(&["date", "race_number", "venue", "market", "source_of_quotes", "runner", "from_time", "to_time", "every", "last", "lang"])
            .in_pages("after_row").answers("OddsHistory"),
        "/api/v1/meetings": Operation::new("listMeetings", "Meetings", "Meetings, oldest first")
            .with(&["from", "to", "lang"]).in_pages("after").answers("MeetingList"),
        "/api/v1/changes": Operation::new("listChanges", "Changes", "The events of the log, with the paths whose answers each may have changed")
            .with(&["types", "wait_ms"]).in_pages("after_seq").answers("ChangeList"),
        "/api/v1/exports/{kind}/{date}/{venue}": Operation::new("exportMeeting", "Exports", "A meeting as a file of rows: Parquet, and by `Accept` CSV or NDJSON")
            .with(&["kind", "date", "venue_code", "lang"]).answers_file(),
        "/api/v1/account": Operation::new("getAccount", "Account", "The plan of the key, what is used of it, and the keys that share it. Costs no quota")
            .about_the_key("AccountStatus"),
        "/healthz": Operation::new("getHealth", "Service", "Returns 200 while the process runs").without_key("Health", &[], &[]),
        "/readyz": Operation::new("getReadiness", "Service", "Returns 200 if reads are right, and with `fresh` not older than that")
            .with(&["fresh"])
            .responds("503", components::json_response("Reads are not right, or older than `fresh`", "Readiness", &["Content-Encoding"]))
            .without_key("Readiness", &[], &["400"]),
        "/openapi.json": Operation::new("getOpenApi", "Service", "This document").answers_document(&[]),
        "/asyncapi.json": Operation::new("getAsyncApi", "Service", "The AsyncAPI document of the live channel and the log")
            .answers_document(&[]),
        "/sse/live/odds": event_stream("streamLiveOdds", "The messages of the live channel, as Server-Sent Events", "liveOdds", &[]),
        "/sse/live/odds/{race_number}": event_stream("streamLiveOddsOfRace", "Those of one race of today", "liveOddsOfRace", &["race_number"]),
        "/schemas/{file}": Operation::new("getEventSchema", "Service", "The JSON Schema of an event")
            .with(&["file"]).answers_document(&["400", "404"]),
        "/status.json": Operation::new("getStatus", "Service", "How the service is: overall, by part, in figures and over the last hour")
            .without_key("ServiceStatus", &["Cache-Control"], &["429"]),
    })
}

/// A channel of the AsyncAPI document as Server-Sent Events. Its query is that of the WebSocket, without the key.
fn event_stream(id: &str, summary: &str, channel: &str, in_path: &[&'static str]) -> Value {
    let asyncapi = crate::documents::asyncapi::document();
    let query = &asyncapi["channels"][channel]["bindings"]["ws"]["query"]["properties"];
    let query = query.as_object().into_iter().flatten();
    let query = query
        .filter(|(name, _)| *name != "api_key")
        .map(|(name, schema)| {
            let mut schema = schema.clone();
            let description = schema["description"].take();
            schema
                .as_object_mut()
                .expect("a schema")
                .remove("description");
            json!({ "name": name, "in": "query", "description": description, "schema": schema })
        });
    let of_today: &[&str] = if in_path.is_empty() { &[] } else { &["404"] };
    let statuses = [&["400", "401", "403", "429", "503"], of_today].concat();
    let mut described = Operation::new(id, "Odds", summary)
        .with(in_path)
        .with(&["last_event_id", "request_id"])
        .responds("200", components::event_stream())
        .or_fails(&statuses);
    let parameters = described["get"]["parameters"].as_array_mut();
    parameters.expect("a list").extend(query);
    described
}

#[test]
fn the_openapi_document_is_that_of_the_code() {
    check_json("schemas/openapi.json", &document());
}

/// The failures by their statuses.
const FAILURES: [(&str, &str); 13] = [
    ("400", "BadRequest"),
    ("401", "Unauthorized"),
    ("403", "Forbidden"),
    ("404", "NotFound"),
    ("405", "MethodNotAllowed"),
    ("406", "NotAcceptable"),
    ("410", "Gone"),
    ("413", "PayloadTooLarge"),
    ("414", "UriTooLong"),
    ("429", "RateLimitExceeded"),
    ("431", "HeadTooLarge"),
    ("500", "Internal"),
    ("503", "NotReady"),
];
/// Those of each operation.
const OF_EACH: [&str; 5] = ["405", "413", "414", "431", "500"];

/// The formats of lists beside JSON.
const ROW_FORMATS: [&str; 2] = ["application/x-ndjson", "text/csv"];

/// A GET operation. Parameters are named as in the components.
struct Operation {
    json: Value,
    parameters: Vec<&'static str>,
    /// Whether the response has a `Link`.
    links: bool,
    /// Whether the response may be CSV or NDJSON.
    has_rows: bool,
}

impl Operation {
    fn new(id: &str, tag: &str, summary: &str) -> Self {
        Self {
            json: json!({ "operationId": id, "tags": [tag], "summary": summary }),
            parameters: Vec::new(),
            links: false,
            has_rows: false,
        }
    }

    fn with(mut self, parameters: &[&'static str]) -> Self {
        self.parameters.extend(parameters);
        self
    }

    /// The meeting can be chosen, and the response links to the day's others.
    fn of_a_meeting(mut self) -> Self {
        self.links = true;
        self.with(&["venue", "lang"])
    }

    /// The response is a page of a list, and links to the next one.
    fn in_pages(mut self, after: &'static str) -> Self {
        self.links = true;
        self.with(&["limit", after]).in_rows()
    }

    /// The response is a list, also as CSV and NDJSON.
    fn in_rows(mut self) -> Self {
        self.has_rows = true;
        self
    }

    fn responds(mut self, status: &str, response: Value) -> Self {
        self.json["responses"][status] = response;
        self
    }

    /// The operation, under `/api/v1`, with the schema of its response.
    fn answers(self, schema: &str) -> Value {
        let mut statuses = vec!["400", "401", "403", "406", "429", "503"];
        // The lists of horses and of meetings are always there.
        if (self.parameters.iter()).any(|name| ["horse_no", "venue"].contains(name)) {
            statuses.push("404");
        }
        let headers = components::cached_headers(self.links);
        let is_present = |name: &&str| ["name", "wait_ms"].contains(name);
        let has_past = !self.parameters.iter().any(is_present);
        statuses.extend(has_past.then_some("410"));
        self.with(&["as_of"][..usize::from(has_past)])
            .with(&["if_none_match", "min_seq", "request_id"])
            .responds("304", components::response("NotModified"))
            .finish(schema, &headers, &statuses)
    }

    /// The operation, under `/api/v1`, which answers with a file.
    fn answers_file(self) -> Value {
        let statuses = ["400", "401", "403", "404", "406", "410", "429", "503"];
        self.with(&["as_of", "if_none_match", "min_seq", "request_id"])
            .responds("200", components::file())
            .responds("304", components::response("NotModified"))
            .or_fails(&statuses)
    }

    /// The operation on the key itself, with the schema of its response.
    fn about_the_key(self, schema: &str) -> Value {
        let statuses = ["400", "401", "403", "429", "503"];
        let operation = self.with(&["request_id"]);
        operation.finish(schema, &["Cache-Control"], &statuses)
    }

    /// The operation, which needs no key, with the schema and more headers of its response, and other statuses.
    fn without_key(mut self, schema: &str, headers: &[&str], statuses: &[&str]) -> Value {
        self.json["security"] = json!([]);
        self.finish(schema, headers, statuses)
    }

    /// The operation, which needs no key and answers with JSON that lasts as long as the process, with other statuses.
    fn answers_document(self, statuses: &[&str]) -> Value {
        self.with(&["if_none_match"])
            .responds("304", components::response("DocumentNotModified"))
            .without_key(
                "Document",
                &["ETag", "Cache-Control"],
                &[statuses, &["429"]].concat(),
            )
    }

    fn finish(self, schema: &str, headers: &[&str], statuses: &[&str]) -> Value {
        let headers = [&["Content-Encoding"], headers].concat();
        self.responds("200", components::json_response("OK", schema, &headers))
            .or_fails(statuses)
    }

    fn or_fails(mut self, statuses: &[&str]) -> Value {
        let responses = &mut self.json["responses"];
        for (status, name) in FAILURES {
            if OF_EACH.contains(&status) || statuses.contains(&status) {
                responses[status] = components::response(name);
            }
        }
        if self.has_rows {
            // Beside JSON as `content`, generated clients would type every list as text, too.
            self.json["x-formats"] = json!(ROW_FORMATS);
            self.json["description"] = "By `Accept` also as CSV and NDJSON.".into();
        }
        let parameters = self.parameters.iter();
        self.json["parameters"] = parameters
            .map(|name| components::reference("parameters", name))
            .collect();
        json!({ "get": self.json })
    }
}
