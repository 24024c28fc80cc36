//! [`KeyEmail`]: the content of a mail with a key.

use std::fmt;

use askama::Template;
use events::Text;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart};
use lettre::{Address, Message};

use super::settings::{PublicUrl, Sender};
use crate::accounts::{ApiKey, KeyId, MailId};

const AUTO_SUBMITTED: HeaderName = HeaderName::new_from_ascii_str("Auto-Submitted");
const SUBJECT: &str = "Your Railbird API key";

/// A mail with a key. `Debug` shows only the key id.
pub(super) struct KeyEmail {
    key: String,
    key_id: KeyId,
    plan: Text,
    url: String,
    /// `None` if the plan has no live odds.
    live_url: Option<String>,
    manage_url: String,
}

#[derive(Template)]
#[template(path = "mail/welcome.txt")]
struct Plain<'a> {
    email: &'a KeyEmail,
}

#[derive(Template)]
#[template(path = "mail/welcome.html")]
struct Html<'a> {
    email: &'a KeyEmail,
}

impl fmt::Debug for KeyEmail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("KeyEmail");
        shown.field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

impl KeyEmail {
    pub(super) fn new(
        key: &ApiKey,
        plan: Text,
        live_odds: bool,
        url: &PublicUrl,
        token: &str,
    ) -> Self {
        Self {
            key: key.reveal().to_owned(),
            key_id: key.key_id(),
            plan,
            url: url.to_string(),
            live_url: live_odds.then(|| url.live()),
            manage_url: url.manage(token),
        }
    }

    /// The message as it is sent. The same attempt of the same mail has the same message id.
    pub(super) fn message(
        &self,
        from: &Sender,
        to: Address,
        mail: &MailId,
        attempt: u32,
    ) -> Message {
        const INFALLIBLE: &str = "writing to a string cannot fail";
        let plain = Plain { email: self }.render().expect(INFALLIBLE);
        let html = Html { email: self }.render().expect(INFALLIBLE);
        Message::builder()
            .from(from.0.clone())
            .to(Mailbox::new(None, to))
            .subject(SUBJECT)
            .message_id(Some(format!("<{mail}.{attempt}@{}>", from.domain())))
            .date_now()
            // RFC 3834: prevents automatic replies.
            .raw_header(HeaderValue::new(
                AUTO_SUBMITTED,
                "auto-generated".to_owned(),
            ))
            .multipart(MultiPart::alternative_plain_html(plain, html))
            .expect("the message has a sender and a recipient")
    }
}

#[cfg(test)]
mod tests {
    use askama::Template;
    use events::Text;

    use super::{Html, KeyEmail, Plain};
    use crate::accounts::ApiKey;
    use crate::mail::PublicUrl;

    #[test]
    fn live_odds_are_mentioned_if_the_plan_includes_them() {
        let key = ApiKey::generate("live").expect("random");
        let url = PublicUrl::parse("https://racing.example").expect("an address");
        for included in [true, false] {
            let email = KeyEmail::new(&key, Text::default(), included, &url, "token");
            let plain = Plain { email: &email }.render().expect("text");
            let html = Html { email: &email }.render().expect("text");
            for mail in [plain, html] {
                assert_eq!(mail.contains("wss://racing.example/"), included, "{mail}");
                assert_eq!(mail.contains("Live odds"), included, "{mail}");
            }
        }
    }

    #[test]
    fn a_plan_name_is_escaped_in_html_only() {
        let key = ApiKey::generate("live").expect("random");
        let plan = Text::parse("G\u{f6}del & <b>").expect("text");
        let url = PublicUrl::parse("https://racing.example").expect("an address");
        let email = KeyEmail::new(&key, plan, true, &url, "token");
        let plain = Plain { email: &email }.render().expect("text");
        let html = Html { email: &email }.render().expect("text");
        assert!(plain.contains("Plan: G\u{f6}del & <b>\n"), "{plain}");
        assert!(html.contains("G\u{f6}del &#38; &#60;b&#62;"), "{html}");
        let shown = format!("{email:?}");
        assert!(
            !shown.contains(key.reveal()) && !shown.contains("token"),
            "{shown}"
        );
        // Lines that cannot be wrapped may be longer.
        let prose = plain.lines().filter(|line| {
            line.contains(' ') && !line.contains("rb_live") && !line.contains("curl")
        });
        assert!(
            prose.into_iter().all(|line| line.len() <= 78),
            "RFC 5322, 2.1.1"
        );
    }
}
