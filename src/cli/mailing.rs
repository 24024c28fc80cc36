//! [`MailFlags`]: the mail settings of `dev` and `serve`.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;

use super::WrongConfiguration;
use super::keys::parse_duration;
use super::secret::{SMTP_VARIABLE, read_secret};
use crate::mail::{Mailing, Sender, Smtp, Transport};
use crate::public_url::PublicUrl;

/// No server replies in less; with more, a mail that a crash interrupted would wait for hours.
const TIMEOUT: RangeInclusive<SignedDuration> =
    SignedDuration::from_secs(1)..=SignedDuration::from_mins(10);
const TIMEOUT_DEFAULT: &str = "60s";
/// The sender of the mails of `dev`, which are not sent.
const DEV_SENDER: &str = "Railbird <keys@localhost>";

/// The mail settings. They are parsed later, because command line errors repeat the value, which may contain a
/// password.
#[derive(Debug, Clone, Args)]
pub(super) struct MailFlags {
    /// The mail server: smtp://user:password@host:port (with STARTTLS; without, if the host is this machine or the URL
    /// ends with ?tls=none) or smtps://user:password@host:port. Without it, `serve` accepts no subscriptions and `dev`
    /// writes mails to files. RAILBIRD_SMTP_URL_FILE names a file with it.
    #[arg(long, env = SMTP_VARIABLE, value_name = "URL", hide_env_values = true)]
    smtp_url: Option<String>,
    /// The time limit for connecting and logging in to the mail server, and again for sending a mail.
    #[arg(long, env = "RAILBIRD_SMTP_TIMEOUT", value_name = "DURATION", default_value = TIMEOUT_DEFAULT)]
    smtp_timeout: String,
    /// The sender of the mails, such as "Railbird <keys@racing.example>".
    #[arg(long, env = "RAILBIRD_MAIL_FROM", value_name = "ADDRESS")]
    mail_from: Option<String>,
    /// The public URL of the service, for links in mails and feeds, such as https://racing.example.
    #[arg(long, env = "RAILBIRD_PUBLIC_URL", value_name = "URL")]
    public_url: Option<String>,
}

impl MailFlags {
    /// The settings of `serve`; `None` without a mail server.
    pub(super) fn serve(&self) -> Result<Option<Mailing>, WrongConfiguration> {
        let smtp = self.smtp()?;
        let from = self.from()?;
        let public_url = self.public_url()?;
        let Some(smtp) = smtp else {
            return Ok(None);
        };
        let required = |flag| move || invalid(flag)("required together with --smtp-url");
        let from = from.ok_or_else(required("--mail-from"))?;
        public_url.ok_or_else(required("--public-url"))?;
        Ok(Some(Mailing {
            transport: Transport::Smtp(smtp),
            from,
            key_env: "live",
        }))
    }

    /// The settings of `dev`: mails go to a folder unless there is a mail server.
    pub(super) fn dev(&self, folder: &Path) -> Result<Mailing, WrongConfiguration> {
        self.public_url()?;
        let dev_sender = || Sender::parse(DEV_SENDER);
        let to_folder = || Transport::Folder(folder.to_owned());
        Ok(Mailing {
            transport: self.smtp()?.map_or_else(to_folder, Transport::Smtp),
            from: self.from()?.map_or_else(dev_sender, Ok)?,
            key_env: "dev",
        })
    }

    fn smtp(&self) -> Result<Option<Smtp>, WrongConfiguration> {
        let timeout = parse_timeout(&self.smtp_timeout)?;
        let url = read_secret(SMTP_VARIABLE, self.smtp_url.as_deref())?;
        let smtp = url.map(|url| Smtp::parse(&url, timeout));
        smtp.transpose().map_err(invalid("--smtp-url"))
    }

    fn from(&self) -> Result<Option<Sender>, WrongConfiguration> {
        let sender = self.mail_from.as_deref().map(Sender::parse).transpose();
        sender.map_err(invalid("--mail-from"))
    }

    /// The public URL of a service in production, which browsers have to reach with TLS.
    pub(super) fn check_production(&self) -> Result<(), WrongConfiguration> {
        match &self.public_url {
            Some(url) if !url.starts_with("https://") => {
                Err(format!("--production: --public-url {url} is not an https URL").into())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn public_url(&self) -> Result<Option<PublicUrl>, WrongConfiguration> {
        let url = self.public_url.as_deref().map(PublicUrl::parse).transpose();
        url.map_err(invalid("--public-url"))
    }
}

fn parse_timeout(text: &str) -> Result<Duration, WrongConfiguration> {
    let timeout = parse_duration(text).ok();
    let timeout = timeout.filter(|timeout| TIMEOUT.contains(timeout));
    let timeout = timeout.map(SignedDuration::unsigned_abs);
    timeout.ok_or_else(|| invalid("--smtp-timeout")("expected 1s to 10m"))
}

/// A setting is invalid: its flag, and what is expected. That does not repeat the value, which may contain a password.
fn invalid(flag: &str) -> impl Fn(&str) -> WrongConfiguration {
    move |expected| format!("{flag}: {expected}").into()
}
