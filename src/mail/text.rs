//! [`MailText`]: the words of a mail.

use events::{Moment, Text};

use crate::accounts::{Actor, Change, LINK_LASTS, MailContent};
use crate::public_url::PublicUrl;

/// The longest line of the plain text (RFC 5322, 2.1.1: 78).
const LINE_CHARS_MAX: usize = 76;

/// The words of a mail. `Debug` is not implemented, as the link is a secret.
pub(super) struct MailText {
    pub(super) subject: &'static str,
    /// The paragraphs before the button.
    pub(super) before: Vec<String>,
    /// The label of the button.
    pub(super) button: &'static str,
    /// The URL of the button.
    pub(super) link: String,
    pub(super) after: Vec<String>,
    pub(super) url: String,
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
        let once = format!("The link works once, for {} minutes.", LINK_LASTS.as_mins());
        let (subject, before, button, after) = match content {
            MailContent::Confirmation => (
                "Confirm your Railbird subscription",
                vec![format!(
                    "Someone, we hope you, subscribed with this address to the plan {plan} at {url}. Confirm it, and \
                     create your API key:"
                )],
                "Confirm and sign in",
                vec![
                    once,
                    "If it was not you, ignore this mail. Or open the link and say so: we then erase your address, \
                     and never write to it again."
                        .to_owned(),
                ],
            ),
            MailContent::SignIn => (
                "Your link to Railbird",
                vec![format!(
                    "With this link you sign in at {url}, where you see and change your API keys:"
                )],
                "Sign in",
                vec![
                    once,
                    "If you did not ask for it, ignore this mail: without the link, nobody can sign in.".to_owned(),
                ],
            ),
            MailContent::Approved => (
                "Your Railbird subscription is approved",
                vec![format!(
                    "Your subscription to the plan {plan} is approved. Sign in to create your API key:"
                )],
                "Go to your account",
                Vec::new(),
            ),
            MailContent::Notice { change, by } => {
                let (subject, what) = announcement(change);
                (
                    subject,
                    vec![
                        format!("{what} This was done on {} {}.", date_time(at), origin(by)),
                        "Was this you? Then there is nothing to do.".to_owned(),
                        "If not, sign in, revoke the keys that you do not know and replace the others:".to_owned(),
                    ],
                    "Go to your account",
                    Vec::new(),
                )
            }
        };
        Self {
            subject,
            before,
            button,
            link: url.account(token),
            after,
            url: url.to_string(),
        }
    }
}

/// The subject and the first sentence of the announcement of a change.
fn announcement(change: &Change) -> (&'static str, String) {
    match change {
        Change::KeyIssued(key) => (
            "A Railbird key was created",
            format!("The API key {key} was created."),
        ),
        Change::KeyRotated { old, new } => (
            "A Railbird key was replaced",
            format!("The API key {old} was replaced by {new}."),
        ),
        Change::KeyRevoked(key) => (
            "A Railbird key was revoked",
            format!("The API key {key} was revoked: programs that use it are rejected."),
        ),
        Change::PlanChanged(plan) => (
            "Your Railbird plan was changed",
            format!("You are on the plan {plan} now."),
        ),
    }
}

/// Who made a change, for the subscriber.
fn origin(by: &Actor) -> String {
    match by {
        Actor::Subscriber { network, .. } => {
            format!("on your account page, from the network {network}")
        }
        Actor::Operator { .. } => "by the operator of the service".to_owned(),
        Actor::Service => "by the service".to_owned(),
    }
}

fn date_time(moment: Moment) -> String {
    let time = moment.timestamp();
    time.strftime("%-d %B %Y at %H:%M UTC").to_string()
}

/// Breaks a paragraph into lines.
pub(super) fn wrap(paragraph: &str) -> String {
    let mut wrapped = String::new();
    let mut width = 0;
    for word in paragraph.split(' ') {
        let chars = word.chars().count();
        if width > 0 && width + 1 + chars > LINE_CHARS_MAX {
            wrapped.push('\n');
            width = 0;
        } else if width > 0 {
            wrapped.push(' ');
            width += 1;
        }
        wrapped.push_str(word);
        width += chars;
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::{LINE_CHARS_MAX, wrap};

    #[test]
    fn lines_are_as_long_as_they_may_be() {
        let words = "a bb ccc dddd eeeee ffffff ggggggg hhhhhhhh iiiiiiiii jjjjjjjjjj ".repeat(5);
        let wrapped = wrap(words.trim_end());
        assert_eq!(wrapped.replace('\n', " "), words.trim_end());
        let lines: Vec<_> = wrapped.lines().collect();
        assert!(lines.iter().all(|line| line.len() <= LINE_CHARS_MAX));
        for (line, next) in lines.iter().zip(&lines[1..]) {
            let word = next.split(' ').next().expect("a word");
            assert!(line.len() + 1 + word.len() > LINE_CHARS_MAX, "{wrapped}");
        }
        let long = "x".repeat(200);
        assert_eq!(wrap(&format!("a {long} b")), format!("a\n{long}\nb"));
    }
}
