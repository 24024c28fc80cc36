//! The reference of the HTTP API, as Markdown, from the OpenAPI document.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;

use super::schema::{SchemaWriter, array, cell, constraints, line, text};
use crate::http::pages::docs::markdown::slug;
use crate::http::pages::docs::samples::{HTTP, KEY, fill};

/// The parameters of paths that the samples use, where the document has no example.
const EXAMPLES: [(&str, &str); 6] = [
    ("key", "Asia-Hong_Kong:A.%20Quill"),
    ("other_horse_no", "HK_2016_A124"),
    ("date", "2026-11-21"),
    ("race_number", "3"),
    ("horse_no", "HK_2016_A123"),
    ("venue", "ST"),
];

/// The queries that the samples need to answer the question.
const QUERIES: [(&str, &str); 9] = [
    ("listHorses", "name=s"),
    ("getJockey", "by=venue"),
    ("getTrainer", "by=jockey"),
    ("getOwner", "by=season"),
    ("getVenue", "by=jockey"),
    ("listRacecards", "from=DATE"),
    ("listResults", "from=DATE"),
    ("getOddsHistory", "every=1m"),
    ("listChanges", "types=racing.result.declared.v1"),
];

/// The headers that almost every request may have. The first page describes them.
const COMMON_HEADERS: [&str; 3] = ["If-None-Match", "Railbird-Min-Seq", "X-Request-Id"];

const TRY: &str = "# Try a request\n\nThe form sends requests to this service with your key, and shows the answers. \
    The key is kept in this tab alone. The [reference](reference.md) has the same paths, and samples.\n\n## Paths\n";

/// The names of what every operation has: of headers and of other statuses.
struct Common {
    headers: BTreeSet<String>,
    statuses: BTreeSet<String>,
}

impl Common {
    fn of(document: &Value) -> Self {
        let every = |names: fn(&Value) -> BTreeSet<String>| {
            let all = operations(document).map(|operation| names(&operation.json["responses"]));
            all.reduce(|some, others| &some & &others)
                .unwrap_or_default()
        };
        Self {
            headers: every(|responses| names(&responses["200"]["headers"])),
            statuses: every(names),
        }
    }
}

/// The names of the fields of an object.
fn names(object: &Value) -> BTreeSet<String> {
    let fields = object.as_object().into_iter().flatten();
    fields.map(|(name, _)| name.clone()).collect()
}

/// Names as code, with commas between them.
fn list<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let names = names.into_iter().map(|name| format!("`{name}`"));
    names.collect::<Vec<_>>().join(", ")
}

/// An operation with its path.
struct Operation<'a> {
    path: &'a str,
    json: &'a Value,
    question: String,
}

/// The pages, with their files: the first one has all questions, and each of the others those of a group.
pub(super) fn pages(document: &Value) -> Vec<(String, String)> {
    let common = Common::of(document);
    let mut start = start(document);
    let mut pages = vec![("schemas/try.markdown".to_owned(), TRY.to_owned())];
    for tag in array(&document["tags"]) {
        let operations = operations(document);
        let operations = operations.filter(|one| one.json["tags"][0] == tag["name"]);
        let name = text(&tag["name"]);
        let file = slug(&name);
        let about = text(&tag["description"]);
        let _ = writeln!(
            start,
            "## {name}\n\n{about}\n\n| question | path |\n|---|---|"
        );
        let mut writer = SchemaWriter::new(document);
        let mut page = format!("# {name}\n\n{about}\n\n");
        for operation in operations {
            let Operation { path, question, .. } = &operation;
            let anchor = slug(question);
            let _ = writeln!(
                start,
                "| [{question}](reference/{file}.md#{anchor}) | `{path}` |"
            );
            write_operation(&mut page, &mut writer, &operation, &common);
        }
        start.push('\n');
        writer.write_named(&mut page);
        pages.push((format!("schemas/reference/{file}.markdown"), page));
    }
    write_common(&mut start, document, &common);
    pages.push(("schemas/reference.markdown".to_owned(), start));
    pages
}

fn operations(document: &Value) -> impl Iterator<Item = Operation<'_>> {
    let paths = document["paths"].as_object().into_iter().flatten();
    paths.map(|(path, item)| Operation {
        path,
        json: &item["get"],
        question: line(&item["get"]["summary"]),
    })
}

fn start(document: &Value) -> String {
    format!(
        "# HTTP reference\n\n{}\n\nFrom [`/openapi.json`](../schemas/openapi.json). [Try it](try.md) in the browser, \
         read the [guide](api.md), or look up an [error](errors.md). Every path but those of the \
         [service](#service) needs the header `X-API-Key`.\n\n",
        line(&document["info"]["description"])
    )
}

