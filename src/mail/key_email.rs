//! [`KeyEmail`]: what stands in a mail.

use std::fmt;

use askama::Template;
use events::Text;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart};
use lettre::{Address, Message};

use super::settings::{PublicUrl, Sender};
use crate::accounts::{ApiKey, Email, KeyId, MailId};

const SUBJECT: &str = "Your Railbird API key";

/// A mail with a key. It shows itself in no log.
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
    letter: &'a KeyEmail,
}

#[derive(Template)]
#[template(path = "mail/welcome.html")]
struct Html<'a> {
    letter: &'a KeyEmail,
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

    /// As it goes out. The same attempt of the same mail has the same id.
    pub(super) fn message(
        &self,
        from: &Sender,
        to: Address,
        mail: &MailId,
        attempt: u32,
    ) -> Message {
        let plain = Plain { letter: self }.render();
        let html = Html { letter: self }.render();
        let (plain, html) = plain
            .and_then(|plain| Ok((plain, html?)))
            .expect("a string takes all that is written to it");
        Message::builder()
            .from(from.0.clone())
            .to(Mailbox::new(None, to))
            .subject(SUBJECT)
            .message_id(Some(format!("<{mail}.{attempt}@{}>", from.domain())))
            .date_now()
            // RFC 3834: no vacation answers it.
            .raw_header(header("Auto-Submitted", "auto-generated"))
            .multipart(MultiPart::alternative_plain_html(plain, html))
            .expect("it has a sender and a recipient")
    }
}

fn header(name: &'static str, value: &str) -> HeaderValue {
    HeaderValue::new(HeaderName::new_from_ascii_str(name), value.to_owned())
}

/// The address as mail knows it; `None` if it is none there.
pub(super) fn recipient(email: &Email) -> Option<Address> {
    email.reveal().parse().ok()
}

#[cfg(test)]
mod tests {
    use askama::Template;
    use events::Text;

    use super::{Html, KeyEmail, Plain};
    use crate::accounts::ApiKey;
    use crate::mail::PublicUrl;

    #[test]
    fn live_odds_are_named_where_they_are_included() {
        let key = ApiKey::generate("live").expect("random");
        let url = PublicUrl::parse("https://racing.example").expect("an address");
        for included in [true, false] {
            let letter = KeyEmail::new(&key, Text::default(), included, &url, "token");
            let plain = Plain { letter: &letter }.render().expect("text");
            let html = Html { letter: &letter }.render().expect("text");
            for mail in [plain, html] {
                assert_eq!(mail.contains("wss://racing.example/"), included, "{mail}");
                assert_eq!(mail.contains("Live odds"), included, "{mail}");
            }
        }
    }

    #[test]
    fn a_plan_is_shown_as_it_is_called() {
        let key = ApiKey::generate("live").expect("random");
        let plan = Text::parse("G\u{f6}del & <b>").expect("text");
        let url = PublicUrl::parse("https://racing.example").expect("an address");
        let letter = KeyEmail::new(&key, plan, true, &url, "token");
        let plain = Plain { letter: &letter }.render().expect("text");
        let html = Html { letter: &letter }.render().expect("text");
        assert!(plain.contains("Plan: G\u{f6}del & <b>\n"), "{plain}");
        assert!(html.contains("G\u{f6}del &#38; &#60;b&#62;"), "{html}");
        let shown = format!("{letter:?}");
        assert!(
            !shown.contains(key.reveal()) && !shown.contains("token"),
            "{shown}"
        );
        // What has no break within it may be longer.
        let prose = plain.lines().filter(|line| {
            line.contains(' ') && !line.contains("rb_live") && !line.contains("curl")
        });
        assert!(
            prose.into_iter().all(|line| line.len() <= 78),
            "RFC 5322, 2.1.1"
        );
    }
}
