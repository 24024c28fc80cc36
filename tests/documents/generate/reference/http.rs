//! The reference of the HTTP API, as Markdown, from the OpenAPI document.

use std::fmt::Write as _;

use serde_json::Value;

use super::schema::{SchemaWriter, array, cell, constraints, line, text};
use crate::http::pages::docs::samples::{HTTP, KEY, fill};

/// The parameters of paths that the samples use, where the document has no example.
const EXAMPLES: [(&str, &str); 4] = [
    ("date", "2026-11-21"),
    ("race_number", "3"),
    ("horse_no", "HK_2016_A123"),
    ("venue", "ST"),
];

pub(super) fn markdown(document: &Value) -> String {
    let mut writer = SchemaWriter::new(document);
    let mut out = String::from("# HTTP reference\n\n");
    let _ = writeln!(
        out,
        "{}\n\nFrom [`/openapi.json`](../schemas/openapi.json). [Try it](try.md) in the browser, read the \
         [guide](api.md), or look up an [error](errors.md). Every path but those without a key needs the header \
         `X-API-Key`.\n",
        line(&document["info"]["description"])
    );
    for (path, operations) in document["paths"].as_object().into_iter().flatten() {
        let methods = operations.as_object().into_iter().flatten();
        for (method, operation) in methods.filter(|(_, part)| part["responses"].is_object()) {
            let common = array(&operations["parameters"]);
            let parameters = common.iter().chain(array(&operation["parameters"]));
            let parameters = parameters.map(|parameter| writer.resolve(parameter));
            let parameters: Vec<&Value> = parameters.collect();
            write_operation(
                &mut out,
                &mut writer,
                (method, path),
                operation,
                &parameters,
            );
        }
    }
    writer.write_named(&mut out);
    out
}

fn write_operation<'a>(
    out: &mut String,
    writer: &mut SchemaWriter<'a>,
    (method, path): (&str, &str),
    operation: &'a Value,
    parameters: &[&'a Value],
) {
    let summary = line(&operation["summary"]);
    let _ = writeln!(out, "## {summary}\n\n`{} {path}`\n", method.to_uppercase());
    if operation["description"].is_string() {
        let _ = writeln!(out, "{}\n", line(&operation["description"]));
    }
    if !parameters.is_empty() {
        out.push_str("| parameter | in | type | |\n|---|---|---|---|\n");
        for parameter in parameters {
            let mut schema = String::new();
            writer.write(&mut schema, &parameter["schema"]);
            let required = if parameter["required"] == true {
                "Required."
            } else {
                ""
            };
            let about = [
                line(&parameter["description"]),
                constraints(&parameter["schema"]),
            ]
            .join(" ");
            let _ = writeln!(
                out,
                "| `{}` | {} | {} | {} |",
                text(&parameter["name"]),
                text(&parameter["in"]),
                cell(schema.trim()),
                cell(&format!("{required} {about}")).trim()
            );
        }
        out.push('\n');
    }
    let needs_key = operation["security"] != serde_json::json!([]);
    // The samples read a response to its end.
    let content = &operation["responses"]["200"]["content"];
    if method == "get" && content["text/event-stream"].is_null() {
        let is_json = content["application/json"].is_object();
        out.push_str(&of_get(&sample_path(path, parameters), needs_key, is_json));
    }
    write_responses(out, writer, &operation["responses"]);
}

/// The path with an example for each parameter. The page fills in what the service has.
fn sample_path(path: &str, parameters: &[&Value]) -> String {
    let kind = if ["/results/", "/exports/"]
        .iter()
        .any(|part| path.contains(part))
    {
        "result"
    } else {
        "card"
    };
    let mut sample = path.to_owned();
    for parameter in parameters
        .iter()
        .filter(|parameter| parameter["in"] == "path")
    {
        let name = text(&parameter["name"]);
        let described = [
            &parameter["example"],
            &parameter["schema"]["example"],
            &parameter["schema"]["examples"][0],
            &parameter["schema"]["enum"][0],
        ];
        let described = described.into_iter().find(|example| !example.is_null());
        let known = EXAMPLES.iter().find(|(known, _)| *known == name);
        let example = described
            .map(text)
            .or_else(|| known.map(|(_, example)| (*example).to_owned()));
        let filled = fill(
            &format!("{kind}_{name}"),
            &example.unwrap_or_else(|| name.clone()),
        );
        sample = sample.replace(&format!("{{{name}}}"), &filled);
    }
    sample
}

/// Writes the response that has a body, then the others.
fn write_responses<'a>(out: &mut String, writer: &mut SchemaWriter<'a>, responses: &'a Value) {
    let mut others = Vec::new();
    for (status, response) in responses.as_object().into_iter().flatten() {
        let response = writer.resolve(response);
        let content = response["content"].as_object();
        let content = content.and_then(|types| types.values().next());
        let content = content.unwrap_or(&Value::Null);
        if !status.starts_with('2') {
            others.push(format!("- `{status}`: {}", line(&response["description"])));
            continue;
        }
        let _ = writeln!(out, "**Response {status}**\n");
        writer.write(out, &content["schema"]);
        let names = response["headers"].as_object().into_iter().flatten();
        let names: Vec<String> = names.map(|(name, _)| format!("`{name}`")).collect();
        if !names.is_empty() {
            let _ = writeln!(out, "Headers: {}\n", names.join(", "));
        }
        let named = content["examples"].as_object();
        let named = named.and_then(|examples| examples.values().next());
        let named = named.map(|example| &writer.resolve(example)["value"]);
        if let Some(example) = content.get("example").or(named) {
            let _ = writeln!(out, "```json\n{example:#}\n```\n");
        }
    }
    if !others.is_empty() {
        let _ = writeln!(
            out,
            "**Other responses** ([causes and cures](errors.md))\n\n{}\n",
            others.join("\n")
        );
    }
}

/// The samples of a GET, as fenced blocks. Those of a file print its size.
fn of_get(path: &str, needs_key: bool, is_json: bool) -> String {
    let [to, of_python, of_javascript, of_rust] = if is_json {
        [
            "",
            "json.load(response)",
            "await response.json()",
            "read_to_string()?",
        ]
    } else {
        [
            " | wc -c",
            "len(response.read())",
            "(await response.blob()).size",
            "read_to_vec()?.len()",
        ]
    };
    let import = if is_json { "import json\n" } else { "" };
    let url = format!("{HTTP}{path}");
    let (curl, python, javascript, rust) = if needs_key {
        (
            format!("-H 'X-API-Key: {KEY}' "),
            format!(", headers={{\"X-API-Key\": \"{KEY}\"}}"),
            format!(", {{\n  headers: {{ \"X-API-Key\": \"{KEY}\" }},\n}}"),
            format!("\n        .header(\"X-API-Key\", \"{KEY}\")"),
        )
    } else {
        Default::default()
    };
    format!(
        "```sh
curl --fail-with-body {curl}\\
  {url}{to}
```

```python
{import}from urllib.request import Request, urlopen

url = \"{url}\"
with urlopen(Request(url{python})) as response:
    print({of_python})
```

```javascript
const url = \"{url}\";
const response = await fetch(url{javascript});
if (!response.ok) throw new Error(await response.text());
console.log({of_javascript});
```

```rust
// cargo add ureq
fn main() -> Result<(), ureq::Error> {{
    let url = \"{url}\";
    let mut response = ureq::get(url){rust}
        .call()?;
    println!(\"{{}}\", response.body_mut().{of_rust});
    Ok(())
}}
```

"
    )
}
