//! `railbird keys`.

mod list;
mod when;

use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use events::{Moment, Text};
use jiff::{SignedDuration, Timestamp};
use tokio::time::timeout;

use self::list::{List, Subscriptions};
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
    nats: Nats,
    #[command(flatten)]
    plans: PlansFlag,
    /// Your name, for the audit trail: each event says who caused it.
    #[arg(long = "as", env = "USER", value_name = "NAME", default_value = "unknown", value_parser = Text::parse, global = true)]
    operator: Text,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a key and print it once. Only its hash is stored.
    #[command(after_help = "Example:\n  railbird keys issue --plan standard --expires 30d")]
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
    #[command(after_help = "Example:\n  railbird keys list --json")]
    List(List),
    /// List subscriptions with their state, plan, mail and number of valid keys.
    #[command(after_help = "Example:\n  railbird keys subscriptions --emails")]
    Subscriptions(Subscriptions),
    /// Replace a key by a new one, and print it once. Both are valid during the overlap.
    #[command(after_help = "Example:\n  railbird keys rotate 7k2m9x4q --overlap 2h")]
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
    #[command(
        after_help = "Example:\n  railbird keys revoke 7k2m9x4q --reason \"seen in a repository\""
    )]
    Revoke {
        /// The id of the key, or the key.
        key_id: String,
        /// The reason, shown in the list of keys.
        #[arg(long, default_value = "", hide_default_value = true, value_parser = Text::parse)]
        reason: Text,
    },
    /// Put the holder of a key on another plan, with all keys that share its limits.
    #[command(after_help = "Example:\n  railbird keys plan 7k2m9x4q professional")]
    Plan {
        /// The id of the key, or the key.
        key_id: String,
        /// The plan, one of the file of plans.
        #[arg(value_parser = Text::parse)]
        plan: Text,
    },
    /// Erase the address of a subscriber, and end the subscription with all its keys. This cannot be undone.
    #[command(after_help = "Example:\n  railbird keys forget rail.bird@racing.example")]
    Forget {
        /// The e-mail address, in any spelling.
        #[arg(value_name = "ADDRESS", value_parser = Email::parse)]
        email: Email,
    },
    /// Approve a subscription that is waiting for it.
    #[command(after_help = "Example:\n  railbird keys approve 01930a5c7e2f")]
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
        let actor = Actor::Operator {
            name: self.operator,
        };
        let log = self.nats.connect().await?;
        let commands = AccountCommands::at_end(log.clone(), actor).await?;
        let done = self.action.run(&log, &commands).await;
        done.map_err(|error| match error.downcast() {
            // The exit code depends on the error of the log.
            Ok(CommandError::Log(error)) => error.into(),
            Ok(error) => error.into(),
            Err(error) => error,
        })
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
        let message = format!(
            "there is no plan {name:?}; there are {names}; --plans names the file of plans"
        );
        Err(WrongUse(message).into())
    }

    async fn run(self, log: &Log, commands: &AccountCommands) -> anyhow::Result<()> {
        match self {
            Self::List(list) => {
                let uses = uses(log).await;
                list.print(&commands.ledger().borrow(), &uses);
            }
            Self::Subscriptions(list) => list.print(commands).await?,
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
                let until = expires.map(|end| format!(" until {}", list::time(end)));
                line(format_args!(
                    "key {} is valid{}; it is shown only this once:",
                    key.key_id(),
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
                    key.key_id(),
                    list::time(old_end),
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
                let subscription_id = commands.book().id_of(&email).await?;
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
    let ledger = commands.ledger().borrow();
    let now = Timestamp::now().into();
    let mut others = ledger
        .keys_of(&key.holder)
        .filter(|(id, key)| *id != key_id && key.is_valid(now));
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
    let ledger = commands.ledger().borrow();
    let key = ledger.key(key_id).ok_or(CommandError::UnknownKey(key_id))?;
    Ok((key_id, key.clone()))
}
