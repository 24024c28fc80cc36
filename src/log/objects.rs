//! [`StoredObject`] and [`ObjectWriter`]: the objects of the stream [`SNAPSHOTS`], in the form of NATS' object stores.
//!
//! An object is a list of chunks on a subject of its own, and then a message with its name, its size and its checksum.
//! Without that message it is not listed. Each message expects the one before it to be the last of the whole stream. So
//! of two writers at most one goes on, also after a pause, and the chunks of an object have consecutive sequences.
//!
//! The client library reads objects with consumers that push, which cannot deliver to the service's account. So chunks
//! are read one by one; the leader of the stream answers.

use std::collections::{BTreeMap, BTreeSet};

use async_nats::HeaderMap;
use async_nats::jetstream::message::OutboundMessage;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE;
use bytes::Bytes;
use events::{Moment, ParseError, Text, cut_reason};
use futures::{Stream, StreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::append::await_ack;
use super::stored::RemovalResponse;
use super::stream::SNAPSHOTS_BUCKET;
use super::{Log, LogError, LogResult, SNAPSHOTS};

/// The subjects of chunks, before the id of the object.
const CHUNKS: &str = "$O.SNAPSHOTS.C.";
/// The subjects of names, before the name.
const NAMES: &str = "$O.SNAPSHOTS.M.";
/// The header with the sequence that the stream must end at.
const EXPECTED_LAST_SEQUENCE: &str = "Nats-Expected-Last-Sequence";
/// Objects that are listed. A writer keeps a few; a stream with more has objects of somebody else.
const OBJECTS_MAX: usize = 64;
/// Chunks that are requested at a time. Each is in memory, and a round trip to the server is longer than its work.
const CHUNKS_AHEAD: usize = 4;

/// The message that names an object.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ObjectInfo {
    pub name: String,
    bucket: String,
    /// The last token of the subject of its chunks.
    nuid: String,
    /// The bytes of all chunks.
    pub size: u64,
    /// The number of chunks.
    pub chunks: u64,
    /// When it was written.
    #[serde(rename = "mtime")]
    pub written_at: Option<Moment>,
    /// `SHA-256=` and the hash of all chunks in base64.
    #[serde(default)]
    pub digest: String,
    #[serde(default)]
    deleted: bool,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

/// An object, as it is listed.
#[derive(Debug, Clone)]
pub struct StoredObject {
    pub info: ObjectInfo,
    /// The sequence of the message that names it.
    seq: u64,
}

impl StoredObject {
    /// Parses the message that names an object. Anybody who may write to the stream can have sent it: a wildcard in
    /// place of the `nuid` would remove the chunks of other objects.
    ///
    /// # Errors
    /// Returns the reason why the message names no object.
    pub(crate) fn parse(seq: u64, message: &[u8]) -> Result<Self, String> {
        let info: ObjectInfo =
            serde_json::from_slice(message).map_err(|error| cut_reason(&error.to_string()))?;
        Text::parse(&info.name).map_err(|error| error.to_string())?;
        if info.nuid.is_empty() || !info.nuid.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(ParseError::new("a nuid is letters and digits", &info.nuid).to_string());
        }
        Ok(Self { info, seq })
    }
}

/// The checksum of all chunks of an object, as its name has it.
pub fn object_digest(chunks: Sha256) -> String {
    format!("SHA-256={}", BASE64_URL_SAFE.encode(chunks.finalize()))
}

/// An object that is being written. It is not listed before [`finish`](Self::finish).
#[derive(Debug)]
pub struct ObjectWriter {
    log: Log,
    nuid: String,
    /// The last sequence of the stream, if nobody else writes.
    last_seq: u64,
    size: u64,
    chunks: u64,
    checksum: Sha256,
}

impl Log {
    /// The objects, the latest first. None if there is no stream. What cannot be read is left out.
    ///
    /// # Errors
    /// Returns [`LogError::Denied`] if this user may not read the stream, and [`LogError::Unreachable`] or
    /// [`LogError::JetStream`] if the request fails.
    pub async fn objects(&self) -> LogResult<Vec<StoredObject>> {
        let mut objects = Vec::new();
        let mut from = 1;
        while objects.len() < OBJECTS_MAX {
            let query = json!({ "seq": from, "next_by_subj": format!("{NAMES}>") });
            let message = match self.message(SNAPSHOTS, &query).await {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(LogError::NoStream(_)) => return Ok(Vec::new()),
                Err(error) => return Err(error),
            };
            let seq = message.seq;
            from = seq + 1;
            match StoredObject::parse(seq, &message.payload) {
                Ok(object) if !object.info.deleted => objects.push(object),
                Ok(_) => {}
                Err(error) => tracing::warn!(seq, error, "cannot read the name of an object"),
            }
        }
        objects.reverse();
        Ok(objects)
    }

    /// The chunks of an object in their order; `None` for one that is not there.
    pub fn chunks(
        &self,
        object: &StoredObject,
    ) -> impl Stream<Item = LogResult<Option<Bytes>>> + Send + use<> {
        let log = self.clone();
        let subject = chunk_subject(&object.info.nuid);
        stream::iter(object.seq.saturating_sub(object.info.chunks)..object.seq)
            .map(move |seq| {
                let log = log.clone();
                let subject = subject.clone();
                async move {
                    let found = log.message_at(SNAPSHOTS, seq).await?;
                    let of_object = found.filter(|found| found.subject() == subject);
                    Ok(of_object.map(|found| found.payload))
                }
            })
            .buffered(CHUNKS_AHEAD)
    }

