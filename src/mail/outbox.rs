//! [`Outbox`]: sends what the ledger wishes, at least once, and leaves one working key for each mail.
//!
//! Whatever happens to whom, the stream has it: who tries says so first, behind what was said of the mail before, with the hash of
//! a key that nobody has seen. That takes back the key of the attempt before. Where nothing follows for some time, somebody else
//! tries.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use events::{Moment, Text};
use jiff::Timestamp;
use lettre::Address;
use tokio::sync::watch;
use tokio::task::{self, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::failure::Failure;
use super::key_email::{KeyEmail, recipient};
use super::post::Delivery;
use super::schedule;
use super::settings::{Mailing, PublicUrl};
use crate::accounts::{
    AccountEvent, ApiKey, Email, Fact, Holder, KeyCache, Ledger, Mail, MailAttempted,
    MailDelivered, MailFailed, MailId, MailRequested, SecretHash, Subject, SubscriptionId,
    random_secret,
};
use crate::limits::plans::Plans;
use crate::log::{ACCOUNTS, Log, LogError};
use crate::metrics;
use crate::shutdown::Shutdown;

/// How often it is looked what is due. People wait for their mail.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Mails that are on their way at a time: servers take few connections from one client.
const ERRANDS_MAX: usize = 4;
/// How long the ledger may take to hear what was said.
const HEAR_TIMEOUT: Duration = Duration::from_secs(10);
/// Before it is said again how an attempt ended, while the log is away.
const SAY_AGAIN: Duration = Duration::from_secs(1);
/// For what is on its way when the service stops. A mail that is cut off is sent again, with another key.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

const WELCOME: &str = "welcome";
const NO_ADDRESS: &str = "refused: the address is none that mail can be sent to";

/// Sends mails for as long as the service runs.
#[derive(Debug)]
pub struct Outbox {
    desk: Arc<DeliveryContext>,
    keys: Arc<KeyCache>,
}

/// What every errand needs.
#[derive(Debug)]
struct DeliveryContext {
    log: Log,
    ledger: watch::Receiver<Ledger>,
    plans: Plans,
    mailing: Mailing,
    url: PublicUrl,
}

/// What is to be done about a mail.
#[derive(Debug)]
enum MailTask {
    /// To wish it.
    Wish(SubscriptionId),
    /// To send it.
    Send(Due),
}

/// A mail that is to be sent, as the ledger knows it.
#[derive(Debug)]
struct Due {
    mail_id: MailId,
    last_seq: u64,
    attempts: u32,
    begun_at: Option<Moment>,
    email: Email,
    plan: Text,
}

/// What an errand learned of the server, if it came so far.
type Reached = Option<Result<(), Failure>>;

/// Whether the server can be reached, as far as is known.
#[derive(Debug, Default)]
struct Server {
    failures: u32,
    closed_until: Option<Instant>,
}

impl Outbox {
    /// An outbox that has not begun. Links lead to `url`.
    #[must_use]
    pub fn new(
        log: Log,
        ledger: watch::Receiver<Ledger>,
        keys: Arc<KeyCache>,
        plans: Plans,
        mailing: Mailing,
        url: PublicUrl,
    ) -> Self {
        let desk = DeliveryContext {
            log,
            ledger,
            plans,
            mailing,
            url,
        };
        Self {
            desk: Arc::new(desk),
            keys,
        }
    }

    /// Sends mails until the shutdown, and ends what was begun.
    pub async fn run(self, shutdown: Shutdown) {
        tracing::info!(carrier = %self.desk.mailing.carrier, "mails with keys are sent");
        let (mut server, mut errands, mut in_hand) =
            (Server::default(), JoinSet::new(), HashMap::new());
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => break,
                Some(ended) = errands.join_next_with_id() => match ended {
                    Ok((task, reached)) => {
                        in_hand.remove(&task);
                        server.note(reached);
                    }
                    Err(panicked) => {
                        in_hand.remove(&panicked.id());
                    }
                },
                _ = look.tick() => {
                    for errand in self.next(&in_hand, server.takes()) {
                        let mail_id = errand.mail_id();
                        let task = errands.spawn(Arc::clone(&self.desk).run(errand));
                        in_hand.insert(task.id(), mail_id);
                    }
                }
            }
        }
        let ending = async { while errands.join_next().await.is_some() {} };
        if timeout(STOP_TIMEOUT, ending).await.is_err() {
            tracing::warn!(
                "a mail was on its way when the service stopped; it will be sent again, with another key"
            );
        }
    }

    /// What is to be done next, and is in nobody's hands here.
    fn next(&self, in_hand: &HashMap<task::Id, MailId>, server_takes: usize) -> Vec<MailTask> {
        // What was read last may be that a mail was delivered.
        if !self.keys.is_complete() {
            return Vec::new();
        }
        let is_free = |id: &MailId| !in_hand.values().any(|other| other == id);
        let ledger = self.desk.ledger.borrow();
        let wishes = ledger
            .awaiting_mail()
            .map(|(id, _)| MailTask::Wish(id.clone()));
        let wishes = wishes.filter(|wish| {
            let mail_id = wish.mail_id();
            // What a later version has said there is none of ours.
            is_free(&mail_id) && ledger.last_seq(&Subject::Mail(mail_id)) == 0
        });

        let (now, timeout) = (Timestamp::now(), self.desk.mailing.carrier.timeout());
        let mails = ledger.open_mails().filter(|(id, _)| is_free(id));
        let mails = mails.map(|(id, mail)| (schedule::due(mail, timeout), id, mail));
        let mut due: Vec<_> = mails.filter(|(at, ..)| *at <= now).collect();
        due.sort_by_key(|(at, ..)| *at);
        let sends = due
            .into_iter()
            .take(server_takes.saturating_sub(in_hand.len()));
        let sends = sends.filter_map(|(_, id, mail)| Due::of(&ledger, id, mail));
        let errands = wishes.chain(sends.map(MailTask::Send));
        errands.take(ERRANDS_MAX - in_hand.len()).collect()
    }
}

