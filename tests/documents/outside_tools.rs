//! The published documents (OpenAPI, AsyncAPI, JSON Schemas) as outside tools read them: linters accept them, generated
//! clients read a running service, and generated models publish events.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use crate::support::*;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents")
}

/// Every document, by the name of its file.
fn documents() -> Vec<(String, Value)> {
    let events = events::SCHEMAS.iter();
    let parsed = |text: &str| serde_json::from_str(text).unwrap();
    let events = events.map(|(name, text)| (format!("{name}.json"), parsed(text)));
    let interfaces = [
        ("openapi.json".to_owned(), railbird::http::openapi()),
        ("asyncapi.json".to_owned(), railbird::http::asyncapi()),
    ];
    events.chain(interfaces).collect()
}

/// Visits each object in a document. `at` is its JSON pointer.
fn visit(value: &Value, at: &str, look: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(fields) => {
            look(at, value);
            for (name, field) in fields {
                // Examples are data.
                if !["example", "examples"].contains(&name.as_str()) {
                    visit(field, &format!("{at}/{name}"), look);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                visit(item, &format!("{at}/{index}"), look);
            }
        }
        _ => {}
    }
}

#[test]
fn every_value_in_a_list_has_a_type_and_every_alternative_is_a_type() {
    let mut wrong = Vec::new();
    for (document, value) in documents() {
        visit(&value, "", &mut |at, node| {
            let is_field = at.ends_with("/properties");
            let has = |key: &str| !is_field && node.get(key).is_some();
            if (has("enum") || has("const")) && node["type"].is_null() {
                wrong.push(format!("{document}{at} has values without a type"));
            }
            for key in ["anyOf", "oneOf", "allOf"] {
                for choice in node[key].as_array().into_iter().flatten() {
                    if choice["type"].is_null() && choice["$ref"].is_null() {
                        wrong.push(format!("{document}{at}/{key} has {choice}"));
                    }
                    if choice["const"].is_string() {
                        wrong.push(format!("{document}{at}/{key} is an enum of {choice}"));
                    }
                }
                if has("properties") && has(key) {
                    wrong.push(format!("{document}{at} has fields beside {key}"));
                }
            }
        });
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A schema without the form that AsyncAPI's older JSON Schema needs for a reference with a description.
fn plain(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let mut fields = fields.clone();
            if let Some([only]) = schema["allOf"].as_array().map(Vec::as_slice) {
                fields.remove("allOf");
                fields.extend(only.as_object().unwrap().clone());
            }
            fields
                .iter()
                .map(|(name, field)| (name.clone(), plain(field)))
                .collect()
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        other => other.clone(),
    }
}

#[test]
fn openapi_and_asyncapi_have_the_same_types() {
    let [openapi, asyncapi] = [railbird::http::openapi(), railbird::http::asyncapi()];
    let schemas = |document: &Value| {
        document["components"]["schemas"]
            .as_object()
            .unwrap()
            .clone()
    };
    let (openapi, asyncapi) = (schemas(&openapi), schemas(&asyncapi));
    let mut shared = BTreeSet::new();
    for (name, schema) in &openapi {
        if let Some(other) = asyncapi.get(name) {
            assert_eq!(plain(schema), plain(other), "{name}");
            shared.insert(name.as_str());
        }
    }
    for name in [
        "BoardRunner",
        "PlacedRunner",
        "UnplacedRunner",
        "RaceStatus",
        "PriceState",
    ] {
        assert!(shared.contains(name), "{name} is not in both: {shared:?}");
    }
    // A message has all fields of the response that it is the live form of.
    let requires = |schema: &Value, name: &str| {
        let required = schema["required"].as_array();
        required.is_some_and(|required| required.contains(&json!(name)))
    };
    for (response, message) in [
        ("OddsBoard", "OddsUpdate"),
        ("MeetingRaceResult", "ResultUpdate"),
    ] {
        let (response, message) = (&openapi[response], &asyncapi[message]);
        // The message is of win and place alone.
        let fields = response["properties"].as_object().unwrap().iter();
        for (name, field) in
            fields.filter(|(name, _)| !["market", "prices"].contains(&name.as_str()))
        {
            assert_eq!(plain(field), plain(&message["properties"][name]), "{name}");
            assert_eq!(requires(response, name), requires(message, name), "{name}");
        }
    }
}

#[test]
fn the_parts_of_openapi_have_names_and_examples() {
    let document = railbird::http::openapi();
    let mut ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let operation = &item["get"];
        let id = operation["operationId"].as_str().unwrap();
        assert!(ids.insert(id), "{id} names two operations");
        assert!(operation["tags"][0].is_string(), "{path}");
        let content = &operation["responses"]["200"]["content"];
        if path.starts_with("/sse/") {
            assert!(content["text/event-stream"].is_object());
            continue;
        }
        if path.starts_with("/api/v1/exports/") {
            assert!(content["text/csv"].is_object());
            continue;
        }
        let content = &content["application/json"];
        let schema = content["schema"]["$ref"].as_str().unwrap();
        assert!(
            schema.ends_with("/Document") || content["example"].is_object(),
            "{path}"
        );
    }
    let mut found = Vec::new();
    visit(&document["components"]["schemas"], "", &mut |at, node| {
        for (name, field) in node["properties"].as_object().into_iter().flatten() {
            if field["description"].is_null() && field["$ref"].is_null() {
                found.push(format!("{at}/{name}"));
            }
        }
    });
    assert!(found.is_empty(), "without a description: {found:?}");
}

