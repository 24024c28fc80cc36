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

/// The groups of operations, which are the pages of the reference.
const TAGS: [&str; 11] = [
    "Horses",
    "People",
    "Venues",
    "Race cards",
    "Results",
    "Odds",
    "Days",
    "Changes",
    "Exports",
    "Account",
    "Service",
];

/// What the groups and the operations answer, by headings.
const DESCRIPTIONS: &str = include_str!("descriptions.markdown");

/// The text below a heading of the descriptions; empty without one.
fn description(title: &str) -> &'static str {
    let mut sections = DESCRIPTIONS
        .split("\n#")
        .map(|section| section.trim_start_matches('#'));
    let found =
        sections.find_map(|section| section.trim_start().strip_prefix(title)?.strip_prefix('\n'));
    found.unwrap_or_default().trim()
}

/// The OpenAPI 3.1 document.
pub(crate) fn document() -> Value {
    let mut generator = generator(SchemaSettings::draft2020_12(), Contract::Serialize);
    projections::schemas::add_response_schemas(&mut generator);
    components::add_schemas(&mut generator);
    let mut schemas = generator.take_definitions(true);
    schemas.insert("Document".to_owned(), json!({ "type": "object", "description": "A document as JSON.", "additionalProperties": true }));
    let tags = TAGS.map(|name| json!({ "name": name, "description": description(name) }));
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
        "paths": all_paths(),
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

fn all_paths() -> Value {
    let mut all = paths();
    let movers = Operation::new(
        "getMovers",
        "Odds",
        "Which runners shortened or drifted most?",
    );
    all["/api/v1/days/{date}/movers"] = movers
        .of_present()
        .with(&["date", "limit", "lang"])
        .in_rows()
        .answers("Movers");
    for (one, list, ridden, figures, rides) in [
        (
            "Jockey",
            "jockeys",
            "Which jockeys have ridden?",
            "How often does a jockey win, and where?",
            "Which horses has a jockey ridden?",
        ),
        (
            "Trainer",
            "trainers",
            "Which trainers have had runners?",
            "How often does a trainer win, and with which jockey?",
            "Which runners has a trainer had?",
        ),
        (
            "Owner",
            "owners",
            "Which owners have had runners?",
            "How often does an owner win, and in which season?",
            "Which runners has an owner had?",
        ),
        (
            "Venue",
            "venues",
            "Which racecourses are there, and in which time zones?",
            "Which jockey, trainer or draw wins most at a course?",
            "Who has run at a course?",
        ),
    ] {
        let (tag, described) = match one {
            "Venue" => ("Venues", "Venue"),
            _ => ("People", "Person"),
        };
        let operation = |id: &str, question: &str, description: &str| {
            let operation = Operation::new(id, tag, question);
            operation.says(description).of_present()
        };
        let path = format!("/api/v1/{list}");
        let id = format!("list{one}s");
        let of_list = format!("list{}", if tag == "Venues" { tag } else { "People" });
        let listed = operation(&id, ridden, &of_list).with(&["name", "lang"]);
        all[&path] = listed.in_pages("after").answers(&format!("{one}List"));
        let id = format!("get{one}");
        let added = operation(&id, figures, &format!("get{described}"));
        let added = added.with(&["key", "from", "to", "by", "lang"]);
        all[format!("{path}/{{key}}")] = added.in_rows().answers(&format!("{one}Figures"));
        let id = format!("list{one}Rides");
        let rides = operation(&id, rides, &format!("list{described}Rides"));
        let rides = rides.with(&["key", "before", "lang"]).in_pages("after");
        all[format!("{path}/{{key}}/rides")] = rides.answers(&format!("{one}Rides"));
    }
    all
}

#[rustfmt::skip]
fn paths() -> Value {
    json!({
        "/api/v1/horses": Operation::new("listHorses", "Horses", "Which horses have this name?")
            .of_present().with(&["name", "lang"]).in_pages("after").answers("HorseList"),
        "/api/v1/horses/{horse_no}": Operation::new("getHorse", "Horses", "What is a horse's record?")
            .with(&["horse_no", "lang"]).answers("HorseProfile"),
        "/api/v1/horses/{horse_no}/form": Operation::new("getHorseForm", "Horses", "How has a horse run in its last races?")
            .with(&["horse_no", "before", "lang"]).in_pages("after").answers("HorseForm"),
        "/api/v1/horses/{horse_no}/against/{other_horse_no}": Operation::new("compareHorses", "Horses", "Which of two horses was ahead?")
            .of_present().with(&["horse_no", "other_horse_no", "lang"]).in_rows().answers("HorsesCompared"),
        "/api/v1/results": Operation::new("listResults", "Results", "What were the results of a month or a season?")
            .with(&["from", "to", "venue", "lang"]).in_pages("after").answers("ResultList"),
        "/api/v1/results/today": Operation::new("getTodaysResults", "Results", "What are today's results?").says("getMeetingResults")
            .of_a_meeting().in_rows().answers("MeetingResults"),
        "/api/v1/results/today/{race_number}": Operation::new("getTodaysResult", "Results", "Who won a race of today?").says("getRaceResult")
            .with(&["race_number", "moves"]).of_a_meeting().answers("RaceResult"),
        "/api/v1/results/{date}": Operation::new("getMeetingResults", "Results", "What are the results of a meeting?")
            .with(&["date"]).of_a_meeting().in_rows().answers("MeetingResults"),
        "/api/v1/results/{date}/{race_number}": Operation::new("getRaceResult", "Results", "Who won a race?")
            .with(&["date", "race_number", "moves"]).of_a_meeting().answers("RaceResult"),
        "/api/v1/results/{date}/{race_number}/revisions": Operation::new("getResultRevisions", "Results", "Was a result changed?")
            .with(&["date", "race_number"]).of_a_meeting().in_pages("after_row").answers("ResultRevisions"),
        "/api/v1/results/{date}/{race_number}/dividends": Operation::new("getRaceDividends", "Results", "What did a race pay?")
            .with(&["date", "race_number"]).of_a_meeting().answers("RaceDividends"),
        "/api/v1/racecards": Operation::new("listRacecards", "Race cards", "Who runs in a week or a season?")
            .with(&["from", "to", "venue", "lang"]).in_pages("after").answers("RacecardList"),
        "/api/v1/racecards/today": Operation::new("getTodaysRacecard", "Race cards", "Who runs today?").says("getRacecard")
            .of_a_meeting().in_rows().answers("Racecard"),
        "/api/v1/racecards/{date}": Operation::new("getRacecard", "Race cards", "Who runs at a meeting?")
            .with(&["date"]).of_a_meeting().in_rows().answers("Racecard"),
        "/api/v1/odds/today/{race_number}": Operation::new("getTodaysOddsBoard", "Odds", "What are the odds of a race of today?").says("getOddsBoard")
            .with(&["race_number", "venue", "market", "source", "lang"]).answers("OddsBoard"),
        "/api/v1/odds/{date}/{race_number}": Operation::new("getOddsBoard", "Odds", "What are the odds of a race?")
            .with(&["date", "race_number", "venue", "market", "source", "lang"]).answers("OddsBoard"),
        "/api/v1/odds/{date}/{race_number}/sources": Operation::new("getOddsSources", "Odds", "Who quotes a race?")
            .with(&["date", "race_number", "venue", "lang"]).answers("OddsSources"),
        "/api/v1/odds/{date}/{race_number}/history": Operation::new("getOddsHistory", "Odds", "How did the odds of a race move over time?")
            .with(&["date", "race_number", "venue", "market", "source_of_quotes", "runner", "from_time", "to_time", "every", "last", "lang"])
            .in_pages("after_row").answers("OddsHistory"),
        "/api/v1/odds/{date}/{race_number}/moves": Operation::new("getOddsMoves", "Odds", "What were the first and the last prices before the off?")
            .with(&["date", "race_number", "venue", "market", "source_of_quotes", "runner", "lang"])
            .in_pages("after_row").answers("OddsMoves"),
        "/api/v1/days/{date}": Operation::new("getDay", "Days", "What happens on a day, at all courses?")
            .with(&["date", "lang"]).in_rows().answers("RacingDay"),
        "/api/v1/races/next": Operation::new("getNextRaces", "Days", "Which races are next?")
            .with(&["limit", "lang"]).in_rows().answers("NextRaces"),
        "/api/v1/meetings": Operation::new("listMeetings", "Days", "On which days is there racing, and where?")
            .with(&["from", "to", "lang"]).in_pages("after").answers("MeetingList"),
        "/api/v1/changes": Operation::new("listChanges", "Changes", "What has changed since I last asked?")
            .of_present().with(&["types", "wait_ms"]).in_pages("after_seq").answers("ChangeList"),
        "/api/v1/exports/{kind}/{date}/{venue}": Operation::new("exportMeeting", "Exports", "How do I download a meeting as a file?")
            .with(&["kind", "date", "venue_code", "lang"]).answers_file(),
        "/api/v1/account": Operation::new("getAccount", "Account", "How many requests has my plan left?")
            .about_the_key("AccountStatus"),
        "/healthz": Operation::new("getHealth", "Service", "Does the process run?").without_key("Health", &[], &[]),
        "/readyz": Operation::new("getReadiness", "Service", "Are answers right, and how old are they?")
            .with(&["fresh"])
            .responds("503", components::json_response("Reads are not right, or older than `fresh`", "Readiness", &["Content-Encoding"]))
            .without_key("Readiness", &[], &["400"]),
        "/openapi.json": Operation::new("getOpenApi", "Service", "What does the HTTP API have?").answers_document(&[]),
        "/asyncapi.json": Operation::new("getAsyncApi", "Service", "What messages do the live channel and the log have?")
            .answers_document(&[]),
        "/sse/live/odds": event_stream("streamLiveOdds", "How do I follow odds as Server-Sent Events?", "liveOdds", &[]),
        "/sse/live/odds/{race_number}": event_stream("streamLiveOddsOfRace", "How do I follow one race of today as Server-Sent Events?", "liveOddsOfRace", &["race_number"]),
        "/schemas/{file}": Operation::new("getEventSchema", "Service", "What fields does an event have?")
            .with(&["file"]).answers_document(&["400", "404"]),
        "/status.json": Operation::new("getStatus", "Service", "How is the service?")
            .without_key("ServiceStatus", &["Cache-Control"], &["429"]),
    })
}

/// A channel of the AsyncAPI document as Server-Sent Events. Its query is that of the WebSocket, without the key.
fn event_stream(id: &str, question: &str, channel: &str, in_path: &[&'static str]) -> Value {
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
    let mut described = Operation::new(id, "Odds", question)
        .says("streamLiveOdds")
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

#[test]
fn every_description_is_of_a_group_or_an_operation() {
    let document = document().to_string();
    for section in DESCRIPTIONS.split("\n#") {
        let title = section.lines().next().expect("a heading");
        let title = title.trim_start_matches(['#', ' ']);
        let text = serde_json::json!(description(title)).to_string();
        let text = text.trim_matches('"');
        assert!(!text.is_empty() && document.contains(text), "{title}");
    }
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
    /// Whether the query may have `as_of`.
    has_past: bool,
}

impl Operation {
    /// An operation, with the question that it answers.
    fn new(id: &str, tag: &str, question: &str) -> Self {
        assert!(TAGS.contains(&tag), "{tag}");
        let operation = Self {
            json: json!({ "operationId": id, "tags": [tag], "summary": question }),
            parameters: Vec::new(),
            links: false,
            has_rows: false,
            has_past: true,
        };
        operation.says(id)
    }

    /// The operation with the description of this title, if there is one.
    fn says(mut self, title: &str) -> Self {
        let description = description(title);
        if !description.is_empty() {
            self.json["description"] = description.into();
        }
        self
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

    /// The response is only known as it is now.
    fn of_present(mut self) -> Self {
        self.has_past = false;
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
        if (self.parameters.iter()).any(|name| ["date", "horse_no", "key", "venue"].contains(name))
        {
            statuses.push("404");
        }
        let headers = components::cached_headers(self.links);
        let has_past = self.has_past;
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
            let description = self.json["description"].as_str().unwrap_or_default();
            let description = format!(
                "{description}\n\nBy `Accept` also as [CSV and NDJSON](/docs/api#csv-and-ndjson)."
            );
            self.json["description"] = description.trim().into();
        }
        let parameters = self.parameters.iter();
        self.json["parameters"] = parameters
            .map(|name| components::reference("parameters", name))
            .collect();
        json!({ "get": self.json })
    }
}
