//! [`Feeder`]: a program that publishes events with the appender that ships, and remembers what was acknowledged.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::chance::Chance;
use super::facts::{Facts, Possible, parse, price};
use super::machine::Machine;
use super::script::{SHARED_ID, Script};
use super::server::{Host, LogServer};
use crate::log::{Appended, Appender, Log, Outgoing, RACING};

pub(super) struct Feeder {
    pub(super) machine: Machine,
    pub(super) host: Host,
    server: LogServer,
    pub(super) state: Arc<Mutex<FeederState>>,
    tasks: Vec<AbortOnDropHandle<()>>,
}

/// What a feeder remembers over its restarts.
pub(super) struct FeederState {
    script: Script,
    chance: Chance,
    pub(super) sent: Vec<Sent>,
    /// Those of the running process without an acknowledgement, in their order.
    awaiting: VecDeque<usize>,
    /// Once in so many times, it has several events.
    bursts_one_in: u64,
    /// So many events follow at once.
    pub(super) flood: u64,
    pub(super) wrong: Option<String>,
}

pub(super) struct Sent {
    pub(super) outgoing: Outgoing,
    pub(super) acknowledged: bool,
    /// A process that ended may have sent it, or may not.
    pub(super) was_interrupted: bool,
    /// It repeats an earlier one.
    is_repeated: bool,
}

impl Sent {
    /// Whether the log may have it twice, though its feeder published it once.
    pub(super) fn may_be_there_twice(&self) -> bool {
        self.is_repeated || self.outgoing.id.starts_with(SHARED_ID)
    }
}

impl Feeder {
    pub(super) fn new(n: usize, host: Host, server: &LogServer, chance: &mut Chance) -> Self {
        let state = FeederState {
            script: Script::new(n, chance.fork()),
            chance: chance.fork(),
            sent: Vec::new(),
            bursts_one_in: *chance.pick(&[2, 6, 6]),
            awaiting: VecDeque::new(),
            flood: 0,
            wrong: None,
        };
        Self {
            machine: Machine::new(),
            host,
            server: server.clone(),
            state: Arc::new(Mutex::new(state)),
            tasks: Vec::new(),
        }
    }

    pub(super) fn start(&mut self) {
        self.stop();
        self.state.lock().interrupt();
        let feeding = feed(self.server.clone(), self.host, Arc::clone(&self.state));
        let log = Log::simulated(self.server.connect(self.host));
        let source = self.state.lock().script.source();
        let alive = log.keep_alive(move || vec![source.clone()]);
        let tasks = [feeding.boxed(), alive.boxed()];
        self.tasks = tasks
            .map(|task| AbortOnDropHandle::new(self.machine.spawn(task)))
            .into();
    }

    pub(super) fn stop(&mut self) {
        self.tasks.clear();
    }
}

async fn feed(server: LogServer, host: Host, state: Arc<Mutex<FeederState>>) {
    loop {
        let log = Log::simulated(server.connect(host));
        let mut appender = log.appender();
        // An error ends the process, and another one begins.
        publish(&server, &mut appender, &state).await;
        state.lock().interrupt();
    }
}

/// Publishes what was not acknowledged, and then events, until that fails.
async fn publish(server: &LogServer, appender: &mut Appender, state: &Mutex<FeederState>) {
    let unacknowledged = state.lock().resend();
    for outgoing in unacknowledged {
        if appender.append(outgoing).await.is_err() {
            return;
        }
        state.lock().take_done(server, appender);
    }
    loop {
        let burst = state.lock().burst();
        for _ in 0..burst {
            let outgoing = state.lock().next();
            let appended = appender.append(outgoing).await;
            state.lock().take_done(server, appender);
            if appended.is_err() {
                return;
            }
        }
        let flushed = appender.flush().await;
        state.lock().take_done(server, appender);
        if flushed.is_err() {
            return;
        }
        let pause = state.lock().chance.between(100, 2_500);
        sleep(Duration::from_millis(pause)).await;
    }
}

impl FeederState {
    fn burst(&mut self) -> u64 {
        if self.flood > 0 {
            std::mem::take(&mut self.flood)
        } else if self.chance.one_in(self.bursts_one_in) {
            self.chance.between(2, 48)
        } else {
            1
        }
    }

    fn next(&mut self) -> Outgoing {
        let (outgoing, is_repeated) = self.script.next();
        self.awaiting.push_back(self.sent.len());
        self.sent.push(Sent {
            outgoing: outgoing.clone(),
            acknowledged: false,
            was_interrupted: false,
            is_repeated,
        });
        outgoing
    }

