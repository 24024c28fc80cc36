//! [`Snapshot`] and [`Restoring`]: a stream as a file, which nats-server writes and reads.
//!
//! JetStream sends a snapshot in chunks, of which [some](WINDOW_BYTES) may be without an acknowledgement, and takes it
//! back in chunks. It restores no stream that exists. The messages keep their sequences and times, but the stream gets
//! another creation time. So its metadata has the [old one](CREATED): it is the same log. A restore that is cut off
//! leaves a part of the stream, so it is [marked](RESTORING), and takes no new messages, until it is whole.

use std::time::Duration;

use async_nats::jetstream::response::Response;
use async_nats::{Message, Request, RequestErrorKind, StatusCode, Subscriber};
use bytes::Bytes;
use futures::StreamExt;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::backoff::Attempts;
use super::stream::{CREATED, RESTORING};
use super::{Backoff, Log, LogError, LogResult, LogState, RACING, StreamName};

/// Well below the `max_payload` of nats.conf, and large enough that the round trip of a chunk costs little.
const CHUNK_BYTES: usize = 256 * 1024;
/// What the server sends ahead of the acknowledgements. The client buffers as much while the disk is slow.
const WINDOW_BYTES: usize = 8 * 1024 * 1024;
/// The server reads a stream of gigabytes from a slow disk before it answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// A part of a restore: the server may write and sync thousands of messages before it answers.
const RESTORED_BYTES: usize = 32 * 1024;
const RESTORED_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// In a cluster another server than that of the connection may take the parts, and becomes known to it a moment later.
const KNOWN_WITHIN: Duration = Duration::from_secs(5);
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
const RESTORE_LOST: &str = "the connection was lost; restore it again";
/// The server stores the rest of the stream before it answers the end.
const FINISH_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// A stream as it was when its snapshot began. Each of these messages is in the snapshot. Later ones may be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotHead {
    /// When the stream was created, which identifies it.
    pub created: String,
    #[serde(flatten)]
    pub state: SnapshotState,
    /// The settings, as the server writes them.
    pub config: Map<String, Value>,
}

/// The messages of a snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotState {
    /// The sequence of the first message.
    pub first_seq: u64,
    /// The sequence of the last message; 0 if there is none.
    pub last_seq: u64,
    pub messages: u64,
    /// The bytes of the messages.
    pub bytes: u64,
}

impl SnapshotHead {
    /// The settings of the restored stream, on so many replicas and with `room` for its messages.
    pub(crate) fn restored_config(&self, replicas: usize, room: Option<i64>) -> Value {
        let mut config = self.config.clone();
        let mut metadata = match config.remove("metadata") {
            Some(Value::Object(metadata)) => metadata,
            _ => Map::new(),
        };
        metadata.insert(CREATED.to_owned(), self.created.clone().into());
        config.insert("metadata".to_owned(), metadata.into());
        config.insert("num_replicas".to_owned(), replicas.into());
        if let Some(room) = room {
            // The limit was that of another server.
            let limit = config.get("max_bytes").and_then(Value::as_i64);
            let limit = limit.filter(|limit| *limit > 0);
            let room = limit.map_or(room, |limit| limit.min(room));
            config.insert("max_bytes".to_owned(), room.into());
            config.insert("discard".to_owned(), "new".into());
        }
        config.into()
    }
}

/// A snapshot that arrives.
#[derive(Debug)]
pub struct Snapshot {
    log: Log,
    stream: StreamName,
    pub head: SnapshotHead,
    chunks: Subscriber,
    /// The number of the last chunk.
    chunk: u64,
}

/// A stream that is being restored. Nobody sees it before [`finish`](Self::finish).
#[derive(Debug)]
pub struct Restoring {
    log: Log,
    stream: StreamName,
    /// The settings of the whole stream.
    config: Value,
    /// Where the server takes the chunks.
    subject: String,
}

#[derive(Deserialize)]
struct SnapshotResponse {
    config: Map<String, Value>,
    state: SnapshotState,
}

#[derive(Deserialize)]
struct RestoreResponse {
    deliver_subject: String,
}

