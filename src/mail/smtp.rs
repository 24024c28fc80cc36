//! [`Smtp`]: a mail server, and [`SmtpSession`], a connection to it.

use std::error::Error as StdError;
use std::io::ErrorKind;
use std::iter::successors;
use std::time::Duration;

use lettre::address::Envelope;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailBodyParameter, MailParameter};
use lettre::{Address, Message};
use percent_encoding::percent_decode_str;
use tokio::time::timeout;
use url::Url;

use super::delivery_error::{DeliveryError, FailureReason};
use crate::public_url::is_loopback;

/// Submission, with STARTTLS (RFC 6409).
const PORT: u16 = 587;
/// Submission over TLS (RFC 8314).
const PORT_TLS: u16 = 465;
/// The time limit for QUIT, which is a courtesy.
const QUIT_TIMEOUT: Duration = Duration::from_secs(2);

/// The server closes the connection, at any step (RFC 5321, 4.2.3).
const CLOSING_CODE: &str = "421";
/// Replies about the login, at any step (RFC 4954, 6).
const LOGIN_CODES: [&str; 4] = ["530", "534", "535", "538"];

/// Replies that the subscriber's address does not exist (RFC 3463, 3.2 and 3.3, and RFC 7505). Any other rejection may
/// be due to the configuration of either side, and be resolved soon.
const FINAL_CODES: [&str; 6] = ["5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1"];

const FORM: &str = "expected smtp://user:password@host:port or smtps://user:password@host:port";
const ESCAPES: &str = "user and password must be UTF-8, with reserved characters percent-encoded";

/// A mail server. It shows neither the user nor the password.
#[derive(derive_more::Debug, derive_more::Display, Clone)]
#[debug("Smtp({self})")]
#[display("{host}:{port} {security}")]
pub struct Smtp {
    host: String,
    port: u16,
    security: Security,
    credentials: Option<Credentials>,
    pub(super) timeout: Duration,
}

#[derive(Debug, derive_more::Display, Clone, Copy, PartialEq, Eq)]
enum Security {
    #[display("without TLS")]
    Plain,
    #[display("with STARTTLS")]
    StartTls,
    #[display("over TLS")]
    Tls,
}

impl Smtp {
    /// Parses `smtp://user:password@host:port?tls=required` or `smtps://user:password@host:port`. `timeout` limits
    /// connecting and logging in, and again sending a mail. An error does not repeat the URL, which may contain a
    /// password.
    pub fn parse(text: &str, timeout: Duration) -> Result<Self, &'static str> {
        let url = Url::parse(text).map_err(|_| FORM)?;
        let is_bare = matches!(url.path(), "" | "/") && url.fragment().is_none();
        let host = url.host_str().filter(|host| !host.is_empty() && is_bare);
        let host = host.ok_or(FORM)?.trim_matches(['[', ']']).to_owned();
        let (security, port) = match (url.scheme(), url.query()) {
            ("smtps", None) => (Security::Tls, PORT_TLS),
            ("smtps", _) => return Err("smtps:// takes no ?tls="),
            ("smtp", Some("tls=none")) => (Security::Plain, PORT),
            ("smtp", None) if is_loopback(&host) => (Security::Plain, PORT),
            ("smtp", None | Some("tls=required")) => (Security::StartTls, PORT),
            ("smtp", _) => return Err("only ?tls=required and ?tls=none are allowed"),
            _ => return Err(FORM),
        };
        let credentials = match (url.username(), url.password()) {
            ("", None) => None,
            (user, Some(password)) if !user.is_empty() => {
                let (user, password) = unescaped(user).zip(unescaped(password)).ok_or(ESCAPES)?;
                Some(Credentials::new(user, password))
            }
            _ => return Err("user and password are required together"),
        };
        Ok(Self {
            port: url.port().unwrap_or(port),
            host,
            security,
            credentials,
            timeout,
        })
    }

    /// Connects and logs in.
    pub(super) async fn connect(&self, hello: &str) -> Result<SmtpSession, DeliveryError> {
        let hello = ClientId::Domain(hello.to_owned());
        let connected = timeout(self.timeout, self.log_in(&hello)).await;
        Ok(SmtpSession {
            connection: connected.map_err(|_| timed_out())??,
            timeout: self.timeout,
        })
    }

    async fn log_in(&self, hello: &ClientId) -> Result<AsyncSmtpConnection, DeliveryError> {
        let server = (self.host.as_str(), self.port);
        let tls = match self.security {
            Security::Tls => Some(self.tls()?),
            Security::StartTls | Security::Plain => None,
        };
        let connection = AsyncSmtpConnection::connect_tokio1(server, None, hello, tls, None).await;
        let mut connection =
            connection.map_err(|error| classify(&error, FailureReason::Unreachable))?;
        if self.security == Security::StartTls {
            let secured = connection.starttls(self.tls()?, hello).await;
            secured.map_err(|error| classify(&error, FailureReason::Tls))?;
        }
        if let Some(credentials) = &self.credentials {
            let logged_in = connection.auth(DEFAULT_MECHANISMS, credentials).await;
            logged_in.map_err(|error| classify(&error, FailureReason::Login))?;
        }
        Ok(connection)
    }

    /// Created for each connection, as the trusted certificates of this machine may change.
    fn tls(&self) -> Result<TlsParameters, DeliveryError> {
        TlsParameters::new(self.host.clone()).map_err(|error| classify(&error, FailureReason::Tls))
    }
}

/// A connection to a server that is ready for a mail.
pub(super) struct SmtpSession {
    connection: AsyncSmtpConnection,
    timeout: Duration,
}

