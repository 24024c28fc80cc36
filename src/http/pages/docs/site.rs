//! All pages and files of `/docs`, by path.

use std::collections::HashMap;

use askama::Template;
use serde_json::json;

use super::markdown::{self, DocSection, Rendered};
use crate::http::pages::HTML;
use crate::http::static_document::StaticDocument;

/// A page of the navigation.
struct NavPage {
    group: &'static str,
    title: &'static str,
    path: &'static str,
    markdown: &'static str,
}

macro_rules! pages {
    ($(($group:literal, $title:literal, $path:literal, $file:literal),)*) => {
        [$(NavPage {
            group: $group,
            title: $title,
            path: $path,
            markdown: include_str!(concat!("../../../../", $file)),
        }),*]
    };
}

/// The navigation, in its order. Tests write the files in `schemas/`.
#[rustfmt::skip]
static PAGES: [NavPage; 35] = pages![
    ("Start", "Get started", "docs", "docs/start.md"),
    ("Start", "The HTTP API", "docs/api", "docs/api.md"),
    ("Start", "The past", "docs/past", "docs/past.md"),
    ("Start", "Live odds", "docs/live-odds", "docs/live-odds.md"),
    ("Start", "The board", "docs/board", "docs/board.md"),
    ("Start", "Keys and plans", "docs/keys", "docs/keys.md"),
    ("HTTP reference", "All questions", "docs/reference", "schemas/reference.markdown"),
    ("HTTP reference", "Horses", "docs/reference/horses", "schemas/reference/horses.markdown"),
    ("HTTP reference", "People", "docs/reference/people", "schemas/reference/people.markdown"),
    ("HTTP reference", "Venues", "docs/reference/venues", "schemas/reference/venues.markdown"),
    ("HTTP reference", "Race cards", "docs/reference/race-cards", "schemas/reference/race-cards.markdown"),
    ("HTTP reference", "Results", "docs/reference/results", "schemas/reference/results.markdown"),
    ("HTTP reference", "Odds", "docs/reference/odds", "schemas/reference/odds.markdown"),
    ("HTTP reference", "Days", "docs/reference/days", "schemas/reference/days.markdown"),
    ("HTTP reference", "Changes", "docs/reference/changes", "schemas/reference/changes.markdown"),
    ("HTTP reference", "Exports", "docs/reference/exports", "schemas/reference/exports.markdown"),
    ("HTTP reference", "Account", "docs/reference/account", "schemas/reference/account.markdown"),
    ("HTTP reference", "Service", "docs/reference/service", "schemas/reference/service.markdown"),
    ("HTTP reference", "Try a request", "docs/try", "schemas/try.markdown"),
    ("Reference", "Message reference", "docs/messages", "schemas/messages.markdown"),
    ("Reference", "Errors", "docs/errors", "docs/errors.md"),
    ("Reference", "Limits", "docs/limits", "docs/limits.md"),
    ("Reference", "Glossary", "docs/glossary", "docs/glossary.md"),
    ("Feeders", "Feeding", "docs/feeding", "docs/feeding.md"),
    ("Feeders", "Importing", "docs/importing", "docs/importing.md"),
    ("Operators", "Production", "docs/production", "docs/production.md"),
    ("Operators", "Scaling", "docs/scaling", "docs/scaling.md"),
    ("Operators", "Operating", "docs/operating", "docs/operating.md"),
    ("Operators", "Commands", "docs/commands", "docs/commands.md"),
    ("Operators", "Metrics", "docs/metrics", "docs/metrics.md"),
    ("Operators", "Health", "docs/health", "docs/health.md"),
    ("Operators", "Reliability", "docs/reliability", "docs/reliability.md"),
    ("Operators", "Privacy", "docs/privacy", "docs/privacy.md"),
    ("Operators", "Benchmarks", "docs/benchmarks", "docs/benchmarks.md"),
    ("Operators", "Decisions", "docs/decisions", "docs/decisions.md"),
];

macro_rules! files {
    ($($path:literal),*) => {
        [$(($path, include_str!(concat!("../../../../", $path)))),*]
    };
}

/// The files of the repository that guides refer to, and that readers may want as they are.
const FILES: [(&str, &str); 11] = files![
    "bench/plans.toml",
    "ops/Caddyfile",
    "ops/haproxy.cfg",
    "ops/nginx.conf",
    "examples/feeder.mjs",
    "examples/feeder.py",
    "examples/live_odds.mjs",
    "examples/live_odds.py",
    "nats.conf",
    "ops/nats-cluster.conf",
    "ops/plans.toml"
];

