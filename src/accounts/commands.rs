//! [`AccountCommands`]: the commands on keys, subscriptions and mails.
//!
//! Each command decides from the ledger which event to append, appends it with the sequence that the ledger has for its
//! subject, and waits until the ledger has folded it. Where several writers act on one thing at the same time, one
//! succeeds and the others get [`LogError::Conflict`].

use std::time::Duration;

use events::{Moment, Text};
use tokio::sync::watch;
use tokio::time::timeout;

use super::{
    AccountEvent, ApiKey, CommandError, Email, Fact, KeyId, KeyIssued, Ledger, SubscriptionId,
    SubscriptionRequested, decide, now, read,
};
use crate::log::{ACCOUNTS, Log, LogError};

/// The time in which the ledger folds an event of the stream, unless the stream was replaced.
const LEDGER_TIMEOUT: Duration = Duration::from_secs(10);

/// Appends the events of commands to the stream `ACCOUNTS`. A command returns [`CommandError`] if it names an unknown
/// key or subscription, the state of the key does not allow it, or the event could not be appended.
#[derive(Debug, Clone)]
pub struct AccountCommands {
    log: Log,
    ledger: watch::Receiver<Ledger>,
}

impl AccountCommands {
    /// Commands of a service that follows the stream into `ledger`.
    pub fn new(log: Log, ledger: watch::Receiver<Ledger>) -> Self {
        Self { log, ledger }
    }

    /// Commands of a process that does not follow the stream: they decide from the ledger as of this call.
    pub async fn at_end(log: Log) -> anyhow::Result<Self> {
        // Without a sender there is no ledger to wait for.
        let (_, ledger) = watch::channel(read(&log).await?);
        Ok(Self { log, ledger })
    }

    pub fn ledger(&self) -> &watch::Receiver<Ledger> {
        &self.ledger
    }

    /// Issues a key without a subscription. Creates the stream if there is none.
    pub async fn issue(
        &self,
        key: &ApiKey,
        plan: Text,
        expires_at: Option<Moment>,
    ) -> Result<(), CommandError> {
        self.log.ensure(ACCOUNTS).await?;
        self.execute(|_| Ok(Some(KeyIssued::new(key, plan, expires_at).into())))
            .await
    }

    /// Replaces a key by a new one. Both are valid until `valid_until`.
    pub async fn rotate(
        &self,
        key_id: KeyId,
        new: &ApiKey,
        valid_until: Moment,
    ) -> Result<(), CommandError> {
        self.execute(|ledger| decide::rotate(ledger, key_id, new, valid_until, now()).map(Some))
            .await
    }

    /// Revokes a key. A key that is revoked stays as it is.
    pub async fn revoke(&self, key_id: KeyId, reason: Text) -> Result<(), CommandError> {
        self.execute(|ledger| decide::revoke(ledger, key_id, reason))
            .await
    }

    /// Puts the holder of a key on a plan, with all its keys.
    pub async fn change_plan(&self, key_id: KeyId, plan: Text) -> Result<(), CommandError> {
        self.execute(|ledger| decide::change_plan(ledger, key_id, plan, now()))
            .await
    }

    pub async fn approve(&self, subscription_id: SubscriptionId) -> Result<(), CommandError> {
        self.execute(|ledger| decide::approve(ledger, subscription_id))
            .await
    }

    /// Subscribes an address to a plan. An address that is subscribed is sent another key of the same subscription, but
    /// not soon after the last one, and not if the subscription needed approval and has no valid key. A conflict is not
    /// an error: another replica was first.
    ///
    /// Appends one event in any case, if only the same request again, which changes nothing. So neither the time nor an
    /// error of the log reveals whether the address is known.
    pub async fn subscribe(
        &self,
        email: Email,
        plan: Text,
        needs_no_approval: impl Fn(&Text) -> bool,
    ) -> Result<(), CommandError> {
        let approved = needs_no_approval(&plan);
        let request = SubscriptionRequested::new(email, plan, approved);
        let decide = |ledger: &Ledger| {
            let fact = decide::subscribe(ledger, request.clone(), needs_no_approval, now());
            Ok(Some(fact.unwrap_or_else(|| request.into())))
        };
        match self.execute(decide).await {
            Err(CommandError::Log(LogError::Conflict)) => Ok(()),
            outcome => outcome,
        }
    }

    /// Appends the event that `decide` returns, if any.
    async fn execute(
        &self,
        decide: impl FnOnce(&Ledger) -> Result<Option<Fact>, CommandError>,
    ) -> Result<(), CommandError> {
        let (fact, expected_seq) = {
            let ledger = self.ledger.borrow();
            let Some(fact) = decide(&ledger)? else {
                return Ok(());
            };
            let expected_seq = ledger.last_seq(&fact.subject());
            (fact, expected_seq)
        };
        let event = AccountEvent::new(fact, now());
        self.append(&event, expected_seq).await?;
        Ok(())
    }

    /// Appends an event if the last event on its subject has the expected sequence (0 for none), and returns its
    /// sequence, or [`LogError::Conflict`] if another writer was first. Waits until the ledger has the event, or that
    /// of the other writer.
    pub async fn append(&self, event: &AccountEvent, expected_seq: u64) -> Result<u64, LogError> {
        let outgoing = event.into();
        let appending = self.log.append_expecting(ACCOUNTS, outgoing, expected_seq);
        let appended = appending.await.map(|appended| appended.seq);
        let seq = match &appended {
            Ok(seq) => *seq,
            Err(LogError::Conflict) => expected_seq + 1,
            Err(_) => return appended,
        };
        let subject = event.fact.subject();
        let mut ledger = self.ledger.clone();
        let folded = ledger.wait_for(|ledger| ledger.last_seq(&subject) >= seq);
        if timeout(LEDGER_TIMEOUT, folded).await.is_err() {
            tracing::warn!(%subject, seq, "the ledger is behind the accounts stream");
        }
        appended
    }
}
