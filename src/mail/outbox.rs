//! [`Outbox`]: sends the mails that the ledger requests, at least once, and leaves one working link for each. It also
//! forgets addresses that nobody confirms, and erases those of forgotten subscriptions.
//!
//! The stream records every step: before a replica sends a mail, it appends the attempt with the hash of a new link,
//! expecting the last sequence of that mail. The link of the previous attempt stops working. If no result follows for
//! some time, another replica tries.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::{self, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use super::deliver::{DeliveryContext, MailTask, PendingMail, ServerOutcome};
use super::schedule;
use super::settings::Mailing;
use crate::accounts::{AccountCommands, AccountSubject, KeyCache, Ledger, UNCONFIRMED_KEPT};
use crate::public_url::PublicUrl;
use crate::shutdown::Shutdown;

/// The maximum number of mails in progress: servers accept few connections from one client.
const TASKS_MAX: usize = 4;
/// The longest time between two looks at the ledger, in case the clock is set.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The time limit for mails in progress at the shutdown. A mail that is cut off is sent again with another link.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends mails for as long as the service runs.
#[derive(Debug)]
pub struct Outbox {
    context: Arc<DeliveryContext>,
    ledger: watch::Receiver<Ledger>,
    keys: Arc<KeyCache>,
    server: ServerHealth,
    tasks: JoinSet<ServerOutcome>,
    /// What the tasks are about.
    in_progress: HashMap<task::Id, AccountSubject>,
}

/// Whether the mail server can be reached.
#[derive(Debug, Default)]
struct ServerHealth {
    failures: u32,
    closed_until: Option<Instant>,
}

impl Outbox {
    /// An outbox whose links begin with `url`.
    pub fn new(
        commands: AccountCommands,
        keys: Arc<KeyCache>,
        mailing: Mailing,
        url: PublicUrl,
    ) -> Self {
        Self {
            ledger: commands.ledger.clone(),
            context: Arc::new(DeliveryContext {
                commands,
                mailing,
                url,
            }),
            keys,
            server: ServerHealth::default(),
            tasks: JoinSet::new(),
            in_progress: HashMap::new(),
        }
    }

    /// Sends mails until the shutdown, and finishes those in progress.
    pub async fn run(mut self, shutdown: Shutdown) {
        tracing::info!(transport = %self.context.mailing.transport, "sending mails");
        loop {
            let wait = self.start_tasks();
            tokio::select! {
                () = shutdown.cancelled() => break,
                Some(ended) = self.tasks.join_next_with_id() => {
                    let task = match ended {
                        Ok((task, outcome)) => {
                            self.server.record(outcome);
                            task
                        }
                        Err(panicked) => {
                            self.server.close();
                            panicked.id()
                        }
                    };
                    self.in_progress.remove(&task);
                }
                Ok(()) = self.ledger.changed() => {}
                () = sleep(wait) => {}
            }
        }
        let finish = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(STOP_TIMEOUT, finish).await.is_err() {
            tracing::warn!(
                "a mail was being sent at the shutdown; it will be sent again with another link"
            );
        }
    }

    /// Starts the tasks that are due, and returns the time until the next one is.
    fn start_tasks(&mut self) -> Duration {
        // An incomplete ledger may not have the delivery of a mail yet.
        if !self.keys.is_complete() {
            self.ledger.mark_unchanged();
            return WAIT_MAX;
        }
        let (due, wait) = self.due_tasks(Timestamp::now());
        for task in due {
            let subject = task.subject();
            let context = Arc::clone(&self.context);
            let task = self.tasks.spawn(async move { context.run(task).await });
            self.in_progress.insert(task.id(), subject);
        }
        wait.min(WAIT_MAX)
    }

    /// The tasks that may start now, those without a mail first, and the time until the next mail is due.
    fn due_tasks(&mut self, now: Timestamp) -> (Vec<MailTask>, Duration) {
        let ledger = self.ledger.borrow_and_update();
        let is_idle =
            |task: &MailTask| !(self.in_progress.values()).any(|of| *of == task.subject());
        let to_erase = ledger.to_erase.iter();
        let erasures = to_erase.map(|(id, generation)| MailTask::Erase(id.clone(), *generation));
        let is_old = |since: Timestamp| now.duration_since(since) >= UNCONFIRMED_KEPT;
        let unconfirmed = ledger.unconfirmed();
        let unconfirmed = unconfirmed.filter(|(_, since)| is_old(*since));
        let forgets = unconfirmed.map(|(id, _)| MailTask::Forget(id.clone()));

        let timeout = self.context.mailing.transport.timeout();
        let mails = ledger.open_mails();
        let mails = mails.map(|(id, mail)| (schedule::due(mail, timeout), id, mail));
        let mut mails: Vec<_> = mails.collect();
        mails.sort_by_key(|(due, ..)| *due);
        let (due, later) = mails.split_at(mails.partition_point(|(due, ..)| *due <= now));
        let due = due.iter();
        let sends = due.filter_map(|(_, id, mail)| PendingMail::of(&ledger, id, mail));
        let sends = sends.map(|mail| MailTask::Send(Box::new(mail)));

        let next_mail = later.first().map(|(due, ..)| due.duration_since(now));
        let next_mail = next_mail.and_then(|wait| Duration::try_from(wait).ok());
        let wait = self.server.closed_for().or(next_mail);
        let in_progress = self.in_progress.len();
        let sends_max = self.server.slots().saturating_sub(in_progress);
        let tasks = erasures
            .chain(forgets)
            .filter(&is_idle)
            .chain(sends.filter(&is_idle).take(sends_max))
            .take(TASKS_MAX - in_progress)
            .collect();
        (tasks, wait.unwrap_or(WAIT_MAX))
    }
}

impl ServerHealth {
    /// How many tasks may be in progress. After a failure, a single task finds out whether the server is back.
    fn slots(&self) -> usize {
        match self.closed_until {
            Some(until) if Instant::now() < until => 0,
            Some(_) => 1,
            None => TASKS_MAX,
        }
    }

    /// The time until the server is tried again after a failure.
    fn closed_for(&self) -> Option<Duration> {
        let wait = self.closed_until?.saturating_duration_since(Instant::now());
        (!wait.is_zero()).then_some(wait)
    }

    fn record(&mut self, outcome: ServerOutcome) {
        match outcome {
            None => {}
            Some(Ok(())) => *self = Self::default(),
            Some(Err(error)) => {
                let retry_in = self.close();
                tracing::warn!(%error, ?retry_in, "mail server unavailable");
            }
        }
    }

    /// Counts a failure, and returns the wait until the server is tried again.
    fn close(&mut self) -> Duration {
        self.failures += 1;
        let wait = schedule::server_retry(self.failures);
        self.closed_until = Some(Instant::now() + wait);
        wait
    }
}
