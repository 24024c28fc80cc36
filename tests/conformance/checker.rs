//! [`Checker`]: compares what a client received with what the oracle expects.

use std::collections::HashMap;

use serde_json::Value;

use super::client::{Observation, Op, Plan, Reason, Record};
use super::oracle::{Expected, KINDS, MadeAt, ODDS, Oracle};

/// Violations that are recorded of one client.
const VIOLATIONS_MAX: usize = 8;

/// A message that was received, compared with the oracle's.
#[derive(Debug)]
struct CheckedMessage {
    /// The index of the oracle's message.
    index: usize,
    snapshot: bool,
    conflated: Option<u64>,
    by_client: bool,
    prev_seq: u64,
    /// What is wrong with it, if it was made with its event.
    wrong_at_once: Option<String>,
    /// What is wrong with it, whenever it was made.
    wrong: Option<String>,
}

#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    pub(crate) clients: u64,
    pub(crate) connections: u64,
    pub(crate) messages: u64,
    pub(crate) resumed: u64,
    pub(crate) not_recovered: u64,
    pub(crate) resyncs: u64,
    pub(crate) repeated: u64,
    pub(crate) conflated: u64,
    pub(crate) merged: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.clients += other.clients;
        self.connections += other.connections;
        self.messages += other.messages;
        self.resumed += other.resumed;
        self.not_recovered += other.not_recovered;
        self.resyncs += other.resyncs;
        self.repeated += other.repeated;
        self.conflated += other.conflated;
        self.merged += other.merged;
    }
}

#[derive(Debug)]
pub(crate) struct Checker {
    oracle: Oracle,
    received: Vec<Value>,
    checked: Vec<Result<CheckedMessage, String>>,
}

impl Checker {
    pub(crate) fn new(oracle: Oracle, received: Vec<Value>) -> Self {
        let checked = received
            .iter()
            .map(|message| check_message(&oracle, message))
            .collect();
        Self {
            oracle,
            received,
            checked,
        }
    }

    pub(crate) fn oracle(&self) -> &Oracle {
        &self.oracle
    }

    /// The expected message for a received one.
    pub(crate) fn expected(&self, number: u32) -> Option<&Expected> {
        let checked = self.checked.get(number as usize)?.as_ref().ok()?;
        Some(&self.oracle.messages[checked.index])
    }

    /// Finds the violations in a client's record.
    pub(crate) fn check(&self, record: &Record) -> (Tally, Vec<String>) {
        let mut check = ClientCheck::new(self, &record.plan);
        for (_, observation) in &record.entries {
            check.observe(*observation);
            if check.violations.len() >= VIOLATIONS_MAX {
                break;
            }
        }
        check.end();
        (check.tally, check.violations)
    }
}

fn check_message(oracle: &Oracle, message: &Value) -> Result<CheckedMessage, String> {
    let problem = |problem: &str| format!("{problem}: {message}");
    let kind = KINDS.iter().position(|kind| message["event"] == *kind);
    let kind = kind.ok_or_else(|| problem("no such kind"))?;
    let race = oracle
        .race(message)
        .ok_or_else(|| problem("no such race"))?;
    let seq = message["seq"].as_u64().ok_or_else(|| problem("no seq"))?;
    let index = oracle
        .find(race, kind, seq)
        .ok_or_else(|| problem("no event made such a message"))?;
    let snapshot = message["snapshot"] == true;
    let conflated = message.get("conflated").and_then(Value::as_u64);
    let prev_seq = message["prev_seq"]
        .as_u64()
        .ok_or_else(|| problem("no prev_seq"))?;
    if conflated.is_none() && prev_seq != oracle.messages[index].prev_seq {
        return Err(problem(&format!(
            "prev_seq is not {}",
            oracle.messages[index].prev_seq
        )));
    }
    if snapshot && conflated.is_some()
        || conflated == Some(1)
        || (snapshot || conflated.is_some()) && kind != ODDS
    {
        return Err(problem("an invalid mix of snapshot and conflated"));
    }
    let wrong = |made_at| {
        oracle
            .compare(index, message, made_at)
            .map(|wrong| problem(&wrong))
    };
    Ok(CheckedMessage {
        index,
        snapshot,
        conflated,
        by_client: message["conflated_by"] == "client",
        prev_seq,
        wrong_at_once: wrong(MadeAt::Once),
        wrong: wrong(MadeAt::Later),
    })
}