/// Forbids fields that a schema does not describe.
fn forbid_others(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("properties").is_some_and(Value::is_object) {
                fields.insert("additionalProperties".to_owned(), false.into());
            }
            fields.values_mut().for_each(forbid_others);
        }
        Value::Array(items) => items.iter_mut().for_each(forbid_others),
        _ => {}
    }
}

#[test]
fn every_example_of_openapi_is_what_its_schema_describes() {
    let document = railbird::http::openapi();
    let mut schemas = document["components"]["schemas"].clone();
    forbid_others(&mut schemas);
    let is_valid = |schema: &Value, example: &Value| {
        let schema = json!({ "allOf": [schema], "components": { "schemas": schemas } });
        let options = jsonschema::options()
            .should_validate_formats(true)
            .build(&schema);
        let validator = options.unwrap();
        let errors = validator.iter_errors(example);
        errors
            .map(|error| format!("{error} at {}", error.instance_path()))
            .collect::<Vec<_>>()
    };
    let (mut wrong, mut examples) = (Vec::new(), 0);
    visit(&document, "", &mut |at, node| {
        let example = &node["example"];
        if example.is_null() {
            let is_content = at.ends_with("/content/application/json");
            let is_known = node["schema"]["$ref"] != "#/components/schemas/Document";
            assert!(!is_content || !is_known, "{at} has no example");
            return;
        }
        examples += 1;
        let errors = is_valid(&node["schema"], example);
        wrong.extend(errors.into_iter().map(|error| format!("{at}: {error}")));
        let mut changed = example.clone();
        changed["colour of the silks"] = json!("red");
        assert!(!is_valid(&node["schema"], &changed).is_empty(), "{at}");
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(examples > 20, "{examples}");
}

/// A node with the packages of `tests/documents/package.json`.
pub(super) fn node(arguments: &[&str], of_package: &str, at: &Path) -> Output {
    let node = tool("RAILBIRD_NODE", "node", ["--eval", "WebSocket"]);
    let program = folder().join("node_modules").join(of_package);
    assert!(
        program.exists(),
        "{} is missing; script/test installs it",
        program.display()
    );
    let mut command = Command::new(node);
    command.arg(program).args(arguments).current_dir(at);
    // Redocly asks for new versions and sends statistics otherwise.
    command.envs([
        ("CI", "true"),
        ("NO_PROXY", "127.0.0.1"),
        ("no_proxy", "127.0.0.1"),
        ("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true"),
        ("REDOCLY_TELEMETRY", "off"),
    ]);
    command.output().unwrap()
}

/// A Python with the packages of `tests/documents/requirements.txt`.
fn python(arguments: &[&str], at: &Path) -> Output {
    let python = tool(
        "RAILBIRD_DOCUMENTS_PYTHON",
        "python3",
        [
            "-c",
            "import openapi_python_client, datamodel_code_generator",
        ],
    );
    let mut command = Command::new(python);
    command
        .args(arguments)
        .current_dir(at)
        .env("PYTHONPATH", at);
    command.envs([("NO_PROXY", "127.0.0.1"), ("no_proxy", "127.0.0.1")]);
    command.output().unwrap()
}

pub(super) fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}{err}")
}

