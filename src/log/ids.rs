//! What the log has on a subject, by id.

use std::time::Duration;

use async_nats::{HeaderMap, Message, StatusCode};
use futures::StreamExt;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use super::{Log, LogError, REQUEST_TIMEOUT, StreamName, backoff};

/// Messages that are asked for at a time: some 500 KB.
const PAGE: u64 = 1_000;
/// How long a page is asked for while the server is away.
const RETRY_FOR: Duration = Duration::from_secs(60);
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// The end of a batch.
const END: u16 = 204;

/// A page of a subject.
#[derive(Debug, Default)]
struct Page {
    ids: Vec<Uuid>,
    /// The place of its last message.
    last: u64,
    /// There are more behind it.
    more: bool,
}

impl Log {
    /// The ids of the messages on a subject, as far as they are UUIDs, in the log's order. The server reads the messages
    /// and sends them whole: it knows no other way that a feeder may use.
    ///
    /// # Errors
    /// The subject has more than `max` messages, JetStream does not answer for a minute, or this user may not ask.
    pub async fn ids(
        &self,
        stream: StreamName,
        subject: &str,
        max: usize,
    ) -> Result<Vec<Uuid>, LogError> {
        let (mut ids, mut from) = (Vec::new(), 1);
        loop {
            let page = self.page_insisting(stream, subject, from).await?;
            ids.extend(page.ids);
            if ids.len() > max {
                return Err(LogError::TooMany {
                    subject: subject.to_owned(),
                    max,
                });
            }
            if !page.more {
                return Ok(ids);
            }
            from = page.last + 1;
        }
    }

    async fn page_insisting(
        &self,
        stream: StreamName,
        subject: &str,
        from: u64,
    ) -> Result<Page, LogError> {
        let until = Instant::now() + RETRY_FOR;
        let mut attempt = 0;
        loop {
            match self.page(stream, subject, from).await {
                Err(denied @ LogError::Denied { .. }) => return Err(denied),
                Err(error) if Instant::now() >= until => return Err(error),
                Err(error) => tracing::debug!(%error, subject, "asking again what the log has"),
                page => return page,
            }
            sleep(backoff(RETRY_MIN, attempt, RETRY_MAX)).await;
            attempt += 1;
        }
    }

    async fn page(&self, stream: StreamName, subject: &str, from: u64) -> Result<Page, LogError> {
        let api = format!("$JS.API.DIRECT.GET.{}", stream.name);
        let question = json!({ "seq": from, "batch": PAGE, "next_by_subj": subject });
        let inbox = self.client.new_inbox();
        let asked = async {
            let answers = self.client.subscribe(inbox.clone()).await;
            let answers = answers.map_err(|error| self.jetstream_error(&error))?;
            let question = question.to_string().into();
            let sent = self.client.publish_with_reply(api.clone(), inbox, question);
            sent.await.map_err(|error| self.jetstream_error(&error))?;
            Ok(answers)
        };
        let mut answers = asked.await?;
        let mut page = Page::default();
        loop {
            let answer = tokio::select! {
                answer = timeout(REQUEST_TIMEOUT, answers.next()) => answer.ok().flatten(),
                denied = self.denials.of_subject(|subject| subject == api) => return Err(denied),
            };
            let answer = answer.ok_or_else(|| self.no_answer())?;
            if page.take(&answer)? {
                return Ok(page);
            }
        }
    }

    fn no_answer(&self) -> LogError {
        self.jetstream_error(&std::io::Error::from(std::io::ErrorKind::TimedOut))
    }
}

impl Page {
    /// Takes an answer in. True at the end.
    fn take(&mut self, answer: &Message) -> Result<bool, LogError> {
        let none = HeaderMap::new();
        let headers = answer.headers.as_ref().unwrap_or(&none);
        let text = |name: &str| headers.get(name).map_or("", |value| value.as_str());
        let number = |name: &str| text(name).parse().unwrap_or(0);
        match answer.status {
            None => {
                // The server says what it sent before: a gap is what was lost with a connection.
                if number("Nats-Last-Sequence") != self.last {
                    return Err(LogError::JetStream("an answer was lost".to_owned()));
                }
                self.last = number("Nats-Sequence");
                self.ids.extend(text("Nats-Msg-Id").parse::<Uuid>());
                Ok(false)
            }
            Some(StatusCode::NOT_FOUND) => Ok(true),
            Some(status) if status.as_u16() == END && number("Nats-Last-Sequence") == self.last => {
                self.more = number("Nats-Num-Pending") > 0;
                Ok(true)
            }
            Some(status) => {
                let description = answer.description.as_deref().unwrap_or_default();
                Err(LogError::JetStream(format!("{status} {description}")))
            }
        }
    }
}
