//! [`Server`]: the part of the client library that appending and following the log use.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_nats::client::traits::Publisher as CorePublisher;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::context::traits::Publisher;
use async_nats::jetstream::context::{PublishError, PublishErrorKind, RequestError};
use async_nats::jetstream::message::OutboundMessage;
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::DirectGetErrorKind;
use async_nats::jetstream::{self, Context};
use async_nats::{Client, HeaderMap};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::task::AbortOnDropHandle;

use crate::log::message::{LogMessage, moment};

/// How often the server sends a heartbeat on an idle pull; a consumer that misses two is dead.
///
/// A consumer is in the memory of one server. If that fails, no other one reports it, so this decides how long a reader
/// waits then.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// How long one pull request is open.
const PULL_EXPIRES: Duration = Duration::from_secs(30);
/// How long the server keeps a consumer without a pull request.
const INACTIVE_THRESHOLD: Duration = Duration::from_secs(30);
/// The messages of one pull request; the next one is sent when half of them have arrived. At the server they stand
/// before those of all other consumers, as it has one queue for a stream: with 5,000, a rebuild raised the p99 of live
/// odds to 42 ms, with 500 to 13 ms (`bench/run rebuild`).
const PULL_MESSAGES_MAX: usize = 500;
/// The bytes of one pull request. The next one is sent when half of them have arrived. The server ends a connection
/// that has 64 MB to read, and up to five readers share one. A message that is larger stalls the consumer, and is then
/// read without one.
const PULL_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A connection to nats-server.
#[derive(Debug, Clone)]
pub(in crate::log) struct Server {
    client: Client,
    jetstream: Context,
    /// Ends with the last clone: it has a client of its own.
    _leaving: Arc<AbortOnDropHandle<()>>,
}

/// The acknowledgement to come of a message.
pub(in crate::log) type Ack = BoxFuture<'static, Result<PublishAck, PublishError>>;

/// A message as a consumer delivers it.
pub(crate) struct ConsumerDelivery {
    pub(crate) message: LogMessage,
    /// Counts the deliveries of the consumer.
    pub(crate) number: u64,
    /// How many messages follow it.
    pub(crate) pending: u64,
}

/// The deliveries of a consumer, or the reason why it cannot be used any more.
pub(crate) type Deliveries =
    Pin<Box<dyn Stream<Item = Result<ConsumerDelivery, String>> + Send + Sync>>;

pub(crate) type ServerError = Box<dyn std::error::Error + Send + Sync>;

impl Server {
    pub(in crate::log) fn new(
        client: Client,
        jetstream: Context,
        leaving: AbortOnDropHandle<()>,
    ) -> Self {
        Self {
            client,
            jetstream,
            _leaving: Arc::new(leaving),
        }
    }

    /// The client library itself.
    pub(in crate::log) fn client(&self) -> &Client {
        &self.client
    }

    pub(in crate::log) fn jetstream(&self) -> &Context {
        &self.jetstream
    }

    /// Sets how long a message may take to be sent.
    pub(in crate::log) fn set_timeout(&mut self, timeout: Duration) {
        self.jetstream.set_timeout(timeout);
    }

    pub(in crate::log) fn version(&self) -> String {
        self.client.server_info().version
    }

    /// Whether the server is one of a cluster, as far as the connection has shown.
    pub(in crate::log) fn is_clustered(&self) -> bool {
        self.client.server_info().cluster.is_some()
    }

    /// Sends a request to the API of JetStream.
    pub(in crate::log) async fn request<T: DeserializeOwned>(
        &self,
        api: String,
        query: &(impl Serialize + Sync),
    ) -> Result<Response<T>, RequestError> {
        self.jetstream.request(api, query).await
    }

