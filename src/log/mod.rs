//! The log: NATS JetStream. The only module that names async_nats.
//!
//! The stream [`RACING`] holds the facts about racing, [`ACCOUNTS`] the API keys and subscriptions, and [`ADDRESSES`]
//! what decrypts the addresses of subscribers. [`KEY_USE`] is no log, but the latest use of each key, [`LEASES`] has
//! the roles that one replica at a time has, and [`SNAPSHOTS`] copies of the views. [`Appender`] publishes and awaits
//! every acknowledgement; [`Reader`] delivers every message once and in order, through restarts of the server.

mod address;
mod alive;
mod append;
mod backoff;
mod connect_failures;
mod connection;
mod continuity;
mod durability;
mod error;
mod freshness;
mod hole;
mod lease;
mod message;
mod objects;
mod overview;
mod position;
mod publish_permissions;
mod reader;
mod replica_addresses;
mod replicas;
pub mod runtime;
#[cfg_attr(test, path = "../../tests/simulation/log_server.rs")]
mod server;
mod settings;
mod single_reads;
mod snapshot;
mod stored;
mod stream;
mod subject_messages;

pub use address::NatsConfig;
pub use alive::ALIVE;
pub use append::{Appended, Appender, Outgoing};
pub use backoff::Backoff;
pub use connection::{ConnectionStatus, Log};
pub use continuity::{Continuity, Divergence, Resolution};
pub use durability::{Durability, JetStreamServer, NatsServers};
pub use error::LogError;
use error::LogResult;
pub use freshness::{Freshness, Head};
pub use lease::{Lease, LeaseTerm, Role};
pub use message::LogMessage;
pub use objects::{ObjectWriter, StoredObject, object_digest};
pub use overview::{ConsumerOverview, StreamFollower, StreamOverview};
pub use position::{LogReplaced, ReadPosition};
pub use reader::{Batch, Reader};
pub use replicas::Replicas;
pub use settings::Drift;
pub use snapshot::{Restoring, Snapshot, SnapshotHead};
pub use stream::{
    ACCOUNTS, ADDRESSES, KEY_USE, KEY_USE_AGE_MAX, LEASES, LogState, MirrorState, RACING,
    SNAPSHOTS, StreamName,
};

/// What the model of nats-server is made of.
#[cfg(test)]
pub(crate) mod simulated {
    pub(crate) use super::server::{ConsumerDelivery, Deliveries, ServerError};
    use super::{Replicas, StreamName};

    /// The settings of a stream, as its creation requests them.
    pub(crate) fn stream_config(stream: StreamName) -> serde_json::Value {
        serde_json::to_value(stream.config(Replicas::default())).expect("settings are JSON")
    }
}
