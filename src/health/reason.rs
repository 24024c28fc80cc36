//! [`Reason`]: something that is wrong, and what it means for clients and operators.

use schemars::JsonSchema;
use serde::Serialize;

use super::history::IncidentKind;

/// Something that is wrong. The first one is named before the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// A full disk stops the fold.
    DiskFull,
    /// Another error stops the fold, which starts over.
    FoldFailed,
    Stopping,
    OpeningViews,
    /// A stream has another history than was read of it.
    LogDiverged,
    /// The views are those of another log than the one that is there.
    ViewsDiverged,
    /// Nothing was folded since the start or an error, and NATS cannot be reached.
    LogUnreachable,
    /// As [`Self::LogUnreachable`], but NATS is connected.
    LogSilent,
    CatchingUp,
    /// There are no views to read.
    NoViews,
    KeysNotRead,
    /// It could not be learned for too long whether keys were revoked.
    KeysStale,
    /// The views lag, and those of another replica do not.
    Lagging,
    /// NATS is not connected.
    Disconnected,
    /// For 30 seconds it is not known whether the views hold the whole log.
    ViewsDown,
    /// For 10 seconds it is not known whether the views hold the whole log.
    ViewsStale,
    /// For less than 10 seconds it is not known, and the service has been live before.
    ViewsBehind,
    /// For less than 10 seconds it is not known, and the service has not been live yet.
    Starting,
    /// Views are built in place of others.
    Rebuilding,
    /// No snapshot of the views could be written, twice in a row.
    SnapshotsFail,
    /// Servers of the log are away, or lack what it has.
    LogServersAway,
    /// Acknowledged events can be lost, as far as can be seen.
    LogAtRisk,
    MailLate,
}

// A part of the service, as its users know it. No docstring: it would stand in the OpenAPI document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ComponentName")]
pub(crate) enum Component {
    Api,
    LiveOdds,
    Feeders,
    Mail,
}

impl Component {
    pub(crate) const ALL: [Self; 4] = [Self::Api, Self::LiveOdds, Self::Feeders, Self::Mail];
}

