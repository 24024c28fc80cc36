//! `railbird keys`.

use clap::Subcommand;

use super::report::{line, result};
use super::{Nats, Outcome};
use crate::keys::ApiKey;
use crate::log::ACCOUNTS;

/// What is done with keys.
#[derive(Debug, Subcommand)]
pub(super) enum Keys {
    /// Make a key and print it, once. Only its hash is kept.
    #[command(after_help = "Example:\n  railbird keys issue --plan basic")]
    Issue {
        /// The plan that the key is on.
        #[arg(long, default_value = "default")]
        plan: String,
        /// The environment that stands in the key.
        #[arg(long, default_value = "live", value_parser = parse_env)]
        env: String,
        #[command(flatten)]
        nats: Nats,
    },
}

fn parse_env(text: &str) -> Result<String, String> {
    let plain = !text.is_empty() && text.len() <= 8 && text.bytes().all(|b| b.is_ascii_lowercase());
    if plain {
        Ok(text.to_owned())
    } else {
        Err("an environment is 1 to 8 of a-z".to_owned())
    }
}

impl Keys {
    pub(super) async fn run(self) -> anyhow::Result<Outcome> {
        let Self::Issue { plan, env, nats } = self;
        let log = nats.connect().await?;
        log.ensure(ACCOUNTS).await?;
        let key = ApiKey::generate(&env)?;
        log.append(key.issued(&plan, jiff::Timestamp::now().into()))
            .await?;
        line(format_args!(
            "key {} is valid; this is the only time that it is shown:",
            key.key_id()
        ));
        result(format_args!("{}", key.reveal()));
        Ok(Outcome::Done)
    }
}
