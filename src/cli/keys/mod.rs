//! `railbird keys`.

mod list;
mod when;

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use events::{Moment, Text};
use jiff::{SignedDuration, Timestamp};
use tokio::time::timeout;

pub(super) use self::list::time;
pub(super) use self::when::parse_duration;
use super::report::{line, result};
use super::{Nats, PlansFlag, WrongUse};
use crate::accounts::{
    AccountCommands, Actor, ApiKey, CommandError, Email, Holder, Key, KeyId, KeyIssued,
    SubscriptionId, UsesByProcess, read_uses,
};
use crate::log::Log;

/// The time to read the use of all keys: the stream is small.
const USES_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(super) struct Keys {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    operator: Operator,
    #[command(flatten)]
    plans: PlansFlag,
}

/// Someone who appends to the stream `ACCOUNTS`.
#[derive(Debug, Args)]
pub(super) struct Operator {
    #[command(flatten)]
    nats: Nats,
    /// Your name, for the audit trail: each event says who caused it.
    // A command may have an argument `name` of its own.
    #[arg(id = "operator", long = "as", env = "USER", value_name = "NAME", default_value = "unknown", value_parser = Text::parse, global = true)]
    name: Text,
}

impl Operator {
    /// Reads the stream to its end.
    pub(super) async fn connect(self) -> anyhow::Result<(Log, AccountCommands)> {
        let actor = Actor::Operator { name: self.name };
        let log = self.nats.connect().await?;
        let commands = AccountCommands::at_end(log.clone(), actor).await?;
        Ok((log, commands))
    }
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a key and print it once. Only its hash is stored.
    Issue {
        /// The plan of the key, one of the file of plans.
        #[arg(long, value_parser = Text::parse)]
        plan: Text,
        /// What the key is for, shown in the list of keys.
        #[arg(long, default_value = "", hide_default_value = true, value_parser = Text::parse)]
        name: Text,
        /// The expiry: a date (its last day, UTC), a time, or a duration such as 30d. Without it, the key does not
        /// expire.
        #[arg(long, value_name = "WHEN", value_parser = when::parse_end)]
        expires: Option<Moment>,
        /// The environment in the key.
        #[arg(long, default_value = "live", value_parser = parse_env)]
        env: String,
    },
    /// List keys with their state, plan, expiry and last use.
    List {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// List subscriptions with their state, plan, mail and number of valid keys.
    Subscriptions {
        /// Show the e-mail addresses.
        #[arg(long)]
        emails: bool,
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Replace a key by a new one, and print it once. Both are valid during the overlap.
    Rotate {
        /// The id of the key, or the key.
        key_id: String,
        /// How long the old key stays valid; 0s ends it at once.
        #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = parse_duration)]
        overlap: SignedDuration,
        /// The environment in the key.
        #[arg(long, default_value = "live", value_parser = parse_env)]
        env: String,
    },
    /// Revoke a key for ever. Services reject it within seconds, and close its WebSockets.
    Revoke {
        /// The id of the key, or the key.
        key_id: String,
        /// The reason, shown in the list of keys.
        #[arg(long, default_value = "", hide_default_value = true, value_parser = Text::parse)]
        reason: Text,
    },
    /// Put the holder of a key on another plan, with all keys that share its limits.
    Plan {
        /// The id of the key, or the key.
        key_id: String,
        /// The plan, one of the file of plans.
        #[arg(value_parser = Text::parse)]
        plan: Text,
    },
    /// Erase the address of a subscriber, and end the subscription with all its keys. This cannot be undone.
    Forget {
        /// The e-mail address, in any spelling.
        #[arg(value_name = "ADDRESS", value_parser = Email::parse)]
        email: Email,
    },
    /// Approve a subscription that is waiting for it.
    Approve {
        /// The id of the subscription, from `railbird keys subscriptions`.
        #[arg(value_name = "SUBSCRIPTION", value_parser = SubscriptionId::parse)]
        subscription_id: SubscriptionId,
    },
}

fn parse_env(text: &str) -> Result<String, &'static str> {
    let is_env = (1..=8).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase());
    let env = is_env.then(|| text.to_owned());
    env.ok_or("an environment is 1 to 8 of a-z")
}

impl Keys {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        self.action.check_plan(&self.plans)?;
        let (log, commands) = self.operator.connect().await?;
        self.action.run(&log, &commands).await
    }
}

