//! [`Judge`]: holds what a client noted against what the oracle says that it had to hear.

use std::collections::HashMap;

use serde_json::Value;

use super::client::{Op, Plan, Reason, Record, What};
use super::oracle::{Expected, KINDS, MadeAt, ODDS, Oracle};

/// So many objections to one client say enough.
const OBJECTIONS_MAX: usize = 8;

/// What was heard, as the oracle knows it.
#[derive(Debug)]
struct Known {
    /// The oracle's message.
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
pub(crate) struct Judge {
    oracle: Oracle,
    heard: Vec<Value>,
    known: Vec<Result<Known, String>>,
}

impl Judge {
    pub(crate) fn new(oracle: Oracle, heard: Vec<Value>) -> Self {
        let known = heard.iter().map(|message| know(&oracle, message)).collect();
        Self {
            oracle,
            heard,
            known,
        }
    }

    pub(crate) fn oracle(&self) -> &Oracle {
        &self.oracle
    }

    /// The oracle's message that an entry is of.
    pub(crate) fn expected(&self, number: u32) -> Option<&Expected> {
        let known = self.known.get(number as usize)?.as_ref().ok()?;
        Some(&self.oracle.messages[known.index])
    }

    /// What there is to object to a client's record.
    pub(crate) fn judge(&self, record: &Record) -> (Tally, Vec<String>) {
        let mut case = Case::new(self, &record.plan);
        for (_, what) in &record.entries {
            case.hear(*what);
            if case.objections.len() >= OBJECTIONS_MAX {
                break;
            }
        }
        case.end();
        (case.tally, case.objections)
    }
}

fn know(oracle: &Oracle, message: &Value) -> Result<Known, String> {
    let say = |what: &str| format!("{what}: {message}");
    let kind = KINDS.iter().position(|kind| message["event"] == *kind);
    let kind = kind.ok_or_else(|| say("no such kind"))?;
    let race = oracle.race(message).ok_or_else(|| say("no such race"))?;
    let seq = message["seq"].as_u64().ok_or_else(|| say("no seq"))?;
    let index = oracle
        .find(race, kind, seq)
        .ok_or_else(|| say("nothing of the kind happened there"))?;
    let snapshot = message["snapshot"] == true;
    let conflated = message.get("conflated").and_then(Value::as_u64);
    let prev_seq = message["prev_seq"]
        .as_u64()
        .ok_or_else(|| say("no prev_seq"))?;
    if conflated.is_none() && prev_seq != oracle.messages[index].prev_seq {
        return Err(say(&format!(
            "prev_seq is not {}",
            oracle.messages[index].prev_seq
        )));
    }
    if snapshot && conflated.is_some()
        || conflated == Some(1)
        || (snapshot || conflated.is_some()) && kind != ODDS
    {
        return Err(say("a strange mixture"));
    }
    let wrong = |made_at| {
        oracle
            .compare(index, message, made_at)
            .map(|wrong| say(&wrong))
    };
    Ok(Known {
        index,
        snapshot,
        conflated,
        by_client: message["conflated_by"] == "client",
        prev_seq,
        wrong_at_once: wrong(MadeAt::Once),
        wrong: wrong(MadeAt::Later),
    })
}

/// One client's case.
struct Case<'a> {
    judge: &'a Judge,
    plan: &'a Plan,
    /// What it has to hear, of all that there is, in order.
    due: Vec<usize>,
    /// The next of them.
    next: usize,
    /// Odds that were passed over: one that stands for them has to come. By race.
    held: HashMap<usize, Vec<usize>>,
    /// Images that came since the last `snapshot_complete`, with their oracle's messages.
    images: Vec<(u32, usize)>,
    phase: Phase,
    since: Option<u64>,
    /// Messages about races since the welcome.
    replayed: u32,
    /// The `seq` of the last message of this connection.
    last: u64,
    ops: std::collections::VecDeque<Op>,
    tally: Tally,
    objections: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing was heard yet, or it no longer counts.
    Fresh,
    /// What was missed is said again.
    Replay,
    Live,
}

impl<'a> Case<'a> {
    fn new(judge: &'a Judge, plan: &'a Plan) -> Self {
        let oracle = &judge.oracle;
        let passes: Vec<bool> = oracle
            .races
            .iter()
            .map(|race| plan.follow.passes(race))
            .collect();
        let wanted = |message: &Expected| {
            passes[message.race] && (plan.kinds.is_empty() || plan.kinds.contains(&message.kind))
        };
        let due = (0..oracle.messages.len()).filter(|index| wanted(&oracle.messages[*index]));
        Self {
            judge,
            plan,
            due: due.collect(),
            next: 0,
            held: HashMap::new(),
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
            objections: Vec::new(),
        }
    }

