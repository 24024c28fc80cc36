//! [`Log::read_subject`] and [`Log::messages_on`]: the messages on a subject.

use std::time::Duration;

use async_nats::{Message, StatusCode};
use futures::StreamExt;
use serde_json::json;
use tokio::time::timeout;

use super::backoff::Attempts;
use super::connection::REQUEST_TIMEOUT;
use super::{Backoff, Log, LogError, LogMessage, LogResult, StreamName};

/// Messages requested at a time: about 500 KB.
const PAGE_MESSAGES: usize = 1_000;
/// The bytes requested at a time: the server ends a connection that has 64 MB to read.
const PAGE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// How long a page is retried while the server is away.
const RETRY_FOR: Duration = Duration::from_secs(60);
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));
/// The status that ends a batch.
const END_OF_BATCH: u16 = 204;

/// Messages that are read one by one where a batch of them cannot be read.
const READ_SINGLY: usize = 32;

/// The messages of a batch on a subject.
#[derive(Debug, Default)]
pub struct SubjectPage {
    /// The messages, each with its id, which may be empty.
    pub messages: Vec<(String, LogMessage)>,
    /// More messages follow.
    pub has_more: bool,
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
    ) -> LogResult<Vec<T>> {
        let mut all = Vec::new();
        let mut from_seq = 1;
        let mut attempts = Attempts::new(BACKOFF, RETRY_FOR);
        loop {
            let page = match self.page(stream, subject, from_seq, PAGE_MESSAGES).await {
                Err(error) if !error.is_permanent() && attempts.wait().await => {
                    tracing::debug!(%error, subject, from_seq, "retrying a page of messages");
                    continue;
                }
                page => page?,
            };
            attempts = Attempts::new(BACKOFF, RETRY_FOR);
            let messages = page.messages.iter();
            all.extend(messages.filter_map(|(id, message)| read(id, &message.payload)));
            if all.len() > max {
                return Err(LogError::TooMany(max, subject.to_owned()));
            }
            match page.messages.last() {
                Some((_, last)) if page.has_more => from_seq = last.seq + 1,
                _ => return Ok(all),
            }
        }
    }

    /// Reads the next messages on a subject, which may have wildcards, from a sequence on: as many as a batch has, at
    /// most `max`. A message that closes the connection in its NATS form is read as [`Log::message_at`] does.
    ///
    /// # Errors
    /// Returns [`LogError::Denied`] if this user may not read the stream, and [`LogError::Unreachable`] or
    /// [`LogError::JetStream`] if the request fails.
    pub async fn messages_on(
        &self,
        stream: StreamName,
        subject: &str,
        mut from_seq: u64,
        max: usize,
    ) -> LogResult<SubjectPage> {
        let max = max.min(PAGE_MESSAGES);
        match self.page(stream, subject, from_seq, max).await {
            Err(error) if !error.is_permanent() => {
                tracing::debug!(%error, subject, from_seq, "reading messages one by one");
            }
            page => return page,
        }
        let mut page = SubjectPage::default();
        while let Some(message) = self.next_message(stream, from_seq, subject).await? {
            from_seq = message.seq + 1;
            page.messages.push((String::new(), message));
            if page.messages.len() == max.min(READ_SINGLY) {
                page.has_more = true;
                break;
            }
        }
        Ok(page)
    }

    async fn page(
        &self,
        stream: StreamName,
        subject: &str,
        from_seq: u64,
        max: usize,
    ) -> LogResult<SubjectPage> {
        let api = format!("$JS.API.DIRECT.GET.{}", stream.name);
        let body = json!({
            "seq": from_seq, "batch": max, "max_bytes": PAGE_BYTES_MAX, "next_by_subj": subject,
        });
        let requesting = self.request_many(api.clone(), body.to_string().into());
        let mut responses = requesting.await?;
        let mut page = SubjectPage::default();
        loop {
            let response = tokio::select! {
                response = timeout(REQUEST_TIMEOUT, responses.next()) => response.ok().flatten(),
                denied = self.permissions.denied(|subject| subject == api) => return Err(denied),
            };
            let response = response.ok_or_else(|| self.timed_out())?;
            if page.add(response)? {
                return Ok(page);
            }
        }
    }
}

impl SubjectPage {
    /// Adds a response. Returns true for the last one of the batch.
    fn add(&mut self, response: Message) -> LogResult<bool> {
        let headers = response.headers.unwrap_or_default();
        let text = |name: &str| headers.get(name).map_or("", |value| value.as_str());
        let number = |name: &str| text(name).parse().unwrap_or(0);
        let last_seq = self.messages.last().map_or(0, |(_, last)| last.seq);
        match response.status {
            None => {
                // Each response names the one before. A gap is a response that was lost with a connection.
                if number("Nats-Last-Sequence") != last_seq {
                    let reason = format!("the response after sequence {last_seq} was lost");
                    return Err(LogError::JetStream(reason));
                }
                let time: jiff::Timestamp = text("Nats-Time-Stamp").parse().unwrap_or_default();
                let message = LogMessage {
                    seq: number("Nats-Sequence"),
                    recorded_at: time.into(),
                    subject: text("Nats-Subject").into(),
                    payload: response.payload,
                };
                self.messages
                    .push((text("Nats-Msg-Id").to_owned(), message));
                Ok(false)
            }
            Some(StatusCode::NOT_FOUND) => Ok(true),
            Some(status)
                if status.as_u16() == END_OF_BATCH && number("Nats-Last-Sequence") == last_seq =>
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