pub(super) fn succeeded(output: Output) -> String {
    assert!(output.status.success(), "{}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// A folder with the published documents and a link to the node packages.
fn workshop() -> TempDir {
    let temp = TempDir::new().unwrap();
    for (name, document) in documents() {
        std::fs::write(temp.path().join(name), document.to_string()).unwrap();
    }
    let packages = std::fs::canonicalize(folder().join("node_modules")).unwrap();
    std::os::unix::fs::symlink(packages, temp.path().join("node_modules")).unwrap();
    temp
}

#[test]
fn redocly_finds_no_problem_in_the_openapi_document() {
    let temp = workshop();
    let lint = |file: &str| {
        let arguments = ["lint", "--extends=recommended", "--format=json", file];
        let linted = node(&arguments, "@redocly/cli/bin/cli.js", temp.path());
        let report: Value =
            serde_json::from_slice(&linted.stdout).unwrap_or_else(|_| panic!("{}", text(&linted)));
        (linted.status.success(), report)
    };
    let (accepted, report) = lint("openapi.json");
    assert_eq!(report["problems"], json!([]), "errors and warnings");
    assert!(accepted);

    let mut document = railbird::http::openapi();
    document["paths"]["/healthz"]["get"]["operationId"] = json!("getHorse");
    std::fs::write(temp.path().join("wrong.json"), document.to_string()).unwrap();
    assert!(!lint("wrong.json").0, "the linter rejects something");
}

#[test]
fn the_asyncapi_parser_finds_no_problem_in_the_asyncapi_document() {
    let temp = workshop();
    let mut document = railbird::http::asyncapi();
    document["operations"]["sendLiveOdds"]["action"] = json!("shout");
    std::fs::write(temp.path().join("wrong.json"), document.to_string()).unwrap();
    copy("asyncapi.mjs", temp.path());
    let node = tool("RAILBIRD_NODE", "node", ["--eval", "WebSocket"]);
    let parsed = Command::new(node)
        .args(["asyncapi.mjs", "asyncapi.json", "wrong.json"])
        .current_dir(temp.path())
        .output();
    let parsed = succeeded(parsed.unwrap());
    let [right, wrong] = parsed.lines().collect::<Vec<_>>()[..] else {
        panic!("{parsed}")
    };
    assert_eq!(right, "[]");
    assert_ne!(wrong, "[]", "the parser rejects something");
}

/// Copies a program to a folder.
fn copy(program: &str, to: &Path) {
    std::fs::copy(folder().join(program), to.join(program)).unwrap();
}

/// A service with races of [`DAY`]. The first is over and has everything a client may read: a card, a withdrawal,
/// quotes with and without a price, a result with and without placings, and a horse. The second is open, with a runner
/// for each reason why a price is missing.
pub(super) async fn service() -> (Nats, Railbird) {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let of_race = |kind: &str, data: Value| {
        event(
            kind,
            "2026-10-03T12:50:00+08:00",
            of_race(DAY, "ST", 1, data),
        )
    };
    let seq = nats
        .publish([
            registered("H1", "HORSE 1"),
            card(DAY, "ST", 1, 3),
            odds("ST", 1, &second(1), &[3.5, 4.0]),
            of_race(
                "runner.withdrawn",
                json!({ "horse_no": "H2", "reason": "lame" }),
            ),
            result(DAY, "ST", 1, 1, 1),
            card(DAY, "ST", 2, 4),
            status("ST", 2, &second(1), "open"),
            odds("ST", 2, &second(2), &[3.5, 4.0, 5.0, 6.0]),
            quote(
                3,
                json!([
                    { "horse_no": "H2", "win": null, "state": "suspended" },
                    { "horse_no": "H3", "win": null, "state": "no_market" },
                ]),
            ),
            withdrawn("ST", 2, &second(4), "H4"),
            move_of(5),
        ])
        .await;
    railbird.until_seq(seq).await;
    (nats, railbird)
}

/// A quote of the second race.
fn quote(at: u64, runners: Value) -> Value {
    let data = json!({ "runners": runners });
    event("odds.quoted", &second(at), of_race(DAY, "ST", 2, data))
}

/// A move of the first runner of the second race.
fn move_of(at: u64) -> Value {
    let win = 2.0 + 0.1 * (at % 20) as f64;
    quote(
        at,
        json!([{ "horse_no": "H1", "win": win, "place": 1.0 + win / 10.0 }]),
    )
}

/// Moves the prices of the second race while a client reads.
async fn while_prices_move<T>(
    nats: &Nats,
    railbird: &Railbird,
    reading: impl Future<Output = T>,
) -> T {
    let moving = async {
        for at in 6.. {
            let seq = nats.publish([move_of(at)]).await;
            railbird.until_seq(seq).await;
        }
    };
    tokio::select! {
        read = reading => read,
        () = moving => unreachable!("prices move for ever"),
    }
}

#[tokio::test]
async fn a_generated_python_client_reads_every_resource() {
    let (nats, railbird) = service().await;
    let (url, key) = (format!("http://{}", railbird.http), railbird.key.clone());
    let reading = spawn_blocking(move || {
        let temp = workshop();
        copy("read.py", temp.path());
        copy("times.py", temp.path());
        std::fs::write(temp.path().join("config.json"), r#"{"post_hooks": []}"#).unwrap();
        let generated = python(
            &[
                "-m",
                "openapi_python_client",
                "generate",
                "--path",
                "openapi.json",
                "--config",
                "config.json",
                "--output-path",
                "railbird_client",
                "--meta",
                "none",
                "--fail-on-warning",
            ],
            temp.path(),
        );
        assert!(
            !text(&generated).contains("WARNING"),
            "{}",
            text(&generated)
        );
        succeeded(generated);
        succeeded(python(&["read.py", &url, &key, DAY], temp.path()))
    });
    let read = while_prices_move(&nats, &railbird, reading).await.unwrap();
    assert_eq!(read.lines().count(), 13, "{read}");
}

#[tokio::test]
async fn a_generated_typescript_client_reads_every_resource() {
    let (nats, railbird) = service().await;
    let (url, key) = (format!("http://{}", railbird.http), railbird.key.clone());
    let reading = spawn_blocking(move || {
        let temp = workshop();
        let at = temp.path();
        copy("read.ts", at);
        std::fs::write(at.join("package.json"), r#"{"type":"module"}"#).unwrap();
        let program = "openapi-typescript/bin/cli.js";
        succeeded(node(
            &["openapi.json", "--output", "openapi.ts"],
            program,
            at,
        ));
        // Without the types of TypeScript's own libraries, which take most of the time. Those of the document are
        // checked: their file is no declaration.
        let options = "read.ts --strict --noUncheckedIndexedAccess --target es2022 --module nodenext --skipLibCheck";
        let options: Vec<&str> = options.split(' ').collect();
        succeeded(node(&options, "typescript/bin/tsc", at));
        let program = tool("RAILBIRD_NODE", "node", ["--eval", "WebSocket"]);
        let run = Command::new(program)
            .args(["read.js", &url, &key, DAY])
            .current_dir(at)
            .output();
        succeeded(run.unwrap())
    });
    let read = while_prices_move(&nats, &railbird, reading).await.unwrap();
    let read: Value = serde_json::from_str(&read).unwrap();
    let board = json!([
        "open",
        3.5,
        [null, "suspended", 4, 4],
        [null, "no_market", 5, 5],
        [null, "scratched", 6, null],
    ]);
    assert_eq!(
        read,
        json!({
            "status": "result", "prices": [3.5, null, 3.5, null, null, null, 4, null], "positions": [1],
            "outcomes": ["PU", "SCR"], "race": "result", "meeting": "scheduled", "statement": "declared",
            "quotes": 1, "source": "test", "horse": "HORSE 1", "venue": "ST", "phase": "live",
            "open": [board, board, board], "moves": true,
        })
    );
}

#[tokio::test]
async fn generated_models_publish_every_golden_event() {
    let written = spawn_blocking(|| {
        let temp = workshop();
        copy("events.py", temp.path());
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("events/tests/golden");
        succeeded(python(
            &["events.py", &golden.display().to_string()],
            temp.path(),
        ))
    });
    let written = written.await.unwrap();
    let written: Vec<Value> = written
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(written.len(), events::EVENT_TYPES.len());
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let seq = nats.publish(written).await;
    railbird.until_seq(seq).await;
    let rejections = railbird.get_admin("/rejections").await.json();
    assert_eq!(rejections["rejections"], json!([]));
}

/// What a client of the live channel receives while prices move, up to a result: every kind of message about races, and
/// one that is conflated.
pub(super) async fn live_messages(nats: &Nats, railbird: &Railbird) -> Vec<Value> {
    let (mut client, mut messages) = railbird.live("conflate_ms=60000").await;
    let moves = nats.publish((6..9).map(move_of)).await;
    railbird.until_published(moves).await;
    let of_race = |kind: &str, data: Value| event(kind, &second(20), of_race(DAY, "ST", 2, data));
    let rider = json!({ "horse_no": "H1", "jockey": "Another", "weight": 120 });
    nats.publish([
        of_race("rider.changed", rider),
        of_race("race.status_changed", json!({ "status": "off" })),
        result(DAY, "ST", 2, 3, 1),
        dividends(DAY, "ST", 2, 1),
    ])
    .await;
    messages.extend(client.until("dividends_update").await);
    let (before, answer) = client.request(&json!({ "op": "ping", "id": "1" })).await;
    messages.extend(before);
    messages.push(answer);
    messages.push(client.request(&json!({ "op": "gallop" })).await.1);
    while messages.last().unwrap()["event"] != "heartbeat" {
        messages.push(client.next_or_heartbeat().await.unwrap());
    }
    messages
}

#[tokio::test]
async fn generated_models_read_the_live_channel_and_write_its_requests() {
    let (nats, railbird) = service().await;
    let messages = live_messages(&nats, &railbird).await;
    let received: BTreeSet<_> = messages
        .iter()
        .map(|m| m["event"].as_str().unwrap())
        .collect();
    assert!(received.len() > 8, "{received:?}");
    assert!(messages.iter().any(|message| message["conflated"] == 3));
    let lines: Vec<String> = messages.iter().map(Value::to_string).collect();
    let requests = spawn_blocking(move || {
        let temp = workshop();
        copy("live.py", temp.path());
        copy("times.py", temp.path());
        std::fs::write(temp.path().join("received"), lines.join("\n")).unwrap();
        succeeded(python(&["live.py", "received", DAY], temp.path()))
    });
    let (mut client, _) = railbird.live("").await;
    for request in requests.await.unwrap().lines() {
        let request: Value = serde_json::from_str(request).unwrap();
        let (_, answer) = client.request(&request).await;
        assert_eq!(answer["event"], "ack", "{request} is answered by {answer}");
    }
}
