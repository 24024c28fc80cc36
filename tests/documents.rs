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
    let events = events::schemas().into_iter();
    let mut documents: Vec<_> = events.map(|file| (file.name, file.schema)).collect();
    documents.push(("openapi.json".to_owned(), railbird::http::openapi()));
    documents.push(("asyncapi.json".to_owned(), railbird::asyncapi::document()));
    documents
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
    let [openapi, asyncapi] = [railbird::http::openapi(), railbird::asyncapi::document()];
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
    for (response, message) in [
        ("OddsBoard", "OddsUpdate"),
        ("MeetingRaceResult", "ResultUpdate"),
    ] {
        let (response, message) = (&openapi[response], &asyncapi[message]);
        for (name, field) in response["properties"].as_object().unwrap() {
            assert_eq!(plain(field), plain(&message["properties"][name]), "{name}");
            assert!(
                message["required"]
                    .as_array()
                    .unwrap()
                    .contains(&json!(name)),
                "{name}"
            );
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
        let content = &operation["responses"]["200"]["content"]["application/json"];
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

/// A node with the packages of `tests/documents/package.json`.
fn node(arguments: &[&str], of_package: &str, at: &Path) -> Output {
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

fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}{err}")
}

fn succeeded(output: Output) -> String {
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
    let script = folder().join("asyncapi.mjs");
    std::fs::copy(script, temp.path().join("asyncapi.mjs")).unwrap();
    let parse = |file: &str| {
        let node = tool("RAILBIRD_NODE", "node", ["--eval", "WebSocket"]);
        let parsed = Command::new(node)
            .args(["asyncapi.mjs", file])
            .current_dir(temp.path())
            .output();
        let parsed = succeeded(parsed.unwrap());
        serde_json::from_str::<Value>(&parsed).unwrap()
    };
    assert_eq!(parse("asyncapi.json"), json!([]));

    let mut document = railbird::asyncapi::document();
    document["operations"]["sendLiveOdds"]["action"] = json!("shout");
    std::fs::write(temp.path().join("wrong.json"), document.to_string()).unwrap();
    assert_ne!(
        parse("wrong.json"),
        json!([]),
        "the parser rejects something"
    );
}

/// A service with a race of [`DAY`] that has everything a client may read: a card, a withdrawal, quotes with and
/// without a price, a result with and without placings, and a horse.
async fn service() -> (Nats, Railbird) {
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
        ])
        .await;
    railbird.until_seq(seq).await;
    (nats, railbird)
}

#[tokio::test]
async fn a_generated_python_client_reads_every_resource() {
    let (_nats, railbird) = service().await;
    let (url, key) = (format!("http://{}", railbird.http), railbird.key.clone());
    let reading = spawn_blocking(move || {
        let temp = workshop();
        std::fs::copy(folder().join("read.py"), temp.path().join("read.py")).unwrap();
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
    let read = reading.await.unwrap();
    assert_eq!(read.lines().count(), 11, "{read}");
}

#[tokio::test]
async fn a_generated_typescript_client_reads_every_resource() {
    let (_nats, railbird) = service().await;
    let (url, key) = (format!("http://{}", railbird.http), railbird.key.clone());
    let reading = spawn_blocking(move || {
        let temp = workshop();
        let at = temp.path();
        std::fs::copy(folder().join("read.ts"), at.join("read.ts")).unwrap();
        std::fs::write(at.join("package.json"), r#"{"type":"module"}"#).unwrap();
        let program = "openapi-typescript/bin/cli.js";
        succeeded(node(
            &["openapi.json", "--output", "openapi.d.ts"],
            program,
            at,
        ));
        let options =
            "read.ts --strict --noUncheckedIndexedAccess --target es2022 --module nodenext";
        let options: Vec<&str> = options.split(' ').collect();
        succeeded(node(&options, "typescript/bin/tsc", at));
        let program = tool("RAILBIRD_NODE", "node", ["--eval", "WebSocket"]);
        let run = Command::new(program)
            .args(["read.js", &url, &key, DAY])
            .current_dir(at)
            .output();
        succeeded(run.unwrap())
    });
    let read: Value = serde_json::from_str(&reading.await.unwrap()).unwrap();
    assert_eq!(
        read,
        json!({
            "status": "result", "prices": [3.5, null, 3.5, null, null, null, 4, null], "positions": [1],
            "outcomes": ["PU", "SCR"], "race": "result", "meeting": "finished", "statement": "declared",
            "quotes": 1, "horse": "HORSE 1", "venue": "ST", "phase": "live",
        })
    );
}

#[tokio::test]
async fn generated_models_publish_every_golden_event() {
    let written = spawn_blocking(|| {
        let temp = workshop();
        std::fs::copy(folder().join("events.py"), temp.path().join("events.py")).unwrap();
        for name in events::EVENT_TYPES {
            let (input, output) = (
                format!("{name}.json"),
                format!("{}.py", name.replace('.', "_")),
            );
            succeeded(python(
                &[
                    "-m",
                    "datamodel_code_generator",
                    "--input",
                    &input,
                    "--input-file-type",
                    "jsonschema",
                    "--output",
                    &output,
                    "--output-model-type",
                    "pydantic_v2.BaseModel",
                    "--class-name",
                    "Event",
                    "--formatters",
                    "builtin",
                ],
                temp.path(),
            ));
        }
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
