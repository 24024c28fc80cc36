//! `railbird export`: saves the files that the API makes of meetings.

mod journal;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use events::RacingDate;
use projections::meetings::MeetingFacts;
use serde::{Deserialize, Serialize};
use strum::{Display, VariantNames};

use self::journal::{ExportJournal, ExportManifest};
use super::WrongUse;
use super::api_access::ApiAccess;
use super::api_client::{ApiClient, with_as_of};
use super::report::{Progress, result};
use crate::http::{ExportKind, is_at};

#[derive(Debug, Args)]
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
    /// What to export: runners in results or on racecards, runners in each quote of odds, lines of dividends, and runs
    /// of horses as their form has them.
    #[arg(required = true, value_name = "KIND", value_parser = kinds())]
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

fn kinds() -> impl TypedValueParser<Value = ExportKind> {
    let names = PossibleValuesParser::new(ExportKind::VARIANTS);
    names.map(|name| name.parse().expect("it is one of the names"))
}

/// The format of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
enum FileFormat {
    /// RFC 4180, with a header.
    Csv,
    /// A JSON object on each line, as of the API: with its objects and lists.
    Ndjson,
    /// Compressed by Snappy.
    Parquet,
}

impl FileFormat {
    fn media_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv",
            Self::Ndjson => "application/x-ndjson",
            Self::Parquet => "application/vnd.apache.parquet",
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
    pub(super) async fn run(self) -> Result<()> {
        let mut client = ApiClient::new(&self.access)?;
        let mut request = self.request;
        request.kinds.sort_unstable();
        request.kinds.dedup();
        request.url.clone_from(&client.address);
        let manifest = ExportManifest {
            as_of: client.seq_of(request.as_of.as_deref()).await?,
            request,
            files: Vec::new(),
        };
        let journal = ExportJournal::open(&self.out, manifest)?;
        Exporter { client, journal }.run().await
    }
}

/// An export that is under way.
struct Exporter {
    client: ApiClient,
    journal: ExportJournal,
}

impl Exporter {
    async fn run(mut self) -> Result<()> {
        let request = self.journal.manifest.request.clone();
        let meetings = self.meetings(&request).await?;
        let total = meetings.len() * request.kinds.len();
        let mut progress = Progress::new("exporting", total as u64);
        let of_meeting = |meeting| request.kinds.iter().map(move |kind| (meeting, *kind));
        let files = meetings.iter().flat_map(of_meeting);
        for ((meeting, kind), done) in files.zip(1..) {
            let (date, venue) = (meeting.date, &meeting.venue_code);
            let path = format!("{kind}/{date}-{venue}.{}", request.format);
            if !self.journal.has(&path) {
                let exported = self.export(kind, &path, meeting).await;
                exported.with_context(|| format!("cannot export {path}"))?;
            }
            progress.set(done);
        }
        drop(progress);
        self.journal.write_manifest()?;
        let ExportManifest { as_of, files, .. } = &self.journal.manifest;
        result(format_args!("{} files as of {as_of}", files.len()));
        Ok(())
    }

    /// The meetings that are exported, as of the export.
    async fn meetings(&mut self, request: &ExportRequest) -> Result<Vec<MeetingFacts>> {
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

    /// Saves the file of a meeting.
    async fn export(&mut self, kind: ExportKind, path: &str, meeting: &MeetingFacts) -> Result<()> {
        let (date, venue) = (meeting.date, &meeting.venue_code);
        let resource = self.as_of(&format!("/api/v1/exports/{kind}/{date}/{venue}"));
        let media_type = self.journal.manifest.request.format.media_type();
        let mut file = self.journal.create(path)?;
        let saving = (self.client).request(&resource, media_type, Some(&mut file));
        let unknown = || format!("the service has no {resource}");
        saving.await?.with_context(unknown)?;
        self.journal.add(file, path)
    }

    /// A path, as of the event of the export.
    fn as_of(&self, path: &str) -> String {
        with_as_of(path, &self.journal.manifest.as_of.to_string())
    }
}
