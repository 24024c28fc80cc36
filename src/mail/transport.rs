//! [`Transport`]: a mail server or a folder.

use std::time::Duration;

use derive_more::Display;
use lettre::Message;

use super::delivery_error::DeliveryError;
use super::folder::Folder;
use super::smtp::{Smtp, SmtpSession};

/// The time limit for writing a file.
const FOLDER_TIMEOUT: Duration = Duration::from_secs(10);

/// Where mails are sent.
#[derive(Debug, Display, Clone)]
pub enum Transport {
    Smtp(Smtp),
    /// A folder; nothing is sent.
    #[display("{}", _0.0.display())]
    Folder(Folder),
}

impl Transport {
    /// Connects, up to the point where a mail can be sent. An error here is not about a mail.
    pub(super) async fn open(&self, hello: &str) -> Result<Delivery, DeliveryError> {
        Ok(match self {
            Self::Smtp(smtp) => Delivery::Smtp(Box::new(smtp.connect(hello).await?)),
            Self::Folder(folder) => Delivery::Folder(folder.clone()),
        })
    }

    /// The time limit for sending a mail.
    pub(super) fn timeout(&self) -> Duration {
        match self {
            Self::Smtp(smtp) => smtp.timeout,
            Self::Folder(_) => FOLDER_TIMEOUT,
        }
    }
}

/// An open transport, for one mail.
pub(super) enum Delivery {
    Smtp(Box<SmtpSession>),
    Folder(Folder),
}

impl Delivery {
    /// Sends a mail; in a folder, to a file of this name.
    pub(super) async fn send(
        &mut self,
        mail: &Message,
        file_name: &str,
    ) -> Result<(), DeliveryError> {
        match self {
            Self::Smtp(session) => session.send(mail).await,
            Self::Folder(folder) => folder.write(file_name, &mail.formatted()),
        }
    }

    pub(super) async fn close(self) {
        if let Self::Smtp(session) = self {
            session.quit().await;
        }
    }
}
