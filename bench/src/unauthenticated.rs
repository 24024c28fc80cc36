//! Sends requests with keys that were never issued, each from a network address of its own.

use std::net::{Ipv6Addr, SocketAddr};

use anyhow::bail;
use railbird::accounts::ApiKey;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::http_load::Connection;

const CONNECTIONS: u32 = 32;

/// The number of requests, and their destination.
#[derive(Debug, clap::Args)]
pub(crate) struct Unauthenticated {
    #[arg(long)]
    http: SocketAddr,
    #[arg(long)]
    count: u32,
}

impl Unauthenticated {
    pub(crate) async fn run(self) -> anyhow::Result<Value> {
        let mut connections = JoinSet::new();
        for n in 0..CONNECTIONS {
            let mut connection = Connection::open(self.http).await?;
            connections.spawn(async move {
                let mut unauthorized = 0_u32;
                let mut refused = 0_u32;
                for site in (n..self.count).step_by(CONNECTIONS as usize) {
                    match connection.request(&request(site)?).await? {
                        401 => unauthorized += 1,
                        429 => refused += 1,
                        status => bail!("a key that was never issued got {status}"),
                    }
                }
                Ok((unauthorized, refused))
            });
        }
        let mut unauthorized = 0;
        let mut refused = 0;
        while let Some(ended) = connections.join_next().await {
            let ended = ended??;
            unauthorized += ended.0;
            refused += ended.1;
        }
        Ok(json!({ "unauthorized": unauthorized, "refused": refused }))
    }
}

/// A request from the `site`th IPv6 /64.
fn request(site: u32) -> anyhow::Result<String> {
    let key = ApiKey::generate("bench")?;
    let address = Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(site) << 64);
    Ok(format!(
        "GET /api/v1/meetings HTTP/1.1\r\nHost: bench\r\nX-API-Key: {}\r\nX-Forwarded-For: {address}\r\n\r\n",
        key.reveal()
    ))
}
