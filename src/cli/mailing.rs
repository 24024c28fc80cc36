//! The flags that say how keys are mailed; `dev` and `serve` share them.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;

use super::WrongConfiguration;
use super::keys::parse_duration;
use crate::mail::{Folder, Mailing, PublicUrl, Sender, Smtp, Transport, WrongSetting};

/// Shorter, and no server answers; longer, and a mail that a crash has interrupted waits for hours.
const TIMEOUT_MIN: Duration = Duration::from_secs(1);
const TIMEOUT_MAX: Duration = Duration::from_secs(10 * 60);
/// Who sends the mails of `dev`, which nobody gets.
const DEV_SENDER: &str = "Railbird <keys@localhost>";

/// How keys are mailed. The values are read later: no error of the command line may repeat a password.
#[derive(Debug, Clone, Args)]
pub(super) struct MailFlags {
    /// The server that takes mails with keys: smtp://user:password@host:port (with STARTTLS; without, where the host is this
    /// machine, or with ?tls=none behind it) or smtps://user:password@host:port. Without it `serve` takes no subscriptions,
    /// and `dev` writes mails to files.
    #[arg(
        long,
        env = "RAILBIRD_SMTP_URL",
        value_name = "URL",
        hide_env_values = true
    )]
    smtp_url: Option<String>,
    /// How long the server may take to let this service in, and how long to take a mail.
    #[arg(
        long,
        env = "RAILBIRD_SMTP_TIMEOUT",
        value_name = "DURATION",
        default_value = "60s"
    )]
    smtp_timeout: String,
    /// Who sends the mails, such as "Railbird <keys@racing.example>".
    #[arg(long, env = "RAILBIRD_MAIL_FROM", value_name = "ADDRESS")]
    mail_from: Option<String>,
    /// Where clients reach the service, for links in mails, such as https://racing.example.
    #[arg(long, env = "RAILBIRD_PUBLIC_URL", value_name = "URL")]
    public_url: Option<String>,
}

impl MailFlags {
    /// For `serve`: all that is needed, or no mails.
    pub(super) fn serve(&self) -> Result<Option<Mailing>, WrongConfiguration> {
        let (smtp, from, public_url) = (self.smtp()?, self.from()?, self.public_url()?);
        let Some(smtp) = smtp else {
            return Ok(None);
        };
        let needed = |flag| move || WrongSetting::new(flag, "it is needed beside --smtp-url");
        Ok(Some(Mailing {
            carrier: Transport::Smtp(smtp),
            from: from.ok_or_else(needed("--mail-from"))?,
            public_url: Some(public_url.ok_or_else(needed("--public-url"))?),
            key_env: "live",
        }))
    }

    /// For `dev`: into a folder, unless there is a server.
    pub(super) fn dev(&self, folder: &Path) -> Result<Mailing, WrongConfiguration> {
        let to_folder = || Transport::Folder(Folder::new(folder.to_owned()));
        Ok(Mailing {
            carrier: self.smtp()?.map_or_else(to_folder, Transport::Smtp),
            from: self.from()?.map_or_else(|| Sender::parse(DEV_SENDER), Ok)?,
            public_url: self.public_url()?,
            key_env: "dev",
        })
    }

    fn smtp(&self) -> Result<Option<Smtp>, WrongSetting> {
        let timeout = parse_timeout(&self.smtp_timeout)?;
        let smtp = set(self.smtp_url.as_ref());
        smtp.map(|url| Smtp::parse(url, timeout)).transpose()
    }

    fn from(&self) -> Result<Option<Sender>, WrongSetting> {
        set(self.mail_from.as_ref()).map(Sender::parse).transpose()
    }

    fn public_url(&self) -> Result<Option<PublicUrl>, WrongSetting> {
        let url = set(self.public_url.as_ref());
        url.map(PublicUrl::parse).transpose()
    }
}

/// Compose hands on a variable that nobody has set as an empty one.
fn set(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

fn parse_timeout(text: &str) -> Result<Duration, WrongSetting> {
    let timeout = parse_duration(text).ok();
    let timeout = timeout.and_then(|timeout: SignedDuration| Duration::try_from(timeout).ok());
    let timeout = timeout.filter(|timeout| (TIMEOUT_MIN..=TIMEOUT_MAX).contains(timeout));
    timeout.ok_or(WrongSetting::new("--smtp-timeout", "it is 1s to 10m"))
}

impl From<WrongSetting> for WrongConfiguration {
    fn from(wrong: WrongSetting) -> Self {
        Self(wrong.to_string())
    }
}