/// The check of one client.
struct ClientCheck<'a> {
    checker: &'a Checker,
    plan: &'a Plan,
    /// The messages that it must receive, in order.
    expected: Vec<usize>,
    /// The next one of them.
    next: usize,
    /// Odds that were not received: a conflated message must follow. By race.
    skipped: HashMap<usize, Vec<usize>>,
    /// Images since the last `snapshot_complete`, with the index of the oracle's message.
    images: Vec<(u32, usize)>,
    phase: Phase,
    since: Option<u64>,
    /// Messages about races since the welcome.
    replayed: u32,
    /// The `seq` of the last message of this connection.
    last: u64,
    ops: std::collections::VecDeque<Op>,
    tally: Tally,
    violations: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing was received yet, or earlier messages do not hold.
    Fresh,
    /// Missed messages are sent again.
    Replay,
    Live,
}

impl<'a> ClientCheck<'a> {
    fn new(checker: &'a Checker, plan: &'a Plan) -> Self {
        let oracle = &checker.oracle;
        let passes: Vec<bool> = oracle
            .races
            .iter()
            .map(|race| plan.follow.matches(race))
            .collect();
        let wanted = |message: &Expected| {
            passes[message.race] && (plan.kinds.is_empty() || plan.kinds.contains(&message.kind))
        };
        let expected = (0..oracle.messages.len()).filter(|index| wanted(&oracle.messages[*index]));
        Self {
            checker,
            plan,
            expected: expected.collect(),
            next: 0,
            skipped: HashMap::new(),
            images: Vec::new(),
            phase: Phase::Fresh,
            since: None,
            replayed: 0,
            last: 0,
            ops: std::collections::VecDeque::new(),
            tally: Tally {
                clients: 1,
                ..Tally::default()
            },
            violations: Vec::new(),
        }
    }

    fn report(&mut self, what: String) {
        self.violations.push(format!(
            "{:?} {:?} conflate {}, connection {}: {what}",
            self.plan.follow, self.plan.kinds, self.plan.conflate_ms, self.tally.connections
        ));
    }

