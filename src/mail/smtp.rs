//! [`Smtp`]: a mail server, and how it is spoken to.

use std::error::Error as StdError;
use std::fmt;
use std::io::ErrorKind;
use std::iter::successors;
use std::net::IpAddr;
use std::time::Duration;

use lettre::Message;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use percent_encoding::percent_decode_str;
use tokio::time::timeout;
use url::Url;

use super::failure::{Failure, Reason};
use super::settings::WrongSetting;

/// Submission, with STARTTLS (RFC 6409).
const PORT: u16 = 587;
/// Submission over TLS (RFC 8314).
const PORT_TLS: u16 = 465;
/// A goodbye is a courtesy.
const QUIT_TIMEOUT: Duration = Duration::from_secs(2);

/// An answer that is about the login, at whatever step it comes (RFC 4954, 6).
const LOGIN_CODES: [&str; 4] = ["530", "534", "535", "538"];

/// What is wrong is the address of the subscriber (RFC 3463, 3.2 and 3.3, and RFC 7505). Any other refusal may be one of how this
/// service is configured, there or here, and be over soon.
const FINAL_CODES: [&str; 6] = ["5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1"];

const FORM: &str = "it is smtp://user:password@host:port or smtps://user:password@host:port";
const ESCAPES: &str =
    "user and password are UTF-8, with % and two digits for what has a meaning in addresses";

/// A mail server.
#[derive(Clone)]
pub struct Smtp {
    host: String,
    port: u16,
    security: Security,
    credentials: Option<Credentials>,
    timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Security {
    Plain,
    StartTls,
    Tls,
}

/// Without the password, and without the user.
impl fmt::Display for Smtp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let security = match self.security {
            Security::Plain => "without TLS",
            Security::StartTls => "with STARTTLS",
            Security::Tls => "over TLS",
        };
        write!(f, "{}:{} {security}", self.host, self.port)
    }
}

impl fmt::Debug for Smtp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Smtp({self})")
    }
}

impl Smtp {
    /// Reads `smtp://user:password@host:port?tls=required` or `smtps://user:password@host:port`. As long as `timeout` may take the way to
    /// where the server takes a mail, and again the handing over.
    ///
    /// # Errors
    /// It is none. The error repeats nothing of it: what is wrong may be the password.
    pub fn parse(text: &str, timeout: Duration) -> Result<Self, WrongSetting> {
        let wrong = |why: &'static str| WrongSetting::new("--smtp-url", why);
        let url = Url::parse(text).map_err(|_| wrong(FORM))?;
        let is_bare = matches!(url.path(), "" | "/") && url.fragment().is_none();
        let host = url.host_str().filter(|host| !host.is_empty() && is_bare);
        let host = host.ok_or_else(|| wrong(FORM))?;
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let (security, port) = match (url.scheme(), url.query()) {
            ("smtps", None) => (Security::Tls, PORT_TLS),
            ("smtps", _) => return Err(wrong("smtps:// takes nothing behind ?")),
            ("smtp", Some("tls=none")) => (Security::Plain, PORT),
            ("smtp", None) if is_loopback(&host) => (Security::Plain, PORT),
            ("smtp", None | Some("tls=required")) => (Security::StartTls, PORT),
            ("smtp", _) => return Err(wrong("behind ? stands tls=required or tls=none")),
            _ => return Err(wrong(FORM)),
        };
        let credentials = match (url.username(), url.password()) {
            ("", None) => None,
            (user, Some(password)) if !user.is_empty() => {
                let (user, password) = (unescaped(user), unescaped(password));
                let both = user.zip(password).ok_or_else(|| wrong(ESCAPES))?;
                Some(Credentials::new(both.0, both.1))
            }
            _ => return Err(wrong("a user has a password, and a password a user")),
        };
        Ok(Self {
            port: url.port().unwrap_or(port),
            host,
            security,
            credentials,
            timeout,
        })
    }

    /// For how long a mail may be handed over.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Connects, as far as to where the server takes a mail.
    pub(super) async fn connect(&self, hello: &str) -> Result<Connection, Failure> {
        let hello = ClientId::Domain(hello.to_owned());
        let connected = timeout(self.timeout, self.introduce(&hello)).await;
        Ok(Connection {
            connection: connected.map_err(|_| too_late())??,
            timeout: self.timeout,
        })
    }

    async fn introduce(&self, hello: &ClientId) -> Result<AsyncSmtpConnection, Failure> {
        let server = (self.host.as_str(), self.port);
        let tls = match self.security {
            Security::Tls => Some(self.tls()?),
            Security::StartTls | Security::Plain => None,
        };
        let connection = AsyncSmtpConnection::connect_tokio1(server, None, hello, tls, None).await;
        let mut connection = connection.map_err(|error| failure(&error, Reason::Unreachable))?;
        if self.security == Security::StartTls {
            let secured = connection.starttls(self.tls()?, hello).await;
            secured.map_err(|error| failure(&error, Reason::Tls))?;
        }
        if let Some(credentials) = &self.credentials {
            let let_in = connection.auth(DEFAULT_MECHANISMS, credentials).await;
            let_in.map_err(|error| failure(&error, Reason::Login))?;
        }
        Ok(connection)
    }