    fn interrupt(&mut self) {
        for n in self.awaiting.drain(..) {
            self.sent[n].was_interrupted = true;
        }
    }

    fn resend(&mut self) -> Vec<Outgoing> {
        let unacknowledged = (0..self.sent.len()).filter(|n| !self.sent[*n].acknowledged);
        self.awaiting = unacknowledged.collect();
        let outgoing = |n: &usize| self.sent[*n].outgoing.clone();
        self.awaiting.iter().map(outgoing).collect()
    }

    /// Checks that the acknowledgements are those of the messages, in their order.
    fn take_done(&mut self, server: &LogServer, appender: &mut Appender) {
        for Appended { seq, .. } in appender.take_done() {
            let Some(n) = self.awaiting.pop_front() else {
                self.wrong = Some("more acknowledgements than messages".to_owned());
                return;
            };
            self.sent[n].acknowledged = true;
            let expected = &self.sent[n].outgoing;
            let model = server.model.lock();
            let stream = model.streams.all.get(RACING.name);
            let found = stream.and_then(|stream| stream.messages.get(&seq));
            // Without a message, the log has lost it since.
            if found.is_some_and(|found| found.payload != expected.payload) && !model.has_lost {
                let id = &expected.id;
                self.wrong = Some(format!(
                    "the acknowledgement of {id} names event {seq}, which is another one"
                ));
            }
        }
    }

    /// Checks that everything acknowledged is in the log, that the facts about each race are in their order, and that
    /// no event reached the server before an earlier one.
    pub(super) fn check(
        &self,
        positions: &BTreeMap<&[u8], u64>,
        arrived: &HashMap<Bytes, usize>,
        may_be_lost: bool,
    ) -> Result<(), String> {
        let mut last: BTreeMap<&str, u64> = BTreeMap::new();
        let mut last_arrived = 0;
        for sent in &self.sent {
            let Sent { outgoing, .. } = sent;
            let position = positions.get(&outgoing.payload[..]);
            if position.is_none() && sent.acknowledged && !may_be_lost {
                return Err(format!(
                    "the acknowledged event {} is not in the log",
                    outgoing.id
                ));
            }
            if sent.is_repeated {
                continue;
            }
            if let Some(n) = arrived.get(&outgoing.payload[..]) {
                if *n < last_arrived {
                    let id = &outgoing.id;
                    return Err(format!("a later event reached the server before {id}"));
                }
                last_arrived = *n;
            }
            let Some(position) = position else { continue };
            if sent.was_interrupted || may_be_lost {
                continue;
            }
            let race = outgoing.subject.splitn(3, '.').last().unwrap_or_default();
            let before = last.insert(race, *position).unwrap_or(0);
            if before > *position {
                return Err(format!(
                    "event {position} of {race} was appended after event {before}"
                ));
            }
        }
        Ok(())
    }

    /// Checks that of each horse the price that was published last is in force, whatever came between it and the log,
    /// unless the log's clock was behind.
    pub(super) fn check_prices(&self, facts: &Facts) -> Result<(), String> {
        let mut last: BTreeMap<(String, String, String), Possible> = BTreeMap::new();
        for sent in self.sent.iter().filter(|sent| !sent.is_repeated) {
            let Outgoing {
                subject, payload, ..
            } = &sent.outgoing;
            let Some((race, event)) = parse(subject, payload).filter(|_| subject.contains("odds"))
            else {
                continue;
            };
            let runner = &event["data"]["runners"][0];
            let horse = runner["horse_no"].as_str().unwrap_or_default().to_owned();
            let source = event["source"].as_str().unwrap_or_default().to_owned();
            let wins = last.entry((race, source, horse)).or_default();
            let id = event["id"].as_str().unwrap_or_default();
            if sent.acknowledged && !sent.was_interrupted && !facts.was_ahead(id) {
                wins.clear();
            }
            wins.insert(price(&runner["win"]));
        }
        for ((race, source, horse), published) in last {
            let in_force = facts.win(&race, &source, &horse);
            // Without any in force, none was acknowledged.
            if in_force.is_some_and(|in_force| in_force.is_disjoint(&published)) {
                return Err(format!(
                    "the price of {horse} of {source} is {in_force:?}, and the last one published was {published:?}"
                ));
            }
        }
        Ok(())
    }
}
