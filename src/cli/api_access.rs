//! [`ApiAccess`]: the URL and the API key of commands that use a running service.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use client::ServiceUrl;

use super::WrongConfiguration;
use super::secret::{KEY_VARIABLE, read_secret};

const URL_DEFAULT: &str = "http://127.0.0.1:8080";
/// The file in which `railbird dev` stores its key.
const DEV_KEY: &str = ".railbird/dev.key";
const NO_KEY: &str = "there is no API key: use --api-key-file, --api-key or RAILBIRD_API_KEY; \
                      `railbird keys issue --plan PLAN` creates a key";

#[derive(Debug, Args)]
pub(super) struct ApiAccess {
    /// The URL of the service. For https:// and wss://, the certificate is checked against the root certificates of
    /// this machine.
    #[arg(long, env = "RAILBIRD_URL", default_value = URL_DEFAULT, hide_env_values = true)]
    url: String,
    /// The API key. Other processes can read command lines: prefer the variable, or --api-key-file, or
    /// RAILBIRD_API_KEY_FILE.
    #[arg(long, env = KEY_VARIABLE, hide_env_values = true)]
    api_key: Option<String>,
    /// A file that holds the API key. It takes precedence over --api-key. The default is the key of `railbird dev` in
    /// .railbird/dev.key.
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
}

impl ApiAccess {
    /// The URL, and the key: of the flags, or of the URL, or of `railbird dev`.
    pub(super) fn read(&self) -> Result<(ServiceUrl, String), WrongConfiguration> {
        let parsed = ServiceUrl::parse(&self.url);
        let (url, key_of_url) = parsed.map_err(|error| format!("--url: {error}"))?;
        let given = read_secret(KEY_VARIABLE, self.api_key.as_deref())?.or(key_of_url);
        let key = match (&self.api_key_file, given) {
            (Some(path), _) => fs::read_to_string(path).map_err(|error| {
                format!("cannot read --api-key-file {}: {error}", path.display())
            })?,
            (None, Some(key)) => key,
            (None, None) => fs::read_to_string(DEV_KEY).map_err(|_| NO_KEY)?,
        };
        Ok((url, key))
    }
}
