//! [`Log::ids`]: the ids of all messages on a subject.

use std::time::Duration;

use async_nats::{HeaderMap, Message, StatusCode};
use futures::StreamExt;
use serde_json::json;
use tokio::time::timeout;
use uuid::Uuid;

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

/// The ids of one batch of messages on a subject.
#[derive(Debug, Default)]
struct IdPage {
    ids: Vec<Uuid>,
    /// The sequence of its last message.
    last_seq: u64,
    /// More messages follow.
    has_more: bool,
}

impl Log {
    /// The ids of the messages on a subject, in the log's order. Ids that are not UUIDs are left out.
    ///
    /// The server sends the whole messages: it has no other request that a feeder may use.
    ///
    /// # Errors
    /// Returns [`LogError::TooMany`] if the subject has more than `max` ids, [`LogError::Denied`] if this user may not
    /// read the stream, and [`LogError::Unreachable`] or [`LogError::JetStream`] if a page fails for a minute.
    pub async fn ids(
        &self,
        stream: StreamName,
        subject: &str,
        max: usize,
    ) -> Result<Vec<Uuid>, LogError> {
        let (mut ids, mut from_seq) = (Vec::new(), 1);
        loop {
            let page = self.id_page_with_retries(stream, subject, from_seq).await?;
            ids.extend(page.ids);
            if ids.len() > max {
                return Err(LogError::TooMany {
                    subject: subject.to_owned(),
                    max,
                });
            }
            if !page.has_more {
                return Ok(ids);
            }
            from_seq = page.last_seq + 1;
        }
    }

    async fn id_page_with_retries(
        &self,
        stream: StreamName,
        subject: &str,
        from_seq: u64,
    ) -> Result<IdPage, LogError> {
        let mut attempts = Attempts::new(BACKOFF, RETRY_FOR);
        loop {
            match self.id_page(stream, subject, from_seq).await {
                Err(error) if !error.is_permanent() && attempts.wait().await => {
                    tracing::debug!(%error, subject, from_seq, "retrying a page of ids");
                }
                outcome => return outcome,
            }
        }
    }

    async fn id_page(
        &self,
        stream: StreamName,
        subject: &str,
        from_seq: u64,
    ) -> Result<IdPage, LogError> {
        let api = format!("$JS.API.DIRECT.GET.{}", stream.name);
        let body = json!({
            "seq": from_seq, "batch": PAGE_MESSAGES, "max_bytes": PAGE_BYTES_MAX, "next_by_subj": subject,
        });
        let inbox = self.client.new_inbox();
        let responses = self.client.subscribe(inbox.clone()).await;
        let mut responses = responses.map_err(|error| self.jetstream_error(&error))?;
        let body = body.to_string().into();
        let sent = self.client.publish_with_reply(api.clone(), inbox, body);
        sent.await.map_err(|error| self.jetstream_error(&error))?;
        let mut page = IdPage::default();
        loop {
            let response = tokio::select! {
                response = timeout(REQUEST_TIMEOUT, responses.next()) => response.ok().flatten(),
                denied = self.permissions.denied(|subject| subject == api) => return Err(denied),
            };
            let response = response.ok_or_else(|| {
                self.jetstream_error(&std::io::Error::from(std::io::ErrorKind::TimedOut))
            })?;
            if page.add(&response)? {
                return Ok(page);
            }
        }
    }
}

impl IdPage {
    /// Adds a response. Returns true for the last one of the batch.
    fn add(&mut self, response: &Message) -> Result<bool, LogError> {
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
                self.ids.extend(text("Nats-Msg-Id").parse::<Uuid>());
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
