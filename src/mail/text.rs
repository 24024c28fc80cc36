//! [`MailText`]: the words of a mail.

use askama::Template;
use events::{Moment, Text};

use crate::accounts::{Actor, Change, LINK_LASTS, MailContent};
use crate::public_url::PublicUrl;

/// The words of a mail. `Debug` is not implemented, as the link is a secret.
pub(super) struct MailText {
    pub(super) subject: String,
    /// The paragraphs before the button.
    pub(super) before: Vec<String>,
    /// The label of the button.
    pub(super) button: String,
    /// The URL of the button.
    pub(super) link: String,
    pub(super) after: Vec<String>,
    pub(super) url: String,
}

/// Paragraphs: the subject, those before the button, its label in brackets, and those after it.
#[derive(Template)]
#[template(path = "mail/words.txt", config = "web/templates/askama.toml")]
struct Words<'a> {
    content: &'a MailContent,
    plan: &'a Text,
    url: &'a PublicUrl,
    at: String,
    /// For how long a link works.
    minutes: i64,
}

impl MailText {
    /// The words of a mail about a subscription to a plan. `at` is when the mail was requested; `token` is that of its
    /// link.
    pub(super) fn new(
        content: &MailContent,
        (plan, at): (&Text, Moment),
        url: &PublicUrl,
        token: Option<&str>,
    ) -> Self {
        let time = at.timestamp().strftime("%-d %B %Y at %H:%M UTC");
        let words = Words {
            content,
            plan,
            url,
            at: time.to_string(),
            minutes: LINK_LASTS.as_mins(),
        };
        let words = words.render().expect("writing to a string cannot fail");
        let (head, after) = words.split_once("\n[").expect("a mail has a button");
        let (button, after) = after.split_once("]\n").expect("a label has an end");
        let mut before = paragraphs(head);
        Self {
            subject: before.remove(0),
            before,
            button: button.to_owned(),
            link: url.account(token),
            after: paragraphs(after),
            url: url.to_string(),
        }
    }
}

fn paragraphs(text: &str) -> Vec<String> {
    let paragraphs = text
        .split("\n\n")
        .map(|text| text.trim().replace('\n', " "));
    paragraphs.filter(|text| !text.is_empty()).collect()
}
