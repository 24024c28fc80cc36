//! `railbird export`: writes what the API serves to files, a file for each meeting and kind.

mod columns;
mod journal;
mod meeting;
mod parquet_rows;
mod row_file;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use events::RacingDate;
use projections::meetings::MeetingFacts;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::Display;

use self::columns::Columns;
use self::journal::{ExportJournal, ExportRequest, Opened};
use self::meeting::MeetingRaces;
use self::row_file::{FileFormat, RowFile};
use super::WrongUse;
use super::api_client::{ApiAccess, ApiClient, with_as_of};
use super::report::{Progress, result};
use crate::http::formats::{FORM, RACES, RowFields, RowLists};

#[derive(Debug, Args)]
#[command(
    after_help = "All files are as of one event of the log, which manifest.json names. To resume an export that ended \
                  early, run the same command again.\n\nExamples:\n  railbird export results --out season --from 2025-09-01 \
                  --to 2026-07-31\n  railbird export racecards odds --out card --from 2026-11-21 --to 2026-11-21 \
                  --venue ST --as-of 2026-11-21T04:00:00Z --format csv\n  \
                  railbird export results form --out all --url https://odds.example.org --api-key-file key.txt"
)]
pub(super) struct Export {
    /// What to export.
    #[arg(required = true, value_name = "KIND")]
    kinds: Vec<ExportKind>,
    /// The folder for the files. It is created.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The first day of meetings.
    #[arg(long, value_name = "DATE", value_parser = RacingDate::parse)]
    from: Option<RacingDate>,
    /// The last day of meetings.
    #[arg(long, value_name = "DATE", value_parser = RacingDate::parse)]
    to: Option<RacingDate>,
    /// Only meetings at this venue, by code or name in any case. May be repeated.
    #[arg(long = "venue", value_name = "VENUE")]
    venues: Vec<String>,
    /// Export what was served then: a sequence of the log, or a time such as 2026-11-21T06:32:00Z. The default is now.
    #[arg(long, value_name = "PLACE")]
    as_of: Option<String>,
    /// The format of the files.
    #[arg(long, value_enum, default_value_t = FileFormat::Parquet)]
    format: FileFormat,
    #[command(flatten)]
    access: ApiAccess,
}

/// What files are about.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Display, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
enum ExportKind {
    /// A row for each runner in a result.
    Results,
    /// A row for each runner on a card.
    Racecards,
    /// A row for each quote and runner in it.
    Odds,
    /// A row for each line of a race's dividends.
    Dividends,
    /// All runs of each horse, once: in the file of its first meeting in the export.
    Form,
}

impl ExportKind {
    /// The path of the rows as the OpenAPI document has it, and the lists in its answers.
    fn source(self) -> (&'static str, RowLists) {
        match self {
            Self::Results => ("/api/v1/results", RACES),
            Self::Racecards => ("/api/v1/racecards", RACES),
            Self::Odds => (
                "/api/v1/odds/{date}/{race_number}/history",
                &[&["history"], &["runners"]],
            ),
            Self::Dividends => (
                "/api/v1/results/{date}/{race_number}/dividends",
                &[&["dividends"]],
            ),
            Self::Form => ("/api/v1/horses/{horse_no}/form", FORM),
        }
    }
}

impl Export {
    /// Exports what is not exported yet.
    ///
    /// # Errors
    /// Returns [`WrongUse`] if the folder has another export, [`NoService`](super::api_client::NoService), and an error
    /// if there is no meeting, the service does not answer a request, or a file cannot be written.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let mut client = self.access.client()?;
        let kinds: BTreeSet<_> = self.kinds.into_iter().collect();
        let request = ExportRequest {
            url: client.address.clone(),
            kinds: kinds.into_iter().collect(),
            format: self.format,
            from: self.from,
            to: self.to,
            venues: self.venues,
            as_of_given: self.as_of,
        };
        let (journal, meetings, horses) = match ExportJournal::open(&self.out, &request)? {
            Opened::Finished(files) => {
                result(format_args!("all {files} files are there already"));
                return Ok(());
            }
            Opened::Resumed(journal, horses) => {
                let meetings = meetings(&mut client, &request, journal.seq()).await?;
                (journal, meetings, horses)
            }
            Opened::New(new) => {
                let seq = client.seq_of(request.as_of_given.as_deref()).await?;
                let meetings = meetings(&mut client, &request, seq).await?;
                let columns = columns_of(&mut client, &request).await?;
                (new.begin(request, seq, columns)?, meetings, HashSet::new())
            }
        };
        let exporter = Exporter {
            client,
            journal,
            horses,
        };
        exporter.run(&meetings).await
    }
}