    fn message(&self, at: usize) -> &'a Expected {
        &self.checker.oracle.messages[self.expected[at]]
    }

    /// The first expected message after a log sequence.
    fn first_after(&self, seq: u64) -> usize {
        self.expected
            .partition_point(|index| self.checker.oracle.messages[*index].seq <= seq)
    }

    fn observe(&mut self, observation: Observation) {
        match observation {
            Observation::Connecting { since } => self.connecting(since),
            Observation::Welcome { recovered, reason } => self.welcome(recovered, reason),
            Observation::Message(number) => self.message_received(number),
            Observation::Complete {
                seq,
                races,
                replayed,
            } => self.complete(seq, races, replayed),
            Observation::Heartbeat { seq, .. } => self.everything_up_to(seq, "a heartbeat"),
            Observation::Acknowledged(Op::Ping) => {}
            Observation::Acknowledged(op) => self.ops.push_back(op),
            Observation::Resync => {
                self.tally.resyncs += 1;
                self.begin_fresh();
            }
            Observation::Closing | Observation::Disconnected => {}
            Observation::CouldNotConnect => self.report("it could not reconnect".to_owned()),
        }
    }

    fn begin_fresh(&mut self) {
        self.phase = Phase::Fresh;
        self.skipped.clear();
        self.images.clear();
    }

    fn connecting(&mut self, since: Option<u64>) {
        self.tally.connections += 1;
        self.images.clear();
        self.ops.clear();
        (self.since, self.replayed, self.last) = (since, 0, 0);
        let Some(since) = since else {
            return self.begin_fresh();
        };
        if let Some(at) = (self.next < self.expected.len()).then_some(self.next) {
            let (seq, nth, kind) = (
                self.message(at).seq,
                self.message(at).nth,
                self.message(at).kind,
            );
            if seq < since || seq == since && nth == 0 {
                self.report(format!(
                    "{} {seq} was not received, and it resumes after {since}",
                    KINDS[kind]
                ));
            }
        }
        self.nothing_held_up_to(since, "a resume");
        self.skipped.clear();
    }

    fn welcome(&mut self, recovered: Option<bool>, reason: Reason) {
        match (self.since, recovered, reason) {
            (None, None, Reason::None) => self.begin_fresh(),
            (Some(since), Some(true), Reason::None) => {
                self.tally.resumed += 1;
                self.phase = Phase::Replay;
                self.next = self
                    .next
                    .min(self.first_after(since))
                    .max(self.repeated_from(since));
            }
            (Some(_), Some(false), Reason::OtherEpoch | Reason::TooFarBehind | Reason::Ahead) => {
                self.tally.not_recovered += 1;
                self.begin_fresh();
            }
            other => self.report(format!("an unexpected welcome: {other:?}")),
        }
    }

    /// The first message of the event at `since` that is sent again: all but the first are.
    fn repeated_from(&self, since: u64) -> usize {
        let mut at = self.first_after(since);
        while at > 0 && self.message(at - 1).seq == since && self.message(at - 1).nth > 0 {
            at -= 1;
        }
        at
    }

    fn message_received(&mut self, number: u32) {
        self.tally.messages += 1;
        let checked = match &self.checker.checked[number as usize] {
            Ok(checked) => checked,
            Err(wrong) => return self.report(wrong.clone()),
        };
        if checked.snapshot {
            self.images.push((number, checked.index));
            return;
        }
        self.replayed += 1;
        let seq = self.checker.oracle.messages[checked.index].seq;
        if self.phase == Phase::Fresh {
            return self.report(format!(
                "{} before the snapshots were complete",
                self.checker.received[number as usize]
            ));
        }
        if seq < self.last {
            self.report(format!("{seq} came after {}", self.last));
        }
        self.last = seq;
        let conflates = self.plan.conflate_ms > 0 || self.plan.stalls;
        let wrong = if conflates || checked.conflated.is_some() {
            &checked.wrong
        } else {
            &checked.wrong_at_once
        };
        if let Some(wrong) = wrong {
            self.report(wrong.clone());
        }
        match self.expected.binary_search(&checked.index) {
            Ok(at) if at >= self.next => self.accept(at, checked),
            Ok(at)
                if self.phase == Phase::Replay
                    && at >= self.repeated_from(self.since.unwrap_or(0))
                    && at < self.first_after(self.since.unwrap_or(0)) =>
            {
                self.tally.repeated += 1;
            }
            Ok(_) => self.report(format!(
                "twice, or too late: {}",
                self.checker.received[number as usize]
            )),
            Err(_) => self.report(format!(
                "not requested: {}",
                self.checker.received[number as usize]
            )),
        }
    }

    /// Accepts a message that was expected. Odds before it were held back; other messages before it are missing.
    fn accept(&mut self, at: usize, checked: &CheckedMessage) {
        for passed in self.next..at {
            let (kind, race, seq) = (
                self.message(passed).kind,
                self.message(passed).race,
                self.message(passed).seq,
            );
            if kind == ODDS {
                self.skipped.entry(race).or_default().push(passed);
            } else {
                self.report(format!(
                    "{} {seq} is missing before {}",
                    KINDS[kind],
                    self.message(at).seq
                ));
            }
        }
        self.next = at + 1;
        let message = self.message(at);
        if message.kind != ODDS {
            return;
        }
        let skipped = self.skipped.remove(&message.race).unwrap_or_default();
        let stands_for = skipped.len() as u64 + 1;
        let first = skipped
            .first()
            .map_or(message, |first| self.message(*first));
        match checked.conflated {
            None if skipped.is_empty() => {}
            None => self.report(format!(
                "odds {} are missing before {}, without conflation",
                first.seq, message.seq
            )),
            Some(stated) if stated != stands_for || checked.prev_seq != first.prev_seq => self
                .report(format!(
                    "{} merges {stated} after {}, but should merge {stands_for} after {}",
                    message.seq, checked.prev_seq, first.prev_seq
                )),
            Some(_) => {}
        }
        if let Some(stated) = checked.conflated {
            self.tally.conflated += 1;
            self.tally.merged += stated;
            if checked.by_client && self.plan.conflate_ms == 0 {
                self.report(format!(
                    "{} is conflated for the client, which did not request it",
                    message.seq
                ));
            }
        }
    }

    fn complete(&mut self, seq: u64, races: u32, replayed: u32) {
        let images = std::mem::take(&mut self.images);
        if races as usize != images.len() {
            self.report(format!(
                "{} snapshots came, and {races} were announced",
                images.len()
            ));
        }
        let op = if self.phase == Phase::Live {
            self.ops.pop_front()
        } else {
            None
        };
        match (self.phase, op) {
            (Phase::Fresh, _) => {
                self.images_are_all(&images, seq);
                self.next = self.first_after(seq);
            }
            (Phase::Live, Some(Op::Resync)) => {
                self.images_are_all(&images, seq);
                self.images_stand_for(&images, seq);
            }
            (Phase::Live, Some(_)) => {
                if !images.is_empty() {
                    self.report("snapshots of races that were followed before".to_owned());
                }
                self.everything_up_to(seq, "the answer to subscribe");
            }
            (Phase::Live, None) => {
                self.report("a snapshot_complete that was not requested".to_owned())
            }
            (Phase::Replay, _) => {
                if replayed != self.replayed {
                    self.report(format!(
                        "{} messages came, and {replayed} were announced",
                        self.replayed
                    ));
                }
                self.everything_up_to(seq, "the end of a resume");
            }
        }
        self.phase = Phase::Live;
    }

    /// There is one image of each open race, as it was at `seq`.
    fn images_are_all(&mut self, images: &[(u32, usize)], seq: u64) {
        let oracle = &self.checker.oracle;
        let wants_odds = self.plan.kinds.is_empty() || self.plan.kinds.contains(&ODDS);
        let followed = (0..oracle.races.len())
            .filter(|race| wants_odds && self.plan.follow.matches(&oracle.races[*race]));
        let mut open: Vec<usize> = followed
            .filter_map(|race| oracle.image(race, seq))
            .collect();
        let mut came: Vec<usize> = images.iter().map(|(_, index)| *index).collect();
        open.sort_unstable();
        came.sort_unstable();
        if open != came {
            let seqs = |indices: &[usize]| -> Vec<u64> {
                indices
                    .iter()
                    .map(|index| oracle.messages[*index].seq)
                    .collect()
            };
            self.report(format!(
                "the images at {seq} are {:?}, not {:?}",
                seqs(&came),
                seqs(&open)
            ));
        }
        for (number, index) in images {
            if let Some(wrong) = oracle.compare(
                *index,
                &self.checker.received[*number as usize],
                MadeAt::Place(seq),
            ) {
                self.report(format!("{wrong} in the image of {seq}"));
            }
        }
    }

    /// The messages up to `seq` that were not received are odds of races whose image was.
    fn images_stand_for(&mut self, images: &[(u32, usize)], seq: u64) {
        let race_of = |index: usize| self.checker.oracle.messages[index].race;
        let races: Vec<usize> = images.iter().map(|(_, index)| race_of(*index)).collect();
        let end = self.first_after(seq).max(self.next);
        for at in self.next..end {
            let (kind, race, seq) = (
                self.message(at).kind,
                self.message(at).race,
                self.message(at).seq,
            );
            if kind != ODDS || !races.contains(&race) {
                self.report(format!("{} {seq} was skipped by a resync", KINDS[kind]));
            }
        }
        self.next = end;
        self.skipped.retain(|race, _| !races.contains(race));
    }

    fn everything_up_to(&mut self, seq: u64, says: &str) {
        if self.phase == Phase::Fresh {
            return;
        }
        if self.next < self.expected.len() && self.message(self.next).seq <= seq {
            let (kind, missing) = (self.message(self.next).kind, self.message(self.next).seq);
            self.report(format!(
                "{says} confirms {seq}, but {} {missing} is missing",
                KINDS[kind]
            ));
        }
        self.nothing_held_up_to(seq, says);
    }

    fn nothing_held_up_to(&mut self, seq: u64, says: &str) {
        let skipped: Vec<u64> = self
            .skipped
            .values()
            .flatten()
            .map(|at| self.message(*at).seq)
            .filter(|skipped| *skipped <= seq)
            .collect();
        if !skipped.is_empty() {
            self.report(format!(
                "{says} confirms {seq}, but the odds {skipped:?} are missing"
            ));
        }
    }

    fn end(&mut self) {
        if self.violations.is_empty() {
            self.everything_up_to(u64::MAX, "the end");
        }
    }
}
