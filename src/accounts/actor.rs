//! [`Actor`]: who caused an event.

use derive_more::Display;
use events::Text;
use serde::{Deserialize, Serialize};

use super::MailId;
use crate::limits::CoarseNetwork;

/// Who caused an event: a part of every account event.
#[derive(Debug, Display, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Actor {
    /// Someone who ran `railbird keys`.
    #[display("operator {name}")]
    Operator { name: Text },
    /// Someone on a page of the service.
    #[display("subscriber {network}")]
    Subscriber {
        /// The coarse network of the request.
        network: CoarseNetwork,
        /// The session, named by the mail whose link started it; `None` before one is started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<MailId>,
    },
    /// The service itself.
    #[display("service")]
    Service,
}

impl Actor {
    /// The session in which someone acts.
    pub fn session(&self) -> Option<&MailId> {
        match self {
            Self::Subscriber { session, .. } => session.as_ref(),
            Self::Operator { .. } | Self::Service => None,
        }
    }
}
