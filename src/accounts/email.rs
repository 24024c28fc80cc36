//! [`Email`]: the e-mail address of a subscriber.

use std::fmt;

/// RFC 5321, 4.5.3.1.3: a path is 256 bytes, with its angle brackets.
const EMAIL_LEN_MAX: usize = 254;
/// RFC 5321, 4.5.3.1.1.
const LOCAL_LEN_MAX: usize = 64;
/// Both names of a provider that ignores dots before the `@`. The first one stands for both.
const WITHOUT_DOTS: [&str; 2] = ["gmail.com", "googlemail.com"];

/// An e-mail address. `Display` and `Debug` show its first letter and its domain; addresses do not belong in logs.
#[derive(derive_more::Debug, Clone, PartialEq, Eq, Hash)]
#[debug("Email({self})")]
pub struct Email(String);

impl Email {
    /// Parses an address: at most 254 bytes, one `@` with text on both sides, and no character that could end a line or
    /// a header field. The error is the expected form; it does not repeat the text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let is_unsafe =
            |c: char| c.is_whitespace() || c.is_control() || "<>,;:\"()[]\\".contains(c);
        let is_address = text.split_once('@').is_some_and(|(local, domain)| {
            !local.is_empty() && !domain.is_empty() && !domain.contains('@')
        });
        let is_safe = !text.contains(is_unsafe) && text.len() <= EMAIL_LEN_MAX;
        let email = (is_address && is_safe).then(|| Self(text.to_owned()));
        email.ok_or("an e-mail address is at most 254 bytes, with one @ and no spaces")
    }

    /// Parses an address from a form: one that mail servers deliver to. The domain is converted to ASCII and lower case
    /// (IDNA). The error is a sentence for the subscriber: why mail servers would not deliver to the address.
    pub fn parse_input(text: &str) -> Result<Self, &'static str> {
        let address = deliverable(text.trim())?;
        Self::parse(&address).map_err(
            |_| "The address is too long: at most 254 characters, with the domain in ASCII.",
        )
    }

    /// The mailbox of the address, to compare two spellings: in lower case, without a tag after `+`, and without dots
    /// where the provider ignores them. Mail is sent to the address itself.
    pub fn mailbox(&self) -> String {
        let address = self.0.to_ascii_lowercase();
        let (local, domain) = address.split_once('@').unwrap_or_default();
        let untagged = local.split('+').next().filter(|name| !name.is_empty());
        let local = untagged.unwrap_or(local);
        if WITHOUT_DOTS.contains(&domain) {
            format!("{}@{}", local.replace('.', ""), WITHOUT_DOTS[0])
        } else {
            format!("{local}@{domain}")
        }
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// The address with its domain in ASCII, or the reason why mail servers would not deliver to it.
fn deliverable(text: &str) -> Result<String, &'static str> {
    if text.is_empty() {
        return Err("Enter your e-mail address.");
    }
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("An e-mail address has no spaces and no line breaks.");
    }
    let sides = text.rsplit_once('@');
    let sides = sides.filter(|(local, domain)| !local.is_empty() && !domain.is_empty());
    let (local, domain) = sides.ok_or("An e-mail address looks like name@example.com.")?;
    if local.len() > LOCAL_LEN_MAX || text.len() > EMAIL_LEN_MAX {
        return Err(
            "The address is too long: at most 64 characters before the @, and 254 in total.",
        );
    }
    if !is_dot_atom(local) {
        return Err(
            "Before the @, use only letters a to z, digits, single dots and + - _ ' & and the like.",
        );
    }
    let domain = idna::domain_to_ascii_strict(domain).unwrap_or_default();
    // No top-level domain is a number or ends with a dot (RFC 3696, 2), but each form of an IPv4 address does.
    let top = domain.rsplit_once('.').map_or("", |(_, top)| top);
    if !top.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err("After the @, enter a domain such as example.com.");
    }
    Ok(format!("{local}@{domain}"))
}

/// RFC 5322, 3.2.3. The quoted form is not in use.
fn is_dot_atom(local: &str) -> bool {
    let is_atext = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&b);
    let is_atom = |atom: &str| !atom.is_empty() && atom.bytes().all(is_atext);
    local.split('.').all(is_atom)
}

/// Shows the first letter and the domain.
impl fmt::Display for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (local, domain) = self.0.split_once('@').unwrap_or_default();
        let first: String = local.chars().take(1).collect();
        f.pad(&format!("{first}...@{domain}"))
    }
}

#[cfg(test)]
mod tests {
    use super::Email;

    #[test]
    fn an_address_is_shown_abbreviated() {
        let email = Email::parse("rail.bird+odds@racing.example").expect("an address");
        assert_eq!(
            format!("{email} {email:?}"),
            "r...@racing.example Email(r...@racing.example)"
        );
        assert_eq!(email.reveal(), "rail.bird+odds@racing.example");
    }

    #[test]
    fn spellings_of_one_mailbox_are_the_same() {
        for (address, mailbox) in [
            ("Rail.Bird+odds@Racing.example", "rail.bird@racing.example"),
            ("rail.bird+a+b@racing.example", "rail.bird@racing.example"),
            ("Rail.Bird+odds@gmail.com", "railbird@gmail.com"),
            ("r.a.i.l.bird@GoogleMail.com", "railbird@gmail.com"),
            ("+odds@racing.example", "+odds@racing.example"),
        ] {
            let email = Email::parse(address).expect(address);
            assert_eq!(email.mailbox(), mailbox);
        }
    }

    #[test]
    fn input_is_converted_to_the_form_that_mail_servers_use() {
        for (input, expected) in [
            (
                "rail.bird+odds@racing.example",
                "rail.bird+odds@racing.example",
            ),
            ("  o'hara_1@RACING.Example\n", "o'hara_1@racing.example"),
            ("Jo@b\u{fc}cher.example", "Jo@xn--bcher-kva.example"),
            ("jo@\u{99ac}.\u{9999}\u{6e2f}", "jo@xn--m95a.xn--j6w193g"),
        ] {
            let email = Email::parse_input(input).expect(input);
            assert_eq!(email.reveal(), expected);
        }
    }

    #[test]
    fn an_address_of_254_bytes_is_the_longest() {
        let label = "d".repeat(60);
        let of_len = |len: usize| {
            let local = "a".repeat(len - "@".len() - 3 * 61 - "example".len());
            format!("{local}@{label}.{label}.{label}.example")
        };
        assert_eq!(of_len(254).len(), 254);
        assert!(Email::parse_input(&of_len(254)).is_ok());
        for text in [of_len(255), "a".repeat(65) + "@racing.example"] {
            let why = Email::parse_input(&text).expect_err("too long");
            assert!(why.contains("too long"), "{why}");
        }
    }

    #[test]
    fn an_input_mistake_is_explained() {
        for (input, expected) in [
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
            ("root@127.0.0.1", "domain"),
            ("root@127.1", "domain"),
            ("root@0x7f.0.0.1", "domain"),
            ("root@localhost.", "domain"),
            ("a@racing.123", "domain"),
            ("a@racing.\u{fffd}", "domain"),
        ] {
            let why = Email::parse_input(input).expect_err(input);
            assert!(why.contains(expected), "{input:?}: {why}");
        }
    }

    #[test]
    fn an_address_that_could_end_a_header_is_rejected() {
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
