//! [`Transport`]: a mail server or a folder.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use derive_more::Display;
use lettre::Message;

use super::delivery_error::{DeliveryError, FailureReason};
use super::smtp::{Smtp, SmtpSession};
use crate::atomic_file;

/// The time limit for writing a file.
const FOLDER_TIMEOUT: Duration = Duration::from_secs(10);

/// Where mails are sent.
#[derive(Debug, Display, Clone)]
pub enum Transport {
    Smtp(Smtp),
    /// A folder with a file for each mail, readable by this user alone; nothing is sent.
    #[display("{}", _0.display())]
    Folder(PathBuf),
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
    Folder(PathBuf),
}

impl Delivery {
    /// Sends a mail; in a folder, to a file of this name.
    pub(super) async fn send(&mut self, mail: &Message, name: &str) -> Result<(), DeliveryError> {
        match self {
            Self::Smtp(session) => session.send(mail).await,
            Self::Folder(folder) => write(folder, name, &mail.formatted()),
        }
    }

    pub(super) async fn close(self) {
        if let Self::Smtp(session) = self {
            session.quit().await;
        }
    }
}

/// Writes a mail to a folder, atomically.
fn write(folder: &Path, name: &str, mail: &[u8]) -> Result<(), DeliveryError> {
    let mut builder = fs::DirBuilder::new();
    let created = builder.recursive(true).mode(0o700).create(folder);
    let written = created.and_then(|()| atomic_file::replace(&folder.join(name), mail));
    written.map_err(|error| DeliveryError::new(FailureReason::NotWritten, &error.to_string()))
}