impl Log {
    /// Starts a snapshot of a stream. The stream accepts messages meanwhile.
    ///
    /// # Errors
    /// As [`Log::state`].
    pub async fn snapshot(&self, stream: StreamName) -> LogResult<Snapshot> {
        let created = self.state(stream).await?.identity.created;
        let inbox = self.client().new_inbox();
        let subscribed = self.client().subscribe(inbox.clone()).await;
        let chunks = subscribed.map_err(|error| self.jetstream_error(&error))?;
        let request = json!({
            "deliver_subject": inbox,
            "no_consumers": true,
            "chunk_size": CHUNK_BYTES,
            "window_size": WINDOW_BYTES,
        });
        let asking = self.ask("STREAM.SNAPSHOT", stream, &request);
        let SnapshotResponse { config, state } = asking.await?;
        // A stream that was created again in between is another one.
        if self.state(stream).await?.identity.created != created {
            let name = stream.name;
            let reason = format!("the stream {name} was created again");
            return Err(LogError::JetStream(reason));
        }
        Ok(Snapshot {
            log: self.clone(),
            stream,
            head: SnapshotHead {
                created,
                state,
                config,
            },
            chunks,
            chunk: 0,
        })
    }

    /// Starts to restore a stream, which must not exist.
    ///
    /// # Errors
    /// Returns [`LogError::StreamExists`], [`LogError::Denied`], and [`LogError::Unreachable`] or
    /// [`LogError::JetStream`] if the request fails.
    pub async fn restore(&self, stream: StreamName, head: &SnapshotHead) -> LogResult<Restoring> {
        let room = match stream {
            RACING => self.room_for_facts().await,
            _ => None,
        };
        let config = head.restored_config(self.replicas().count(), room);
        let mut marked = config.clone();
        marked["metadata"][RESTORING] = "true".into();
        marked["subjects"] = json!([format!("restoring.{}", stream.name)]);
        let request = json!({ "config": marked, "state": head.state });
        let asking = self.ask("STREAM.RESTORE", stream, &request);
        let RestoreResponse { deliver_subject } = asking.await?;
        Ok(Restoring {
            log: self.clone(),
            stream,
            config,
            subject: deliver_subject,
        })
    }

    /// Deletes what an interrupted restore has left of a stream.
    ///
    /// # Errors
    /// As [`Log::state`]; [`LogError::StreamExists`] if the stream is whole.
    pub async fn delete_restoring(&self, stream: StreamName) -> LogResult<()> {
        match self.state(stream).await {
            Err(LogError::Restoring(_)) => {}
            Err(error) => return Err(error),
            Ok(_) => return Err(LogError::StreamExists(stream.name)),
        }
        let no_options = json!({});
        let deleting = self.ask::<Value>("STREAM.DELETE", stream, &no_options);
        deleting.await.map(drop)
    }

    /// As [`Log::api`], for a server that needs long.
    async fn ask<T: DeserializeOwned>(
        &self,
        action: &str,
        stream: StreamName,
        request: &Value,
    ) -> LogResult<T> {
        let mut patient = self.clone();
        patient.server.set_timeout(ANSWER_TIMEOUT);
        patient.api(action, stream, request).await
    }
}

impl Snapshot {
    /// The next part of the file; `None` after the last one. The part before is acknowledged, so it should be written.
    ///
    /// # Errors
    /// Returns [`LogError::JetStream`] if the server ends the snapshot, and [`LogError::Unreachable`] if a part is
    /// missing.
    pub async fn next(&mut self) -> LogResult<Option<Bytes>> {
        let Ok(Some(message)) = timeout(ANSWER_TIMEOUT, self.chunks.next()).await else {
            return Err(self.cut_off(&format!("no part for {ANSWER_TIMEOUT:?}")));
        };
        if message.payload.is_empty() {
            return self.end(&message);
        }
        self.chunk += 1;
        // The last part needs no acknowledgement.
        if let Some(reply) = message.reply {
            if reply.rsplit('.').next().unwrap_or_default().parse::<u64>() != Ok(self.chunk) {
                return Err(self.cut_off(&format!("part {} is missing", self.chunk)));
            }
            let acknowledged = self.log.client().publish(reply, Bytes::new()).await;
            acknowledged.map_err(|error| self.log.jetstream_error(&error))?;
        }
        Ok(Some(message.payload))
    }

