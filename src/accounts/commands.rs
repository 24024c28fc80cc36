//! [`AccountCommands`]: the commands on keys, subscriptions, mails and maintenance.
//!
//! Each command decides from the ledger which event to append, appends it with the sequence that the ledger has for its
//! subject, and waits until the ledger has folded it. Where several writers act on one thing at the same time, one
//! succeeds and the others get [`LogError::Conflict`].

use std::time::Duration;

use events::{Moment, Text};
use tokio::sync::watch;
use tokio::time::timeout;

use super::{
    AccountEvent, Actor, AddressBook, AddressErased, ApiKey, CommandError, Email, Fact, Holder,
    Incident, KeyId, KeyIssued, Ledger, MailId, MaintenanceId, MaintenancePlanned, SessionEnded,
    SubscriptionId, SubscriptionRequested, decide, now, read,
};
use crate::log::{ACCOUNTS, Log, LogError};

/// The time in which the ledger folds an event of the stream, unless the stream was replaced.
const LEDGER_TIMEOUT: Duration = Duration::from_secs(10);

/// Appends the events of an actor's commands to the stream `ACCOUNTS`. A command returns [`CommandError`] if it names
/// something unknown, the state of the key or of the subscription does not allow it, or the event could not be
/// appended.
#[derive(Debug, Clone)]
pub struct AccountCommands {
    log: Log,
    pub book: AddressBook,
    pub ledger: watch::Receiver<Ledger>,
    actor: Actor,
}

impl AccountCommands {
    /// Commands of a service that follows the stream into `ledger`.
    pub fn new(log: Log, ledger: watch::Receiver<Ledger>) -> Self {
        Self {
            book: AddressBook::new(log.clone()),
            log,
            ledger,
            actor: Actor::Service,
        }
    }

    /// Commands of a process that does not follow the stream: they decide from the ledger as of this call.
    pub async fn at_end(log: Log, actor: Actor) -> anyhow::Result<Self> {
        // Without a sender there is no ledger to wait for.
        let (_, ledger) = watch::channel(read(&log).await?);
        Ok(Self::new(log, ledger).by(actor))
    }

    /// The commands of another actor.
    pub fn by(&self, actor: Actor) -> Self {
        Self {
            actor,
            ..self.clone()
        }
    }

    /// Checks that the log answers. It takes as long whatever the next command is about.
    pub async fn check_log(&self) -> Result<(), CommandError> {
        self.log.state(ACCOUNTS).await?;
        Ok(())
    }

    /// Issues a key without a subscription.
    pub async fn issue(&self, issued: KeyIssued) -> Result<(), CommandError> {
        self.execute(|_| Ok(Fact::from(issued))).await
    }

