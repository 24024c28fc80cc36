//! [`DeliveryContext`]: carries out the tasks of the outbox.

use std::time::Duration;

use events::Text;
use jiff::Timestamp;
use lettre::Address;
use tokio::time::sleep;
use tracing::Instrument;

use super::delivery_error::DeliveryError;
use super::message::message;
use super::schedule;
use super::settings::Mailing;
use super::text::MailText;
use super::transport::Delivery;
use crate::accounts::{
    AccountCommands, AccountEvent, AccountSubject, Actor, Fact, Holder, Ledger, Mail,
    MailAttempted, MailDelivered, MailFailed, MailId, Subscription, SubscriptionId, new_link, now,
    random_secret,
};
use crate::log::LogError;
use crate::metrics;
use crate::public_url::PublicUrl;

/// The wait before the log is tried again after an error.
const LOG_RETRY_AFTER: Duration = Duration::from_secs(1);
const INVALID_ADDRESS: &str = "refused: mail cannot be sent to this address";
const NO_ADDRESS: &str = "refused: the address cannot be read";

/// The services and settings that every task needs.
#[derive(Debug)]
pub(super) struct DeliveryContext {
    pub(super) commands: AccountCommands,
    pub(super) mailing: Mailing,
    pub(super) url: PublicUrl,
}

pub(super) enum MailTask {
    /// Erases the address of a forgotten subscription.
    Erase(SubscriptionId, u32),
    /// Forgets a subscription that was not confirmed.
    Forget(SubscriptionId),
    Send(Box<PendingMail>),
}

/// A mail that is due, from the ledger.
pub(super) struct PendingMail {
    mail_id: MailId,
    mail: Mail,
    last_seq: u64,
    /// The number of the attempt that is due.
    attempt: u32,
    subscription: Subscription,
    plan: Text,
}

/// Whether the mail server could be reached; `None` if it was not tried.
pub(super) type ServerOutcome = Option<Result<(), DeliveryError>>;

impl MailTask {
    /// What the task is about. There is one task at a time for each subscription and each mail.
    pub(super) fn subject(&self) -> AccountSubject {
        match self {
            Self::Erase(id, _) | Self::Forget(id) => AccountSubject::Subscription(id.clone()),
            Self::Send(mail) => AccountSubject::Mail(mail.mail_id.clone()),
        }
    }
}

impl PendingMail {
    pub(super) fn of(ledger: &Ledger, mail_id: &MailId, mail: &Mail) -> Option<Self> {
        let holder = Holder::Subscription(mail.subscription_id.clone());
        let subscription = ledger.subscriptions.get(&mail.subscription_id)?;
        Some(Self {
            mail_id: mail_id.clone(),
            mail: mail.clone(),
            last_seq: ledger.last_seq(&AccountSubject::Mail(mail_id.clone())),
            attempt: mail.attempts + 1,
            subscription: subscription.clone(),
            plan: ledger.accounts.get(&holder)?.plan.clone(),
        })
    }
}

impl DeliveryContext {
    pub(super) async fn run(&self, task: MailTask) -> ServerOutcome {
        let (id, erased) = match task {
            MailTask::Send(mail) => {
                let span =
                    tracing::info_span!("mail", mail_id = %mail.mail_id, attempt = mail.attempt);
                return self.send(*mail).instrument(span).await;
            }
            MailTask::Erase(id, generation) => {
                let erasing = self.commands.erase_address(id.clone(), generation);
                (id, erasing.await)
            }
            MailTask::Forget(id) => (id.clone(), self.commands.forget(id).await),
        };
        // An error is tried again after a while; it may be that another replica was first.
        match erased {
            Ok(()) => tracing::info!(subscription_id = %id, "address erased"),
            Err(error) => {
                tracing::warn!(subscription_id = %id, %error, "an address is not erased yet");
                sleep(LOG_RETRY_AFTER).await;
            }
        }
        None
    }

    /// Connects before it records an attempt: an unreachable server costs none.
    async fn send(&self, pending: PendingMail) -> ServerOutcome {
        let book = &self.commands.book;
        let (id, of) = (&pending.mail.subscription_id, &pending.subscription);
        let opening = book.open(id, of.generation, &of.email);
        let address = match opening.await {
            Ok(address) => address,
            Err(error) => {
                tracing::warn!(%error, "the address of a mail cannot be read yet");
                sleep(LOG_RETRY_AFTER).await;
                return None;
            }
        };
        let to = address.map(|email| email.reveal().parse());
        let Some(Ok(to)) = to else {
            let reason = to.map_or(NO_ADDRESS, |_| INVALID_ADDRESS);
            self.give_up(&pending, reason).await;
            return None;
        };
        let hello = self.mailing.from.domain();
        match self.mailing.transport.open(hello).await {
            Ok(delivery) => {
                self.attempt(&pending, to, delivery).await;
                Some(Ok(()))
            }
            Err(error) => {
                metrics::MAILS_FAILED.increment(error.reason.into_str());
                Some(Err(error))
            }
        }
    }

