//! Markdown as HTML: headings with anchors, links between guides, code samples, and the text for the search.
//!
//! Anchors are made as forges make them, so that a link works in the repository and on the page.

use std::collections::HashMap;
use std::fmt::Write as _;

use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use serde::Serialize;

use super::samples;

/// A rendered document.
pub(super) struct Rendered {
    /// The text of its first heading.
    pub(super) title: String,
    pub(super) html: String,
    pub(super) sections: Vec<DocSection>,
}

/// A heading with the text up to the next one.
#[derive(Debug, Serialize)]
pub(super) struct DocSection {
    /// 1 to 6.
    #[serde(skip)]
    pub(super) level: usize,
    pub(super) title: String,
    pub(super) anchor: String,
    text: String,
}

/// Renders a document. `link` turns the target of a link, or a path in code, into a target on the page; without one
/// there is no link.
pub(super) fn render(markdown: &str, link: impl Fn(&str) -> Option<String>) -> Rendered {
    let mut renderer = Renderer {
        link,
        anchors: HashMap::new(),
        events: Vec::new(),
        sections: Vec::new(),
        samples: Vec::new(),
        sample_groups: 0,
        link_end: None,
    };
    let mut events = Parser::new_ext(markdown, Options::ENABLE_TABLES);
    while let Some(event) = events.next() {
        renderer.event(event, &mut events);
    }
    renderer.end_samples();
    let mut html = String::new();
    pulldown_cmark::html::push_html(&mut html, renderer.events.into_iter());
    // A column without a name has no header that a screen reader could read.
    let html = html.replace("<th></th>", "<td></td>");
    let sections = renderer.sections;
    let title = sections.first().map(|section| section.title.clone());
    Rendered {
        title: title.unwrap_or_default(),
        html,
        sections,
    }
}

struct Renderer<'a, L> {
    link: L,
    /// How often each anchor was made.
    anchors: HashMap<String, usize>,
    events: Vec<Event<'a>>,
    sections: Vec<DocSection>,
    /// Adjacent samples: the language and the HTML of each.
    samples: Vec<(&'static str, String)>,
    sample_groups: usize,
    /// The end of the link that is open; empty for one that is dropped.
    link_end: Option<&'static str>,
}

impl<'a, L: Fn(&str) -> Option<String>> Renderer<'a, L> {
    /// Adds an event; a heading and a code block with all that is in them.
    fn event(&mut self, event: Event<'a>, rest: &mut impl Iterator<Item = Event<'a>>) {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => return self.code(&kind, rest),
            Event::Start(Tag::Heading { level, .. }) => {
                self.end_samples();
                return self.heading(level, rest);
            }
            _ => self.end_samples(),
        }
        match event {
            Event::Start(Tag::Link { dest_url, .. }) => {
                let target = (self.link)(&dest_url);
                self.link_end = Some(target.as_ref().map_or("", |_| "</a>"));
                let start = target.map(|target| format!("<a href=\"{target}\">"));
                self.inline_html(start.unwrap_or_default());
            }
            Event::End(TagEnd::Link) => {
                let end = self.link_end.take().unwrap_or_default();
                self.inline_html(end.to_owned());
            }
            Event::Code(path) if path.starts_with('/') && self.link_end.is_none() => {
                let target = (self.link)(&path);
                self.index(&Event::Code(path.clone()));
                match target {
                    Some(target) => {
                        self.inline_html(format!("<a href=\"{target}\"><code>{path}</code></a>"))
                    }
                    None => self.events.push(Event::Code(path)),
                }
            }
            // A wide table scrolls by itself.
            Event::Start(Tag::Table(columns)) => {
                self.html(r#"<div class="scroll" tabindex="0">"#.to_owned());
                self.events.push(Event::Start(Tag::Table(columns)));
            }
            Event::End(TagEnd::Table) => {
                self.events.push(Event::End(TagEnd::Table));
                self.html("</div>\n".to_owned());
            }
            event => {
                self.index(&event);
                self.events.push(event);
            }
        }
    }

    fn html(&mut self, html: String) {
        self.events.push(Event::Html(html.into()));
    }

    fn inline_html(&mut self, html: String) {
        self.events.push(Event::InlineHtml(html.into()));
    }

    /// Adds text to the section for the search.
    fn index(&mut self, event: &Event<'_>) {
        let Some(section) = self.sections.last_mut() else {
            return;
        };
        match event {
            Event::Text(text) | Event::Code(text) => section.text.push_str(text),
            Event::SoftBreak | Event::End(TagEnd::Paragraph | TagEnd::TableCell | TagEnd::Item) => {
                section.text.push(' ');
            }
            _ => {}
        }
    }

