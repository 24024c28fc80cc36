//! A message of the log, asked for by its place and handed out as JSON.
//!
//! The client library closes the connection over a subject or a header that it cannot read: one that is no UTF-8, say. The server
//! takes such messages from anybody who may publish. As JSON they come as text and base64, and harm nobody.

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::response::Response;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use events::Moment;
use serde::Deserialize;
use serde_json::json;

use super::reader::LogMessage;
use super::{Log, LogError, StreamName};

#[derive(Deserialize)]
struct Answer {
    message: Stored,
}

#[derive(Deserialize)]
struct Stored {
    subject: String,
    seq: u64,
    /// Base64.
    #[serde(default)]
    data: String,
    time: Moment,
}

impl Log {
    /// The message at a place; `None` if there is none.
    ///
    /// # Errors
    /// JetStream does not answer, or this user may not ask.
    pub async fn stored(
        &self,
        stream: StreamName,
        seq: u64,
    ) -> Result<Option<LogMessage>, LogError> {
        let api = format!("STREAM.MSG.GET.{}", stream.name);
        let question = json!({ "seq": seq });
        let request = self.jetstream.request(api.clone(), &question);
        let answer: Response<Answer> = self.ask(&[&api], request).await?;
        let stored = match answer {
            Response::Ok(answer) => answer.message,
            Response::Err { error } if error.error_code() == ErrorCode::NO_MESSAGE_FOUND => {
                return Ok(None);
            }
            Response::Err { error } => return Err(self.jetstream_error(&error)),
        };
        let payload = BASE64_STANDARD
            .decode(stored.data)
            .map_err(|error| self.jetstream_error(&error))?;
        Ok(Some(LogMessage {
            seq: stored.seq,
            recorded_at: stored.time,
            subject: stored.subject.into(),
            payload: payload.into(),
        }))
    }
}
