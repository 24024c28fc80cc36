//! `/docs`: pages that can be read without scripts, whose links lead somewhere, and whose samples run.

mod browser;
mod limits;
mod links;
mod samples;
mod search;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::*;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A service without racing.
async fn empty_service() -> Railbird {
    let nats = Nats::start();
    Railbird::start(&nats).await
}

/// The names of the guides in `docs/`.
fn guides() -> Vec<String> {
    let names = fs::read_dir(root().join("docs")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names = names.filter_map(|name| name.strip_suffix(".md").map(str::to_owned));
    names.collect()
}

#[tokio::test]
async fn every_guide_has_a_page_in_the_navigation() {
    let railbird = empty_service().await;
    let start = railbird.get_open("/docs").await.text();
    let guides = guides();
    assert!(guides.len() > 8, "{guides:?}");
    for guide in guides {
        let path = if guide == "start" {
            "docs".to_owned()
        } else {
            format!("docs/{guide}")
        };
        assert!(
            start.contains(&format!("<a href=\"{path}\"")),
            "{path} is not in the navigation"
        );
        let markdown = fs::read_to_string(root().join("docs").join(guide + ".md")).unwrap();
        let title = markdown.lines().next().unwrap().trim_start_matches("# ");
        let page = railbird.get_open(&format!("/{path}")).await;
        assert_eq!(page.status, 200, "{path}");
        assert!(
            page.text().contains(&format!(">{title}<")),
            "{path} has its title"
        );
    }
}

#[tokio::test]
async fn a_page_is_cached_and_allows_no_other_host() {
    let railbird = empty_service().await;
    for path in [
        "/docs",
        "/docs/reference/odds",
        "/docs/try",
        "/docs/search.json",
    ] {
        let page = railbird.get_open(path).await;
        assert_eq!(page.status, 200, "{path}");
        let policy = page.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self';"),
            "{policy}"
        );
        assert!(
            !policy.contains("unsafe") && !policy.contains("http"),
            "{policy}"
        );
        let tag = page.header("etag");
        assert!(!tag.is_empty(), "{path}");
        let again = request(railbird.http, "GET", path, &[("if-none-match", tag)]).await;
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
        assert_eq!(again.header("etag"), tag);
        let head = request(railbird.http, "HEAD", path, &[]).await;
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        assert_eq!(head.header("content-length"), page.body.len().to_string());
    }
    let unknown = railbird.get_open("/docs/files/no/such").await;
    assert_eq!(unknown.status, 404);
    assert!(
        unknown.text().contains("href=\"../../../docs\""),
        "{}",
        unknown.text()
    );
    let slash = railbird.get_open("/docs/").await;
    assert_eq!((slash.status, slash.header("location")), (308, "../docs"));
}

#[tokio::test]
async fn the_references_have_every_path_and_every_message() {
    let railbird = empty_service().await;
    let document = railbird.get_open("/openapi.json").await.json();
    let guide = fs::read_to_string(root().join("docs/api.md")).unwrap();
    let start = railbird.get_open("/docs/reference").await.text();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > 10);
    for (path, item) in paths {
        let tag = item["get"]["tags"][0].as_str().unwrap();
        let group = tag.to_lowercase().replace(' ', "-");
        let page = railbird.get_open(&format!("/docs/reference/{group}")).await;
        let page = page.text();
        let link = format!("](../schemas/reference/{group}.markdown)");
        assert!(guide.contains(&link), "docs/api.md has no {link}");
        assert!(page.contains(&format!("<code>GET {path}</code>")), "{path}");
        let question = item["get"]["summary"].as_str().unwrap();
        assert!(question.ends_with('?'), "{path}: {question}");
        let heading = format!(">{question}<a class=\"anchor\"");
        let (_, section) = page.split_once(&heading).expect(question);
        let section = section.split("<h2").next().unwrap();
        let is_stream = path.starts_with("/sse/");
        assert_eq!(
            section.contains("data-language=\"curl\""),
            !is_stream,
            "{path}"
        );
        assert!(start.contains(&format!(">{question}</a>")), "{question}");
    }
    let page = railbird.get_open("/docs/reference/odds").await.text();
    let board = &document["components"]["schemas"]["OddsBoard"]["properties"];
    for name in board.as_object().unwrap().keys() {
        let cell = format!("<td><code>{name}</code></td>");
        assert!(page.contains(&cell), "{name} of the board");
    }
    let document = railbird.get_open("/asyncapi.json").await.json();
    let page = railbird.get_open("/docs/messages").await.text();
    let messages = document["components"]["messages"].as_object().unwrap();
    assert!(messages.len() > 20);
    for (name, message) in messages {
        assert!(
            page.contains(&format!(">{name}<a class=\"anchor\"")),
            "{name}"
        );
        let schema = message["payload"]["$ref"]
            .as_str()
            .unwrap()
            .trim_start_matches('#');
        let fields = document.pointer(schema).unwrap()["properties"]
            .as_object()
            .unwrap();
        for field in fields.keys() {
            assert!(
                page.contains(&format!("<td><code>{field}</code></td>")),
                "{field} of {name}"
            );
        }
    }
}