    fn object(&mut self, what: String) {
        self.objections.push(format!(
            "{:?} {:?} conflate {}, connection {}: {what}",
            self.plan.follow, self.plan.kinds, self.plan.conflate_ms, self.tally.connections
        ));
    }

    fn message(&self, at: usize) -> &'a Expected {
        &self.judge.oracle.messages[self.due[at]]
    }

    /// The first that is due behind a place in the log.
    fn behind(&self, seq: u64) -> usize {
        self.due
            .partition_point(|index| self.judge.oracle.messages[*index].seq <= seq)
    }

    fn hear(&mut self, what: What) {
        match what {
            What::Connecting { since } => self.connecting(since),
            What::Welcome { recovered, reason } => self.welcome(recovered, reason),
            What::Message(number) => self.heard(number),
            What::Complete {
                seq,
                races,
                replayed,
            } => self.complete(seq, races, replayed),
            What::Heartbeat { seq, .. } => self.everything_up_to(seq, "a heartbeat"),
            What::Acked(Op::Ping) => {}
            What::Acked(op) => self.ops.push_back(op),
            What::Resync => {
                self.tally.resyncs += 1;
                self.begin_fresh();
            }
            What::Closing | What::Over => {}
            What::Stranded => self.object("it never came back".to_owned()),
        }
    }

    fn begin_fresh(&mut self) {
        self.phase = Phase::Fresh;
        self.held.clear();
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
        if let Some(at) = (self.next < self.due.len()).then_some(self.next) {
            let (seq, nth, kind) = (
                self.message(at).seq,
                self.message(at).nth,
                self.message(at).kind,
            );
            if seq < since || seq == since && nth == 0 {
                self.object(format!(
                    "{} {seq} was never heard, and it is to come back with {since}",
                    KINDS[kind]
                ));
            }
        }
        self.nothing_held_up_to(since, "coming back");
        self.held.clear();
    }

    fn welcome(&mut self, recovered: Option<bool>, reason: Reason) {
        match (self.since, recovered, reason) {
            (None, None, Reason::None) => self.begin_fresh(),
            (Some(since), Some(true), Reason::None) => {
                self.tally.resumed += 1;
                self.phase = Phase::Replay;
                self.next = self
                    .next
                    .min(self.behind(since))
                    .max(self.repeated_from(since));
            }
            (Some(_), Some(false), Reason::OtherEpoch | Reason::TooFarBehind | Reason::Ahead) => {
                self.tally.not_recovered += 1;
                self.begin_fresh();
            }
            other => self.object(format!("a welcome that does not fit: {other:?}")),
        }
    }

    /// What of the event at `since` is said again: all of its messages but the first.
    fn repeated_from(&self, since: u64) -> usize {
        let mut at = self.behind(since);
        while at > 0 && self.message(at - 1).seq == since && self.message(at - 1).nth > 0 {
            at -= 1;
        }
        at
    }

    fn heard(&mut self, number: u32) {
        self.tally.messages += 1;
        let known = match &self.judge.known[number as usize] {
            Ok(known) => known,
            Err(wrong) => return self.object(wrong.clone()),
        };
        if known.snapshot {
            self.images.push((number, known.index));
            return;
        }
        self.replayed += 1;
        let seq = self.judge.oracle.messages[known.index].seq;
        if self.phase == Phase::Fresh {
            return self.object(format!(
                "{} before the snapshots were complete",
                self.judge.heard[number as usize]
            ));
        }
        if seq < self.last {
            self.object(format!("{seq} came after {}", self.last));
        }
        self.last = seq;
        let conflates = self.plan.conflate_ms > 0 || self.plan.stalls;
        let wrong = if conflates || known.conflated.is_some() {
            &known.wrong
        } else {
            &known.wrong_at_once
        };
        if let Some(wrong) = wrong {
            self.object(wrong.clone());
        }
        match self.due.binary_search(&known.index) {
            Ok(at) if at >= self.next => self.take(at, known),
            Ok(at)
                if self.phase == Phase::Replay
                    && at >= self.repeated_from(self.since.unwrap_or(0))
                    && at < self.behind(self.since.unwrap_or(0)) =>
            {
                self.tally.repeated += 1;
            }
            Ok(_) => self.object(format!(
                "twice, or too late: {}",
                self.judge.heard[number as usize]
            )),
            Err(_) => self.object(format!(
                "nobody asked for {}",
                self.judge.heard[number as usize]
            )),
        }
    }

    /// A message that was still to come: those before it were held back, if they are odds, and else they are missing.
    fn take(&mut self, at: usize, known: &Known) {
        for passed in self.next..at {
            let (kind, race, seq) = (
                self.message(passed).kind,
                self.message(passed).race,
                self.message(passed).seq,
            );
            if kind == ODDS {
                self.held.entry(race).or_default().push(passed);
            } else {
                self.object(format!(
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
        let held = self.held.remove(&message.race).unwrap_or_default();
        let stands_for = held.len() as u64 + 1;
        let first = held.first().map_or(message, |first| self.message(*first));
        match known.conflated {
            None if held.is_empty() => {}
            None => self.object(format!("odds {} are missing before {}, and nothing says so", first.seq, message.seq)),
            Some(said) if said != stands_for || known.prev_seq != first.prev_seq => self.object(format!(
                "{} says that it stands for {said} from behind {}, but it is {stands_for} from behind {}",
                message.seq, known.prev_seq, first.prev_seq
            )),
            Some(_) => {}
        }
        if let Some(said) = known.conflated {
            self.tally.conflated += 1;
            self.tally.merged += said;
            if known.by_client && self.plan.conflate_ms == 0 {
                self.object(format!("{} says that the client asked for it", message.seq));
            }
        }
    }

    fn complete(&mut self, seq: u64, races: u32, replayed: u32) {
        let images = std::mem::take(&mut self.images);
        if races as usize != images.len() {
            self.object(format!(
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
                self.next = self.behind(seq);
            }
            (Phase::Live, Some(Op::Resync)) => {
                self.images_are_all(&images, seq);
                self.images_stand_for(&images, seq);
            }
            (Phase::Live, Some(_)) => {
                if !images.is_empty() {
                    self.object("snapshots of races that were followed before".to_owned());
                }
                self.everything_up_to(seq, "the answer to subscribe");
            }
            (Phase::Live, None) => {
                self.object("a snapshot_complete that nobody asked for".to_owned())
            }
            (Phase::Replay, _) => {
                if replayed != self.replayed {
                    self.object(format!(
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
        let oracle = &self.judge.oracle;
        let wants_odds = self.plan.kinds.is_empty() || self.plan.kinds.contains(&ODDS);
        let followed = (0..oracle.races.len())
            .filter(|race| wants_odds && self.plan.follow.passes(&oracle.races[*race]));
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
            self.object(format!(
                "the images at {seq} are {:?}, not {:?}",
                seqs(&came),
                seqs(&open)
            ));
        }
        for (number, index) in images {
            if let Some(wrong) = oracle.compare(
                *index,
                &self.judge.heard[*number as usize],
                MadeAt::Place(seq),
            ) {
                self.object(format!("{wrong} in the image of {seq}"));
            }
        }
    }

    /// What was passed over up to `seq` are odds of which an image came.
    fn images_stand_for(&mut self, images: &[(u32, usize)], seq: u64) {
        let race_of = |index: usize| self.judge.oracle.messages[index].race;
        let races: Vec<usize> = images.iter().map(|(_, index)| race_of(*index)).collect();
        let end = self.behind(seq).max(self.next);
        for at in self.next..end {
            let (kind, race, seq) = (
                self.message(at).kind,
                self.message(at).race,
                self.message(at).seq,
            );
            if kind != ODDS || !races.contains(&race) {
                self.object(format!("{} {seq} was passed over by a resync", KINDS[kind]));
            }
        }
        self.next = end;
        self.held.retain(|race, _| !races.contains(race));
    }

    fn everything_up_to(&mut self, seq: u64, says: &str) {
        if self.phase == Phase::Fresh {
            return;
        }
        if self.next < self.due.len() && self.message(self.next).seq <= seq {
            let (kind, missing) = (self.message(self.next).kind, self.message(self.next).seq);
            self.object(format!(
                "{says} says {seq}, but {} {missing} is missing",
                KINDS[kind]
            ));
        }
        self.nothing_held_up_to(seq, says);
    }

    fn nothing_held_up_to(&mut self, seq: u64, says: &str) {
        let held: Vec<u64> = self
            .held
            .values()
            .flatten()
            .map(|at| self.message(*at).seq)
            .filter(|held| *held <= seq)
            .collect();
        if !held.is_empty() {
            self.object(format!(
                "{says} says {seq}, but the odds {held:?} are missing"
            ));
        }
    }

    fn end(&mut self) {
        if self.objections.is_empty() {
            self.everything_up_to(u64::MAX, "the end");
        }
    }
}