impl SmtpSession {
    /// Sends a mail. Once this returns, the server is responsible for it.
    pub(super) async fn send(&mut self, mail: &Message) -> Result<(), DeliveryError> {
        let sent = timeout(self.timeout, self.transact(mail)).await;
        let sent = sent.map_err(|_| timed_out())?;
        if sent.is_err() {
            let _ = timeout(QUIT_TIMEOUT, self.connection.abort()).await;
        }
        sent
    }

    /// Sends the commands of a mail one by one: which one the server rejects says whose error it is.
    async fn transact(&mut self, mail: &Message) -> Result<(), DeliveryError> {
        let envelope = mail.envelope();
        let content = mail.formatted();
        let parameters = self.parameters(envelope, &content)?;
        let cut_off = |error: Error| classify(&error, FailureReason::CutOff);
        let connection = &mut self.connection;
        let from = Mail::new(envelope.from().cloned(), parameters);
        connection.command(from).await.map_err(cut_off)?;
        for to in envelope.to() {
            let accepted = connection.command(Rcpt::new(to.clone(), Vec::new())).await;
            accepted.map_err(|error| of_recipient(cut_off(error)))?;
        }
        connection.command(Data).await.map_err(cut_off)?;
        connection.message(&content).await.map_err(cut_off)?;
        Ok(())
    }

    /// The parameters of MAIL that addresses and a content which are not ASCII need (RFC 6531, RFC 6152).
    fn parameters(
        &self,
        envelope: &Envelope,
        content: &[u8],
    ) -> Result<Vec<MailParameter>, DeliveryError> {
        let mut addresses = envelope.from().into_iter().chain(envelope.to());
        let is_ascii = |address: &Address| address.to_string().is_ascii();
        let mut needed = Vec::new();
        if !addresses.all(is_ascii) {
            needed.push((Extension::SmtpUtfEight, MailParameter::SmtpUtfEight));
        }
        if !content.is_ascii() {
            let body = MailParameter::Body(MailBodyParameter::EightBitMime);
            needed.push((Extension::EightBitMime, body));
        }
        let server = self.connection.server_info();
        let missing = (needed.iter()).find(|(extension, _)| !server.supports_feature(*extension));
        if let Some((extension, _)) = missing {
            let words = format!("the server does not support {extension}");
            return Err(DeliveryError {
                is_final: true,
                ..DeliveryError::new(FailureReason::Refused, &words)
            });
        }
        Ok(needed.into_iter().map(|(_, parameter)| parameter).collect())
    }

    /// Sends QUIT, and ignores the reply.
    pub(super) async fn quit(mut self) {
        let _ = timeout(QUIT_TIMEOUT, self.connection.quit()).await;
    }
}

fn unescaped(text: &str) -> Option<String> {
    let text = percent_decode_str(text).decode_utf8().ok()?;
    (!text.contains('\0')).then(|| text.into_owned())
}

fn timed_out() -> DeliveryError {
    DeliveryError::new(FailureReason::Timeout, "no reply in time")
}

/// Classifies an error; `otherwise` is the reason of one that is neither a reply of the server nor about TLS.
fn classify(error: &Error, otherwise: FailureReason) -> DeliveryError {
    let last = causes(error).last();
    let words = last.map_or_else(|| error.to_string(), ToString::to_string);
    let Some(code) = error.status().map(|code| code.to_string()) else {
        let reason = match otherwise {
            FailureReason::Unreachable if is_of_tls(error) => FailureReason::Tls,
            FailureReason::Unreachable if error.is_response() => FailureReason::CutOff,
            otherwise => otherwise,
        };
        return DeliveryError::new(reason, &words);
    };
    let reason = match otherwise {
        FailureReason::Login | FailureReason::Tls => otherwise,
        _ if LOGIN_CODES.contains(&code.as_str()) => FailureReason::Login,
        FailureReason::CutOff if error.is_permanent() => FailureReason::Refused,
        _ => FailureReason::Deferred,
    };
    let status = words.split_whitespace().next().unwrap_or_default();
    DeliveryError {
        is_final: reason == FailureReason::Refused && FINAL_CODES.contains(&status),
        ..DeliveryError::new(reason, &format!("{code} {words}"))
    }
}

/// An error at RCPT. A temporary rejection is about the recipient, whatever its code (a full or busy mailbox,
/// greylisting, a domain that does not answer), unless the server closes the connection.
fn of_recipient(error: DeliveryError) -> DeliveryError {
    match error.reason {
        FailureReason::Deferred if !error.detail.starts_with(CLOSING_CODE) => DeliveryError {
            reason: FailureReason::MailboxDeferred,
            ..error
        },
        _ => error,
    }
}

/// Whether an error is about TLS. A failed handshake or an untrusted certificate is reported as invalid data.
fn is_of_tls(error: &Error) -> bool {
    let is_invalid = |error: &std::io::Error| error.kind() == ErrorKind::InvalidData;
    error.is_tls() || causes(error).any(|cause| cause.downcast_ref().is_some_and(is_invalid))
}

/// The causes of an error. The last one is the most specific.
fn causes(error: &Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    successors(error.source(), |&cause| cause.source())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Smtp;

    #[test]
    fn a_url_gives_host_port_and_security() {
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
    fn a_login_is_decoded_and_never_shown() {
        let url = "smtp://us%40er:pass%2Fword%3A@mail.example";
        let smtp = Smtp::parse(url, Duration::from_secs(60)).expect(url);
        let shown = format!("{smtp} {smtp:?}");
        assert!(!shown.contains("us") && !shown.contains("pass"), "{shown}");
        let expected = super::Credentials::new("us@er".to_owned(), "pass/word:".to_owned());
        assert!(smtp.credentials == Some(expected));
    }
}
