//! [`Transport`]: what takes a mail, a server or a folder.

use std::fmt;
use std::time::Duration;

use lettre::Message;

use super::failure::Failure;
use super::folder::Folder;
use super::smtp::{Connection, Smtp};

/// Writing a file takes no longer.
const FOLDER_TIMEOUT: Duration = Duration::from_secs(10);

/// What takes mails.
#[derive(Debug, Clone)]
pub enum Transport {
    /// A mail server.
    Smtp(Smtp),
    /// A folder; nothing is sent.
    Folder(Folder),
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Smtp(smtp) => smtp.fmt(f),
            Self::Folder(folder) => folder.path().display().fmt(f),
        }
    }
}

impl Transport {
    /// As far as to where a mail is taken. What fails here has nothing to do with any mail.
    pub(super) async fn open(&self, hello: &str) -> Result<Delivery, Failure> {
        Ok(match self {
            Self::Smtp(smtp) => Delivery::Smtp(Box::new(smtp.connect(hello).await?)),
            Self::Folder(folder) => Delivery::Folder(folder.clone()),
        })
    }

    /// For how long a mail may be handed over.
    pub(super) fn timeout(&self) -> Duration {
        match self {
            Self::Smtp(smtp) => smtp.timeout(),
            Self::Folder(_) => FOLDER_TIMEOUT,
        }
    }
}

/// What waits for one mail.
pub(super) enum Delivery {
    Smtp(Box<Connection>),
    Folder(Folder),
}

impl Delivery {
    /// Hands over a mail; a file gets this name.
    pub(super) async fn hand_over(&mut self, mail: &Message, name: &str) -> Result<(), Failure> {
        match self {
            Self::Smtp(connection) => connection.hand_over(mail).await,
            Self::Folder(folder) => folder.put(name, &mail.formatted()),
        }
    }

    /// Says goodbye.
    pub(super) async fn leave(self) {
        if let Self::Smtp(connection) = self {
            connection.leave().await;
        }
    }
}
