//! `railbird keys`.

mod list;
mod when;

use anyhow::{anyhow, bail};
use clap::{Args, Subcommand};
use events::{Moment, ParseError, Text};
use jiff::{SignedDuration, Timestamp};

use self::list::List;
pub(super) use self::when::parse_duration;
use super::report::{line, result};
use super::{ExitStatus, Nats};
use crate::accounts::{
    self, AccountEvent, ApiKey, Fact, Key, KeyId, KeyIssued, KeyRevoked, KeyRotated, KeyState,
    Ledger, PlanChanged, SubscriptionApproved, SubscriptionId,
};
use crate::log::{ACCOUNTS, Log, Outgoing};

/// What is done with keys.
#[derive(Debug, Args)]
pub(super) struct Keys {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    nats: Nats,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a key and print it, once. Only its hash is kept.
    #[command(after_help = "Example:\n  railbird keys issue --plan standard --expires 30d")]
    Issue(Issue),
    /// List keys: where each stands, on which plan, until when.
    #[command(after_help = "Example:\n  railbird keys list --json")]
    List(List),
    /// List subscriptions: which plan, whether they are approved of, how many keys are valid.
    #[command(after_help = "Example:\n  railbird keys subscriptions --emails")]
    Subscriptions(list::Subscriptions),
    /// Make a key that takes the place of another, and print it, once. Both are valid for a while.
    #[command(after_help = "Example:\n  railbird keys rotate 7k2m9x4q --overlap 2h")]
    Rotate(Rotate),
    /// Take a key back, for ever: services refuse it within moments, and close its sockets.
    #[command(
        after_help = "Example:\n  railbird keys revoke 7k2m9x4q --reason \"seen in a repository\""
    )]
    Revoke(Revoke),
    /// Put who holds a key on another plan, with all keys that came of it by rotation.
    #[command(after_help = "Example:\n  railbird keys plan 7k2m9x4q professional")]
    Plan(ChangePlan),
    /// Approve of a subscription that waits for it.
    #[command(after_help = "Example:\n  railbird keys approve 01930a5c7e2f")]
    Approve(Approve),
}

#[derive(Debug, Args)]
struct Issue {
    /// The plan that the key is on.
    #[arg(long, default_value = "default", value_parser = parse_text)]
    plan: Text,
    /// When it ends: a date (its last day, UTC), a time, or a duration such as 30d. Never, if it is left out.
    #[arg(long, value_name = "WHEN", value_parser = when::parse_end)]
    expires: Option<Moment>,
    #[command(flatten)]
    env: Env,
}

#[derive(Debug, Args)]
struct Rotate {
    /// The key's id, or the key.
    key_id: String,
    /// For how long the old key stays valid; 0s ends it at once.
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = parse_duration)]
    overlap: SignedDuration,
    #[command(flatten)]
    env: Env,
}

#[derive(Debug, Args)]
struct Revoke {
    /// The key's id, or the key.
    key_id: String,
    /// Why, for those who read the list.
    #[arg(long, default_value = "", hide_default_value = true, value_parser = parse_text)]
    reason: Text,
}

#[derive(Debug, Args)]
struct ChangePlan {
    /// The key's id, or the key.
    key_id: String,
    /// The plan.
    #[arg(value_parser = parse_text)]
    plan: Text,
}

#[derive(Debug, Args)]
struct Approve {
    /// The subscription, as `railbird keys subscriptions` names it.
    #[arg(value_name = "SUBSCRIPTION", value_parser = SubscriptionId::parse)]
    subscription_id: SubscriptionId,
}

#[derive(Debug, Args)]
struct Env {
    /// The environment that stands in the key.
    #[arg(long, default_value = "live", value_parser = parse_env)]
    env: String,
}

fn parse_env(text: &str) -> Result<String, String> {
    let plain = !text.is_empty() && text.len() <= 8 && text.bytes().all(|b| b.is_ascii_lowercase());
    if plain {
        Ok(text.to_owned())
    } else {
        Err("an environment is 1 to 8 of a-z".to_owned())
    }
}

fn parse_text(text: &str) -> Result<Text, ParseError> {
    Text::parse(text)
}

impl Keys {
    pub(super) async fn run(self) -> anyhow::Result<ExitStatus> {
        let log = self.nats.connect().await?;
        let desk = KeyCommands {
            ledger: accounts::read(&log).await?,
            log,
        };
        match self.action {
            Action::List(list) => list.print(&desk.ledger),
            Action::Subscriptions(list) => list.print(&desk.ledger),
            Action::Issue(issue) => desk.issue(issue).await?,
            Action::Rotate(rotate) => desk.rotate(rotate).await?,
            Action::Revoke(revoke) => desk.revoke(revoke).await?,
            Action::Plan(change) => desk.change_plan(change).await?,
            Action::Approve(approve) => desk.approve(approve).await?,
        }
        Ok(ExitStatus::Success)
    }
}