/// The picture in a guide.
const BOARD_PICTURE: &[u8] = include_bytes!("../../../../docs/board.png");

/// The paths of the service that become links where a guide names them, as do those of pages.
const SERVED: [&str; 6] = [
    "/asyncapi.json",
    "/healthz",
    "/openapi.json",
    "/pricing",
    "/readyz",
    "/status",
];

const UNKNOWN: &str =
    "# This page does not exist\n\nUse the navigation, or [start here](start.md).\n";

#[derive(Template)]
#[template(path = "pages/docs.html", config = "web/templates/askama.toml")]
struct DocsPage<'a> {
    title: &'a str,
    /// The path of this page; empty on an unknown one.
    path: &'a str,
    /// The relative path of the service's root.
    root: String,
    html: &'a str,
    sections: &'a [DocSection],
    has_request_form: bool,
    /// The pages of the navigation, by their groups.
    groups: Vec<&'static [NavPage]>,
}

/// Renders all pages, and what belongs to them.
pub(super) fn render_all() -> askama::Result<HashMap<String, StaticDocument>> {
    let mut documents = HashMap::new();
    let mut index = Vec::new();
    for page in &PAGES {
        let (html, rendered) = render(page.path, page.markdown)?;
        let sections = rendered.sections;
        documents.insert(page.path.to_owned(), StaticDocument::new(HTML, html));
        let NavPage {
            group, title, path, ..
        } = page;
        index.push(json!({ "path": path, "group": group, "title": title, "sections": sections }));
    }
    for (path, text) in FILES {
        // No line of these files is a fence.
        let source = format!("# {path}\n\n````\n{text}````\n");
        let path = file_path(path);
        let (html, _) = render(&path, &source)?;
        documents.insert(path, StaticDocument::new(HTML, html));
    }
    let picture = StaticDocument::new("image/png", BOARD_PICTURE);
    documents.insert("docs/board.png".to_owned(), picture);
    let index = StaticDocument::json(&index.into());
    documents.insert("docs/search.json".to_owned(), index);
    Ok(documents)
}

/// The page in the place of one that does not exist.
pub(super) fn unknown(path: &str) -> askama::Result<String> {
    Ok(render(path, UNKNOWN)?.0)
}

fn file_path(path: &str) -> String {
    format!("docs/files/{path}")
}

/// Renders a page of Markdown into the template.
fn render(path: &str, source: &str) -> askama::Result<(String, Rendered)> {
    let root = "../".repeat(path.matches('/').count());
    let rendered = markdown::render(source, |target| link(&root, target));
    let page = DocsPage {
        title: &rendered.title,
        path,
        html: &rendered.html,
        sections: &rendered.sections,
        has_request_form: path == "docs/try",
        groups: PAGES.chunk_by(|a, b| a.group == b.group).collect(),
        root,
    };
    Ok((page.render()?, rendered))
}

/// The target on the page of a link in a guide, which is relative to `docs/`. Files that are not served have none.
fn link(root: &str, target: &str) -> Option<String> {
    if target.starts_with('#') || target.contains("://") {
        return Some(target.to_owned());
    }
    let (file, anchor) = match target.split_once('#') {
        Some((file, anchor)) => (file, format!("#{anchor}")),
        None => (target, String::new()),
    };
    let path = match (file.strip_suffix(".md"), file.strip_prefix("../")) {
        (Some("start"), _) => "docs".to_owned(),
        (Some(guide), None) => format!("docs/{guide}"),
        (None, Some("schemas")) => "docs/messages".to_owned(),
        (None, Some(page)) if page.ends_with(".markdown") => {
            page.replace("schemas", "docs").replace(".markdown", "")
        }
        (None, Some("schemas/openapi.json")) => "openapi.json".to_owned(),
        (None, Some("schemas/asyncapi.json")) => "asyncapi.json".to_owned(),
        (None, Some(schema)) if schema.starts_with("schemas/") => schema.to_owned(),
        (None, Some(file)) if FILES.iter().any(|(path, _)| *path == file) => file_path(file),
        (None, None) => {
            let path = file.trim_start_matches('/');
            let is_page = PAGES.iter().any(|page| page.path == path);
            (is_page || SERVED.contains(&file)).then(|| path.to_owned())?
        }
        _ => return None,
    };
    Some(format!("{root}{path}{anchor}"))
}
