//! [`Step`]: what goes wrong, and [`plan`]: which of it a seed has, and when.

use std::time::Duration;

use super::chance::Chance;

pub(super) const REPLICAS: usize = 2;
pub(super) const FEEDERS: usize = 2;
/// The time in which things go wrong.
pub(super) const FAULTS_FOR: Duration = Duration::from_secs(60);
/// The longest time to the next fault, where one comes with another.
const TOGETHER_MS: u64 = 4_000;

#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    KillServer {
        ms: u64,
    },
    FreezeServer {
        ms: u64,
    },
    Elect {
        ms: u64,
    },
    AnswerFromBefore {
        ms: u64,
    },
    ConsumersFail {
        ms: u64,
    },
    LoseEnd {
        messages: u64,
    },
    Recreate,
    DeleteMessage,
    MoveServerClock {
        seconds: i64,
    },
    MoveAllClocks {
        seconds: i64,
    },
    MoveClock {
        replica: usize,
        seconds: i64,
    },
    MoveFeederClock {
        feeder: usize,
        seconds: i64,
    },
    Crash {
        replica: usize,
        tears: bool,
        ms: u64,
    },
    /// It crashes after it has run tasks so often.
    CrashAfter {
        replica: usize,
        polls: u64,
        tears: bool,
        ms: u64,
    },
    /// It crashes within a commit, before or after this is written.
    CrashInCommit {
        replica: usize,
        commits: u64,
        is_written: bool,
        tears: bool,
        ms: u64,
    },
    LoseDisk {
        replica: usize,
        ms: u64,
    },
    Stop {
        replica: usize,
        ms: u64,
    },
    Cut {
        replica: usize,
        ms: u64,
    },
    LoseAnswers {
        replica: usize,
        ms: u64,
    },
    Suspend {
        replica: usize,
        ms: u64,
    },
    FillDisk {
        replica: usize,
        ms: u64,
    },
    FailWrite {
        replica: usize,
    },
    FailSync {
        replica: usize,
    },
    /// The next write of views that are built beside others fails.
    FailNewWrite {
        replica: usize,
        ms: u64,
    },
    Damage {
        replica: usize,
    },
    Rebuild {
        replica: usize,
    },
    RestartFeeder {
        feeder: usize,
    },
    CutFeeder {
        feeder: usize,
        ms: u64,
    },
    LoseAnswersOfFeeder {
        feeder: usize,
        ms: u64,
    },
    RejectMessages {
        messages: u64,
    },
    /// What the server sends to a replica arrives later.
    DelayAnswers {
        replica: usize,
        delay_ms: u64,
        ms: u64,
    },
    /// Consumers deliver one message in this time.
    SlowConsumers {
        pause_ms: u64,
        ms: u64,
    },
    ConsumersSkip {
        ms: u64,
    },
    SlowDisk {
        replica: usize,
        ms: u64,
    },
    /// The small files of a data folder cannot be written.
    BlockFiles {
        replica: usize,
        ms: u64,
    },
    /// Many events at once. The connections of the feeder may be reset on the way.
    Flood {
        feeder: usize,
        events: u64,
        reset_after: Option<u64>,
    },
    /// An operator issues, rotates and revokes keys.
    ChangeKeys {
        commands: u64,
    },
    /// The stream of the keys is restored from before its last events.
    RestoreKeys {
        events: u64,
    },
    RevokeKey {
        replica: usize,
    },
}

impl Step {
    /// Whether a store may have a part of a commit afterwards.
    pub(super) fn may_tear(&self) -> bool {
        match self {
            Self::Crash { tears, .. }
            | Self::CrashAfter { tears, .. }
            | Self::CrashInCommit { tears, .. } => *tears,
            Self::FailWrite { .. } | Self::FailSync { .. } | Self::FailNewWrite { .. } => true,
            _ => false,
        }
    }

    /// Whether what is on its way to subscribers may be lost.
    pub(super) fn loses_messages(&self) -> bool {
        matches!(
            self,
            Self::KillServer { .. }
                | Self::FreezeServer { .. }
                | Self::Cut { .. }
                | Self::LoseEnd { .. }
                | Self::Recreate
                | Self::DeleteMessage
                | Self::RestoreKeys { .. }
        )
    }

    /// Whether it disturbs neither the replicas nor their way to the log.
    pub(super) fn is_harmless(&self) -> bool {
        matches!(
            self,
            Self::Rebuild { .. }
                | Self::RestartFeeder { .. }
                | Self::CutFeeder { .. }
                | Self::LoseAnswersOfFeeder { .. }
                | Self::MoveFeederClock { .. }
                | Self::ChangeKeys { .. }
                | Self::RevokeKey { .. }
        )
    }
}

