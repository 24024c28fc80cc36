//! [`Log::read_subject`]: all messages on a subject.

use std::time::Duration;

use async_nats::{HeaderMap, Message, StatusCode};
use futures::StreamExt;
use serde_json::json;
use tokio::time::timeout;

use super::backoff::{Attempts, Backoff};
use super::connection::{Log, REQUEST_TIMEOUT};
use super::error::LogError;
use super::stream::StreamName;

/// Messages requested at a time: about 500 KB.
const PAGE_MESSAGES: u64 = 1_000;
/// The bytes requested at a time: the server ends a connection that has 64 MB to read.
const PAGE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// How long a page is retried while the server is away.
const RETRY_FOR: Duration = Duration::from_secs(60);
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));
/// The status that ends a batch.
const END_OF_BATCH: u16 = 204;

/// What was read of one batch of messages on a subject.
struct SubjectPage<T> {
    read: Vec<T>,
    /// The sequence of its last message.
    last_seq: u64,
    /// More messages follow.
    has_more: bool,
}

impl Log {
    /// Reads the messages on a subject, which may have wildcards, in the log's order. `read` gets the id, which may be
    /// empty, and the payload, and returns what is kept.
    ///
    /// # Errors
    /// Returns [`LogError::TooMany`] if more than `max` are kept, [`LogError::Denied`] if this user may not read the
    /// stream, and [`LogError::Unreachable`] or [`LogError::JetStream`] if a page fails for a minute.
    pub async fn read_subject<T>(
        &self,
        stream: StreamName,
        subject: &str,
        max: usize,
        read: impl Fn(&str, &[u8]) -> Option<T>,
    ) -> Result<Vec<T>, LogError> {
        let mut all = Vec::new();
        let mut from_seq = 1;
        let mut attempts = Attempts::new(BACKOFF, RETRY_FOR);
        loop {
            let page = match self.page(stream, subject, from_seq, &read).await {
                Err(error) if !error.is_permanent() && attempts.wait().await => {
                    tracing::debug!(%error, subject, from_seq, "retrying a page of messages");
                    continue;
                }
                page => page?,
            };
            attempts = Attempts::new(BACKOFF, RETRY_FOR);
            all.extend(page.read);
            if all.len() > max {
                return Err(LogError::TooMany {
                    subject: subject.to_owned(),
                    max,
                });
            }
            if !page.has_more {
                return Ok(all);
            }
            from_seq = page.last_seq + 1;
        }
    }

    async fn page<T>(
        &self,
        stream: StreamName,
        subject: &str,
        from_seq: u64,
        read: impl Fn(&str, &[u8]) -> Option<T>,
    ) -> Result<SubjectPage<T>, LogError> {
        let api = format!("$JS.API.DIRECT.GET.{}", stream.name);
        let body = json!({
            "seq": from_seq, "batch": PAGE_MESSAGES, "max_bytes": PAGE_BYTES_MAX, "next_by_subj": subject,
        });
        let requesting = self.request_many(api.clone(), body.to_string().into());
        let mut responses = requesting.await?;
        let mut page = SubjectPage {
            read: Vec::new(),
            last_seq: 0,
            has_more: false,
        };
        loop {
            let response = tokio::select! {
                response = timeout(REQUEST_TIMEOUT, responses.next()) => response.ok().flatten(),
                denied = self.permissions.denied(|subject| subject == api) => return Err(denied),
            };
            let response = response.ok_or_else(|| {
                self.jetstream_error(&std::io::Error::from(std::io::ErrorKind::TimedOut))
            })?;
            if page.add(&response, &read)? {
                return Ok(page);
            }
        }
    }
}

impl<T> SubjectPage<T> {
    /// Adds a response. Returns true for the last one of the batch.
    fn add(
        &mut self,
        response: &Message,
        read: impl Fn(&str, &[u8]) -> Option<T>,
    ) -> Result<bool, LogError> {
        let no_headers = HeaderMap::new();
        let headers = response.headers.as_ref().unwrap_or(&no_headers);
        let text = |name: &str| headers.get(name).map_or("", |value| value.as_str());
        let number = |name: &str| text(name).parse().unwrap_or(0);
        match response.status {
            None => {
                // Each response names the one before. A gap is a response that was lost with a connection.
                if number("Nats-Last-Sequence") != self.last_seq {
                    return Err(LogError::JetStream(format!(
                        "the response after sequence {} was lost",
                        self.last_seq
                    )));
                }
                self.last_seq = number("Nats-Sequence");
                self.read
                    .extend(read(text("Nats-Msg-Id"), &response.payload));
                Ok(false)
            }
            Some(StatusCode::NOT_FOUND) => Ok(true),
            Some(status)
                if status.as_u16() == END_OF_BATCH
                    && number("Nats-Last-Sequence") == self.last_seq =>
            {
                self.has_more = number("Nats-Num-Pending") > 0;
                Ok(true)
            }
            Some(status) => {
                let description = response.description.as_deref().unwrap_or_default();
                Err(LogError::JetStream(format!("{status} {description}")))
            }
        }
    }
}
