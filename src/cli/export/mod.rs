//! `railbird export`: writes what the API serves to files, a file for each meeting and kind.

mod columns;
mod journal;
mod parquet_rows;
mod row_file;

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use events::RacingDate;
use projections::meetings::MeetingFacts;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::Display;

use self::columns::ExportColumns;
use self::journal::{ExportJournal, ExportManifest};
use self::row_file::FileFormat;
use super::WrongUse;
use super::api_client::{ApiAccess, ApiClient, with_as_of};
use super::report::{Progress, result};
use crate::http::formats::{FORM, RACES, RowFields, RowLists};
use crate::http::is_at;

#[derive(Debug, Args)]
#[command(
    after_help = "All files are as of one event of the log, which manifest.json names. To resume an export that ended \
                  early, run the same command again.\n\nExamples:\n  railbird export results --out season --from 2025-09-01 \
                  --to 2026-07-31\n  railbird export racecards odds --out card --from 2026-11-21 --to 2026-11-21 \
                  --venue ST --as-of 2026-11-21T04:00:00Z --format csv\n  \
                  railbird export results form --out all --url https://odds.example.org --api-key-file key.txt"
)]
pub(super) struct Export {
    #[command(flatten)]
    request: ExportRequest,
    /// The folder for the files. It is created.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    access: ApiAccess,
}

/// What is exported. A folder has the files of one request.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
struct ExportRequest {
    /// What to export.
    #[arg(required = true, value_name = "KIND")]
    kinds: Vec<ExportKind>,
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
    #[serde(rename = "as_of_given")]
    as_of: Option<String>,
    /// The format of the files.
    #[arg(long, value_enum, default_value_t = FileFormat::Parquet)]
    format: FileFormat,
    /// Scheme, host and port of the service.
    #[arg(skip)]
    url: String,
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
    /// The path of the rows as the OpenAPI document has it, the lists in its answers, and the kinds whose rows name the
    /// races or horses of a meeting.
    fn source(self) -> (&'static str, RowLists, &'static [Self]) {
        const QUOTES: RowLists = &[&["history"], &["runners"]];
        match self {
            Self::Results => ("/api/v1/results", RACES, &[]),
            Self::Racecards => ("/api/v1/racecards", RACES, &[]),
            Self::Odds => (
                "/api/v1/odds/{date}/{race_number}/history",
                QUOTES,
                &[Self::Racecards, Self::Results],
            ),
            Self::Dividends => (
                "/api/v1/results/{date}/{race_number}/dividends",
                &[&["dividends"]],
                &[Self::Results],
            ),
            Self::Form => ("/api/v1/horses/{horse_no}/form", FORM, &[Self::Results]),
        }
    }
}

impl Export {
    /// Exports what is not exported yet.
    ///
    /// # Errors
    /// Returns [`WrongUse`] if there is no meeting, or the folder has another export,
    /// [`NoService`](super::api_client::NoService), and an error if the service rejects a request, or a file cannot be
    /// written.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let mut client = self.access.client()?;
        let mut request = self.request;
        request.kinds.sort_unstable();
        request.kinds.dedup();
        request.url.clone_from(&client.address);
        let as_of = client.seq_of(request.as_of.as_deref()).await?;
        // The service may be of another version than this command.
        let document = client.get("/openapi.json").await?;
        let document = document.context("the service has no /openapi.json")?;
        let document: Value = serde_json::from_slice(&document.body)?;
        let columns = request.kinds.iter().map(|kind| {
            let (path, lists, _) = kind.source();
            let columns = ExportColumns::of_rows(&document, path, lists);
            let unknown = || format!("the service has no {path} in its /openapi.json");
            Ok((*kind, columns.with_context(unknown)?))
        });
        let manifest = ExportManifest {
            as_of,
            columns: columns.collect::<anyhow::Result<_>>()?,
            request,
            files: Vec::new(),
        };
        let (journal, horses) = ExportJournal::open(&self.out, manifest)?;
        let exporter = Exporter {
            client,
            journal,
            horses,
        };
        exporter.run().await
    }
}

/// An export that is under way.
struct Exporter {
    client: ApiClient,
    journal: ExportJournal,
    /// The horses whose form is exported.
    horses: HashSet<String>,
}

impl Exporter {
    async fn run(mut self) -> anyhow::Result<()> {
        let request = self.journal.manifest.request.clone();
        let meetings = self.meetings(&request).await?;
        let total = meetings.len() * request.kinds.len();
        let mut progress = Progress::new("exporting", total as u64);
        let files = meetings.iter().flat_map(|meeting| {
            let kinds = request.kinds.iter();
            kinds.map(move |kind| (meeting, *kind))
        });
        for ((meeting, kind), done) in files.zip(1..) {
            let MeetingFacts {
                date, venue_code, ..
            } = meeting;
            let path = format!("{kind}/{date}-{venue_code}.{}", request.format);
            if !self.journal.has(&path) {
                let exported = self.export(kind, &path, meeting).await;
                exported.with_context(|| format!("cannot export {path}"))?;
            }
            progress.set(done);
        }
        drop(progress);
        self.journal.write_manifest()?;
        let ExportManifest { as_of, files, .. } = &self.journal.manifest;
        let rows: u64 = files.iter().map(|file| file.rows).sum();
        result(format_args!(
            "{} files with {rows} rows as of {as_of}",
            files.len()
        ));
        Ok(())
    }