impl MailTask {
    fn mail_id(&self) -> MailId {
        match self {
            // Whoever wishes for it says the same.
            Self::Wish(id) => MailId::first_to(id),
            Self::Send(due) => due.mail_id.clone(),
        }
    }
}

impl Due {
    fn of(ledger: &Ledger, mail_id: &MailId, mail: &Mail) -> Option<Self> {
        let holder = Holder::Subscription(mail.subscription_id.clone());
        Some(Self {
            mail_id: mail_id.clone(),
            last_seq: ledger.last_seq(&Subject::Mail(mail_id.clone())),
            attempts: mail.attempts(),
            begun_at: mail.begun_at,
            email: ledger.subscription(&mail.subscription_id)?.email.clone(),
            plan: ledger.account(&holder)?.plan.clone(),
        })
    }
}

impl Server {
    /// How many errands may be under way. One of them finds out whether a server is back.
    fn takes(&self) -> usize {
        match self.closed_until {
            Some(until) if Instant::now() < until => 0,
            Some(_) => 1,
            None => ERRANDS_MAX,
        }
    }

    fn note(&mut self, reached: Reached) {
        match reached {
            None => {}
            Some(Ok(())) => *self = Self::default(),
            Some(Err(failure)) => {
                self.failures += 1;
                let wait = schedule::server_retry(self.failures);
                self.closed_until = Some(Instant::now() + wait);
                tracing::warn!(%failure, retry_in = ?wait, "mail cannot be sent");
            }
        }
    }
}

impl DeliveryContext {
    async fn run(self: Arc<Self>, errand: MailTask) -> Reached {
        match errand {
            MailTask::Wish(subscription_id) => {
                self.wish(subscription_id).await;
                None
            }
            MailTask::Send(due) => self.send(due).await,
        }
    }

    async fn wish(&self, subscription_id: SubscriptionId) {
        let wished = MailRequested {
            mail_id: MailId::first_to(&subscription_id),
            subscription_id,
            purpose: Text::parse(WELCOME).unwrap_or_default(),
        };
        if self.say(wished, 0).await.is_ok() {
            metrics::mail_requested();
        }
    }

    /// Finds somebody who takes a mail before there is a key: what cannot be sent at all costs no attempt.
    async fn send(&self, due: Due) -> Reached {
        let Some(to) = recipient(&due.email) else {
            self.give_up_at_once(due).await;
            return None;
        };
        let way = match self.mailing.carrier.open(self.mailing.from.domain()).await {
            Ok(way) => way,
            Err(failure) => {
                metrics::mail_failed(failure.reason.as_str());
                return Some(Err(failure));
            }
        };
        self.attempt(&due, to, way).await;
        Some(Ok(()))
    }