impl Action {
    /// Checks that the plan of the action is configured. Only actions with a plan read the file: a mistake in it never
    /// delays a revocation.
    fn check_plan(&self, flag: &PlansFlag) -> anyhow::Result<()> {
        let (Self::Issue { plan, .. } | Self::Plan { plan, .. }) = self else {
            return Ok(());
        };
        let plans = flag.read()?;
        let name = plan.as_str();
        if plans.get(name).is_some() {
            return Ok(());
        }
        let names = plans.names();
        bail!(WrongUse(format!(
            "there is no plan {name:?}; there are {names}; --plans names the file of plans"
        )))
    }

    async fn run(self, log: &Log, commands: &AccountCommands) -> anyhow::Result<()> {
        match self {
            Self::List { json } => {
                let uses = uses(log).await;
                list::print_keys(&commands.ledger.borrow(), &uses, json);
            }
            Self::Subscriptions { emails, json } => {
                list::print_subscriptions(commands, emails, json).await?;
            }
            Self::Issue {
                plan,
                name,
                expires,
                env,
            } => {
                let key = ApiKey::generate(&env)?;
                let issued = KeyIssued {
                    name,
                    ..KeyIssued::new(&key, plan, expires)
                };
                commands.issue(issued).await?;
                let until = expires.map(|end| format!(" until {}", time(end)));
                line(format_args!(
                    "key {} is valid{}; it is shown only this once:",
                    key.key_id,
                    until.unwrap_or_default()
                ));
                result(key.reveal());
            }
            Self::Rotate {
                key_id,
                overlap,
                env,
            } => {
                let (key_id, old) = find(commands, &key_id)?;
                let end = Timestamp::now().checked_add(overlap);
                let valid_until = end.map_err(|_| anyhow!("the overlap is too long"))?.into();
                let key = ApiKey::generate(&env)?;
                commands.rotate(key_id, &key, valid_until, None).await?;
                let old_end = old.expires_at.into_iter().fold(valid_until, Moment::min);
                line(format_args!(
                    "key {} replaces {key_id}, which is valid until {}; it is shown only this once:",
                    key.key_id,
                    time(old_end),
                ));
                result(key.reveal());
            }
            Self::Revoke { key_id, reason } => revoke(commands, &key_id, reason).await?,
            Self::Plan { key_id, plan } => {
                let (key_id, _) = find(commands, &key_id)?;
                commands.change_plan(key_id, plan.clone()).await?;
                line(format_args!("key {key_id} is on plan {plan}"));
            }
            Self::Forget { email } => {
                let subscription_id = commands.book.id_of(&email).await?;
                commands.forget(subscription_id.clone()).await?;
                line(format_args!(
                    "the address of subscription {subscription_id} is erased"
                ));
            }
            Self::Approve { subscription_id } => {
                commands.approve(subscription_id.clone()).await?;
                line(format_args!("subscription {subscription_id} is approved"));
            }
        }
        Ok(())
    }
}

async fn revoke(commands: &AccountCommands, key: &str, reason: Text) -> anyhow::Result<()> {
    let (key_id, key) = find(commands, key)?;
    commands.revoke(key_id, reason).await?;
    line(format_args!("key {key_id} is revoked"));
    if let Some(rotation) = key.rotated {
        let new = rotation.to;
        line(format_args!("key {new}, which replaced it, is not"));
    }
    // The ledger is that before the revocation.
    let ledger = commands.ledger.borrow();
    let now = Timestamp::now().into();
    let others = ledger.keys_of(&key.holder);
    let mut others = others.filter(|(id, key)| *id != key_id && key.is_valid(now));
    if let Holder::Subscription(id) = &key.holder
        && others.next().is_none()
    {
        line(format_args!(
            "it was the last valid key of subscription {id}, which needs an approval for another one: railbird keys \
             approve {id}"
        ));
    }
    Ok(())
}

/// The use of keys. Without it the keys are listed all the same.
async fn uses(log: &Log) -> UsesByProcess {
    let problem = match timeout(USES_TIMEOUT, read_uses(log)).await {
        Ok(Ok(uses)) => return uses,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("NATS has not sent it within {USES_TIMEOUT:?}"),
    };
    line(format_args!("the use of keys is not shown: {problem}"));
    UsesByProcess::default()
}

/// The key with an id. `text` may be a whole key, which no error repeats.
fn find(commands: &AccountCommands, text: &str) -> anyhow::Result<(KeyId, Key)> {
    let key_id = KeyId::parse(text).or_else(|| KeyId::of_key(text));
    let key_id =
        key_id.context("a key id is the 8 characters after rb_<env>_; see `railbird keys list`")?;
    let ledger = commands.ledger.borrow();
    let key = ledger.keys.get(&key_id);
    let key = key.ok_or(CommandError::UnknownKey(key_id))?;
    Ok((key_id, key.clone()))
}