/// The meetings that are exported, as of an event.
async fn meetings(
    client: &mut ApiClient,
    request: &ExportRequest,
    seq: u64,
) -> anyhow::Result<Vec<MeetingFacts>> {
    // Days are listed as of now, and read as of then one by one: to list all as of then folds all of them at once.
    let from = request.from.map(|date| format!("from={date}&"));
    let to = request.to.map(|date| format!("to={date}&"));
    let (from, to) = (from.unwrap_or_default(), to.unwrap_or_default());
    let mut next = format!("/api/v1/meetings?{from}{to}limit=1000");
    let mut dates = BTreeSet::new();
    while !next.is_empty() {
        let page: MeetingPage;
        (page, next) = client.page(&next).await?.unwrap_or_default();
        dates.extend(page.meetings.into_iter().map(|meeting| meeting.date));
    }
    let mut meetings = Vec::new();
    for date in dates {
        let path = format!("/api/v1/meetings?from={date}&to={date}");
        let page = client.page(&with_as_of(&path, &seq.to_string())).await?;
        let (page, _): (MeetingPage, _) = page.unwrap_or_default();
        let page = page.meetings.into_iter();
        meetings.extend(page.filter(|meeting| request.has(meeting)));
    }
    if meetings.is_empty() {
        let none = "no meeting is known then and there: see --from, --to, --venue and --as-of";
        bail!(WrongUse(none.to_owned()));
    }
    Ok(meetings)
}

/// The columns of each kind, by the document of the service: it may be of another version.
async fn columns_of(
    client: &mut ApiClient,
    request: &ExportRequest,
) -> anyhow::Result<BTreeMap<ExportKind, Columns>> {
    let document = client.get("/openapi.json").await?;
    let document = document.context("the service has no /openapi.json")?;
    let document: Value = serde_json::from_slice(&document.body)?;
    let columns = request.kinds.iter().map(|kind| {
        let (path, lists) = kind.source();
        let columns = Columns::of_rows(&document, path, lists);
        let unknown = || format!("the service has no {path} in its /openapi.json");
        Ok((*kind, columns.with_context(unknown)?))
    });
    columns.collect()
}

/// An export that is under way.
struct Exporter {
    client: ApiClient,
    journal: ExportJournal,
    /// The horses whose form is exported.
    horses: HashSet<String>,
}

impl Exporter {
    async fn run(mut self, meetings: &[MeetingFacts]) -> anyhow::Result<()> {
        let request = self.journal.request().clone();
        let mut done = 0;
        let mut progress =
            Progress::new("exporting", (meetings.len() * request.kinds.len()) as u64);
        for meeting in meetings {
            let mut races = None;
            for kind in &request.kinds {
                let (date, code) = (meeting.date, &meeting.venue_code);
                let path = format!("{kind}/{date}-{code}.{}", request.format);
                if !self.journal.has(&path) {
                    let exporting = self.export(*kind, &path, meeting, &mut races);
                    exporting
                        .await
                        .with_context(|| format!("cannot export {path}"))?;
                }
                done += 1;
                progress.set(done);
            }
        }
        drop(progress);
        let (files, rows, seq) = self.journal.finish()?;
        result(format_args!("{files} files with {rows} rows as of {seq}"));
        Ok(())
    }

    /// Writes the file of a meeting.
    async fn export(
        &mut self,
        kind: ExportKind,
        path: &str,
        meeting: &MeetingFacts,
        races: &mut Option<MeetingRaces>,
    ) -> anyhow::Result<()> {
        let needs_races = !matches!(kind, ExportKind::Results | ExportKind::Racecards);
        if needs_races && races.is_none() {
            *races = Some(MeetingRaces::read(self, meeting).await?);
        }
        let none = MeetingRaces::default();
        let races = races.as_ref().unwrap_or(&none);
        let mut horses = Vec::new();
        if kind == ExportKind::Form {
            let all = races.horses.iter().cloned();
            horses = all.filter(|horse| !self.horses.contains(horse)).collect();
        }
        let columns = self.journal.columns(kind);
        let mut file =
            RowFile::create(self.journal.path_of(path)?, self.journal.format(), columns)?;
        for resource in races.resources(kind, meeting, &horses) {
            self.add(&mut file, self.as_of(&resource), kind.source().1)
                .await?;
        }
        self.horses.extend(horses.iter().cloned());
        self.journal.add(file.finish(path, horses)?)
    }

    /// Adds the rows of all pages of a resource to a file. One that does not exist has none.
    async fn add(
        &mut self,
        file: &mut RowFile,
        path: String,
        lists: RowLists,
    ) -> anyhow::Result<()> {
        let mut next = path;
        while !next.is_empty() {
            let Some(answer) = self.client.get(&next).await? else {
                return Ok(());
            };
            let not_rows = || format!("the answer of {next} has no rows");
            let answer: RowFields<'_> =
                serde_json::from_slice(&answer.body).with_context(not_rows)?;
            for row in answer.rows(lists).with_context(not_rows)? {
                file.write(&row)?;
            }
            let following = answer.get("next").map(|next| serde_json::from_str(next));
            next = following.transpose()?.unwrap_or_default();
        }
        Ok(())
    }

    /// A path, as of the event of the export.
    fn as_of(&self, path: &str) -> String {
        with_as_of(path, &self.journal.seq().to_string())
    }
}

#[derive(Default, Deserialize)]
struct MeetingPage {
    meetings: Vec<MeetingFacts>,
}