/// Where keys are looked up and given out.
struct KeyCommands {
    log: Log,
    ledger: Ledger,
}

impl KeyCommands {
    async fn issue(&self, issue: Issue) -> anyhow::Result<()> {
        self.log.ensure(ACCOUNTS).await?;
        let key = ApiKey::generate(&issue.env.env)?;
        self.say(KeyIssued::new(&key, issue.plan, issue.expires))
            .await?;
        let until = issue
            .expires
            .map(|end| format!(" until {}", list::time(end)));
        line(format_args!(
            "key {} is valid{}; this is the only time that it is shown:",
            key.key_id(),
            until.unwrap_or_default()
        ));
        result(format_args!("{}", key.reveal()));
        Ok(())
    }

    async fn rotate(&self, rotate: Rotate) -> anyhow::Result<()> {
        let (key_id, old) = self.find(&rotate.key_id)?;
        match (old.state(now()), old.rotated) {
            (KeyState::Valid, _) => {}
            (KeyState::Overlapping, Some(rotation)) => bail!(
                "key {key_id} was rotated before: rotate {}, which takes its place",
                rotation.to
            ),
            (state, _) => bail!(
                "key {key_id} is {}, and only a valid key can be rotated; `railbird keys issue` makes a new one",
                state.as_str()
            ),
        }
        let end = Timestamp::now().checked_add(rotate.overlap);
        let valid_until = end.map_err(|_| anyhow!("the overlap is too long"))?.into();
        let key = ApiKey::generate(&rotate.env.env)?;
        self.say(KeyRotated {
            key_id,
            valid_until,
            new_key_id: key.key_id(),
            new_sha256: key.hash(),
        })
        .await?;
        line(format_args!(
            "key {} takes the place of {key_id}, which is valid until {}; this is the only time that it is shown:",
            key.key_id(),
            list::time(old.expires_at.into_iter().fold(valid_until, Moment::min)),
        ));
        result(format_args!("{}", key.reveal()));
        Ok(())
    }

    async fn revoke(&self, revoke: Revoke) -> anyhow::Result<()> {
        let (key_id, key) = self.find(&revoke.key_id)?;
        let reason = revoke.reason;
        if key.revoked.is_none() {
            self.say(KeyRevoked { key_id, reason }).await?;
        }
        line(format_args!("key {key_id} is revoked"));
        if let Some(rotation) = key.rotated {
            line(format_args!(
                "key {} took its place, and is another one",
                rotation.to
            ));
        }
        Ok(())
    }

    async fn change_plan(&self, change: ChangePlan) -> anyhow::Result<()> {
        let (key_id, key) = self.find(&change.key_id)?;
        if !key.is_valid(now()) {
            let state = key.state(now()).as_str();
            bail!("key {key_id} is {state}: its plan is of no use");
        }
        let (plan, account) = (change.plan, self.ledger.account(&key.holder));
        let revision = account.map_or(0, |account| account.plan_revision) + 1;
        if account.is_none_or(|account| account.plan != plan) {
            let plan = plan.clone();
            self.say(PlanChanged {
                key_id,
                plan,
                revision,
            })
            .await?;
        }
        line(format_args!("key {key_id} is on plan {}", plan.as_str()));
        Ok(())
    }

    async fn approve(&self, approve: Approve) -> anyhow::Result<()> {
        let subscription_id = approve.subscription_id;
        let subscription = self.ledger.subscription(&subscription_id).ok_or_else(|| {
            anyhow!("there is no subscription {subscription_id}; see `railbird keys subscriptions`")
        })?;
        if subscription.approved_at.is_none() {
            let subscription_id = subscription_id.clone();
            self.say(SubscriptionApproved { subscription_id }).await?;
        }
        line(format_args!("subscription {subscription_id} is approved"));
        Ok(())
    }

    /// The key that is meant. It may be a whole key, which no error repeats.
    fn find(&self, text: &str) -> anyhow::Result<(KeyId, &Key)> {
        let key_id = KeyId::parse(text).or_else(|| KeyId::of_key(text));
        let key_id = key_id.ok_or_else(|| {
            anyhow!("a key id is the 8 letters behind rb_<env>_; see `railbird keys list`")
        })?;
        let key = self.ledger.key(key_id);
        let key =
            key.ok_or_else(|| anyhow!("there is no key {key_id}; see `railbird keys list`"))?;
        Ok((key_id, key))
    }

    /// Says something of which nothing has been said since the ledger was read.
    async fn say(&self, fact: impl Into<Fact>) -> anyhow::Result<()> {
        let event = AccountEvent::new(fact, now());
        let last_seq = self.ledger.last_seq(&event.fact.subject());
        let outgoing = Outgoing::from(&event);
        self.log
            .append_expecting(ACCOUNTS, outgoing, last_seq)
            .await?;
        Ok(())
    }
}

fn now() -> Moment {
    Timestamp::now().into()
}
