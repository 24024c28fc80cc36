//! Makes `docs/health.md`: each reason why something is wrong, with what it means.

use std::fmt::Write as _;

use super::{MADE, check};
use crate::accounts::IncidentKind;
use crate::health::{Impact, Reason};

#[test]
fn the_page_of_health_is_that_of_the_reasons() {
    check("docs/health.md", &page());
}

fn page() -> String {
    let mut page = format!(
        "# Health\n\n{MADE}\n\n\
         All reasons why something can be wrong. `/readyz` has the first that applies;\n\
         `/status` shows the worst that all of them mean for a part of the service, and incidents.\n\n\
         | reason | `reason` of `/readyz` | API | live odds | feeders | mail | incident | alert |\n\
         |---|---|---|---|---|---|---|---|\n"
    );
    for reason in Reason::ALL {
        let meaning = reason.meaning();
        let _ = write!(
            page,
            "| `{reason:?}` | {} |",
            meaning.unready.unwrap_or_default()
        );
        for impact in meaning.impacts {
            let _ = write!(page, " {} |", impact_word(impact));
        }
        let incident = meaning.incident.map(|kind| format!("`{}`", code(kind)));
        let alert = meaning.alert.map(|alert| {
            let section = alert.to_lowercase();
            format!("[{alert}](production.md#{section})")
        });
        let incident = incident.unwrap_or_default();
        let alert = alert.unwrap_or_default();
        let _ = writeln!(page, " {incident} | {alert} |");
    }
    page
}

/// As `/status.json` names it.
fn code(kind: IncidentKind) -> String {
    let name = serde_json::to_value(kind).unwrap_or_default();
    name.as_str().unwrap_or_default().to_owned()
}

fn impact_word(impact: Impact) -> &'static str {
    match impact {
        Impact::None | Impact::Operational(_) => "works",
        Impact::Degraded(_) => "degraded",
        Impact::Down(_) => "down",
    }
}