    /// Publishes a message, or those of a batch, of which the server acknowledges the last one.
    pub(in crate::log) async fn publish(
        &self,
        mut messages: Vec<OutboundMessage>,
    ) -> Result<Ack, PublishError> {
        let last = messages.pop().ok_or(PublishErrorKind::Other)?;
        for message in messages {
            let sent = CorePublisher::publish_message(&self.client, message.into()).await;
            sent.map_err(|error| PublishError::with_source(PublishErrorKind::Other, error))?;
        }
        let sent = Publisher::publish_message(&self.jetstream, last).await?;
        Ok(sent.into_future().boxed())
    }

    /// Publishes on core NATS.
    pub(in crate::log) async fn publish_core(
        &self,
        subject: String,
        headers: HeaderMap,
        payload: Vec<u8>,
    ) -> Result<(), ServerError> {
        let sent = (self.client).publish_with_headers(subject, headers, payload.into());
        Ok(sent.await?)
    }

    /// The subjects of the messages of core NATS on a subject, until the connection is closed.
    pub(in crate::log) async fn subscribe(
        &self,
        subject: String,
    ) -> Result<BoxStream<'static, String>, ServerError> {
        let messages = self.client.subscribe(subject).await?;
        Ok(messages.map(|message| message.subject.to_string()).boxed())
    }

    /// The message with a sequence, or the first one on a subject from there on, of any server that has it.
    pub(in crate::log) async fn direct_get(
        &self,
        stream: &'static str,
        seq: u64,
        subject: Option<&str>,
    ) -> Result<Option<LogMessage>, ServerError> {
        let stream = self.jetstream.get_stream_no_info(stream).await?;
        let got = match subject {
            None => stream.direct_get(seq).await,
            Some(subject) => stream.direct_get_next_for_subject(subject, Some(seq)).await,
        };
        match got {
            Ok(message) => Ok(Some(LogMessage {
                seq: message.sequence,
                recorded_at: moment(message.time.unix_timestamp_nanos()),
                subject: message.subject,
                payload: message.payload,
            })),
            Err(error) if error.kind() == DirectGetErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a consumer from a sequence on, of some subjects or of all if none is given. Returns also how many
    /// messages there are.
    pub(in crate::log) async fn consume(
        &self,
        stream: &'static str,
        start_sequence: u64,
        filter_subjects: Vec<String>,
    ) -> Result<(Deliveries, u64), ServerError> {
        let config = pull::Config {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence },
            filter_subjects,
            ack_policy: AckPolicy::None,
            inactive_threshold: INACTIVE_THRESHOLD,
            memory_storage: true,
            num_replicas: 1,
            ..pull::Config::default()
        };
        let creating = self.jetstream.create_consumer_on_stream(config, stream);
        let consumer = creating.await?;
        let pending = consumer.cached_info().num_pending;
        let arriving = consumer
            .stream()
            .max_messages_per_batch(PULL_MESSAGES_MAX)
            .max_bytes_per_batch(PULL_BYTES_MAX)
            .heartbeat(HEARTBEAT)
            .expires(PULL_EXPIRES)
            .messages()
            .await?;
        Ok((Box::pin(arriving.map(parse)), pending))
    }

    /// Gives the connection up for one to a server of the cluster that is chosen by chance.
    pub(in crate::log) async fn connect_elsewhere(&self) {
        // An error means that the client has ended.
        let _ = self.client.force_reconnect().await;
    }
}

fn parse(
    arrived: Result<jetstream::Message, pull::MessagesError>,
) -> Result<ConsumerDelivery, String> {
    let message = arrived.map_err(|error| error.to_string())?;
    let info = message.info().map_err(|error| error.to_string())?;
    let (number, pending, seq) = (info.consumer_sequence, info.pending, info.stream_sequence);
    let recorded_at = moment(info.published.unix_timestamp_nanos());
    let message = message.message;
    Ok(ConsumerDelivery {
        message: LogMessage {
            seq,
            recorded_at,
            subject: message.subject,
            payload: message.payload,
        },
        number,
        pending,
    })
}