/// The guides whose commands run on a machine of their own (tests/ops/production, tests/cluster/growth).
const ON_A_MACHINE: [&str; 2] = ["production", "scaling"];

/// A sample runs on the page.
#[test]
fn every_request_with_curl_is_a_sample_and_so_runs() {
    let mut samples = 0;
    for guide in guides() {
        if ON_A_MACHINE.contains(&guide.as_str()) {
            continue;
        }
        let markdown = fs::read_to_string(root().join("docs").join(guide.clone() + ".md")).unwrap();
        let mut is_sample = false;
        for line in markdown.lines() {
            if line.starts_with("```") {
                is_sample = line == "```sh";
            } else if line.trim_start().starts_with("curl ") {
                assert!(is_sample, "{guide}.md: {line}");
                samples += 1;
            }
        }
    }
    assert!(samples > 2, "{samples} requests");
}

/// The string literals of the function `name` in a file of `src/`, and its numbers of four digits.
fn literals(file: &str, name: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("src").join(file)).unwrap();
    let (_, body) = text
        .split_once(&format!("fn {name}("))
        .unwrap_or_else(|| panic!("{file} has no {name}"));
    let body = body.split("\n    }\n").next().unwrap();
    let is_code = |word: &&str| {
        let is_name = word.chars().all(|c| c.is_ascii_lowercase() || c == '_') && !word.is_empty();
        is_name || (word.len() == 4 && word.chars().all(|c| c.is_ascii_digit()))
    };
    let strings = body.split('"').skip(1).step_by(2);
    let numbers = body
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.starts_with(char::is_numeric));
    strings
        .chain(numbers)
        .filter(is_code)
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn every_error_code_has_its_cause_and_its_cure() {
    let railbird = empty_service().await;
    let page = railbird.get_open("/docs/errors").await.text();
    let document = railbird::http::openapi();
    let codes = document["components"]["schemas"]["ErrorCode"]["enum"].as_array();
    let codes = codes.unwrap().iter();
    let mut codes: BTreeSet<String> = codes
        .map(|code| code.as_str().unwrap().to_owned())
        .collect();
    assert!(
        codes.contains("invalid_date") && codes.len() > 14,
        "{codes:?}"
    );
    let document = railbird::http::asyncapi();
    let of_live = &document["components"]["schemas"]["Error"]["properties"]["error"]["enum"];
    let of_live = of_live.as_array().unwrap().iter();
    codes.extend(of_live.map(|code| code.as_str().unwrap().to_owned()));
    assert!(codes.contains("unknown_op"), "{codes:?}");
    let closes = literals("live/close_reason.rs", "parts");
    let closes: BTreeSet<String> = closes
        .into_iter()
        .filter(|code| code.parse::<u16>().is_ok())
        .collect();
    assert!(closes.contains("4401") && closes.len() > 9, "{closes:?}");
    codes.extend(closes);
    for code in &codes {
        let heading = format!("<h3 id=\"{code}\">");
        let (_, section) = page
            .split_once(&heading)
            .unwrap_or_else(|| panic!("{code} is not on the page"));
        let section = section.split("<h3").next().unwrap();
        for part in ["<strong>Cause:</strong>", "<strong>Cure:</strong>"] {
            assert!(section.contains(part), "{code} has no {part}");
        }
    }
    let on_page = page.matches("<h3 id=").count();
    assert_eq!(
        on_page,
        codes.len(),
        "a code on the page is none of the service"
    );
}