    async fn attempt(&self, pending: &PendingMail, to: Address, mut delivery: Delivery) {
        let mail = &pending.mail;
        let token = match mail.content.has_link().then(random_secret).transpose() {
            Ok(token) => token,
            Err(error) => {
                tracing::error!(%error, "no random numbers for a link");
                return sleep(LOG_RETRY_AFTER).await;
            }
        };
        let mail_id = &pending.mail_id;
        let attempt = pending.attempt;
        let attempted = MailAttempted {
            mail_id: mail_id.clone(),
            attempt,
            link: token.as_ref().map(|token| new_link(token, now())),
        };
        // Of several replicas, one gets past this point.
        let Some(seq) = self.append(attempted, pending.last_seq).await else {
            return delivery.close().await;
        };
        let about = (&pending.plan, mail.requested_at);
        let text = MailText::new(&mail.content, about, &self.url, token.as_deref());
        let message = message(&text, (&self.mailing.from, to), mail_id, attempt);
        let file_name = format!("{mail_id}-{attempt}.eml");
        if let Err(error) = delivery.send(&message, &file_name).await {
            return self.record_failure(pending, seq, &error).await;
        }
        let mail_id = mail_id.clone();
        if self.record(MailDelivered { mail_id, attempt }, seq).await {
            tracing::info!("mail delivered");
            metrics::count("railbird_mails_delivered_total");
        }
        delivery.close().await;
    }

    async fn record_failure(&self, pending: &PendingMail, seq: u64, error: &DeliveryError) {
        let begun_at = pending.mail.begun_at;
        let is_final = error.is_final || schedule::is_expired(begun_at, Timestamp::now());
        metrics::MAILS_FAILED.increment(error.reason.into_str());
        let failed = MailFailed {
            mail_id: pending.mail_id.clone(),
            attempt: pending.attempt,
            reason: error.text(),
            is_final,
        };
        if !self.record(failed, seq).await {
            return;
        }
        if is_final {
            tracing::error!(%error, "mail given up");
            metrics::count("railbird_mails_given_up_total");
        } else {
            tracing::warn!(%error, "mail not delivered; it will be sent again with another link");
        }
    }

    async fn give_up(&self, pending: &PendingMail, reason: &'static str) {
        let failed = MailFailed {
            mail_id: pending.mail_id.clone(),
            attempt: pending.attempt - 1,
            reason: Text::parse(reason).unwrap_or_default(),
            is_final: true,
        };
        if self.append(failed, pending.last_seq).await.is_some() {
            tracing::error!(error = reason, "mail given up");
            metrics::count("railbird_mails_given_up_total");
        }
    }

    /// Appends the result of an attempt, and retries until the log has it: without it, the mail would be sent again.
    /// Returns false if another replica took the mail over.
    async fn record(&self, result: impl Into<Fact>, expected_seq: u64) -> bool {
        let event = AccountEvent::new(Actor::Service, result, now());
        loop {
            match self.commands.append(&event, expected_seq).await {
                Ok(_) => return true,
                Err(LogError::Conflict) => {
                    tracing::warn!("another replica took over a mail that was being sent");
                    return false;
                }
                Err(error) => {
                    tracing::warn!(%error, "the result of a mail cannot be recorded yet");
                    sleep(LOG_RETRY_AFTER).await;
                }
            }
        }
    }

    /// Appends an event and returns its sequence; `None` if it is left to another replica or to a later task.
    async fn append(&self, fact: impl Into<Fact>, expected_seq: u64) -> Option<u64> {
        let event = AccountEvent::new(Actor::Service, fact, now());
        match self.commands.append(&event, expected_seq).await {
            Ok(seq) => Some(seq),
            Err(LogError::Conflict) => {
                tracing::debug!(subject = %event.fact.subject(), "another replica was first");
                None
            }
            Err(error) => {
                tracing::debug!(%error, subject = %event.fact.subject(), "append failed");
                sleep(LOG_RETRY_AFTER).await;
                None
            }
        }
    }
}
