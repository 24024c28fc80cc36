//! Renders a mail with its headers.

use askama::Template;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart};
use lettre::{Address, Message};
use textwrap::{Options, WordSplitter};

use super::settings::Sender;
use super::text::MailText;
use crate::accounts::MailId;

/// The longest line of the plain text (RFC 5322, 2.1.1: 78).
const LINE_CHARS_MAX: usize = 76;
const AUTO_SUBMITTED: HeaderName = HeaderName::new_from_ascii_str("Auto-Submitted");

#[derive(Template)]
#[template(path = "mail/mail.txt", config = "web/templates/askama.toml")]
struct Plain<'a> {
    mail: &'a MailText,
}

impl Plain<'_> {
    fn wrapped(&self, paragraph: &str) -> String {
        let options = Options::new(LINE_CHARS_MAX).break_words(false);
        textwrap::fill(
            paragraph,
            options.word_splitter(WordSplitter::NoHyphenation),
        )
    }
}

#[derive(Template)]
#[template(path = "mail/mail.html", config = "web/templates/askama.toml")]
struct Html<'a> {
    mail: &'a MailText,
}

/// The message as it is sent. The same attempt of the same mail has the same message id.
pub(super) fn message(
    mail: &MailText,
    (from, to): (&Sender, Address),
    mail_id: &MailId,
    attempt: u32,
) -> Message {
    const INFALLIBLE: &str = "writing to a string cannot fail";
    let plain = Plain { mail }.render().expect(INFALLIBLE);
    let html = Html { mail }.render().expect(INFALLIBLE);
    let auto_submitted = HeaderValue::new(AUTO_SUBMITTED, "auto-generated".to_owned());
    Message::builder()
        .from(from.0.clone())
        .to(Mailbox::new(None, to))
        .subject(mail.subject.as_str())
        .message_id(Some(format!("<{mail_id}.{attempt}@{}>", from.domain())))
        .date_now()
        // RFC 3834: prevents automatic replies.
        .raw_header(auto_submitted)
        .multipart(MultiPart::alternative_plain_html(plain, html))
        .expect("the message has a sender and a recipient")
}

#[cfg(test)]
mod tests {
    use askama::Template;
    use events::Text;

    use super::{Html, LINE_CHARS_MAX, Plain};
    use crate::accounts::{Actor, Change, KeyId, MailContent, now};
    use crate::mail::text::MailText;
    use crate::public_url::PublicUrl;

    fn text(text: &str) -> Text {
        Text::parse(text).expect("text")
    }

    /// Both forms of a mail.
    fn rendered(content: &MailContent, plan: &str, token: Option<&str>) -> [String; 2] {
        let url = PublicUrl::parse("https://racing.example").expect("an address");
        let mail = MailText::new(content, (&text(plan), now()), &url, token);
        let mail = &mail;
        [
            Plain { mail }.render().expect("text"),
            Html { mail }.render().expect("text"),
        ]
    }

    #[test]
    fn lines_are_as_long_as_they_may_be() {
        let url = PublicUrl::parse("https://racing.example").expect("an address");
        let mail = MailText::new(&MailContent::Approved, (&text("free"), now()), &url, None);
        let wrap = |paragraph: &str| Plain { mail: &mail }.wrapped(paragraph);
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

    #[test]
    fn a_mail_with_a_link_has_its_token_and_no_other_mail_has() {
        let notice = MailContent::Notice {
            change: Change::PlanChanged(text("pro")),
            by: Actor::Service,
        };
        for (content, token) in [
            (MailContent::Confirmation, Some("t0ken")),
            (MailContent::SignIn, Some("t0ken")),
            (MailContent::Approved, None),
            (notice, None),
        ] {
            for form in rendered(&content, "free", token) {
                let link = match token {
                    Some(token) => format!("https://racing.example/account?token={token}"),
                    None => "https://racing.example/account".to_owned(),
                };
                assert!(form.contains(&link), "{form}");
                assert_eq!(form.contains("30 minutes"), token.is_some(), "{form}");
            }
        }
    }

    #[test]
    fn a_notice_says_what_was_changed_and_from_where() {
        let key = |text| KeyId::parse(text).expect("an id");
        let old = key("00000000");
        let new = key("11111111");
        let network = "203.0.113.0/24".to_owned().try_into().expect("a network");
        let session = None;
        let subscriber = Actor::Subscriber { network, session };
        let name = text("alice");
        for (by, origin) in [
            (subscriber, "from the network 203.0.113.0/24"),
            (Actor::Operator { name }, "by the operator"),
        ] {
            let change = Change::KeyRotated { old, new };
            let content = MailContent::Notice { change, by };
            for form in rendered(&content, "free", None) {
                let form = form.replace('\n', " ");
                assert!(form.contains("00000000 was replaced by 11111111"), "{form}");
                assert!(form.contains(origin) && !form.contains("alice"), "{form}");
                assert!(form.contains("Was this you?"), "{form}");
            }
        }
    }

    #[test]
    fn a_plan_name_is_escaped_in_html_only() {
        let [plain, html] = rendered(&MailContent::Approved, "G\u{f6}del & <b>", None);
        assert!(plain.contains("G\u{f6}del & <b>"), "{plain}");
        assert!(html.contains("G\u{f6}del &#38; &#60;b&#62;"), "{html}");
    }
}