    fn end(&self, last: &Message) -> LogResult<Option<Bytes>> {
        match last.status {
            None | Some(StatusCode::OK) => Ok(None),
            Some(status) if status.as_u16() == 204 => Ok(None),
            Some(status) => {
                let reason = last.description.as_deref().unwrap_or_default();
                let name = self.stream.name;
                Err(LogError::JetStream(format!(
                    "the snapshot of {name} ended: {status} {reason}"
                )))
            }
        }
    }

    fn cut_off(&self, reason: &str) -> LogError {
        let name = self.stream.name;
        LogError::Unreachable(format!("the snapshot of {name} was cut off: {reason}"))
    }
}

impl Restoring {
    /// How many bytes [`send`](Self::send) takes at a time.
    pub const CHUNK_BYTES: usize = RESTORED_BYTES;

    /// Sends the next part of the file.
    ///
    /// # Errors
    /// Returns [`LogError::JetStream`] if the server does not take it, and [`LogError::Unreachable`].
    pub async fn send(&self, chunk: Bytes) -> LogResult<()> {
        // The server does not say in advance that it has not enough space.
        let answer = self.request(chunk, RESTORED_TIMEOUT).await?.payload;
        if answer.is_empty() {
            return Ok(());
        }
        let response = serde_json::from_slice::<Response<Value>>(&answer);
        let unknown = |_| LogError::JetStream(String::from_utf8_lossy(&answer).into_owned());
        let response = response.map_err(unknown)?;
        self.log.answer(self.stream, response).map(drop)
    }

    /// Has the server create the stream.
    ///
    /// # Errors
    /// As [`send`](Self::send), and [`LogError::StreamExists`] if somebody has created it meanwhile.
    pub async fn finish(self) -> LogResult<LogState> {
        let answer = self.request(Bytes::new(), FINISH_TIMEOUT).await?;
        let response = serde_json::from_slice::<Response<Value>>(&answer.payload);
        let response = response.map_err(|error| self.log.jetstream_error(&error))?;
        self.log.answer(self.stream, response)?;
        let (log, stream) = (&self.log, self.stream);
        let updating = log.ask::<Value>("STREAM.UPDATE", stream, &self.config);
        updating.await?;
        log.state(stream).await
    }

    async fn request(&self, chunk: Bytes, patience: Duration) -> LogResult<Message> {
        let mut attempts = Attempts::new(BACKOFF, KNOWN_WITHIN);
        let connection = self.log.connection_number();
        loop {
            let request = Request::new().payload(chunk.clone());
            let request = request.timeout(Some(patience));
            let client = self.log.client();
            let sent = client.send_request(self.subject.clone(), request);
            let answered = tokio::select! {
                answered = sent => answered,
                // The server has forgotten the restore, and answers nothing.
                () = self.log.reconnected(connection) => {
                    let name = self.stream.name;
                    let reason = format!("the restore of {name} was cut off: {RESTORE_LOST}");
                    return Err(LogError::Unreachable(reason));
                }
            };
            match answered {
                // Nobody has got it.
                Err(error)
                    if error.kind() == RequestErrorKind::NoResponders && attempts.wait().await => {}
                answer => return answer.map_err(|error| self.log.jetstream_error(&error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::SnapshotHead;

    fn head(config: &Value) -> Result<SnapshotHead, serde_json::Error> {
        let created = "2026-11-21T00:00:00Z";
        serde_json::from_value(json!({
            "created": created, "first_seq": 1, "last_seq": 2, "messages": 2, "bytes": 9, "config": config,
        }))
    }

    #[test]
    fn settings_of_any_form_are_restored_or_refused() {
        for config in [json!(7), json!("text"), json!([]), Value::Null] {
            assert!(head(&config).is_err(), "{config}");
        }
        for metadata in [
            json!("text"),
            json!([1]),
            Value::Null,
            json!({ "kept": "1" }),
        ] {
            let config = json!({ "metadata": metadata, "max_bytes": "many" });
            let restored = head(&config)
                .expect("an object")
                .restored_config(3, Some(10));
            assert_eq!(restored["max_bytes"], 10);
            assert_eq!(restored["num_replicas"], 3);
            let kept = restored["metadata"].as_object().expect("an object");
            assert_eq!(kept.len(), if metadata.is_object() { 2 } else { 1 });
        }
    }
}
