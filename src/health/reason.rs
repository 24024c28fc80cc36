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
    /// The same for 10 seconds.
    ViewsStale,
    /// The same for less, after the service has been live.
    ViewsBehind,
    /// The same for less, before.
    Starting,
    /// Views are built in place of others.
    Rebuilding,
    MailLate,
}

/// What a reason means.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Meaning {
    /// Why the service is not ready; `None` if it is nevertheless.
    pub(crate) unready: Option<&'static str>,
    /// What it means for the parts of the service, in the order of [`Component::ALL`].
    pub(crate) impacts: [Impact; 4],
    pub(crate) incident: Option<IncidentKind>,
    /// The alert that an operator gets. The runbook in docs/production.md has a section for it.
    pub(crate) alert: Option<&'static str>,
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

const OLD_ANSWERS: Impact = Degraded("Answers are right, but may be old.");
const OLD_PRICES: Impact = Degraded("Prices may be old.");
const NO_NEW_CONNECTIONS: Impact =
    Down("New connections have to wait until the latest events are read.");
const NO_SUBSCRIPTIONS: Impact = Degraded("Subscriptions cannot be saved at the moment.");
const SHOWN_SOON: Impact = Operational("Events are recorded, and will be shown soon.");
const NOT_SHOWN: Impact = Degraded("Events are recorded, but not shown yet.");

/// The texts of errors name files, so they are for operators alone.
const FAILED: &str = "the views cannot be read or written; the admin address has the reason";

impl Reason {
    /// Every reason, in the order in which they are named.
    pub const ALL: [Self; 20] = [
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
        Self::MailLate,
    ];

    pub(crate) fn meaning(self) -> Meaning {
        match self {
            Self::DiskFull => meaning(FAILED, [NONE, NONE, NOT_SHOWN, NONE])
                .incident(IncidentKind::DiskFull)
                .alert("RailbirdFoldFailed"),
            Self::FoldFailed => meaning(FAILED, [NONE, NONE, NOT_SHOWN, NONE])
                .incident(IncidentKind::FoldRestart)
                .alert("RailbirdFoldFailed"),
            Self::Stopping => {
                let stopping = Down("This server is being stopped.");
                meaning("the service is stopping", [stopping, stopping, NONE, NONE])
            }
            Self::OpeningViews => meaning(
                "the views are being opened and checked",
                [NONE, NO_NEW_CONNECTIONS, NONE, NONE],
            ),
            // The divergences themselves are named.
            Self::LogDiverged => meaning(
                "the log has another history than was read",
                [
                    Degraded("Answers are as of the last known event, until an operator has checked the log."),
                    NONE,
                    Degraded("The log has another history than the service has read. An operator has to check it."),
                    NONE,
                ],
            )
            .incident(IncidentKind::Diverged)
            .alert("RailbirdLogDiverged"),
            Self::ViewsDiverged => {
                let open = "Connections stay open, but no new prices come, until an operator has checked the log.";
                let unready = "the log has another history than the views";
                meaning(unready, [NONE, Degraded(open), NONE, NONE]).alert("RailbirdLogDiverged")
            }
            Self::LogUnreachable => meaning(
                "the log cannot be reached",
                [NONE, NO_NEW_CONNECTIONS, NONE, NONE],
            )
            .alert("RailbirdLogAway"),
            Self::LogSilent => meaning(
                "the log has not answered yet",
                [NONE, NO_NEW_CONNECTIONS, NONE, NONE],
            )
            .alert("RailbirdNotReady"),
            Self::CatchingUp => meaning(
                "the views are catching up with the log",
                [
                    Degraded("Answers may be old: the latest events are being read."),
                    NO_NEW_CONNECTIONS,
                    NONE,
                    NONE,
                ],
            )
            .alert("RailbirdNotReady"),
            Self::NoViews => {
                let starting =
                    Down("The service is starting, and opens its data or reads it from the log.");
                meaning("there are no views yet", [starting, starting, NONE, NONE])
                    .alert("RailbirdNotReady")
            }
            Self::KeysNotRead => {
                let starting = Down("The service is starting, and reads the API keys.");
                let unready = "the keys have not been read from the log yet";
                meaning(unready, [starting, starting, NONE, NONE]).alert("RailbirdNotReady")
            }
            Self::KeysStale => {
                let refused = Down(
                    "No request is answered: it is not known whether API keys were revoked.",
                );
                let unready = "it is not known for too long whether keys were revoked";
                meaning(unready, [refused, refused, NONE, NONE])
                    .incident(IncidentKind::KeysUnknown)
                    .alert("RailbirdNotReady")
            }
            Self::Lagging => meaning(
                "the views lag behind the log, and another replica has fresh ones",
                [OLD_ANSWERS, OLD_PRICES, NONE, NONE],
            )
            .alert("RailbirdNotReady"),
            Self::Disconnected => {
                let away = Down("The log of events cannot be reached.");
                ready([NONE, NONE, away, NO_SUBSCRIPTIONS]).alert("RailbirdLogAway")
            }
            Self::ViewsDown => ready([
                OLD_ANSWERS,
                Down("No new prices come."),
                Down("The log of events does not answer."),
                NO_SUBSCRIPTIONS,
            ])
            .incident(IncidentKind::Down)
            .alert("RailbirdViewsOld"),
            Self::ViewsStale => ready([
                OLD_ANSWERS,
                OLD_PRICES,
                Degraded("The log of events answers late."),
                NONE,
            ])
            .incident(IncidentKind::Stale),
            Self::ViewsBehind => {
                ready([OLD_ANSWERS, OLD_PRICES, SHOWN_SOON, NONE]).incident(IncidentKind::Stale)
            }
            Self::Starting => ready([OLD_ANSWERS, OLD_PRICES, SHOWN_SOON, NONE]),
            Self::Rebuilding => ready([NONE; 4]).incident(IncidentKind::Rebuild),
            Self::MailLate => ready([NONE, NONE, NONE, Degraded("Mails with keys are late.")])
                .incident(IncidentKind::MailLate)
                .alert("RailbirdMailLate"),
        }
    }
}

fn meaning(unready: &'static str, impacts: [Impact; 4]) -> Meaning {
    Meaning {
        unready: Some(unready),
        ..ready(impacts)
    }
}

fn ready(impacts: [Impact; 4]) -> Meaning {
    Meaning {
        unready: None,
        impacts,
        incident: None,
        alert: None,
    }
}

impl Meaning {
    fn incident(self, kind: IncidentKind) -> Self {
        Self {
            incident: Some(kind),
            ..self
        }
    }

    fn alert(self, name: &'static str) -> Self {
        Self {
            alert: Some(name),
            ..self
        }
    }
}
