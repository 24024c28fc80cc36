//! [`Email`]: where a subscriber is written to.

use std::fmt;

use serde::{Deserialize, Serialize};

/// RFC 5321, 4.5.3.1.3: a path is 256 bytes, with its angle brackets.
const EMAIL_LEN_MAX: usize = 254;

/// An e-mail address. It shows itself in part, but when asked: it belongs into no log.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Email(String);

impl Email {
    /// Reads an address: one `@` with something on both sides, and nothing that could end a line or a field of a header.
    ///
    /// # Errors
    /// It is none. The error does not repeat it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let foul = |c: char| c.is_whitespace() || c.is_control() || "<>,;:\"()[]\\".contains(c);
        let sides = text.split_once('@');
        let sides = sides.filter(|(local, domain)| !local.is_empty() && !domain.is_empty());
        let plain = sides.is_some_and(|(_, domain)| !domain.contains('@')) && !text.contains(foul);
        if plain && text.len() <= EMAIL_LEN_MAX {
            Ok(Self(text.to_owned()))
        } else {
            Err("an e-mail address is at most 254 bytes, with one @ and no spaces")
        }
    }

    /// The address.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// The first letter and the domain.
impl fmt::Display for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (local, domain) = self.0.split_once('@').unwrap_or_default();
        let first: String = local.chars().take(1).collect();
        f.pad(&format!("{first}...@{domain}"))
    }
}

impl fmt::Debug for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Email({self})")
    }
}

impl TryFrom<String> for Email {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::Email;

    #[test]
    fn an_address_shows_itself_in_part() {
        let email = Email::parse("rail.bird+odds@racing.example").expect("an address");
        assert_eq!(
            format!("{email} {email:?}"),
            "r...@racing.example Email(r...@racing.example)"
        );
        assert_eq!(email.reveal(), "rail.bird+odds@racing.example");
    }

    #[test]
    fn what_could_end_a_header_is_no_address() {
        let long = format!("{}@racing.example", "a".repeat(250));
        for text in [
            "",
            "@",
            "a@",
            "@b",
            "a@b@c",
            "a b@c",
            "a@b\r\nBcc: d@e",
            "a@b\0",
            "<a@b>",
            "a@b,c",
            &long,
        ] {
            assert!(Email::parse(text).is_err(), "{text:?}");
        }
    }
}
