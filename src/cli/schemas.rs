//! `railbird schemas`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::Value;

use super::report::result;
use crate::http::{asyncapi, openapi};

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  railbird schemas --out schemas")]
pub(super) struct Schemas {
    /// Folder to write the files to.
    #[arg(long, value_name = "DIR", default_value = "schemas")]
    out: PathBuf,
}

impl Schemas {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let mut documents: Vec<(String, Value)> = events::schemas()
            .into_iter()
            .map(|schema| (schema.name, schema.schema))
            .collect();
        documents.push(("openapi.json".to_owned(), openapi()));
        documents.push(("asyncapi.json".to_owned(), asyncapi()));
        for (name, document) in documents {
            write(&self.out, &name, &format!("{document:#}\n"))?;
        }
        Ok(())
    }
}

fn write(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    fs::create_dir_all(folder)
        .with_context(|| format!("the folder {} cannot be created", folder.display()))?;
    let path = folder.join(name);
    fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))?;
    result(path.display());
    Ok(())
}
