//! [`DeliveryContext`]: carries out the tasks of the outbox.

use std::time::Duration;

use events::{Moment, Text};
use jiff::Timestamp;
use lettre::Address;
use tokio::time::sleep;
use tracing::Instrument;

use super::delivery_error::DeliveryError;
use super::key_email::KeyEmail;
use super::schedule;
use super::settings::{Mailing, PublicUrl};
use super::transport::Delivery;
use crate::accounts::{
    AccountCommands, AccountEvent, AccountSubject, ApiKey, Email, Fact, Holder, Ledger, Mail,
    MailAttempted, MailDelivered, MailFailed, MailId, MailRequested, SecretHash, SubscriptionId,
    now, random_secret,
};
use crate::limits::plans::Plans;
use crate::log::LogError;
use crate::metrics;

/// The wait before the log is tried again after an error.
const LOG_RETRY_AFTER: Duration = Duration::from_secs(1);
const WELCOME: &str = "welcome";
const INVALID_ADDRESS: &str = "refused: mail cannot be sent to this address";

/// The services and settings that every task needs.
#[derive(Debug)]
pub(super) struct DeliveryContext {
    pub(super) commands: AccountCommands,
    pub(super) plans: Plans,
    pub(super) mailing: Mailing,
    pub(super) url: PublicUrl,
}

#[derive(Debug)]
pub(super) enum MailTask {
    /// Requests the first mail of a subscription.
    Request(SubscriptionId),
    Send(PendingMail),
}

/// A mail that is due, from the ledger.
#[derive(Debug)]
pub(super) struct PendingMail {
    mail_id: MailId,
    last_seq: u64,
    /// The number of the attempt that is due.
    attempt: u32,
    begun_at: Option<Moment>,
    email: Email,
    plan: Text,
}

/// Whether the mail server could be reached; `None` if it was not tried.
pub(super) type ServerOutcome = Option<Result<(), DeliveryError>>;

impl MailTask {
    pub(super) fn mail_id(&self) -> MailId {
        match self {
            Self::Request(id) => MailId::first_to(id),
            Self::Send(mail) => mail.mail_id.clone(),
        }
    }
}

impl PendingMail {
    pub(super) fn of(ledger: &Ledger, mail_id: &MailId, mail: &Mail) -> Option<Self> {
        let holder = Holder::Subscription(mail.subscription_id.clone());
        Some(Self {
            mail_id: mail_id.clone(),
            last_seq: ledger.last_seq(&AccountSubject::Mail(mail_id.clone())),
            attempt: mail.attempts() + 1,
            begun_at: mail.begun_at,
            email: ledger.subscription(&mail.subscription_id)?.email.clone(),
            plan: ledger.account(&holder)?.plan.clone(),
        })
    }
}

impl DeliveryContext {
    pub(super) async fn run(&self, task: MailTask) -> ServerOutcome {
        match task {
            MailTask::Request(subscription_id) => {
                self.request(subscription_id).await;
                None
            }
            MailTask::Send(mail) => {
                let span =
                    tracing::info_span!("mail", mail_id = %mail.mail_id, attempt = mail.attempt);
                self.send(mail).instrument(span).await
            }
        }
    }

    async fn request(&self, subscription_id: SubscriptionId) {
        let requested = MailRequested {
            mail_id: MailId::first_to(&subscription_id),
            subscription_id,
            purpose: Text::parse(WELCOME).unwrap_or_default(),
        };
        if self.append(requested, 0).await.is_some() {
            metrics::mail_requested();
        }
    }

    /// Connects before it creates a key: an unreachable server costs no attempt.
    async fn send(&self, mail: PendingMail) -> ServerOutcome {
        let Ok(to) = mail.email.reveal().parse() else {
            self.give_up(&mail).await;
            return None;
        };
        let hello = self.mailing.from.domain();
        match self.mailing.transport.open(hello).await {
            Ok(delivery) => {
                self.attempt(&mail, to, delivery).await;
                Some(Ok(()))
            }
            Err(error) => {
                metrics::mail_failed(error.reason.as_str());
                Some(Err(error))
            }
        }
    }

    async fn attempt(&self, mail: &PendingMail, to: Address, mut delivery: Delivery) {
        let key = ApiKey::generate(self.mailing.key_env);
        let (key, token) = match key.and_then(|key| Ok((key, random_secret()?))) {
            Ok(secrets) => secrets,
            Err(error) => {
                tracing::error!(%error, "no random numbers for a key");
                return sleep(LOG_RETRY_AFTER).await;
            }
        };
        let (mail_id, attempt) = (&mail.mail_id, mail.attempt);
        let attempted = MailAttempted {
            mail_id: mail_id.clone(),
            attempt,
            key_id: key.key_id(),
            sha256: key.hash(),
            manage_sha256: SecretHash::of(&token),
        };
        // Of several replicas, one gets past this point.
        let Some(seq) = self.append(attempted, mail.last_seq).await else {
            return delivery.close().await;
        };
        let plan = self.plans.get(mail.plan.as_str());
        let live_odds = plan.is_some_and(|plan| plan.connections.is_some());
        let email = KeyEmail::new(&key, mail.plan.clone(), live_odds, &self.url, &token);
        let message = email.message(&self.mailing.from, to, mail_id, attempt);
        let file_name = format!("{mail_id}-{attempt}.eml");
        if let Err(error) = delivery.send(&message, &file_name).await {
            return self.record_failure(mail, seq, &error).await;
        }
        let mail_id = mail_id.clone();
        if self.record(MailDelivered { mail_id, attempt }, seq).await {
            tracing::info!("mail delivered");
            metrics::mail_delivered();
        }
        delivery.close().await;
    }

    async fn record_failure(&self, mail: &PendingMail, seq: u64, error: &DeliveryError) {
        let is_final = error.is_final || schedule::is_expired(mail.begun_at, Timestamp::now());
        metrics::mail_failed(error.reason.as_str());
        let failed = MailFailed {
            mail_id: mail.mail_id.clone(),
            attempt: mail.attempt,
            reason: error.text(),
            is_final,
        };
        if !self.record(failed, seq).await {
            return;
        }
        if is_final {
            tracing::error!(%error, "mail given up");
            metrics::mail_given_up();
        } else {
            tracing::warn!(%error, "mail not delivered; it will be sent again with another key");
        }
    }

    async fn give_up(&self, mail: &PendingMail) {
        let failed = MailFailed {
            mail_id: mail.mail_id.clone(),
            attempt: mail.attempt - 1,
            reason: Text::parse(INVALID_ADDRESS).unwrap_or_default(),
            is_final: true,
        };
        if self.append(failed, mail.last_seq).await.is_some() {
            tracing::error!(error = INVALID_ADDRESS, "mail given up");
            metrics::mail_given_up();
        }
    }

    /// Appends the result of an attempt, and retries until the log has it: without it, the mail would be sent again.
    /// Returns false if another replica took the mail over.
    async fn record(&self, result: impl Into<Fact>, expected_seq: u64) -> bool {
        let event = AccountEvent::new(result, now());
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
        let event = AccountEvent::new(fact, now());
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
