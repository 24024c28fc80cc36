//! [`Watcher`]: what holds at each change of a replica, also where it lasts only for a moment.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::checks::SLACK;
use super::machine::uptime;
use super::server::{LogServer, Model};
use crate::health::{Health, Liveness, STALE_AFTER};
use crate::log::{ACCOUNTS, RACING};
use crate::projector::{Phase, Status};

/// Looks at a process whenever it publishes something.
pub(super) struct Watcher {
    health: Health,
    status: watch::Receiver<Status>,
    server: LogServer,
    /// What it has found.
    pub(super) wrong: Arc<Mutex<Option<String>>>,
    /// The last events of the log and of the keys when the process started.
    began_at: [u64; 2],
}

impl Watcher {
    pub(super) fn new(
        (health, status): (Health, watch::Receiver<Status>),
        server: LogServer,
    ) -> Self {
        let last = |stream: &str| {
            let model = server.model.lock();
            let stream = model.streams.all.get(stream);
            stream.map_or(0, |stream| stream.seq_at(Duration::MAX))
        };
        Self {
            began_at: [RACING.name, ACCOUNTS.name].map(last),
            health,
            status,
            server,
            wrong: Arc::default(),
        }
    }

    pub(super) async fn run(self) {
        let mut position = self.health.feed.watch();
        let mut status = self.status.clone();
        let mut ledger = self.health.ledger.clone();
        loop {
            let is_sent = tokio::select! {
                biased;
                changed = position.changed() => changed.is_ok().then_some(true),
                changed = status.changed() => changed.is_ok().then_some(false),
                changed = ledger.changed() => changed.is_ok().then_some(false),
            };
            let Some(is_sent) = is_sent else { return };
            if let Err(wrong) = self.check(is_sent) {
                self.wrong.lock().get_or_insert(wrong);
            }
        }
    }

    fn check(&self, is_sent: bool) -> Result<(), String> {
        self.views(is_sent)?;
        let model = self.server.model.lock();
        is_fresh(&model, &self.health)?;
        let [log, keys] = self.began_at;
        let status = self.health.monitor.progress();
        let is_whole_log = !model.has_lost && !model.has_answered_from_before;
        if status.phase == Phase::Live && status.seq < log && is_whole_log {
            let seq = status.seq;
            return Err(format!("the views are live at {seq}, before event {log}"));
        }
        let seq = self.health.ledger.borrow().seq;
        if self.health.keys.is_complete() && seq < keys && !model.has_lost_accounts {
            return Err(format!(
                "keys are accepted as of {seq}, before event {keys}"
            ));
        }
        Ok(())
    }

    /// Nothing is published before the views on this disk have it, and what is served is whole.
    fn views(&self, is_sent: bool) -> Result<(), String> {
        let Some(store) = self.health.views.current() else {
            return Ok(());
        };
        if store.is_torn() {
            return Ok(());
        }
        let sent = self.health.feed.position();
        let is_of_feed = is_sent || self.health.monitor.progress().phase == Phase::Live;
        if is_of_feed && store.seq() < sent.seq {
            let [sent, seq] = [sent.seq, store.seq()];
            return Err(format!(
                "sockets were sent event {sent}, and the views had {seq}"
            ));
        }
        if !store.accepts_writes()
            && let Ok(recount) = store.recount()
            && recount
                .checkpoint
                .is_some_and(|checkpoint| checkpoint.digest != recount.digest)
        {
            return Err("after a write that failed, a part of a commit is served".to_owned());
        }
        Ok(())
    }
}

/// The feed is live only if it has what the log had a while ago.
pub(super) fn is_fresh(model: &Model, health: &Health) -> Result<(), String> {
    let state = health.state();
    let Some(then) = uptime().and_then(|now| now.checked_sub(STALE_AFTER + SLACK)) else {
        return Ok(());
    };
    if model.has_answered_from_before || state.liveness() != Liveness::Live {
        return Ok(());
    }
    let seq = state.fold.seq;
    let stream = model.streams.all.get(RACING.name);
    let expected = stream.map_or(0, |stream| stream.seq_at(then));
    if seq < expected {
        return Err(format!(
            "the feed at {seq} is live, and the log was at {expected}"
        ));
    }
    Ok(())
}
