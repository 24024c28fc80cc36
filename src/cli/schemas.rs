//! `railbird schemas`.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde_json::Value;

use super::Outcome;
use super::report::result;
use crate::asyncapi;
use crate::http::openapi;

/// Where the files go.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  railbird schemas --out schemas")]
pub(super) struct Schemas {
    /// The folder that the files are written to.
    #[arg(long, default_value = "schemas")]
    out: PathBuf,
}

impl Schemas {
    pub(super) fn run(self) -> anyhow::Result<Outcome> {
        fs::create_dir_all(&self.out)
            .with_context(|| format!("{} cannot be made", self.out.display()))?;
        for schema in events::schemas() {
            self.write(&schema.name, &schema.schema)?;
        }
        self.write("openapi.json", &openapi())?;
        self.write("asyncapi.json", &asyncapi::document())?;
        Ok(Outcome::Done)
    }

    fn write(&self, name: &str, value: &Value) -> anyhow::Result<()> {
        let path = self.out.join(name);
        fs::write(&path, format!("{value:#}\n"))
            .with_context(|| format!("{} cannot be written", path.display()))?;
        result(format_args!("{}", path.display()));
        Ok(())
    }
}
