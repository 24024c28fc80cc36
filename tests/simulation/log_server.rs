//! [`Server`]: a connection to nats-server, or to the model of one. In unit tests, it takes the place of the module
//! `server` of the log.

#[path = "../../src/log/server.rs"]
mod nats;

use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::context::{PublishError, RequestError};
use async_nats::jetstream::message::OutboundMessage;
use async_nats::jetstream::response::Response;
use async_nats::{Client, HeaderMap};
use futures::stream::BoxStream;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::task::AbortOnDropHandle;

pub(super) use self::nats::Ack;
pub(crate) use self::nats::{ConsumerDelivery, Deliveries, ServerError};
use crate::log::message::LogMessage;
use crate::simulation::server::Connection;

#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "there are few")]
pub(super) enum ServerOrModel {
    Nats(nats::Server),
    Simulated(Connection),
}

pub(super) use ServerOrModel as Server;

impl Server {
    pub(super) fn new(client: Client, jetstream: Context, leaving: AbortOnDropHandle<()>) -> Self {
        Self::Nats(nats::Server::new(client, jetstream, leaving))
    }

    pub(super) fn client(&self) -> &Client {
        self.nats().client()
    }

    pub(super) fn jetstream(&self) -> &Context {
        self.nats().jetstream()
    }

    fn nats(&self) -> &nats::Server {
        match self {
            Self::Nats(server) => server,
            Self::Simulated(_) => panic!("the model of nats-server does not have this"),
        }
    }

    pub(super) fn set_timeout(&mut self, timeout: Duration) {
        if let Self::Nats(server) = self {
            server.set_timeout(timeout);
        }
    }

    pub(super) fn version(&self) -> String {
        match self {
            Self::Nats(server) => server.version(),
            Self::Simulated(connection) => connection.version(),
        }
    }

    pub(super) fn is_clustered(&self) -> bool {
        match self {
            Self::Nats(server) => server.is_clustered(),
            Self::Simulated(connection) => connection.is_clustered(),
        }
    }

    pub(super) async fn request<T: DeserializeOwned>(
        &self,
        api: String,
        query: &(impl Serialize + Sync),
    ) -> Result<Response<T>, RequestError> {
        match self {
            Self::Nats(server) => server.request(api, query).await,
            Self::Simulated(connection) => connection.request(api, query).await,
        }
    }

    pub(super) async fn publish(
        &self,
        messages: Vec<OutboundMessage>,
    ) -> Result<Ack, PublishError> {
        match self {
            Self::Nats(server) => server.publish(messages).await,
            Self::Simulated(connection) => Ok(connection.publish(messages)),
        }
    }

    pub(super) async fn publish_core(
        &self,
        subject: String,
        headers: HeaderMap,
        payload: Vec<u8>,
    ) -> Result<(), ServerError> {
        match self {
            Self::Nats(server) => server.publish_core(subject, headers, payload).await,
            Self::Simulated(connection) => {
                connection.publish_core(subject, &headers);
                Ok(())
            }
        }
    }

    pub(super) async fn subscribe(
        &self,
        subject: String,
    ) -> Result<BoxStream<'static, String>, ServerError> {
        match self {
            Self::Nats(server) => server.subscribe(subject).await,
            Self::Simulated(connection) => Ok(connection.subscribe()),
        }
    }

    pub(super) async fn direct_get(
        &self,
        stream: &'static str,
        seq: u64,
        subject: Option<&str>,
    ) -> Result<Option<LogMessage>, ServerError> {
        match self {
            Self::Nats(server) => server.direct_get(stream, seq, subject).await,
            Self::Simulated(connection) => connection.direct_get(stream, seq, subject).await,
        }
    }

    pub(super) async fn consume(
        &self,
        stream: &'static str,
        start: u64,
        subjects: Vec<String>,
    ) -> Result<(Deliveries, u64), ServerError> {
        match self {
            Self::Nats(server) => server.consume(stream, start, subjects).await,
            Self::Simulated(connection) => connection.consume(stream, start, subjects).await,
        }
    }

    pub(super) async fn connect_elsewhere(&self) {
        match self {
            Self::Nats(server) => server.connect_elsewhere().await,
            Self::Simulated(connection) => connection.connect_elsewhere(),
        }
    }
}