    /// Begins an object with its first chunk, which stops any other writer. Creates the stream unless it exists, and
    /// removes what writers have left that were stopped.
    ///
    /// # Errors
    /// As [`ObjectWriter::add`], and as [`Log::ensure`].
    pub async fn write_object(&self, first: Bytes) -> LogResult<ObjectWriter> {
        let mut writer = ObjectWriter {
            log: self.clone(),
            nuid: uuid::Uuid::now_v7().simple().to_string(),
            last_seq: self.ensure(SNAPSHOTS).await?.last_seq,
            size: 0,
            chunks: 0,
            checksum: Sha256::new(),
        };
        match writer.add(first.clone()).await {
            Ok(()) => self.remove_unnamed(&writer.nuid).await?,
            Err(LogError::Full(_)) => {
                // Chunks that nobody has named may be what fills it.
                self.remove_unnamed(&writer.nuid).await?;
                writer.add(first).await?;
            }
            Err(error) => return Err(error),
        }
        Ok(writer)
    }

    /// Removes an object, its name first.
    ///
    /// # Errors
    /// As [`Log::objects`].
    pub async fn remove_object(&self, object: &StoredObject) -> LogResult<()> {
        self.purge(&name_subject(&object.info.name)).await?;
        self.purge(&chunk_subject(&object.info.nuid)).await
    }

    /// Removes the chunks that no name leads to, but for those of one object.
    async fn remove_unnamed(&self, nuid: &str) -> LogResult<()> {
        let objects = self.objects().await?;
        let named = objects.iter().map(|object| object.info.nuid.as_str());
        let kept: BTreeSet<String> = named.chain([nuid]).map(chunk_subject).collect();
        let query = json!({ "subjects_filter": format!("{CHUNKS}>") });
        let info: Value = self.api("STREAM.INFO", SNAPSHOTS, &query).await?;
        let subjects = info.pointer("/state/subjects").and_then(Value::as_object);
        for subject in subjects.into_iter().flatten().map(|(subject, _)| subject) {
            if !kept.contains(subject) {
                tracing::info!(subject, "removing the chunks of an unfinished object");
                self.purge(subject).await?;
            }
        }
        Ok(())
    }

    async fn purge(&self, subject: &str) -> LogResult<()> {
        let query = json!({ "filter": subject });
        let purged: RemovalResponse = self.api("STREAM.PURGE", SNAPSHOTS, &query).await?;
        let failed = || LogError::JetStream(format!("{subject} was not purged"));
        purged.success.then_some(()).ok_or_else(failed)
    }
}

impl ObjectWriter {
    /// Writes the next chunk, and waits until it is stored.
    ///
    /// # Errors
    /// Returns [`LogError::Conflict`] if another writer has begun, [`LogError::Full`], [`LogError::Denied`], and
    /// [`LogError::Unreachable`] or [`LogError::JetStream`] if it is not acknowledged. Then the object cannot be
    /// finished.
    pub async fn add(&mut self, chunk: Bytes) -> LogResult<()> {
        let subject = chunk_subject(&self.nuid);
        self.publish(subject, chunk.clone()).await?;
        self.size += chunk.len() as u64;
        self.chunks += 1;
        self.checksum.update(&chunk);
        Ok(())
    }

    /// Names the object, with the metadata for its checksum. From now on it is listed.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub async fn finish(
        mut self,
        name: String,
        metadata: impl FnOnce(&str) -> BTreeMap<String, String>,
    ) -> LogResult<StoredObject> {
        let digest = object_digest(std::mem::take(&mut self.checksum));
        let info = ObjectInfo {
            bucket: SNAPSHOTS_BUCKET.to_owned(),
            nuid: self.nuid.clone(),
            size: self.size,
            chunks: self.chunks,
            written_at: Some(jiff::Timestamp::now().into()),
            metadata: metadata(&digest),
            digest,
            deleted: false,
            name,
        };
        let message = serde_json::to_vec(&info).expect("no keys but text");
        let subject = name_subject(&info.name);
        self.publish(subject, message.into()).await?;
        let seq = self.last_seq;
        Ok(StoredObject { info, seq })
    }

    async fn publish(&mut self, subject: String, payload: Bytes) -> LogResult<()> {
        let mut headers = HeaderMap::new();
        headers.insert(EXPECTED_LAST_SEQUENCE, self.last_seq.to_string());
        let message = OutboundMessage::new(subject.as_str().into(), payload, Some(headers));
        let sent = self.log.publish(vec![message]).await;
        self.last_seq = await_ack(&subject, sent).await?.seq;
        Ok(())
    }
}

fn chunk_subject(nuid: &str) -> String {
    format!("{CHUNKS}{nuid}")
}

fn name_subject(name: &str) -> String {
    format!("{NAMES}{}", BASE64_URL_SAFE.encode(name))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::StoredObject;

    fn parse(name: &str, nuid: &str) -> Result<StoredObject, String> {
        let message =
            json!({ "name": name, "bucket": "SNAPSHOTS", "nuid": nuid, "size": 1, "chunks": 1 });
        StoredObject::parse(7, Value::to_string(&message).as_bytes())
    }

    #[test]
    fn the_name_of_an_object_is_text_and_its_chunks_are_its_own() {
        assert!(parse("views-7", "0192ab").is_ok());
        for (name, nuid) in [
            ("views", ">"),
            ("views", "*"),
            ("views", "a.b"),
            ("views", ""),
            ("\u{1b}[31m", "a"),
        ] {
            let error = parse(name, nuid).expect_err(nuid);
            assert!(!error.contains('\u{1b}'), "{error}");
        }
        let error = parse(&"x".repeat(1 << 20), "a").expect_err("too long");
        assert!(error.len() < 300, "{}", error.len());
    }
}
