//! The types of messages in `clients/`: made of the schemas, and exact.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tokio::task::spawn_blocking;

use super::outside_tools::{live_messages, node, service, succeeded, text};
use crate::support::*;

const FILES: [&str; 2] = [
    "clients/js/messages.d.ts",
    "clients/python/src/railbird/messages.py",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn python() -> Command {
    let check = ["-c", "import websockets, mypy"];
    Command::new(tool("RAILBIRD_PYTHON", "python3", check))
}

#[test]
fn the_types_of_messages_are_made_of_the_schemas() {
    let written = tempfile::tempdir().unwrap();
    let mut script = python();
    script.arg(root().join("script/client_types.py"));
    succeeded(script.arg(written.path()).output().unwrap());
    for file in FILES {
        let read = |folder: &Path| std::fs::read_to_string(folder.join(file)).unwrap();
        let is_same = read(written.path()) == read(root());
        assert!(is_same, "{file} differs: run script/client_types.py");
    }
}

/// Values that the type of a message rejects: without a field, with an unknown one, with values of other types, with
/// values that its fields never have, and with a runner that lacks a field.
fn wrong(message: &Value) -> Vec<Value> {
    let mut wrong = [message; 5].map(Value::clone);
    let [shorter, longer, other, unknown, runner] =
        wrong.each_mut().map(|wrong| wrong.as_object_mut().unwrap());
    for name in ["seq", "message", "retry_after_ms"] {
        shorter.remove(name);
    }
    longer.insert("colour".to_owned(), "red".into());
    for (name, value) in other.iter_mut() {
        if value.is_string() && name != "event" {
            *value = 3.into();
        }
    }
    for name in ["status", "change", "op", "follows", "error"] {
        if let Some(value) = unknown.get_mut(name) {
            *value = "unheard of".into();
        }
    }
    for list in ["runners", "unplaced"] {
        let first = runner.get_mut(list).and_then(|list| list.get_mut(0));
        first.map(|runner| runner.as_object_mut().unwrap().remove("horse_no"));
    }
    let wrong = wrong.into_iter();
    wrong.filter(|wrong| wrong != message).collect()
}

/// The name of the type of a message.
fn type_of(message: &Value) -> String {
    let words = message["event"].as_str().unwrap().split('_');
    words
        .map(|word| word[..1].to_uppercase() + &word[1..])
        .collect()
}

#[tokio::test]
async fn the_types_have_every_field_of_the_messages_and_no_other() {
    let (nats, railbird) = service().await;
    let mut messages = live_messages(&nats, &railbird).await;
    messages.push(
        serde_json::json!({ "event": "closing", "code": 1001, "reason": "the end", "retry_after_ms": 0 }),
    );
    // A type of each field that may be left out, and of each runner.
    let all = Value::from(messages.clone()).to_string();
    for name in [
        "\"conflated_by\"",
        "\"more\"",
        "\"unplaced\":[{",
        "\"scratched\"",
    ] {
        assert!(all.contains(name), "{name} is in {all}");
    }
    spawn_blocking(move || {
        check_typescript(&messages);
        check_python(&messages);
    })
    .await
    .unwrap();
}

fn check_typescript(messages: &[Value]) {
    let folder = tempfile::tempdir().unwrap();
    let mut program = "import type { Message } from './railbird.js';\n".to_owned();
    for message in messages {
        writeln!(program, "(({message}) satisfies Message);").unwrap();
        for wrong in wrong(message) {
            writeln!(
                program,
                "// @ts-expect-error\n(({wrong}) satisfies Message);"
            )
            .unwrap();
        }
    }
    std::fs::write(folder.path().join("program.ts"), program).unwrap();
    for file in ["railbird.d.ts", "messages.d.ts"] {
        std::fs::copy(
            root().join("clients/js").join(file),
            folder.path().join(file),
        )
        .unwrap();
    }
    let options = "program.ts --strict --noEmit --target es2022 --module nodenext";
    let options: Vec<&str> = options.split(' ').collect();
    succeeded(node(&options, "typescript/bin/tsc", folder.path()));
}

fn check_python(messages: &[Value]) {
    let folder = tempfile::tempdir().unwrap();
    let mut program = "from railbird import messages\n\n".to_owned();
    for (index, message) in messages.iter().enumerate() {
        let kind = type_of(message);
        let typed = |name: &str, value: &Value| {
            format!("{name}{index}: messages.{kind} = {}\n", literal(value))
        };
        program += &typed("right", message);
        for (n, wrong) in wrong(message).iter().enumerate() {
            program += &typed(&format!("wrong{n}_"), wrong);
        }
    }
    std::fs::write(folder.path().join("program.py"), &program).unwrap();
    let mut checker = python();
    checker.args([
        "-m",
        "mypy",
        "--strict",
        "--cache-dir=/dev/null",
        "program.py",
    ]);
    checker.env("MYPYPATH", root().join("clients/python/src"));
    let checked = text(&checker.current_dir(folder.path()).output().unwrap());
    // Each wrong line has an error, and no other.
    for (number, line) in (1..).zip(program.lines()) {
        let is_wrong = line.starts_with("wrong");
        let has_error = checked.contains(&format!("program.py:{number}: error"));
        assert_eq!(has_error, is_wrong, "{line}\n{checked}");
    }
}

/// A value as Python writes it.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Array(items) => format!(
            "[{}]",
            items.iter().map(literal).collect::<Vec<_>>().join(", ")
        ),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, value)| format!("{name:?}: {}", literal(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}
