//! Links and anchors, on the pages and between the files of the repository.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// The values of an attribute in HTML.
fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!(" {name}=\"");
    let values = html.split(start.as_str()).skip(1);
    values.map(|rest| rest.split('"').next().unwrap()).collect()
}

/// The path that a relative link leads to.
fn resolve(page: &str, link: &str) -> String {
    let base = url::Url::parse("http://railbird.example")
        .unwrap()
        .join(page)
        .unwrap();
    let target = base.join(link).unwrap();
    assert_eq!(
        target.host_str(),
        Some("railbird.example"),
        "{page} links to {link}"
    );
    target.path().to_owned()
}

#[tokio::test]
async fn every_link_and_every_anchor_of_every_page_leads_somewhere() {
    let railbird = empty_service().await;
    let mut pages: BTreeMap<String, String> = BTreeMap::new();
    let mut next = vec!["/docs".to_owned()];
    let mut anchors = BTreeSet::new();
    while let Some(path) = next.pop() {
        if pages.contains_key(&path) {
            continue;
        }
        let reply = railbird.get_open(&path).await;
        assert_eq!(reply.status, 200, "{path}, to which a page links");
        let html = if reply.header("content-type").starts_with("text/html") {
            reply.text()
        } else {
            String::new()
        };
        for link in attributes(&html, "href")
            .into_iter()
            .chain(attributes(&html, "src"))
        {
            // An icon, and a site of others: no page loads it, people may go there.
            if link.starts_with("data:") || link.starts_with("https://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            assert!(
                !file.starts_with('/'),
                "{path}: {link} works under one path of a proxy only"
            );
            let target = if file.is_empty() {
                path.clone()
            } else {
                resolve(&path, file)
            };
            if !anchor.is_empty() {
                anchors.insert((path.clone(), target.clone(), anchor.to_owned()));
            }
            // The other pages have tests of their own.
            if target.starts_with("/docs") || !pages.contains_key(&target) {
                next.push(target);
            }
        }
        pages.insert(path, html);
    }
    assert!(
        pages.len() > 30 && anchors.len() > 300,
        "{} pages, {} anchors",
        pages.len(),
        anchors.len()
    );
    for (page, target, anchor) in anchors {
        let is_there = attributes(&pages[&target], "id").contains(&anchor.as_str());
        assert!(is_there, "{page} links to {target}#{anchor}");
    }
}

#[tokio::test]
async fn no_page_loads_anything_from_another_host() {
    let railbird = empty_service().await;
    for guide in guides() {
        let html = railbird.get_open(&format!("/docs/{guide}")).await.text();
        for tag in html.split('<').filter(|tag| {
            ["link ", "script", "img", "iframe"]
                .iter()
                .any(|name| tag.starts_with(name))
        }) {
            assert!(
                !tag.contains("//") || tag.contains("data:"),
                "{guide}: <{tag}"
            );
            assert!(
                !tag.starts_with("script") || tag.contains(" src=\""),
                "{guide}: <{tag}"
            );
        }
        assert!(
            !html.contains(" style=\"") && !html.contains(" onclick"),
            "{guide} has inline code"
        );
    }
}

/// The targets of the links in Markdown.
fn markdown_links(markdown: &str) -> Vec<&str> {
    let links = markdown.split("](").skip(1);
    links.map(|rest| rest.split(')').next().unwrap()).collect()
}

/// The anchors of the headings of a file, as forges make them.
fn heading_anchors(markdown: &str) -> BTreeSet<String> {
    let headings = markdown.lines().filter(|line| line.starts_with('#'));
    let anchors = headings.map(|heading| {
        let title = heading
            .trim_start_matches('#')
            .trim()
            .to_lowercase()
            .replace(' ', "-");
        title
            .chars()
            .filter(|c| c.is_alphanumeric() || "-_".contains(*c))
            .collect()
    });
    anchors.collect()
}

#[test]
fn the_links_of_the_guides_work_in_the_repository() {
    let mut checked = 0;
    for guide in guides() {
        let file = root().join("docs").join(guide.clone() + ".md");
        let markdown = fs::read_to_string(&file).unwrap();
        for link in markdown_links(&markdown)
            .into_iter()
            .filter(|link| !link.contains("://"))
        {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() {
                file.clone()
            } else {
                root().join("docs").join(path)
            };
            assert!(target.exists(), "{guide}.md links to {link}");
            if !anchor.is_empty() {
                let anchors = heading_anchors(&fs::read_to_string(&target).unwrap());
                assert!(anchors.contains(anchor), "{guide}.md links to {link}");
            }
            checked += 1;
        }
    }
    assert!(checked > 100, "{checked} links");
}
