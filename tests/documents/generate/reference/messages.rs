//! The reference of the live channel and of the log, as Markdown, from the AsyncAPI document.

use std::fmt::Write as _;

use serde_json::Value;

use super::schema::{SchemaWriter, array, cell, constraints, line, text};
use crate::http::pages::docs::markdown::slug;

pub(super) fn markdown(document: &Value) -> String {
    let mut writer = SchemaWriter::new(document);
    let mut out = String::from("# Message reference\n\n");
    let _ = writeln!(
        out,
        "{}\n\nFrom [`/asyncapi.json`](../schemas/asyncapi.json). The guides: [live odds](live-odds.md) and \
         [feeding](feeding.md). A [first program](start.md#watch-the-prices) reads the live channel.\n",
        line(&document["info"]["description"])
    );
    let channels = document["channels"].as_object().into_iter().flatten();
    let mut channels: Vec<(&String, &Value)> = channels.collect();
    // The live channel comes before the log.
    channels.sort_by_key(|(name, channel)| (text(&channel["servers"][0]["$ref"]), (*name).clone()));
    for (name, channel) in channels {
        write_channel(&mut out, &mut writer, document, (name, channel));
    }
    out.push_str("## Messages\n\n");
    for message in document["components"]["messages"]
        .as_object()
        .into_iter()
        .flat_map(|all| all.values())
    {
        write_message(&mut out, &mut writer, message);
    }
    writer.write_named(&mut out);
    out
}

fn write_channel<'a>(
    out: &mut String,
    writer: &mut SchemaWriter<'a>,
    document: &'a Value,
    (name, channel): (&str, &'a Value),
) {
    let title = line(&channel["title"]);
    let _ = writeln!(out, "## {}\n", title.trim_end_matches('.'));
    if let Some(address) = channel["address"].as_str() {
        let _ = writeln!(out, "`{address}`\n");
    }
    let _ = writeln!(out, "{}\n", line(&channel["description"]));
    let parameters = channel["parameters"].as_object().into_iter().flatten();
    for (name, parameter) in parameters {
        let parameter = writer.resolve(parameter);
        let example = text(&parameter["examples"][0]);
        let _ = writeln!(
            out,
            "- `{{{name}}}`: {} For example `{example}`.",
            line(&parameter["description"])
        );
    }
    out.push('\n');
    let query = &channel["bindings"]["ws"]["query"];
    if query["properties"].is_object() {
        let _ = writeln!(out, "**Query parameters**\n\n| parameter | |\n|---|---|");
        for (name, field) in query["properties"].as_object().into_iter().flatten() {
            let about = [line(&field["description"]), constraints(field)].join(" ");
            let _ = writeln!(out, "| `{name}` | {} |", cell(about.trim()));
        }
        out.push('\n');
    }
    let of_channel = format!("#/channels/{name}");
    let operations = document["operations"]
        .as_object()
        .into_iter()
        .flat_map(|all| all.values());
    for operation in operations.filter(|operation| operation["channel"]["$ref"] == *of_channel) {
        let _ = writeln!(
            out,
            "{} {}\n",
            line(&operation["summary"]),
            links(writer, &operation["messages"])
        );
        if operation["reply"].is_object() {
            let _ = writeln!(
                out,
                "Answers: {}\n",
                links(writer, &operation["reply"]["messages"])
            );
        }
    }
}

/// Links to messages.
fn links<'a>(writer: &SchemaWriter<'a>, messages: &'a Value) -> String {
    let names = array(messages)
        .iter()
        .map(|message| text(&writer.resolve(message)["name"]));
    let links = names.map(|name| format!("[`{name}`](#{})", slug(&name)));
    links.collect::<Vec<_>>().join(", ")
}

fn write_message<'a>(out: &mut String, writer: &mut SchemaWriter<'a>, message: &'a Value) {
    let _ = writeln!(
        out,
        "### {}\n\n{}\n",
        text(&message["name"]),
        line(&message["description"])
    );
    if let Some(summary) = message["summary"].as_str() {
        let _ = writeln!(out, "{summary}\n");
    }
    writer.write(out, &message["payload"]);
    let example = &message["examples"][0]["payload"];
    if !example.is_null() {
        let _ = writeln!(out, "```json\n{example:#}\n```\n");
    }
}