/// What a reason means for a part of the service, with the sentence for its users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Impact {
    None,
    Operational(&'static str),
    Degraded(&'static str),
    Down(&'static str),
}

use Impact::{Degraded, Down, Operational};

const NONE: Impact = Impact::None;

const STOPPING: Impact = Down("This server is being stopped.");
const OPENS_DATA: Impact =
    Down("The service is starting, and opens its data or reads it from the log.");
const READS_KEYS: Impact = Down("The service is starting, and reads the API keys.");
const NOT_ANSWERED: Impact =
    Down("No request is answered: it is not known whether API keys were revoked.");
const AS_OF_LAST_EVENT: Impact =
    Degraded("Answers are as of the last known event, until an operator has checked the log.");
const BEING_READ: Impact = Degraded("Answers may be old: the latest events are being read.");
const OLD_ANSWERS: Impact = Degraded("Answers are right, but may be old.");
const OLD_PRICES: Impact = Degraded("Prices may be old.");
const NO_PRICES: Impact = Down("No new prices come.");
const NO_NEW_PRICES: Impact = Degraded(
    "Connections stay open, but no new prices come, until an operator has checked the log.",
);
const NO_NEW_CONNECTIONS: Impact =
    Down("New connections have to wait until the latest events are read.");
const OTHER_HISTORY: Impact =
    Degraded("The log has another history than the service has read. An operator has to check it.");
const LOG_AWAY: Impact = Down("The log of events cannot be reached.");
const LOG_SILENT: Impact = Down("The log of events does not answer.");
const LOG_LATE: Impact = Degraded("The log of events answers late.");
const SHOWN_SOON: Impact = Operational("Events are recorded, and will be shown soon.");
const NOT_SHOWN: Impact = Degraded("Events are recorded, but not shown yet.");
const SLOW_STARTS: Impact =
    Operational("No snapshot of the data can be written, so a new server would start slowly.");
const FEWER_SERVERS: Impact = Degraded("Events are recorded on fewer servers than they should be.");
const AT_RISK: Impact =
    Degraded("Events are recorded, but may be lost if a machine of the log fails.");
const NO_SUBSCRIPTIONS: Impact = Degraded("Subscriptions cannot be saved at the moment.");
const MAILS_LATE: Impact = Degraded("Mails with keys are late.");

/// The texts of errors name files, so they are for operators alone.
const FAILED: &str = "the views cannot be read or written; the admin address has the reason";

impl Reason {
    /// Every reason, in the order in which they are named.
    pub const ALL: [Self; 23] = [
        Self::DiskFull,
        Self::FoldFailed,
        Self::Stopping,
        Self::OpeningViews,
        Self::LogDiverged,
        Self::ViewsDiverged,
        Self::LogUnreachable,
        Self::LogSilent,
        Self::CatchingUp,
        Self::NoViews,
        Self::KeysNotRead,
        Self::KeysStale,
        Self::Lagging,
        Self::Disconnected,
        Self::ViewsDown,
        Self::ViewsStale,
        Self::ViewsBehind,
        Self::Starting,
        Self::Rebuilding,
        Self::SnapshotsFail,
        Self::LogServersAway,
        Self::LogAtRisk,
        Self::MailLate,
    ];

    /// Why the service is not ready; `None` if it is nevertheless.
    pub(crate) fn unready(self) -> Option<&'static str> {
        Some(match self {
            Self::DiskFull | Self::FoldFailed => FAILED,
            Self::Stopping => "the service is stopping",
            Self::OpeningViews => "the views are being opened and checked",
            // The divergences themselves are named.
            Self::LogDiverged => "the log has another history than was read",
            Self::ViewsDiverged => "the log has another history than the views",
            Self::LogUnreachable => "the log cannot be reached",
            Self::LogSilent => "the log has not answered yet",
            Self::CatchingUp => "the views are catching up with the log",
            Self::NoViews => "there are no views yet",
            Self::KeysNotRead => "the keys have not been read from the log yet",
            Self::KeysStale => "it is not known for too long whether keys were revoked",
            Self::Lagging => "the views lag behind the log, and another replica has fresh ones",
            Self::Disconnected
            | Self::ViewsDown
            | Self::ViewsStale
            | Self::ViewsBehind
            | Self::Starting
            | Self::Rebuilding
            | Self::SnapshotsFail
            | Self::LogServersAway
            | Self::LogAtRisk
            | Self::MailLate => return None,
        })
    }

    /// What it means for the parts of the service, in the order of [`Component::ALL`].
    pub(crate) fn impacts(self) -> [Impact; 4] {
        match self {
            Self::DiskFull | Self::FoldFailed => [NONE, NONE, NOT_SHOWN, NONE],
            Self::Stopping => [STOPPING, STOPPING, NONE, NONE],
            Self::OpeningViews | Self::LogUnreachable | Self::LogSilent => {
                [NONE, NO_NEW_CONNECTIONS, NONE, NONE]
            }
            Self::LogDiverged => [AS_OF_LAST_EVENT, NONE, OTHER_HISTORY, NONE],
            Self::ViewsDiverged => [NONE, NO_NEW_PRICES, NONE, NONE],
            Self::CatchingUp => [BEING_READ, NO_NEW_CONNECTIONS, NONE, NONE],
            Self::NoViews => [OPENS_DATA, OPENS_DATA, NONE, NONE],
            Self::KeysNotRead => [READS_KEYS, READS_KEYS, NONE, NONE],
            Self::KeysStale => [NOT_ANSWERED, NOT_ANSWERED, NONE, NONE],
            Self::Lagging => [OLD_ANSWERS, NO_NEW_CONNECTIONS, NONE, NONE],
            Self::Disconnected => [NONE, NONE, LOG_AWAY, NO_SUBSCRIPTIONS],
            Self::ViewsDown => [OLD_ANSWERS, NO_PRICES, LOG_SILENT, NO_SUBSCRIPTIONS],
            Self::ViewsStale => [OLD_ANSWERS, OLD_PRICES, LOG_LATE, NONE],
            Self::ViewsBehind | Self::Starting => [OLD_ANSWERS, OLD_PRICES, SHOWN_SOON, NONE],
            Self::Rebuilding => [NONE; 4],
            Self::SnapshotsFail => [SLOW_STARTS, NONE, NONE, NONE],
            Self::LogServersAway => [NONE, NONE, FEWER_SERVERS, NONE],
            Self::LogAtRisk => [NONE, NONE, AT_RISK, NONE],
            Self::MailLate => [NONE, NONE, NONE, MAILS_LATE],
        }
    }

    /// What `/status` lists for it.
    pub(crate) fn incident(self) -> Option<IncidentKind> {
        match self {
            Self::DiskFull => Some(IncidentKind::DiskFull),
            Self::FoldFailed => Some(IncidentKind::FoldRestart),
            Self::LogDiverged => Some(IncidentKind::Diverged),
            Self::KeysStale => Some(IncidentKind::KeysUnknown),
            Self::ViewsDown => Some(IncidentKind::Down),
            Self::ViewsStale | Self::ViewsBehind => Some(IncidentKind::Stale),
            Self::Rebuilding => Some(IncidentKind::Rebuild),
            Self::MailLate => Some(IncidentKind::MailLate),
            Self::Stopping
            | Self::OpeningViews
            | Self::ViewsDiverged
            | Self::LogUnreachable
            | Self::LogSilent
            | Self::CatchingUp
            | Self::NoViews
            | Self::KeysNotRead
            | Self::Lagging
            | Self::Disconnected
            | Self::Starting
            | Self::SnapshotsFail
            | Self::LogServersAway
            | Self::LogAtRisk => None,
        }
    }

    /// The alert that an operator gets if it lasts. The runbook in docs/production.md has a section for it.
    pub(crate) fn alert(self) -> Option<&'static str> {
        match self {
            Self::DiskFull | Self::FoldFailed => Some("RailbirdFoldFailed"),
            Self::LogDiverged | Self::ViewsDiverged => Some("RailbirdLogDiverged"),
            Self::LogUnreachable | Self::Disconnected => Some("RailbirdLogAway"),
            Self::LogSilent
            | Self::CatchingUp
            | Self::NoViews
            | Self::KeysNotRead
            | Self::KeysStale
            | Self::Lagging => Some("RailbirdNotReady"),
            Self::ViewsDown => Some("RailbirdViewsOld"),
            Self::LogServersAway => Some("RailbirdNatsServersAway"),
            Self::LogAtRisk => Some("RailbirdLogAtRisk"),
            Self::SnapshotsFail => Some("RailbirdSnapshotsFail"),
            Self::MailLate => Some("RailbirdMailLate"),
            Self::Stopping
            | Self::OpeningViews
            | Self::ViewsStale
            | Self::ViewsBehind
            | Self::Starting
            | Self::Rebuilding => None,
        }
    }
}
