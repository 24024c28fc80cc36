//! [`Site`]: all pages of `/docs`, by path.

use std::collections::HashMap;

use askama::Template;
use serde::Serialize;

use super::markdown::{self, DocSection, Rendered};
use crate::http::pages::HTML;
use crate::http::static_document::StaticDocument;

/// A page of the navigation.
#[derive(Debug)]
struct NavPage {
    group: &'static str,
    title: &'static str,
    path: &'static str,
    markdown: &'static str,
}

macro_rules! guide {
    ($group:literal, $title:literal, $name:literal) => {
        NavPage {
            group: $group,
            title: $title,
            path: concat!("docs/", $name),
            markdown: include_str!(concat!("../../../../docs/", $name, ".md")),
        }
    };
}

/// The navigation, in its order.
const PAGES: [NavPage; 24] = [
    NavPage {
        group: "Start",
        title: "Get started",
        path: "docs",
        markdown: include_str!("../../../../docs/start.md"),
    },
    guide!("Start", "The HTTP API", "api"),
    guide!("Start", "The past", "past"),
    guide!("Start", "Live odds", "live-odds"),
    guide!("Start", "The board", "board"),
    guide!("Start", "Keys and plans", "keys"),
    NavPage {
        group: "Reference",
        title: "HTTP reference",
        path: "docs/reference",
        markdown: include_str!("../../../../schemas/reference.markdown"),
    },
    NavPage {
        group: "Reference",
        title: "Try a request",
        path: REQUEST_FORM_PATH,
        markdown: REQUEST_FORM,
    },
    NavPage {
        group: "Reference",
        title: "Message reference",
        path: "docs/messages",
        markdown: include_str!("../../../../schemas/messages.markdown"),
    },
    guide!("Reference", "Errors", "errors"),
    guide!("Reference", "Limits", "limits"),
    guide!("Reference", "Glossary", "glossary"),
    guide!("Feeders", "Feeding", "feeding"),
    guide!("Feeders", "Importing", "importing"),
    guide!("Operators", "Production", "production"),
    guide!("Operators", "Scaling", "scaling"),
    guide!("Operators", "Operating", "operating"),
    guide!("Operators", "Commands", "commands"),
    guide!("Operators", "Metrics", "metrics"),
    guide!("Operators", "Health", "health"),
    guide!("Operators", "Reliability", "reliability"),
    guide!("Operators", "Privacy", "privacy"),
    guide!("Operators", "Benchmarks", "benchmarks"),
    guide!("Operators", "Decisions", "decisions"),
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

/// The paths of the service that become links where a guide names them.
const SERVED: [&str; 10] = [
    "/asyncapi.json",
    "/docs",
    "/docs/messages",
    "/docs/reference",
    "/docs/try",
    "/healthz",
    "/openapi.json",
    "/pricing",
    "/readyz",
    "/status",
];

/// The page with the form that sends requests.
const REQUEST_FORM_PATH: &str = "docs/try";
const REQUEST_FORM: &str = "# Try a request\n\nThe form sends requests to this service with your key, and shows the \
    answers. The key is kept in this tab alone. The [reference](reference.md) has the same paths, and samples.\n\n## Paths\n";
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
    groups: Vec<(&'static str, Vec<&'static NavPage>)>,
}

/// The entry of a page in the index of the search.
#[derive(Serialize)]
struct SearchEntry {
    path: String,
    title: String,
    sections: Vec<DocSection>,
}

#[derive(Debug)]
pub(super) struct Site {
    pub(super) documents: HashMap<String, StaticDocument>,
}

impl Site {
    pub(super) fn render() -> Result<Self, askama::Error> {
        let mut documents = HashMap::new();
        let mut index = Vec::new();
        for page in &PAGES {
            let (html, rendered) = render(page.path, page.markdown)?;
            documents.insert(page.path.to_owned(), html_document(html));
            index.push(SearchEntry {
                path: page.path.to_owned(),
                title: page.title.to_owned(),
                sections: rendered.sections,
            });
        }
        for (path, text) in FILES {
            // No line of these files is a fence.
            let source = format!("# {path}\n\n````\n{text}````\n");
            let path = file_path(path);
            let (html, _) = render(&path, &source)?;
            documents.insert(path, html_document(html));
        }
        let picture = StaticDocument::new("image/png", BOARD_PICTURE);
        documents.insert("docs/board.png".to_owned(), picture);
        let index = serde_json::to_string(&index).map_err(askama::Error::custom)?;
        let index = StaticDocument::new("application/json", index);
        documents.insert("docs/search.json".to_owned(), index);
        Ok(Self { documents })
    }

    /// The page in the place of one that does not exist.
    pub(super) fn unknown(&self, path: &str) -> Result<String, askama::Error> {
        Ok(render(path, UNKNOWN)?.0)
    }
}

fn html_document(html: String) -> StaticDocument {
    StaticDocument::new(HTML, html)
}

fn file_path(path: &str) -> String {
    format!("docs/files/{path}")
}

/// Renders a page of Markdown into the template.
fn render(path: &str, source: &str) -> Result<(String, Rendered), askama::Error> {
    let root = "../".repeat(path.matches('/').count());
    let rendered = markdown::render(source, |target| link(&root, target));
    let mut groups: Vec<(&str, Vec<&NavPage>)> = Vec::new();
    for page in &PAGES {
        match groups.last_mut() {
            Some((group, pages)) if *group == page.group => pages.push(page),
            _ => groups.push((page.group, vec![page])),
        }
    }
    let page = DocsPage {
        title: &rendered.title,
        path,
        html: &rendered.html,
        sections: &rendered.sections,
        has_request_form: path == REQUEST_FORM_PATH,
        groups,
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
        (None, Some("schemas/openapi.json")) => "openapi.json".to_owned(),
        (None, Some("schemas/asyncapi.json")) => "asyncapi.json".to_owned(),
        (None, Some(schema)) if schema.starts_with("schemas/") => schema.to_owned(),
        (None, Some(file)) if FILES.iter().any(|(path, _)| *path == file) => file_path(file),
        (None, None) if SERVED.contains(&file) => file.trim_start_matches('/').to_owned(),
        _ => return None,
    };
    Some(format!("{root}{path}{anchor}"))
}