    fn heading(&mut self, level: HeadingLevel, rest: &mut impl Iterator<Item = Event<'a>>) {
        let is_inside = |event: &Event<'_>| !matches!(event, Event::End(TagEnd::Heading(_)));
        let inside: Vec<Event<'a>> = rest.take_while(is_inside).collect();
        let texts = inside.iter().map(|event| match event {
            Event::Text(text) | Event::Code(text) => &**text,
            _ => "",
        });
        let title: String = texts.collect();
        let anchor = self.anchor(&title);
        self.html(format!("<{level} id=\"{anchor}\">"));
        self.events.extend(inside);
        // The navigation has the same links for the keyboard and for screen readers.
        self.html(format!(
            "<a class=\"anchor\" href=\"#{anchor}\" aria-hidden=\"true\" tabindex=\"-1\">#</a></{level}>\n"
        ));
        self.sections.push(DocSection {
            level: level as usize,
            title,
            anchor,
            text: String::new(),
        });
    }

    /// The anchor of a heading. A repeated one gets a number.
    fn anchor(&mut self, title: &str) -> String {
        let anchor = slug(title);
        let count = self.anchors.entry(anchor.clone()).or_default();
        *count += 1;
        match *count {
            1 => anchor,
            count => format!("{anchor}-{}", count - 1),
        }
    }

    fn code(&mut self, kind: &CodeBlockKind<'a>, rest: &mut impl Iterator<Item = Event<'a>>) {
        let is_inside = |event: &Event<'_>| !matches!(event, Event::End(TagEnd::CodeBlock));
        let texts = rest.take_while(is_inside).filter_map(|event| match event {
            Event::Text(text) => Some(text),
            _ => None,
        });
        let code = texts.collect::<Vec<CowStr<'a>>>().concat();
        let html = samples::code_html(&code);
        let language = match kind {
            CodeBlockKind::Fenced(language) => samples::language(language),
            CodeBlockKind::Indented => None,
        };
        match language {
            Some(language) => self.samples.push((language, html)),
            None => {
                self.end_samples();
                self.index(&Event::Text(code.into()));
                self.html(format!("<pre tabindex=\"0\"><code>{html}</code></pre>\n"));
            }
        }
    }

    /// Writes the adjacent samples. Of several one is open: all details with the same name exclude each other.
    fn end_samples(&mut self) {
        if self.samples.is_empty() {
            return;
        }
        self.sample_groups += 1;
        let mut html = String::from("<div class=\"samples\">\n");
        for (index, (language, code)) in self.samples.drain(..).enumerate() {
            let open = if index == 0 { " open" } else { "" };
            let group = self.sample_groups;
            let _ = writeln!(
                html,
                "<details name=\"samples-{group}\" data-language=\"{language}\"{open}><summary>{language}</summary>\n\
                 <pre tabindex=\"0\"><code>{code}</code></pre></details>"
            );
        }
        html.push_str("</div>\n");
        self.html(html);
    }
}

/// The anchor of a heading, as forges make it: lower case, spaces as hyphens, without punctuation.
pub(super) fn slug(title: &str) -> String {
    let letters = title.to_lowercase();
    let letters = letters.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        _ => letter.is_alphanumeric().then_some(letter),
    });
    letters.collect()
}

#[cfg(test)]
mod tests {
    use super::{render, slug};

    fn html(markdown: &str) -> String {
        render(markdown, |target| {
            target.strip_suffix(".md").map(str::to_owned)
        })
        .html
    }

    #[test]
    fn anchors_are_those_of_forges() {
        for (title, anchor) in [
            ("Nothing is missing", "nothing-is-missing"),
            (
                "/api/v1/odds/{date}/{race_number}",
                "apiv1oddsdaterace_number",
            ),
            ("A key's limits", "a-keys-limits"),
        ] {
            assert_eq!(slug(title), anchor);
        }
    }

    #[test]
    fn a_repeated_heading_has_an_anchor_of_its_own() {
        let html = html("# A\n\n## B\n\n## B\n");
        assert!(
            html.contains("<h2 id=\"b\">B") && html.contains("<h2 id=\"b-1\">B"),
            "{html}"
        );
    }

    #[test]
    fn a_link_that_leads_nowhere_on_the_page_is_its_text() {
        let html = html("[guide](keys.md) and [`code`](../src/main.rs)");
        assert_eq!(
            html,
            "<p><a href=\"keys\">guide</a> and <code>code</code></p>\n"
        );
    }

    #[test]
    fn adjacent_samples_are_one_group_and_other_code_is_none() {
        let html = html(
            "```sh\ncurl a\n```\n\n```python\nb\n```\n\ntext\n\n```rust\nc\n```\n\n    d < e\n",
        );
        assert_eq!(html.matches("class=\"samples\"").count(), 2, "{html}");
        assert_eq!(html.matches("<details").count(), 3, "{html}");
        assert!(
            html.contains("<pre tabindex=\"0\"><code>d &lt; e\n</code></pre>"),
            "{html}"
        );
    }

    #[test]
    fn the_sections_have_the_text_for_the_search() {
        let rendered = render(
            "# Title\n\nOne *two*\nthree.\n\n## Next\n\n| a | b |\n|---|---|\n| c | d |\n",
            |_| None,
        );
        assert_eq!(rendered.title, "Title");
        let texts: Vec<&str> = rendered
            .sections
            .iter()
            .map(|section| section.text.trim())
            .collect();
        assert_eq!(texts, ["One two three.", "a b c d"]);
    }
}
