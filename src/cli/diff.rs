//! `railbird diff`: what changed in the answers of the API between two places in the log.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::WrongUse;
use super::api_access::ApiAccess;
use super::api_client::{ApiClient, with_as_of};
use super::report::result;
use crate::http::formats::OF_PAGE;

/// The resources that may have changed: some weeks, in some ten megabytes.
const RESOURCES_MAX: usize = 100_000;
/// The fields that identify an object in a list, each with further ones that it may have: of runners, races,
/// statements, dividends, meetings, and the sources of odds.
const IDENTITIES: [&[&str]; 6] = [
    &["horse_no"],
    &["race_number", "date", "venue_code"],
    &["event_id", "source"],
    &["pool", "combination"],
    &["venue_code", "date"],
    &["source"],
];

/// The lists whose rows come in pages. Rows are added at their ends, so that equal pages have equal rows; and those of
/// a form fill no second page.
const ROWS: [&str; 5] = ["form", "history", "meetings", "revisions", "unplaced"];

#[derive(Debug, Args)]
pub(super) struct Diff {
    /// The earlier place: a sequence of the log, or a time such as 2026-11-21T06:32:00Z.
    #[arg(value_name = "A")]
    before: String,
    /// The later place.
    #[arg(value_name = "B")]
    after: String,
    /// Print each change as a JSON object on a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: ApiAccess,
}

/// A value that changed: its path, and what it was and is. The path has the names of fields, and what identifies the
/// objects of lists; that of a whole resource is empty.
type ValueChange<'a> = (String, Option<&'a Value>, Option<&'a Value>);

#[derive(Deserialize)]
struct ChangesPage {
    changes: Vec<ChangeOfPage>,
    /// The event up to which these are all changes.
    after: u64,
    more: bool,
}

#[derive(Deserialize)]
struct ChangeOfPage {
    seq: u64,
    resources: BTreeSet<String>,
}

impl Diff {
    /// Prints the changes.
    ///
    /// # Errors
    /// Returns [`WrongUse`] if the later place is not later, and [`NoService`](super::api_client::NoService).
    pub(super) async fn run(self) -> Result<()> {
        let mut client = ApiClient::new(&self.access)?;
        let before = client.seq_of(Some(&self.before)).await?;
        let after = client.seq_of(Some(&self.after)).await?;
        if before > after {
            let (a, b) = (self.before, self.after);
            let order = format!("{a} is event {before}, which is after {b}, event {after}");
            bail!(WrongUse(order));
        }
        for resource in changed(&mut client, before, after).await? {
            let mut next = [before, after].map(|seq| with_as_of(&resource, &seq.to_string()));
            let mut is_first = true;
            while next.iter().any(|path| !path.is_empty()) {
                let [before, after] = &mut next;
                let mut pages = [
                    page(&mut client, before).await?,
                    page(&mut client, after).await?,
                ];
                if !is_first {
                    keep_rows(&mut pages);
                }
                is_first = false;
                let [before, after] = pages.map(|page| page.map(Value::Object));
                let mut changes = Vec::new();
                compare(String::new(), before.as_ref(), after.as_ref(), &mut changes);
                self.print(&resource, &changes);
            }
        }
        Ok(())
    }

    fn print(&self, resource: &str, changes: &[ValueChange<'_>]) {
        if !self.json && !changes.is_empty() {
            result(resource);
        }
        for (path, before, after) in changes {
            if self.json {
                let mut change = json!({ "resource": resource, "path": path });
                for (name, value) in [("before", before), ("after", after)] {
                    if let Some(value) = value {
                        change[name] = (*value).clone();
                    }
                }
                result(change);
                continue;
            }
            result(match (before, after) {
                (None, _) if path.is_empty() => "  new".to_owned(),
                (_, None) if path.is_empty() => "  gone".to_owned(),
                (None, Some(after)) => format!("  {path}: new {after}"),
                (Some(before), None) => format!("  {path}: gone {before}"),
                (Some(before), Some(after)) => format!("  {path}: {before} -> {after}"),
                (None, None) => continue,
            });
        }
    }
}

/// The resources that the events after one up to another may have changed.
async fn changed(client: &mut ApiClient, before: u64, after: u64) -> Result<BTreeSet<String>> {
    let mut resources = BTreeSet::new();
    let mut next = format!("/api/v1/changes?after={before}");
    loop {
        let page: Option<(ChangesPage, String)> = client.page(&next).await?;
        let (page, following) = page.context("the service has no /api/v1/changes")?;
        let changes = page.changes.into_iter();
        let changes = changes.filter(|change| change.seq <= after);
        resources.extend(changes.flat_map(|change| change.resources));
        if resources.len() > RESOURCES_MAX {
            bail!(WrongUse(format!(
                "more than {RESOURCES_MAX} resources may have changed: choose places that are nearer"
            )));
        }
        if !page.more || page.after >= after {
            return Ok(resources);
        }
        next = following;
    }
}

/// Reads a page of a resource, and makes `path` that of the next one. `None` if there is none.
async fn page(client: &mut ApiClient, path: &mut String) -> Result<Option<Map<String, Value>>> {
    let this = std::mem::take(path);
    if this.is_empty() {
        return Ok(None);
    }
    let page: Option<(Map<String, Value>, String)> = client.page(&this).await?;
    Ok(page.map(|(mut fields, next)| {
        *path = next;
        fields.retain(|name, _| !OF_PAGE.contains(&name.as_str()));
        fields
    }))
}

/// Leaves of two pages after the first ones what these do not have: rows. A list that has no such page has no rows.
fn keep_rows(pages: &mut [Option<Map<String, Value>>; 2]) {
    let mut pages = pages.each_mut().map(Option::get_or_insert_default);
    for list in ROWS {
        if pages.iter().any(|page| page.contains_key(list)) {
            for page in &mut pages {
                page.entry(list).or_insert(Value::Array(Vec::new()));
            }
        }
    }
    for page in pages {
        page.retain(|name, _| ROWS.contains(&name.as_str()));
    }
}

/// Adds the changes below a path.
fn compare<'a>(
    path: String,
    before: Option<&'a Value>,
    after: Option<&'a Value>,
    changes: &mut Vec<ValueChange<'a>>,
) {
    if before == after {
        return;
    }
    let Some((old, new)) = before.and_then(parts).zip(after.and_then(parts)) else {
        return changes.push((path, before, after));
    };
    let names: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    for name in names {
        let (before, after) = (old.get(name).copied(), new.get(name).copied());
        compare(format!("{path}/{name}"), before, after, changes);
    }
}

/// The fields of an object, or the objects of a list by what identifies them. `None` if it is neither, or two objects
/// share what identifies them.
fn parts(value: &Value) -> Option<BTreeMap<String, &Value>> {
    if let Value::Object(fields) = value {
        let fields = fields.iter().map(|(name, value)| (name.clone(), value));
        return Some(fields.collect());
    }
    let rows = value.as_array()?;
    let parts = rows.iter().map(|row| Some((identity(row)?, row)));
    let parts: BTreeMap<_, _> = parts.collect::<Option<_>>()?;
    (parts.len() == rows.len()).then_some(parts)
}

fn identity(row: &Value) -> Option<String> {
    let mut identities = IDENTITIES.iter();
    let names = identities.find(|names| row.get(names[0]).is_some())?;
    let values = names.iter().filter_map(|name| row.get(name));
    let texts = values.map(|value| value.as_str().map_or(value.to_string(), str::to_owned));
    Some(texts.collect::<Vec<_>>().join(","))
}
