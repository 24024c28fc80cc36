//! [`MeetingRaces`]: the races and horses of a meeting, whose resources have rows.

use std::collections::BTreeSet;

use events::{HorseNo, RaceNumber};
use projections::meetings::MeetingFacts;
use serde::Deserialize;

use super::{ExportKind, Exporter};

/// The races of a meeting, and the horses in their results.
#[derive(Debug, Default)]
pub(super) struct MeetingRaces {
    /// The races with a card or a result.
    all: BTreeSet<RaceNumber>,
    with_result: BTreeSet<RaceNumber>,
    pub(super) horses: BTreeSet<String>,
}

#[derive(Default, Deserialize)]
struct RacePage {
    races: Vec<RaceOfPage>,
}

#[derive(Deserialize)]
struct RaceOfPage {
    race_number: RaceNumber,
    #[serde(default)]
    runners: Vec<RunnerOfPage>,
    #[serde(default)]
    unplaced: Vec<RunnerOfPage>,
}

#[derive(Deserialize)]
struct RunnerOfPage {
    horse_no: HorseNo,
}

impl MeetingRaces {
    pub(super) async fn read(
        exporter: &mut Exporter,
        meeting: &MeetingFacts,
    ) -> anyhow::Result<Self> {
        let mut known = Self::default();
        for kind in [ExportKind::Racecards, ExportKind::Results] {
            let mut next = exporter.as_of(&races_path(kind, meeting));
            while !next.is_empty() {
                let page: RacePage;
                (page, next) = exporter.client.page(&next).await?.unwrap_or_default();
                for race in page.races {
                    known.all.insert(race.race_number);
                    if kind == ExportKind::Results {
                        known.with_result.insert(race.race_number);
                        let runners = race.runners.into_iter().chain(race.unplaced);
                        known
                            .horses
                            .extend(runners.map(|runner| runner.horse_no.to_string()));
                    }
                }
            }
        }
        Ok(known)
    }

    /// The paths of the resources of a kind, of these horses if they are about horses.
    pub(super) fn resources(
        &self,
        kind: ExportKind,
        meeting: &MeetingFacts,
        horses: &[String],
    ) -> Vec<String> {
        let (date, code) = (meeting.date, &meeting.venue_code);
        match kind {
            ExportKind::Results | ExportKind::Racecards => vec![races_path(kind, meeting)],
            ExportKind::Odds => {
                let path = |race| format!("/api/v1/odds/{date}/{race}/history?venue={code}");
                self.all.iter().map(path).collect()
            }
            ExportKind::Dividends => {
                let path = |race| format!("/api/v1/results/{date}/{race}/dividends?venue={code}");
                self.with_result.iter().map(path).collect()
            }
            ExportKind::Form => {
                let path = |horse| format!("/api/v1/horses/{horse}/form");
                horses.iter().map(path).collect()
            }
        }
    }
}

/// The races of a meeting with the rows of a kind, in pages.
fn races_path(kind: ExportKind, meeting: &MeetingFacts) -> String {
    let (date, code) = (meeting.date, &meeting.venue_code);
    format!("{}?from={date}&to={date}&venue={code}", kind.source().0)
}
