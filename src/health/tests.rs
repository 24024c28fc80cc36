use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::state::MAIL_LATE_AFTER;
use super::*;
use crate::accounts::IncidentKind;
use crate::clock::Uptime;
use crate::log::{ConnectionStatus, Divergence, Head};
use crate::projector::{FoldFailure, Phase, Status};

const MINUTE: Duration = Duration::from_secs(60);

fn working() -> ServiceState {
    ServiceState {
        fold: Status {
            phase: Phase::Live,
            ..Status::default()
        },
        connection: ConnectionStatus {
            up: true,
            number: 1,
        },
        sources: Vec::new(),
        divergences: BTreeMap::new(),
        has_views: true,
        is_rebuilding: false,
        has_been_live: true,
        has_keys: true,
        are_keys_stale: false,
        is_lagging: false,
        snapshots_fail: false,
        are_servers_away: false,
        has_risks: false,
        oldest_mail: Some(Duration::ZERO),
        is_draining: false,
    }
}

fn aged(state: &mut ServiceState, seconds: u64) {
    let head = Head {
        last_seq: 0,
        lag: 0,
        asked_at: Uptime::now() - Duration::from_secs(seconds),
    };
    state.fold.freshness.advance(Some(head), 0);
}

fn failed(state: &mut ServiceState, is_disk_full: bool) {
    state.fold.phase = Phase::WaitingForLog;
    state.fold.failure = Some(FoldFailure {
        reason: "No space left on device".to_owned(),
        is_disk_full,
    });
}

/// A state with this reason.
fn state_with(reason: Reason) -> ServiceState {
    let mut state = working();
    match reason {
        Reason::DiskFull => failed(&mut state, true),
        Reason::FoldFailed => failed(&mut state, false),
        Reason::Stopping => state.is_draining = true,
        Reason::OpeningViews => state.fold.phase = Phase::OpeningViews,
        Reason::LogDiverged => {
            let divergence = Divergence::for_a_reason("it is another stream");
            state.divergences.insert("ACCOUNTS", divergence);
        }
        Reason::ViewsDiverged => state.fold.phase = Phase::Diverged,
        Reason::LogUnreachable => {
            state.fold.phase = Phase::WaitingForLog;
            state.connection.up = false;
        }
        Reason::LogSilent => state.fold.phase = Phase::WaitingForLog,
        Reason::CatchingUp => state.fold.phase = Phase::CatchingUp,
        Reason::NoViews => state.has_views = false,
        Reason::KeysNotRead => state.has_keys = false,
        Reason::KeysStale => state.are_keys_stale = true,
        Reason::Lagging => state.is_lagging = true,
        Reason::Disconnected | Reason::ViewsBehind => state.connection.up = false,
        Reason::ViewsDown => aged(&mut state, 30),
        Reason::ViewsStale => aged(&mut state, 10),
        Reason::Starting => {
            state.has_been_live = false;
            state.fold.phase = Phase::CatchingUp;
        }
        Reason::Rebuilding => state.is_rebuilding = true,
        Reason::SnapshotsFail => state.snapshots_fail = true,
        Reason::LogServersAway => state.are_servers_away = true,
        Reason::LogAtRisk => state.has_risks = true,
        Reason::MailLate => state.oldest_mail = Some(MAIL_LATE_AFTER),
    }
    state
}

#[test]
fn nothing_is_wrong_with_a_service_that_works() {
    let state = working();
    assert_eq!(state.reasons().collect::<Vec<_>>(), []);
    assert_eq!(state.unready(Some(MINUTE)), "");
    for component in Component::ALL {
        assert_eq!(state.impact(component), Impact::None);
    }
}

#[test]
fn each_reason_is_found_and_is_in_all_that_renders_it() {
    for reason in Reason::ALL {
        let state = state_with(reason);
        assert!(state.reasons().any(|found| found == reason), "{reason:?}");
        assert!(
            reason.meaning().unready.is_none() || !state.unready(None).is_empty(),
            "{reason:?}"
        );
        for (component, impact) in Component::ALL.into_iter().zip(reason.meaning().impacts) {
            let worst = state.impact(component).severity();
            assert!(worst >= impact.severity(), "{reason:?}: {component:?}");
        }
        if let Some(kind) = reason.meaning().incident {
            let conditions = state.sample(Totals::default(), 0).conditions;
            let condition = conditions.iter().find(|condition| condition.kind == kind);
            assert!(condition.is_some_and(|c| c.is_active), "{reason:?}");
        }
    }
}

#[test]
fn each_alert_of_a_reason_is_there_with_a_section_of_the_runbook() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let alerts = fs::read_to_string(root.join("ops/prometheus/alerts.yml")).expect("alerts");
    let runbook = fs::read_to_string(root.join("docs/production.md")).expect("a runbook");
    let named: BTreeSet<&str> = Reason::ALL
        .iter()
        .filter_map(|r| r.meaning().alert)
        .collect();
    assert!(named.len() > 4, "{named:?}");
    for alert in named {
        assert!(alerts.contains(&format!("- alert: {alert}\n")), "{alert}");
        assert!(runbook.contains(&format!(" {alert}\n")), "{alert}");
    }
}

/// Checks the first letters of the states of API, live odds, feeders and mail, and the incidents.
fn check(expected: &str, incidents: &[IncidentKind], change: impl Fn(&mut ServiceState)) {
    let mut state = working();
    change(&mut state);
    let states = Component::ALL.map(|component| match state.impact(component) {
        Impact::None | Impact::Operational(_) => 'w',
        Impact::Degraded(_) => 'l',
        Impact::Down(_) => 'd',
    });
    assert_eq!(String::from_iter(states), expected, "{state:?}");
    let conditions = state.sample(Totals::default(), 0).conditions;
    let active = conditions.iter().filter(|condition| condition.is_active);
    let active: Vec<IncidentKind> = active.map(|condition| condition.kind).collect();
    assert_eq!(active, incidents, "{state:?}");
}

#[test]
fn each_trouble_impairs_the_parts_that_it_concerns() {
    use IncidentKind::{
        DiskFull, Diverged, Down, FoldRestart, KeysUnknown, MailLate, Rebuild, Stale,
    };
    check("wwww", &[], |_| {});
    check("lllw", &[Stale], |s| aged(s, 10));
    check("lddl", &[Down], |s| aged(s, 30));
    check("lldl", &[Stale], |s| s.connection.up = false);
    check("ddww", &[], |s| s.is_draining = true);
    check("ddww", &[], |s| s.has_keys = false);
    check("ddww", &[KeysUnknown], |s| s.are_keys_stale = true);
    check("lllw", &[Stale, Diverged], |s| {
        *s = state_with(Reason::LogDiverged);
        s.fold.phase = Phase::Diverged;
    });
    check("ldlw", &[Stale, DiskFull], |s| failed(s, true));
    check("ldlw", &[Stale, FoldRestart], |s| failed(s, false));
    check("wwww", &[Rebuild], |s| s.is_rebuilding = true);
    check("wwlw", &[], |s| s.are_servers_away = true);
    check("wwlw", &[], |s| s.has_risks = true);
    check("wwwl", &[MailLate], |s| {
        s.oldest_mail = Some(MAIL_LATE_AFTER)
    });
}

#[test]
fn a_start_is_no_incident_unless_it_takes_long() {
    let starting = |seconds| {
        move |s: &mut ServiceState| {
            (s.fold.phase, s.has_been_live, s.has_views) = (Phase::CatchingUp, false, false);
            aged(s, seconds);
        }
    };
    check("ddww", &[], starting(9));
    check("ddlw", &[IncidentKind::Stale], starting(10));
}