/// Writes the headers and statuses that operations share.
fn write_common(out: &mut String, document: &Value, common: &Common) {
    let components = &document["components"];
    let parameters = components["parameters"].as_object().into_iter().flatten();
    out.push_str("## Request headers\n\nBeside the key.\n\n| header | |\n|---|---|\n");
    for (_, parameter) in parameters.filter(|(_, parameter)| parameter["in"] == "header") {
        let about = [
            line(&parameter["description"]),
            constraints(&parameter["schema"]),
        ]
        .join(" ");
        let _ = writeln!(
            out,
            "| `{}` | {} |",
            text(&parameter["name"]),
            cell(about.trim())
        );
    }
    let every = list(&common.headers);
    let _ = writeln!(
        out,
        "\n## Response headers\n\nEvery answer may have {every}.\n\n| header | |\n|---|---|"
    );
    for (name, header) in components["headers"].as_object().into_iter().flatten() {
        let about = [line(&header["description"]), constraints(&header["schema"])].join(" ");
        let _ = writeln!(out, "| `{name}` | {} |", cell(about.trim()));
    }
    let every = list(common.statuses.iter().filter(|status| *status != "200"));
    let _ = writeln!(
        out,
        "\n## Other statuses\n\nEvery path may answer {every}. The [errors](errors.md) have causes and cures.\n\n\
         | status | |\n|---|---|"
    );
    let writer = SchemaWriter::new(document);
    let mut statuses = BTreeMap::new();
    for operation in operations(document) {
        let responses = operation.json["responses"]
            .as_object()
            .into_iter()
            .flatten();
        for (status, response) in responses.filter(|(_, response)| response["$ref"].is_string()) {
            statuses.insert(status, line(&writer.resolve(response)["description"]));
        }
    }
    for (status, about) in statuses {
        let _ = writeln!(out, "| `{status}` | {} |", cell(&about));
    }
}

fn write_operation<'a>(
    out: &mut String,
    writer: &mut SchemaWriter<'a>,
    operation: &Operation<'a>,
    common: &Common,
) {
    let Operation {
        path,
        json,
        question,
    } = operation;
    let _ = writeln!(out, "## {question}\n\n`GET {path}`\n");
    if let Some(description) = json["description"].as_str() {
        let _ = writeln!(out, "{description}\n");
    }
    let parameters = array(&json["parameters"]).iter();
    let parameters: Vec<&Value> = parameters.map(|one| writer.resolve(one)).collect();
    write_parameters(out, writer, &parameters);
    let needs_key = json["security"] != serde_json::json!([]);
    // The samples read a response to its end.
    let content = &json["responses"]["200"]["content"];
    if content["text/event-stream"].is_null() {
        let is_json = content["application/json"].is_object();
        let mut url = sample_path(path, &parameters);
        let query = QUERIES.iter().find(|(id, _)| json["operationId"] == *id);
        if let Some((_, query)) = query {
            let date = fill("result_date", "2026-11-21");
            let _ = write!(url, "?{}", query.replace("DATE", &date));
        }
        out.push_str(&of_get(&url, needs_key, is_json));
    }
    write_responses(out, writer, &json["responses"], common);
}

fn write_parameters<'a>(out: &mut String, writer: &mut SchemaWriter<'a>, parameters: &[&'a Value]) {
    let is_own = |parameter: &&Value| !COMMON_HEADERS.contains(&text(&parameter["name"]).as_str());
    let own: Vec<&Value> = parameters.iter().copied().filter(is_own).collect();
    if own.is_empty() {
        return;
    }
    out.push_str("| parameter | type | |\n|---|---|---|\n");
    for parameter in own {
        let mut schema = String::new();
        writer.write(&mut schema, &parameter["schema"]);
        let about = [
            line(&parameter["description"]),
            constraints(&parameter["schema"]),
        ]
        .join(" ");
        let is_header = parameter["in"] == "header";
        let place = if is_header { ", a header" } else { "" };
        let name = text(&parameter["name"]);
        let kind = cell(schema.trim());
        let _ = writeln!(out, "| `{name}` | {kind}{place} | {} |", cell(about.trim()));
    }
    out.push('\n');
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
        // Of `key`, the list that has it: `jockeys_key`. That of a venue is its code.
        let list = path.split('/').nth(3).filter(|_| name == "key");
        let known = if list == Some("venues") {
            "venue"
        } else {
            &name
        };
        let known = EXAMPLES.iter().find(|(name, _)| *name == known);
        let example = described
            .map(text)
            .or_else(|| known.map(|(_, example)| (*example).to_owned()));
        let filled = fill(
            &format!("{}_{name}", list.unwrap_or(kind)),
            &example.unwrap_or_else(|| name.clone()),
        );
        sample = sample.replace(&format!("{{{name}}}"), &filled);
    }
    sample
}

/// Writes the fields of the response that has a body, then its example, then what else there may be.
fn write_responses<'a>(
    out: &mut String,
    writer: &mut SchemaWriter<'a>,
    responses: &'a Value,
    common: &Common,
) {
    let response = &responses["200"];
    let content = response["content"].as_object();
    let content = content.and_then(|types| types.values().next());
    let content = content.unwrap_or(&Value::Null);
    out.push_str("**Answer**\n\n");
    writer.write(out, &content["schema"]);
    if let Some(example) = content.get("example") {
        let _ = writeln!(out, "```json\n{example:#}\n```\n");
    }
    let headers = list(names(&response["headers"]).difference(&common.headers));
    let statuses = list(names(responses).difference(&common.statuses));
    let _ = writeln!(
        out,
        "[Headers](reference.md#response-headers) beside the common ones: {headers}.\n"
    );
    if !statuses.is_empty() {
        let _ = writeln!(
            out,
            "[Other statuses](reference.md#other-statuses): {statuses}.\n"
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
  '{url}'{to}
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
