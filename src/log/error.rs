//! [`LogError`]: failures of the connection to NATS and of requests to JetStream.

use std::error::Error;
use std::path::PathBuf;

/// The oldest version of nats-server with the stream settings and batched reads that railbird uses.
pub(super) const SERVER_VERSION_MIN: (u32, u32) = (2, 12);

/// What a request to NATS returns.
pub(super) type LogResult<T> = Result<T, LogError>;

/// A failure of the connection to NATS or of a request to JetStream.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// No server answers, or the connection was lost.
    #[error("NATS cannot be reached: {0}")]
    Unreachable(String),
    /// The address does not parse. It may contain a password, so the error does not repeat it.
    #[error(
        "the address of NATS is not valid: expected nats://user:password@host:port, or several separated by commas"
    )]
    WrongAddress,
    /// A file of certificates or credentials cannot be used: the flag that names it, the file, and why.
    #[error("{0} {file}: {2}", file = .1.display())]
    WrongFile(&'static str, PathBuf, String),
    /// The server, of this version, is older than railbird supports.
    #[error("nats-server {found} is too old: {}.{} or later is required", SERVER_VERSION_MIN.0, SERVER_VERSION_MIN.1)]
    TooOld { found: String },
    /// The stream does not exist.
    #[error("there is no stream {0}; the service creates it when it first starts")]
    NoStream(&'static str),
    /// A cluster elects a leader, or too few of its servers are up.
    #[error(
        "{0}: no server of the NATS cluster answers as the leader; while more than half of them are up, with \
         railbird's nats.conf, they elect one within seconds"
    )]
    NoLeader(String),
    /// The servers do not have what was read of a stream. It may be that one of them answers from before.
    #[error("{0}; asking again, because one server of a cluster may answer from before")]
    Unconfirmed(String),
    /// The stream has a part of its messages.
    #[error(
        "the stream {0} is being restored, or that was interrupted; run `railbird log restore` again"
    )]
    Restoring(&'static str),
    /// The server publishes what the stream stores elsewhere, or the reverse, because of this setting of the stream.
    #[error(
        "the stream {0} has {1}, with which its creator publishes with all rights on the log: find out who \
         set it, and as the user admin remove it with `nats stream edit {0}`, or the stream with `nats stream rm \
         {0}` if nobody needs it"
    )]
    ForeignSetting(&'static str, &'static str),
    /// The message that was asked for does not exist, or not any more.
    #[error("there is no such message")]
    NoMessage,
    /// A stream that is to be restored exists.
    #[error("the stream {0} exists")]
    StreamExists(&'static str),
    /// The server rejected the user, the password or the credentials.
    #[error("NATS rejected the login of {0}: wrong user, password or credentials")]
    LoginRejected(String),
    /// The user of the connection lacks the permission to publish on the subject.
    #[error("{0} may not publish on {1}")]
    Denied(String, String),
    /// The message exceeds the server's `max_payload`.
    #[error("the message is larger than the server's max_payload")]
    TooLarge,
    /// The stream or the server is at its limit.
    #[error("the log is full ({0}): an operator makes room, see \"Space\" in docs/production.md")]
    Full(String),
    /// More messages than the caller reads, which is this many, are on the subject.
    #[error("the log has more than {0} messages on {1}")]
    TooMany(usize, String),
    /// The log has another message under the id of this one.
    #[error(
        "the log has a message under the same id that is not on {0}: somebody else published it"
    )]
    IdTaken(String),
    /// Another message was appended to the subject after the expected one.
    #[error("another message was appended to the subject in the meantime")]
    Conflict,
    /// JetStream rejected or failed a request.
    #[error("JetStream: {0}")]
    JetStream(String),
}

impl LogError {
    /// Whether the server rejected a message or a request for a reason that a retry does not change.
    pub fn is_permanent(&self) -> bool {
        matches!(
            self,
            Self::Denied { .. } | Self::TooLarge | Self::Full(_) | Self::Conflict
        )
    }
}

/// An error and its causes, as one line. Errors of the client library have their cause in their text already.
pub(super) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        let source_text = source.to_string();
        if !text.ends_with(&source_text) {
            text = format!("{text}: {source_text}");
        }
        cause = source.source();
    }
    text
}