    /// The meetings that are exported, as of the export.
    async fn meetings(&mut self, request: &ExportRequest) -> anyhow::Result<Vec<MeetingFacts>> {
        #[derive(Default, Deserialize)]
        struct MeetingPage {
            meetings: Vec<MeetingFacts>,
        }
        // Days are listed as of now, and read as of then one by one: to list all as of then folds all of them at once.
        let mut next = "/api/v1/meetings?limit=1000".to_owned();
        next.extend(request.from.map(|date| format!("&from={date}")));
        next.extend(request.to.map(|date| format!("&to={date}")));
        let mut dates = BTreeSet::new();
        while !next.is_empty() {
            let page: MeetingPage;
            (page, next) = self.client.page(&next).await?.unwrap_or_default();
            dates.extend(page.meetings.into_iter().map(|meeting| meeting.date));
        }
        let mut meetings = Vec::new();
        for date in dates {
            let path = self.as_of(&format!("/api/v1/meetings?from={date}&to={date}"));
            let (page, _): (MeetingPage, _) = self.client.page(&path).await?.unwrap_or_default();
            let venues = &request.venues;
            meetings.extend(page.meetings.into_iter().filter(|meeting| {
                venues.is_empty() || venues.iter().any(|venue| is_at(meeting, venue))
            }));
        }
        if meetings.is_empty() {
            let none = "no meeting is known then and there: see --from, --to, --venue and --as-of";
            bail!(WrongUse(none.to_owned()));
        }
        Ok(meetings)
    }

    /// Writes the file of a meeting.
    async fn export(
        &mut self,
        kind: ExportKind,
        path: &str,
        meeting: &MeetingFacts,
    ) -> anyhow::Result<()> {
        let (date, code) = (meeting.date, &meeting.venue_code);
        let (resource, lists, named_by) = kind.source();
        let is_form = kind == ExportKind::Form;
        let (field, rows): (_, RowLists) = match is_form {
            true => ("horse_no", RACES),
            false => ("race_number", &[&["races"]]),
        };
        let of_meeting = format!("?from={date}&to={date}&venue={code}");
        // The races, or the horses whose form is not exported yet, in the order of the API.
        let mut named: Vec<String> = Vec::new();
        for of in named_by {
            let path = of.source().0.to_owned() + &of_meeting;
            let reading = self.rows(&path, rows, |row| {
                let value = row.get(field).map(|json| json.trim_matches('"'));
                let value = value.filter(|value| named.iter().all(|known| known != value));
                named.extend(value.map(str::to_owned));
                Ok(())
            });
            reading.await?;
        }
        named.retain(|horse| !is_form || !self.horses.contains(horse));
        let venue = if is_form {
            String::new()
        } else {
            format!("?venue={code}")
        };
        let of_date = resource.replace("{date}", &date.to_string()) + &venue;
        let paths = named
            .iter()
            .map(|name| of_date.replace(&format!("{{{field}}}"), name));
        let paths: Vec<String> = match named_by {
            [] => vec![resource.to_owned() + &of_meeting],
            _ => paths.collect(),
        };
        let mut file = self.journal.create(kind, path)?;
        for path in paths {
            let rows = self.rows(&path, lists, |row| file.write(row));
            rows.await?;
        }
        named.retain(|_| is_form);
        self.horses.extend(named.iter().cloned());
        self.journal.add(file.finish(path, named)?)
    }

    /// Reads the rows of all pages of a resource as of the export. One that did not exist has none.
    async fn rows(
        &mut self,
        path: &str,
        lists: RowLists,
        mut read: impl FnMut(&RowFields<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut next = self.as_of(path);
        while !next.is_empty() {
            let Some(answer) = self.client.get(&next).await? else {
                break;
            };
            let not_rows = || format!("the answer of {next} has no rows");
            let answer: RowFields<'_> =
                serde_json::from_slice(&answer.body).with_context(not_rows)?;
            for row in answer.rows(lists).with_context(not_rows)? {
                read(&row)?;
            }
            let following = answer.get("next").map(|next| serde_json::from_str(next));
            next = following.transpose()?.unwrap_or_default();
        }
        Ok(())
    }

    /// A path, as of the event of the export.
    fn as_of(&self, path: &str) -> String {
        with_as_of(path, &self.journal.manifest.as_of.to_string())
    }
}
