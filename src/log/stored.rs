//! Single messages of the log: by sequence, and the first and the last one of a subject.

use async_nats::header::NATS_MESSAGE_ID;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use events::Moment;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Log, LogError, LogMessage, LogResult, StreamName};

const NOT_ERASED: &str = "the message was not erased";

/// The message that was asked for; `None` if there is none.
type FoundMessage = LogResult<Option<LogMessage>>;
/// The same, as the leader of the stream answers.
type LeaderMessage = LogResult<Option<DirectMessage>>;

#[derive(Deserialize)]
struct GetResponse {
    message: DirectMessage,
}

/// The answer to a request that removes messages.
#[derive(Deserialize)]
pub(super) struct RemovalResponse {
    pub(super) success: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct DirectMessage {
    subject: String,
    pub(super) seq: u64,
    /// Base64.
    #[serde(default)]
    data: String,
    /// Base64, as they are sent.
    #[serde(default)]
    hdrs: String,
    time: Moment,
}

impl DirectMessage {
    /// The id; empty if the message has none.
    pub(super) fn id(&self) -> String {
        let headers = BASE64_STANDARD.decode(&self.hdrs).unwrap_or_default();
        let headers = String::from_utf8_lossy(&headers);
        let mut lines = headers.lines().filter_map(|line| line.split_once(':'));
        let id = lines.find(|(name, _)| *name == NATS_MESSAGE_ID.to_string());
        id.map_or_else(String::new, |(_, id)| id.trim().to_owned())
    }
}

impl Log {
    /// The message with a sequence; `None` if there is none.
    ///
    /// The request returns the message as JSON, with the subject as text and the payload in base64. That is safe for
    /// any message. In its NATS form a message may hold a subject or a header that the client library cannot parse,
    /// such as one that is not UTF-8, and the library then closes the connection. The server accepts such messages from
    /// any feeder.
    ///
    /// # Errors
    /// Returns [`LogError::Denied`] if this user may not read the stream, and [`LogError::Unreachable`] or
    /// [`LogError::JetStream`] if the request fails.
    pub async fn message_at(&self, stream: StreamName, seq: u64) -> FoundMessage {
        self.message(stream, &json!({ "seq": seq })).await
    }

    /// The last message on a subject; `None` if there is none. As safe as [`Log::message_at`].
    ///
    /// # Errors
    /// As [`Log::message_at`].
    pub async fn last_message(&self, stream: StreamName, subject: &str) -> FoundMessage {
        let query = json!({ "last_by_subj": subject });
        self.message(stream, &query).await
    }

    /// The first message from a sequence on whose subject matches. As safe as [`Log::message_at`].
    ///
    /// # Errors
    /// As [`Log::message_at`].
    pub async fn next_message(&self, stream: StreamName, from: u64, subject: &str) -> FoundMessage {
        let query = json!({ "seq": from, "next_by_subj": subject });
        self.message(stream, &query).await
    }

    /// Erases all messages on a subject. The server overwrites them on its disk.
    ///
    /// # Errors
    /// As [`Log::message_at`].
    pub async fn erase(&self, stream: StreamName, subject: &str) -> LogResult<()> {
        while let Some(last) = self.last_message(stream, subject).await? {
            // Without `no_erase`, the server overwrites the message.
            let query = json!({ "seq": last.seq });
            match self.api("STREAM.MSG.DELETE", stream, &query).await {
                // Another client may have erased it meanwhile.
                Ok(RemovalResponse { success: true }) | Err(LogError::NoMessage) => {}
                Ok(_) => return Err(LogError::JetStream(NOT_ERASED.to_owned())),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The message that a request asks for.
    ///
    /// # Errors
    /// As [`Log::message_at`], and [`LogError::NoStream`].
    pub(super) async fn message(&self, stream: StreamName, query: &Value) -> FoundMessage {
        let Some(stored) = self.get(stream, query).await? else {
            return Ok(None);
        };
        let payload = BASE64_STANDARD.decode(stored.data);
        let payload = payload.map_err(|error| self.jetstream_error(&error))?;
        Ok(Some(LogMessage {
            seq: stored.seq,
            recorded_at: stored.time,
            subject: stored.subject.into(),
            payload: payload.into(),
        }))
    }

    /// The sequence of the first message from `from` on; `None` after the last one. The leader of the stream answers.
    ///
    /// # Errors
    /// As [`Log::message_at`].
    pub(super) async fn next_seq(&self, stream: StreamName, from: u64) -> LogResult<Option<u64>> {
        let query = json!({ "seq": from, "next_by_subj": ">" });
        Ok(self.get(stream, &query).await?.map(|message| message.seq))
    }

    async fn get(&self, stream: StreamName, query: &Value) -> LeaderMessage {
        match self.api("STREAM.MSG.GET", stream, query).await {
            Ok(GetResponse { message }) => Ok(Some(message)),
            Err(LogError::NoMessage) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The message with a sequence, from any server of a cluster that has it. There need not be a leader. Not as safe
    /// as [`Log::message_at`].
    pub(super) async fn message_of_any_server(&self, stream: StreamName, seq: u64) -> FoundMessage {
        let api = format!("DIRECT.GET.{}", stream.name);
        let request = self.server.direct_get(stream.name, seq, None);
        self.request(&[&api], request).await
    }

    /// The payload of the first message on a subject; `None` if there is none.
    ///
    /// # Errors
    /// Returns [`LogError::Unreachable`] or [`LogError::JetStream`] if the request fails.
    pub async fn first(&self, stream: StreamName, subject: &str) -> LogResult<Option<Bytes>> {
        let first = self.first_from(stream, 1, subject).await?;
        Ok(first.map(|message| message.payload))
    }

    /// Whether the message with a sequence is on a subject. No message on another subject is read: feeders may not, but
    /// for the NATS form, and that of another feeder could close the connection.
    ///
    /// # Errors
    /// Returns [`LogError::Unreachable`] or [`LogError::JetStream`] if the request fails.
    pub(super) async fn is_on(&self, of: StreamName, subject: &str, seq: u64) -> LogResult<bool> {
        let next = self.first_from(of, seq, subject).await?;
        Ok(next.is_some_and(|message| message.seq == seq))
    }

    /// The first message from a sequence on whose subject matches, from any server of a cluster that has it.
    async fn first_from(&self, stream: StreamName, from: u64, subject: &str) -> FoundMessage {
        let next = self.server.direct_get(stream.name, from, Some(subject));
        next.await.map_err(|error| self.jetstream_error(&*error))
    }

    /// The last message on a subject, as the leader of the stream has it. Feeders may not ask for it.
    pub(super) async fn last_of_leader(&self, stream: StreamName, subject: &str) -> LeaderMessage {
        let query = json!({ "last_by_subj": subject });
        self.get(stream, &query).await
    }
}