    async fn attempt(&self, due: &Due, to: Address, mut way: Delivery) {
        let secrets =
            ApiKey::generate(self.mailing.key_env).and_then(|key| Ok((key, random_secret()?)));
        let (key, token) = match secrets {
            Ok(secrets) => secrets,
            Err(error) => return tracing::error!(%error, "there are no random numbers"),
        };
        let (mail_id, attempt) = (due.mail_id.clone(), due.attempts + 1);
        let claim = MailAttempted {
            mail_id: mail_id.clone(),
            attempt,
            key_id: key.key_id(),
            sha256: key.hash(),
            manage_sha256: SecretHash::of(&token),
        };
        // Of several replicas one comes further than this.
        let Ok(seq) = self.say(claim, due.last_seq).await else {
            return way.leave().await;
        };
        let plan = self.plans.get(due.plan.as_str());
        let live_odds = plan
            .unwrap_or(self.plans.default_plan())
            .connections
            .is_some();
        let letter = KeyEmail::new(&key, due.plan.clone(), live_odds, &self.url, &token);
        let message = letter.message(&self.mailing.from, to, &mail_id, attempt);
        match way
            .hand_over(&message, &format!("{mail_id}-{attempt}.eml"))
            .await
        {
            Ok(()) => {
                self.delivered(due, attempt, seq).await;
                way.leave().await;
            }
            Err(failure) => self.failed(due, attempt, seq, &failure).await,
        }
    }

    async fn delivered(&self, due: &Due, attempt: u32, seq: u64) {
        let mail_id = due.mail_id.clone();
        if self.insist(MailDelivered { mail_id, attempt }, seq).await {
            tracing::info!(mail = %due.mail_id, attempt, "a mail with a key was sent");
            metrics::mail_delivered();
        }
    }

    async fn failed(&self, due: &Due, attempt: u32, seq: u64, failure: &Failure) {
        let is_final = failure.is_final || schedule::is_over(due.begun_at, Timestamp::now());
        metrics::mail_failed(failure.reason.as_str());
        let failed = MailFailed {
            mail_id: due.mail_id.clone(),
            attempt,
            reason: failure.text(),
            is_final,
        };
        if !self.insist(failed, seq).await {
            return;
        }
        if is_final {
            tracing::error!(mail = %due.mail_id, attempt, %failure, "a mail with a key was not taken, and is given up");
            metrics::mail_given_up();
        } else {
            tracing::warn!(mail = %due.mail_id, attempt, %failure, "a mail with a key was not taken; it will be tried again");
        }
    }

    async fn give_up_at_once(&self, due: Due) {
        let failed = MailFailed {
            mail_id: due.mail_id.clone(),
            attempt: due.attempts,
            reason: Text::parse(NO_ADDRESS).unwrap_or_default(),
            is_final: true,
        };
        if self.say(failed, due.last_seq).await.is_ok() {
            tracing::error!(mail = %due.mail_id, "the address of a subscriber is none that mail can be sent to");
            metrics::mail_given_up();
        }
    }

    /// Says how an attempt ended, however long that takes: a mail that was sent would be sent again. Says whether that is how it
    /// stands.
    async fn insist(&self, fact: impl Into<Fact>, behind: u64) -> bool {
        let event = AccountEvent::new(fact, Timestamp::now().into());
        loop {
            match self.append(&event, behind).await {
                Ok(_) => return true,
                Err(LogError::Conflict) => {
                    tracing::warn!(subject = %event.fact.subject(), "another replica took a mail over that was still on its way");
                    return false;
                }
                Err(error) => {
                    tracing::warn!(%error, "it cannot be said yet what became of a mail");
                    sleep(SAY_AGAIN).await;
                }
            }
        }
    }

    /// Says something behind a place on its subject, and where it stands then.
    async fn say(&self, fact: impl Into<Fact>, behind: u64) -> Result<u64, LogError> {
        let event = AccountEvent::new(fact, Timestamp::now().into());
        let said = self.append(&event, behind).await;
        if let Err(error) = &said {
            tracing::debug!(%error, subject = %event.fact.subject(), "left to another one, or for later");
        }
        said
    }

    /// Waits until the ledger has heard of it: what is looked at next is what stands there.
    async fn append(&self, event: &AccountEvent, behind: u64) -> Result<u64, LogError> {
        let subject = event.fact.subject();
        let appended = self
            .log
            .append_expecting(ACCOUNTS, event.into(), behind)
            .await;
        let least = match &appended {
            Ok(appended) => appended.seq,
            Err(LogError::Conflict) => behind + 1,
            Err(_) => 0,
        };
        let mut ledger = self.ledger.clone();
        let heard = ledger.wait_for(|ledger| ledger.last_seq(&subject) >= least);
        // An error means that the service is ending.
        let _ = timeout(HEAR_TIMEOUT, heard).await;
        appended.map(|appended| appended.seq)
    }
}
