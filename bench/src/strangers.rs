//! Keys that were never issued, each from a network address of its own.

use std::net::{Ipv6Addr, SocketAddr};

use anyhow::bail;
use railbird::accounts::ApiKey;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::asking::Connection;

const CONNECTIONS: u32 = 32;

/// How many ask, and where.
#[derive(Debug, clap::Args)]
pub(crate) struct Strangers {
    #[arg(long)]
    http: SocketAddr,
    #[arg(long)]
    count: u32,
}

impl Strangers {
    pub(crate) async fn run(self) -> anyhow::Result<Value> {
        let mut asking = JoinSet::new();
        for n in 0..CONNECTIONS {
            let mut connection = Connection::open(self.http).await?;
            asking.spawn(async move {
                let (mut unauthorized, mut refused) = (0_u32, 0_u32);
                for who in (n..self.count).step_by(CONNECTIONS as usize) {
                    match connection.ask(&request(who)?).await? {
                        401 => unauthorized += 1,
                        429 => refused += 1,
                        status => bail!("a stranger got {status}"),
                    }
                }
                Ok((unauthorized, refused))
            });
        }
        let (mut unauthorized, mut refused) = (0, 0);
        while let Some(told) = asking.join_next().await {
            let told = told??;
            unauthorized += told.0;
            refused += told.1;
        }
        Ok(json!({ "unauthorized": unauthorized, "refused": refused }))
    }
}

fn request(who: u32) -> anyhow::Result<String> {
    let key = ApiKey::generate("bench")?;
    let address = Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(who) << 64);
    Ok(format!(
        "GET /api/v1/meetings HTTP/1.1\r\nHost: bench\r\nX-API-Key: {}\r\nX-Forwarded-For: {address}\r\n\r\n",
        key.reveal()
    ))
}
