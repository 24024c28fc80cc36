//! [`Mailing`]: the mail configuration, parsed once at the start.

use lettre::message::Mailbox;

use super::delivery_error::DeliveryError;
use super::transport::Transport;

#[derive(Debug, Clone)]
pub struct Mailing {
    pub transport: Transport,
    pub from: Sender,
    /// The environment in keys, such as `live`.
    pub key_env: &'static str,
}

impl Mailing {
    /// Connects and logs in as for a mail, and sends none.
    ///
    /// # Errors
    /// Returns a [`DeliveryError`] if a mail could not be sent now.
    pub async fn try_transport(&self) -> Result<(), DeliveryError> {
        self.transport.open(self.from.domain()).await?.close().await;
        Ok(())
    }
}

/// The sender of mails, such as `Railbird <keys@racing.example>`.
#[derive(Debug, Clone)]
pub struct Sender(pub(super) Mailbox);

impl Sender {
    /// Parses an address, with or without a name.
    ///
    /// # Errors
    /// Returns what is expected.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let mailbox = text.parse().ok();
        let mailbox = mailbox.filter(|_| !text.contains(char::is_control));
        mailbox.map(Self).ok_or(
            "expected an address such as keys@racing.example or Railbird <keys@racing.example>",
        )
    }

    /// The domain of the address: the name in the SMTP greeting, and the part of message ids that makes them unique.
    pub fn domain(&self) -> &str {
        self.0.email.domain()
    }
}

#[cfg(test)]
mod tests {
    use super::Sender;

    #[test]
    fn a_sender_has_a_domain() {
        for text in ["keys@racing.example", "Rail Bird <keys@racing.example>"] {
            assert_eq!(Sender::parse(text).expect(text).domain(), "racing.example");
        }
    }
}