    /// Replaces a key by a new one. Both are valid until `valid_until`. `subscriber` has the holder of the key, and how
    /// many keys its plan allows.
    pub async fn rotate(
        &self,
        key_id: KeyId,
        new: &ApiKey,
        valid_until: Moment,
        subscriber: Option<(&Holder, usize)>,
    ) -> Result<(), CommandError> {
        self.execute(|ledger| {
            let now = now();
            let rotated = decide::rotate(ledger, key_id, new, valid_until, now)?;
            if let Some((holder, keys_max)) = subscriber.filter(|_| valid_until > now) {
                decide::check_overlaps(ledger, holder, keys_max, now)?;
            }
            Ok(rotated)
        })
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

    /// Subscribes an address to a plan. An address that is subscribed gets another link of its subscription, which
    /// stays on its plan. A conflict is not an error: another replica was first.
    pub async fn subscribe(
        &self,
        email: &Email,
        plan: Text,
        approved: bool,
    ) -> Result<(), CommandError> {
        let id = self.book.id_of(email).await?;
        let Some(generation) = decide::next_generation(&self.ledger.borrow(), &id) else {
            return self.request_link(email).await;
        };
        let requested = SubscriptionRequested {
            email: self.book.seal(&id, generation, email).await?,
            subscription_id: id,
            generation,
            plan,
            approved,
        };
        unless_conflict(self.execute(|_| Ok(Fact::from(requested))).await)
    }

    /// Sends a link to an address, if it is subscribed and got none recently.
    pub async fn request_link(&self, email: &Email) -> Result<(), CommandError> {
        let id = self.book.id_of(email).await?;
        let outcome = self.execute(|ledger| {
            let Some(known) = decide::current(ledger, &id) else {
                return Ok(None);
            };
            let requested = decide::request_link(ledger, id, known, now());
            let is_new = !ledger.mails.contains_key(&requested.mail_id);
            Ok((is_new && known.suppressed_at.is_none()).then(|| requested.into()))
        });
        unless_conflict(outcome.await)
    }

    /// Starts a session with the link of a mail, which cannot be used again. Of two at the same time, one succeeds.
    pub async fn start_session(&self, token: &str, cookie: &str) -> Result<(), CommandError> {
        let outcome = self.execute(|ledger| decide::start_session(ledger, token, cookie, now()));
        match outcome.await {
            Err(CommandError::Log(LogError::Conflict)) => Err(CommandError::UnknownLink),
            outcome => outcome,
        }
    }

    /// Ends a link that was not meant for the person who received it.
    pub async fn reject_link(&self, token: &str) -> Result<(), CommandError> {
        let outcome = self.execute(|ledger| decide::reject_link(ledger, token, now()));
        unless_conflict(outcome.await)
    }

    /// Ends a session.
    pub async fn end_session(&self, mail_id: MailId) -> Result<(), CommandError> {
        let outcome = self.execute(|_| Ok(Fact::from(SessionEnded { mail_id })));
        unless_conflict(outcome.await)
    }

    /// Creates a key of a subscription, whose plan allows `keys_max` keys.
    pub async fn issue_to_subscriber(
        &self,
        subscription_id: SubscriptionId,
        key: (&ApiKey, Text),
        keys_max: usize,
    ) -> Result<(), CommandError> {
        self.execute(|ledger| {
            decide::issue_to_subscriber(ledger, subscription_id, key, keys_max, now())
        })
        .await
    }

    /// Ends a subscription, and erases its address. If this is interrupted, the service erases the address later.
    pub async fn forget(&self, id: SubscriptionId) -> Result<(), CommandError> {
        let generation = (self.ledger.borrow().subscriptions.get(&id))
            .ok_or(CommandError::UnknownAddress)?
            .generation;
        self.execute(|ledger| decide::forget(ledger, id.clone()))
            .await?;
        self.erase_address(id, generation).await
    }

    /// Erases the address of a forgotten subscription.
    pub async fn erase_address(
        &self,
        subscription_id: SubscriptionId,
        generation: u32,
    ) -> Result<(), CommandError> {
        self.book.erase(&subscription_id, generation).await?;
        self.note(AddressErased {
            subscription_id,
            generation,
        })
        .await
    }

    /// Records the beginning or the end of an incident, unless another replica has.
    pub(crate) async fn record(&self, incident: &Incident) -> Result<(), CommandError> {
        let fact = decide::record(&self.ledger.borrow(), incident, now());
        match fact {
            Some(fact) => self.note(fact).await,
            None => Ok(()),
        }
    }

    pub async fn plan_maintenance(&self, planned: MaintenancePlanned) -> Result<(), CommandError> {
        self.execute(|ledger| decide::plan(ledger, planned, now()))
            .await
    }

    /// Cancels maintenance that is not over.
    pub async fn cancel_maintenance(&self, id: MaintenanceId) -> Result<(), CommandError> {
        self.execute(|ledger| decide::cancel(ledger, id, now()))
            .await
    }

    /// Appends an event without an expected sequence: a repetition changes nothing, and another writer may be at its
    /// subject.
    async fn note(&self, fact: impl Into<Fact>) -> Result<(), CommandError> {
        let event = AccountEvent::new(self.actor.clone(), fact, now());
        self.log.append((&event).into()).await?;
        Ok(())
    }

    /// Appends the event that `decide` returns, if any.
    async fn execute<F: Into<Option<Fact>>>(
        &self,
        decide: impl FnOnce(&Ledger) -> Result<F, CommandError>,
    ) -> Result<(), CommandError> {
        let (fact, expected_seq) = {
            let ledger = self.ledger.borrow();
            let Some(fact) = decide(&ledger)?.into() else {
                return Ok(());
            };
            let expected_seq = ledger.last_seq(&fact.subject());
            (fact, expected_seq)
        };
        let event = AccountEvent::new(self.actor.clone(), fact, now());
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

/// A conflict is not an error: another replica was first.
fn unless_conflict(outcome: Result<(), CommandError>) -> Result<(), CommandError> {
    match outcome {
        Err(CommandError::Log(LogError::Conflict)) => Ok(()),
        outcome => outcome,
    }
}
