//! [`Email`]: where a subscriber is written to.

use std::fmt;

use serde::{Deserialize, Serialize};

/// RFC 5321, 4.5.3.1.3: a path is 256 bytes, with its angle brackets.
const EMAIL_LEN_MAX: usize = 254;
/// RFC 5321, 4.5.3.1.1.
const LOCAL_LEN_MAX: usize = 64;

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

    /// Reads an address that somebody typed: one that mail servers deliver to. Its domain is written as they know it, in ASCII
    /// and lower case (IDNA).
    ///
    /// # Errors
    /// It is none. The error is a sentence for who typed it, and does not repeat it.
    pub fn typed(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if text.is_empty() {
            return Err("Enter your e-mail address.");
        }
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err("An e-mail address has no spaces and no line breaks.");
        }
        let sides = text.rsplit_once('@');
        let sides = sides.filter(|(local, domain)| !local.is_empty() && !domain.is_empty());
        let Some((local, domain)) = sides else {
            return Err("An e-mail address looks like name@example.com.");
        };
        if local.len() > LOCAL_LEN_MAX || text.len() > EMAIL_LEN_MAX {
            return Err("That is too long: at most 64 characters before the @, and 254 in all.");
        }
        if !is_dot_atom(local) {
            return Err(
                "Before the @ we can only use letters a to z, digits, single dots, and + - _ ' & and the like.",
            );
        }
        let domain = idna::domain_to_ascii_strict(domain).unwrap_or_default();
        if !domain.contains('.') {
            return Err("Behind the @ comes a domain, such as example.com.");
        }
        Self::parse(&format!("{local}@{domain}"))
            .map_err(|_| "That is too long: at most 254 characters, with the domain in ASCII.")
    }

    /// What two ways to write one address have in common: no provider of note tells upper from lower case.
    #[must_use]
    pub fn folded(&self) -> String {
        self.0.to_ascii_lowercase()
    }

    /// The address.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// RFC 5322, 3.2.3. The other form, in quotes, is in use nowhere.
fn is_dot_atom(local: &str) -> bool {
    let is_atext = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&b);
    let is_atom = |atom: &str| !atom.is_empty() && atom.bytes().all(is_atext);
    local.split('.').all(is_atom)
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
    fn what_people_type_is_read_as_mail_servers_know_it() {
        for (typed, read) in [
            (
                "rail.bird+odds@racing.example",
                "rail.bird+odds@racing.example",
            ),
            ("  o'hara_1@RACING.Example\n", "o'hara_1@racing.example"),
            ("Jo@b\u{fc}cher.example", "Jo@xn--bcher-kva.example"),
            ("jo@\u{99ac}.\u{9999}\u{6e2f}", "jo@xn--m95a.xn--j6w193g"),
        ] {
            let email = Email::typed(typed).expect(typed);
            assert_eq!(email.reveal(), read);
        }
    }

    #[test]
    fn of_254_bytes_an_address_is_the_longest() {
        let label = "d".repeat(60);
        let of_len = |len: usize| {
            let local = "a".repeat(len - "@".len() - 3 * 61 - "example".len());
            format!("{local}@{label}.{label}.{label}.example")
        };
        assert_eq!(of_len(254).len(), 254);
        assert!(Email::typed(&of_len(254)).is_ok());
        for text in [of_len(255), "a".repeat(65) + "@racing.example"] {
            let why = Email::typed(&text).expect_err("too long");
            assert!(why.contains("too long"), "{why}");
        }
    }

    #[test]
    fn what_people_type_by_mistake_is_told_to_them() {
        for (typed, told) in [
            ("", "Enter"),
            (" ", "Enter"),
            ("rail bird@racing.example", "no spaces"),
            (
                "a@racing.example\r\nBcc: b@racing.example",
                "no line breaks",
            ),
            ("a@racing.example\0", "no line breaks"),
            ("railbird", "looks like"),
            ("@racing.example", "looks like"),
            ("a@", "looks like"),
            ("a@b@racing.example", "Before the @"),
            ("\"rail\"@racing.example", "Before the @"),
            ("a..b@racing.example", "Before the @"),
            (".a@racing.example", "Before the @"),
            ("j\u{f6}rg@racing.example", "Before the @"),
            ("<a@racing.example>", "Before the @"),
            ("a@racing", "domain"),
            ("a@racing..example", "domain"),
            ("a@racing_example.com", "domain"),
            ("a@racing.example>", "domain"),
            ("a@[127.0.0.1]", "domain"),
            ("a@racing.\u{fffd}", "domain"),
        ] {
            let why = Email::typed(typed).expect_err(typed);
            assert!(why.contains(told), "{typed:?}: {why}");
        }
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