/// A step, and when it comes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned {
    pub(super) at: Duration,
    pub(super) step: Step,
}

const KINDS: u64 = 40;

/// A few kinds of faults for each seed: so those that others would hide have seeds of their own.
pub(super) fn plan(chance: &mut Chance) -> Vec<Planned> {
    let kinds: Vec<u64> = (0..chance.between(1, 5))
        .map(|_| chance.below(KINDS))
        .collect();
    let count = chance.between(1, 18);
    let faults_for = u64::try_from(FAULTS_FOR.as_millis()).expect("small");
    let mut ms = 0;
    let mut plan: Vec<Planned> = (0..count)
        .map(|n| {
            let kind = *chance.pick(&kinds);
            ms = match n > 0 && chance.one_in(2) {
                true => faults_for.min(ms + chance.below(TOGETHER_MS)),
                false => chance.between(3_000, faults_for),
            };
            Planned {
                at: Duration::from_millis(ms),
                step: step(kind, chance),
            }
        })
        .collect();
    plan.sort_by_key(|planned| planned.at);
    plan
}

fn step(kind: u64, chance: &mut Chance) -> Step {
    let replica = usize::try_from(chance.below(REPLICAS as u64)).expect("small");
    let feeder = usize::try_from(chance.below(FEEDERS as u64)).expect("small");
    let ms = match chance.below(3) {
        0 => chance.between(5, 400),
        1 => chance.between(400, 8_000),
        _ => chance.between(8_000, 40_000),
    };
    let seconds = *chance.pick(&[-86_400, -7_200, -400, -30, -1, 1, 30, 400, 7_200, 86_400]);
    match kind {
        0 => Step::KillServer { ms },
        1 => Step::FreezeServer { ms },
        2 => Step::Elect { ms: ms.min(9_000) },
        3 => Step::AnswerFromBefore { ms: ms.min(4_000) },
        4 => Step::ConsumersFail { ms },
        5 => Step::LoseEnd {
            messages: chance.between(1, 20),
        },
        6 => Step::Recreate,
        7 => Step::DeleteMessage,
        8 => Step::MoveServerClock { seconds },
        9 => Step::MoveAllClocks { seconds },
        10 => Step::MoveClock { replica, seconds },
        11 => Step::MoveFeederClock { feeder, seconds },
        12 => Step::Crash {
            replica,
            tears: chance.one_in(2),
            ms,
        },
        13 => Step::CrashAfter {
            replica,
            polls: chance.below(400),
            tears: chance.one_in(2),
            ms,
        },
        14 => Step::LoseDisk { replica, ms },
        15 => Step::Stop { replica, ms },
        16 => Step::Cut { replica, ms },
        17 => Step::LoseAnswers { replica, ms },
        // Often about as long as a proof counts.
        18 if chance.one_in(2) => Step::Suspend {
            replica,
            ms: chance.between(5_000, 12_000),
        },
        18 => Step::Suspend { replica, ms },
        19 => Step::FillDisk { replica, ms },
        20 => Step::FailWrite { replica },
        21 => Step::FailSync { replica },
        22 => Step::Damage { replica },
        23 => Step::Rebuild { replica },
        24 => Step::RestartFeeder { feeder },
        25 => Step::CutFeeder { feeder, ms },
        26 => Step::LoseAnswersOfFeeder { feeder, ms },
        27 => Step::RejectMessages {
            messages: chance.between(1, 6),
        },
        28 => Step::CrashInCommit {
            replica,
            commits: chance.below(12),
            is_written: chance.one_in(2),
            tears: chance.one_in(2),
            ms,
        },
        29 => Step::RevokeKey { replica },
        kind => later_step(kind, (replica, feeder, ms), chance),
    }
}

fn later_step(kind: u64, (replica, feeder, ms): (usize, usize, u64), chance: &mut Chance) -> Step {
    match kind {
        30 => Step::DelayAnswers {
            replica,
            delay_ms: chance.between(200, 2_800),
            ms,
        },
        31 => Step::SlowConsumers {
            pause_ms: chance.between(200, 1_500),
            ms,
        },
        32 => Step::ConsumersSkip { ms },
        33 => Step::SlowDisk { replica, ms },
        34 => Step::BlockFiles { replica, ms },
        35 => Step::Flood {
            feeder,
            events: chance.between(30, 600),
            reset_after: chance.one_in(2).then(|| chance.between(1, 100)),
        },
        36 => Step::FailNewWrite { replica, ms },
        37 => Step::RestoreKeys {
            events: chance.between(1, 6),
        },
        _ => Step::ChangeKeys {
            commands: chance.between(1, 5),
        },
    }
}
