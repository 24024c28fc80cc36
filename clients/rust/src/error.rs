//! [`LiveOddsError`]: why the live channel cannot be followed.

use std::time::Duration;

use tokio_tungstenite::tungstenite::http::StatusCode;

/// The close code for an expired or revoked key.
pub(crate) const CLOSE_KEY_REVOKED: u16 = 4401;

/// No API key can have these characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the API key contains characters that no key contains")]
pub struct InvalidKey;

/// Why the live channel cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LiveOddsError {
    /// No connection could be made.
    #[error("cannot connect to {address}: {reason}")]
    Unreachable { address: String, reason: String },
    #[error("the API key is not valid: {message}")]
    InvalidKey { message: String },
    /// The service answered the handshake with another status.
    #[error("the service on {address} rejects the connection with {status}: {message}")]
    Rejected {
        address: String,
        status: StatusCode,
        message: String,
        retry_after: Option<Duration>,
    },
    #[error("the API key is no longer valid")]
    KeyRevoked,
    /// The service closed the connection, and would close it again.
    #[error("the service closed the connection with {code}: {reason}")]
    Closed { code: u16, reason: String },
}

impl LiveOddsError {
    pub(crate) fn closed(code: Option<u16>, reason: String) -> Self {
        match code.unwrap_or_default() {
            CLOSE_KEY_REVOKED => Self::KeyRevoked,
            code => Self::Closed { code, reason },
        }
    }

    /// Whether the service is not reachable or not ready.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Rejected { status, .. } => *status == StatusCode::SERVICE_UNAVAILABLE,
            _ => matches!(self, Self::Unreachable { .. }),
        }
    }

    /// Whether the same request would fail again.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::Unreachable { .. } => false,
            Self::Rejected { status, .. } => {
                [StatusCode::BAD_REQUEST, StatusCode::FORBIDDEN].contains(status)
            }
            Self::InvalidKey { .. } | Self::KeyRevoked | Self::Closed { .. } => true,
        }
    }
}