    /// Made for each connection: the certificates that this machine trusts may change.
    fn tls(&self) -> Result<TlsParameters, Failure> {
        TlsParameters::new(self.host.clone()).map_err(|error| failure(&error, Reason::Tls))
    }
}

/// A server that waits for a mail.
pub(super) struct Connection {
    connection: AsyncSmtpConnection,
    timeout: Duration,
}

impl Connection {
    /// Hands over a mail. Once this is done, it is the server's to deliver.
    pub(super) async fn hand_over(&mut self, mail: &Message) -> Result<(), Failure> {
        let (envelope, mail) = (mail.envelope(), mail.formatted());
        let sent = timeout(self.timeout, self.connection.send(envelope, &mail)).await;
        match sent.map_err(|_| too_late())? {
            Ok(_) => Ok(()),
            // The server does not know addresses like this one.
            Err(error) if error.is_client() => Err(failure(&error, Reason::Refused).finally()),
            Err(error) => Err(failure(&error, Reason::CutOff)),
        }
    }

    /// Says goodbye, whether it is heard or not.
    pub(super) async fn leave(mut self) {
        let _ = timeout(QUIT_TIMEOUT, self.connection.quit()).await;
    }
}

fn is_loopback(host: &str) -> bool {
    let address: Option<IpAddr> = host.parse().ok();
    host.eq_ignore_ascii_case("localhost") || address.is_some_and(|address| address.is_loopback())
}

fn unescaped(text: &str) -> Option<String> {
    let text = percent_decode_str(text).decode_utf8().ok()?;
    (!text.contains('\0')).then(|| text.into_owned())
}

fn too_late() -> Failure {
    Failure::new(Reason::Timeout, "no answer in time")
}

/// An error as what it means; `otherwise` where it is neither an answer of the server nor one of TLS.
fn failure(error: &Error, otherwise: Reason) -> Failure {
    let words = causes(error)
        .last()
        .map_or_else(|| error.to_string(), ToString::to_string);
    let Some(code) = error.status().map(|code| code.to_string()) else {
        let reason = match otherwise {
            Reason::Unreachable if is_of_tls(error) => Reason::Tls,
            Reason::Unreachable if error.is_response() => Reason::CutOff,
            otherwise => otherwise,
        };
        return Failure::new(reason, &words);
    };
    let reason = match otherwise {
        Reason::Login | Reason::Tls => otherwise,
        _ if LOGIN_CODES.contains(&code.as_str()) => Reason::Login,
        Reason::CutOff if error.is_permanent() => Reason::Refused,
        _ => Reason::Deferred,
    };
    let failure = Failure::new(reason, &format!("{code} {words}"));
    let status = words.split_whitespace().next().unwrap_or_default();
    if reason == Reason::Refused && FINAL_CODES.contains(&status) {
        failure.finally()
    } else {
        failure
    }
}

/// A handshake that fails does so as invalid data, and a certificate that is not trusted is that.
fn is_of_tls(error: &Error) -> bool {
    let is_invalid = |error: &std::io::Error| error.kind() == ErrorKind::InvalidData;
    error.is_tls() || causes(error).any(|cause| cause.downcast_ref().is_some_and(is_invalid))
}

/// What an error came of. The last one says most.
fn causes(error: &Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    successors(error.source(), |&cause| cause.source())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Smtp;

    #[test]
    fn an_address_says_where_and_how() {
        for (url, shown) in [
            ("smtp://mail.example", "mail.example:587 with STARTTLS"),
            (
                "smtp://mail.example:2525/",
                "mail.example:2525 with STARTTLS",
            ),
            (
                "smtp://u:p@mail.example?tls=required",
                "mail.example:587 with STARTTLS",
            ),
            ("smtp://10.0.0.1:25?tls=none", "10.0.0.1:25 without TLS"),
            ("smtps://u:p@mail.example", "mail.example:465 over TLS"),
            ("smtps://mail.example:4650", "mail.example:4650 over TLS"),
            ("smtp://localhost:25", "localhost:25 without TLS"),
            ("smtp://127.1.2.3", "127.1.2.3:587 without TLS"),
            ("smtp://[::1]:25", "::1:25 without TLS"),
            (
                "smtp://127.0.0.1?tls=required",
                "127.0.0.1:587 with STARTTLS",
            ),
            (
                "smtp://localhost.example",
                "localhost.example:587 with STARTTLS",
            ),
        ] {
            let smtp = Smtp::parse(url, Duration::from_secs(60)).expect(url);
            assert_eq!(smtp.to_string(), shown, "{url}");
        }
    }

    #[test]
    fn a_login_is_shown_nowhere_and_its_escapes_are_read() {
        let url = "smtp://us%40er:pass%2Fword%3A@mail.example";
        let smtp = Smtp::parse(url, Duration::from_secs(60)).expect(url);
        let shown = format!("{smtp} {smtp:?}");
        assert!(!shown.contains("us") && !shown.contains("pass"), "{shown}");
        let expected = super::Credentials::new("us@er".to_owned(), "pass/word:".to_owned());
        assert!(smtp.credentials == Some(expected));
    }
}
