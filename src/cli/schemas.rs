//! `railbird schemas`.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use events::SCHEMAS;

use super::report::result;
use crate::http::{ASYNCAPI, OPENAPI};

#[derive(Debug, Args)]
pub(super) struct Schemas {
    /// Folder to write the files to.
    #[arg(long, value_name = "DIR", default_value = "schemas")]
    out: PathBuf,
}

impl Schemas {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let folder = self.out;
        fs::create_dir_all(&folder)
            .with_context(|| format!("the folder {} cannot be created", folder.display()))?;
        let interfaces = [("openapi", OPENAPI), ("asyncapi", ASYNCAPI)];
        for (name, text) in SCHEMAS.iter().copied().chain(interfaces) {
            let path = folder.join(format!("{name}.json"));
            fs::write(&path, text)
                .with_context(|| format!("{} cannot be written", path.display()))?;
            result(path.display());
        }
        Ok(())
    }
}
