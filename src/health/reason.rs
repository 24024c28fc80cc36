//! [`Reason`]: something that is wrong, and what it means for clients and operators.

use schemars::JsonSchema;
use serde::Serialize;

use crate::accounts::IncidentKind as Kind;

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

/// What a reason means to those who see it.
pub(crate) struct Meaning {
    /// Why the service is not ready; `None` if it is nevertheless.
    pub(crate) unready: Option<&'static str>,
    /// For the parts of the service, in the order of [`Component::ALL`].
    pub(crate) impacts: [Impact; 4],
    /// What `/status` lists for it.
    pub(crate) incident: Option<Kind>,
    /// The alert that an operator gets if it lasts. The runbook in docs/production.md has a section for it.
    #[cfg_attr(not(test), expect(dead_code, reason = "docs/health.md has it"))]
    pub(crate) alert: Option<&'static str>,
}

/// Defines [`Reason`], each with its [`Meaning`].
macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident: $unready:expr, $impacts:expr, $incident:expr, $alert:expr;)*) => {
        /// Something that is wrong. The first one is named before the others.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Reason {
            $($(#[$doc])* $reason,)*
        }

        impl Reason {
            /// Every reason, in the order in which they are named.
            pub const ALL: [Self; [$(stringify!($reason)),*].len()] = [$(Self::$reason),*];

            pub(crate) fn meaning(self) -> Meaning {
                match self {
                    $(Self::$reason => Meaning {
                        unready: $unready,
                        impacts: $impacts,
                        incident: $incident,
                        alert: $alert,
                    },)*
                }
            }
        }
    };
}

reasons! {
    /// A full disk stops the fold.
    DiskFull: Some(FAILED), [NONE, NONE, NOT_SHOWN, NONE], Some(Kind::DiskFull), Some("RailbirdFoldFailed");
    /// Another error stops the fold, which starts over.
    FoldFailed: Some(FAILED), [NONE, NONE, NOT_SHOWN, NONE], Some(Kind::FoldRestart), Some("RailbirdFoldFailed");
    Stopping: Some("the service is stopping"), [STOPPING, STOPPING, NONE, NONE], None, None;
    OpeningViews: Some("the views are being opened and checked"), [NONE, NO_NEW_CONNECTIONS, NONE, NONE], None, None;
    /// A stream has another history than was read of it. The divergences themselves are named.
    LogDiverged: Some("the log has another history than was read"),
        [AS_OF_LAST_EVENT, NONE, OTHER_HISTORY, NONE], Some(Kind::Diverged), Some("RailbirdLogDiverged");
    /// The views are those of another log than the one that is there.
    ViewsDiverged: Some("the log has another history than the views"),
        [NONE, NO_NEW_PRICES, NONE, NONE], None, Some("RailbirdLogDiverged");
    /// Nothing was folded since the start or an error, and NATS cannot be reached.
    LogUnreachable: Some("the log cannot be reached"),
        [NONE, NO_NEW_CONNECTIONS, NONE, NONE], None, Some("RailbirdLogAway");
    /// As [`Self::LogUnreachable`], but NATS is connected.
    LogSilent: Some("the log has not answered yet"),
        [NONE, NO_NEW_CONNECTIONS, NONE, NONE], None, Some("RailbirdNotReady");
    CatchingUp: Some("the views are catching up with the log"),
        [BEING_READ, NO_NEW_CONNECTIONS, NONE, NONE], None, Some("RailbirdNotReady");
    /// There are no views to read.
    NoViews: Some("there are no views yet"), [OPENS_DATA, OPENS_DATA, NONE, NONE], None, Some("RailbirdNotReady");
    KeysNotRead: Some("the keys have not been read from the log yet"),
        [READS_KEYS, READS_KEYS, NONE, NONE], None, Some("RailbirdNotReady");
    /// It could not be learned for too long whether keys were revoked.
    KeysStale: Some("it is not known for too long whether keys were revoked"),
        [NOT_ANSWERED, NOT_ANSWERED, NONE, NONE], Some(Kind::KeysUnknown), Some("RailbirdNotReady");
    /// The views lag, and those of another replica do not.
    Lagging: Some("the views lag behind the log, and another replica has fresh ones"),
        [OLD_ANSWERS, NO_NEW_CONNECTIONS, NONE, NONE], None, Some("RailbirdNotReady");
    /// NATS is not connected.
    Disconnected: None, [NONE, NONE, LOG_AWAY, NO_SUBSCRIPTIONS], None, Some("RailbirdLogAway");
    /// For 30 seconds it is not known whether the views hold the whole log.
    ViewsDown: None,
        [OLD_ANSWERS, NO_PRICES, LOG_SILENT, NO_SUBSCRIPTIONS], Some(Kind::Down), Some("RailbirdViewsOld");
    /// For 10 seconds it is not known whether the views hold the whole log.
    ViewsStale: None, [OLD_ANSWERS, OLD_PRICES, LOG_LATE, NONE], Some(Kind::Stale), None;
    /// For less than 10 seconds it is not known, and the service has been live before.
    ViewsBehind: None, [OLD_ANSWERS, OLD_PRICES, SHOWN_SOON, NONE], Some(Kind::Stale), None;
    /// For less than 10 seconds it is not known, and the service has not been live yet.
    Starting: None, [OLD_ANSWERS, OLD_PRICES, SHOWN_SOON, NONE], None, None;
    /// Views are built in place of others.
    Rebuilding: None, [NONE; 4], Some(Kind::Rebuild), None;
    /// No snapshot of the views could be written, twice in a row.
    SnapshotsFail: None, [SLOW_STARTS, NONE, NONE, NONE], None, Some("RailbirdSnapshotsFail");
    /// Servers of the log are away, or lack what it has.
    LogServersAway: None, [NONE, NONE, FEWER_SERVERS, NONE], None, Some("RailbirdNatsServersAway");
    /// Acknowledged events can be lost, as far as can be seen.
    LogAtRisk: None, [NONE, NONE, AT_RISK, NONE], None, Some("RailbirdLogAtRisk");
    MailLate: None, [NONE, NONE, NONE, MAILS_LATE], Some(Kind::MailLate), Some("RailbirdMailLate");
}
