//! `railbird schemas`.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde_json::Value;

use super::report::result;
use crate::asyncapi;
use crate::http::openapi;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  railbird schemas --out schemas")]
pub(super) struct Schemas {
    /// Folder to write the files to.
    #[arg(long, value_name = "DIR", default_value = "schemas")]
    out: PathBuf,
}

impl Schemas {
    pub(super) fn run(self) -> anyhow::Result<()> {
        fs::create_dir_all(&self.out)
            .with_context(|| format!("the folder {} cannot be created", self.out.display()))?;
        for schema in events::schemas() {
            self.write(&schema.name, &schema.schema)?;
        }
        self.write("openapi.json", &openapi())?;
        self.write("asyncapi.json", &asyncapi::document())
    }

    fn write(&self, name: &str, value: &Value) -> anyhow::Result<()> {
        let path = self.out.join(name);
        fs::write(&path, format!("{value:#}\n"))
            .with_context(|| format!("{} cannot be written", path.display()))?;
        result(path.display());
        Ok(())
    }
}
