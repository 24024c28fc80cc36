//! [`unknown_variables`]: finds variables of the environment that nothing reads.

use std::collections::BTreeSet;
use std::env;

use clap::Command;

use super::secret::SECRETS;

/// What the names of all variables begin with.
const PREFIX: &str = "RAILBIRD_";
/// Variables of the scripts, of the examples, of Compose and of nats.conf: a file or a shell may serve them, too.
const OF_OTHERS: &str = "BROWSER CADDY CHAOS_SECONDS CHAOS_SEED CI_ADVISORIES DOCUMENTS_PYTHON DOMAIN FUZZ_TARGET \
    HAPROXY NATS_ADMIN_PASSWORD NATS_CLUSTER_LISTEN NATS_FEEDER_PASSWORD NATS_HUB NATS_KEYS_PASSWORD \
    NATS_LEAF_PASSWORD NATS_PASSWORD NATS_ROUTES NATS_SERVER NATS_TLS_CA NATS_TLS_CERT NATS_TLS_KEY NGINX NODE \
    OWN_TOOLS PREVIOUS PREVIOUS_SCHEMA PROGRAM PROMETHEUS PROMTOOL PUBLISH PYTHON RETRIES REVISION ROLLING_RESTART \
    SCREENSHOTS SIMULATION_SECONDS SIMULATION_SEED SIMULATION_SEEDS SIMULATION_WHOLE WRK";
/// Letters that are missing, wrong, in excess or swapped in a name that is mistyped.
const MISTAKES_MAX: usize = 2;

/// An error for each variable with our prefix that nobody reads: the flag that it is meant for would have its default,
/// such as an admin address without a token. With the name that it may stand for.
pub(super) fn unknown_variables(command: &Command) -> Vec<String> {
    let known = known(command);
    let set = env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        let is_known = known.contains(&name) || is_of_kubernetes(&name, &value.to_string_lossy());
        (name.starts_with(PREFIX) && !is_known).then_some(name)
    });
    set.map(|name| match nearest(&name, &known) {
        Some(nearest) => format!("there is no variable {name}; there is {nearest}"),
        None => format!("there is no variable {name}"),
    })
    .collect()
}

/// The variables of all commands, because a file of variables may serve several, and those of others.
fn known(command: &Command) -> BTreeSet<String> {
    let others = OF_OTHERS.split_whitespace();
    let mut known: BTreeSet<String> = others.map(|name| format!("{PREFIX}{name}")).collect();
    known.extend(SECRETS.map(|secret| format!("{secret}_FILE")));
    add_flags(command, &mut known);
    known
}

fn add_flags(command: &Command, known: &mut BTreeSet<String>) {
    let variables = command.get_arguments().filter_map(|arg| arg.get_env());
    known.extend(variables.filter_map(|name| Some(name.to_str()?.to_owned())));
    for command in command.get_subcommands() {
        add_flags(command, known);
    }
}

/// Whether Kubernetes sets a variable for a service named `railbird` or `railbird-...`.
fn is_of_kubernetes(name: &str, value: &str) -> bool {
    // With a word after it, as in RAILBIRD_PORT_80_TCP_ADDR.
    let is_port = name.contains("_PORT_") || name.ends_with("_PORT") && value.contains("://");
    is_port || name.ends_with("_SERVICE_HOST") || name.ends_with("_SERVICE_PORT")
}

/// The known name that was mistyped, or that another word was added to.
fn nearest<'a>(name: &str, known: &'a BTreeSet<String>) -> Option<&'a String> {
    let distance = |known: &&String| strsim::osa_distance(name, known);
    let is_near = |known: &&String| {
        let added = name.strip_prefix(known.as_str());
        distance(known) <= MISTAKES_MAX || added.is_some_and(|added| added.starts_with('_'))
    };
    known.iter().filter(is_near).min_by_key(distance)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use clap::CommandFactory;

    use super::{PREFIX, is_of_kubernetes, known};
    use crate::cli::Cli;

    /// The files of a folder, or a file.
    fn files(path: &str) -> Vec<PathBuf> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        match fs::read_dir(&path) {
            Ok(entries) => entries
                .map(|entry| entry.expect("an entry").path())
                .collect(),
            Err(_) => vec![path],
        }
    }

    #[test]
    fn all_that_scripts_examples_compose_and_nats_read_is_known() {
        let known = known(&Cli::command());
        let paths = [
            ".ci",
            "docker-compose.yml",
            "examples",
            "nats.conf",
            "ops",
            "ops/kubernetes",
            "script",
        ];
        let texts = paths
            .into_iter()
            .flat_map(files)
            .filter_map(|file| fs::read_to_string(file).ok());
        let mut seen = 0;
        for text in texts {
            for rest in text.split(PREFIX).skip(1) {
                let end = rest
                    .find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
                let name = &rest[..end.unwrap_or(rest.len())];
                // The rest of some names is a variable of a shell.
                let is_whole = !name.is_empty() && !name.ends_with('_');
                assert!(
                    !is_whole || known.contains(&format!("{PREFIX}{name}")),
                    "{name}"
                );
                seen += 1;
            }
        }
        assert!(seen > 100, "{seen}");
    }

    #[test]
    fn the_variables_of_services_of_kubernetes_are_known_by_their_forms() {
        for (name, value) in [
            ("RAILBIRD_SERVICE_HOST", "10.0.0.1"),
            ("RAILBIRD_ADMIN_SERVICE_PORT", "9090"),
            ("RAILBIRD_SERVICE_PORT_HTTP", "80"),
            ("RAILBIRD_PORT", "tcp://10.0.0.1:80"),
            ("RAILBIRD_PORT_80_TCP", "tcp://10.0.0.1:80"),
            ("RAILBIRD_PORT_80_TCP_PROTO", "tcp"),
            ("RAILBIRD_ADMIN_PORT_9090_TCP_PORT", "9090"),
            ("RAILBIRD_ADMIN_PORT_9090_TCP_ADDR", "10.0.0.1"),
        ] {
            assert!(is_of_kubernetes(name, value), "{name}");
        }
        for name in ["RAILBIRD_PORT", "RAILBIRD_HTTP_PORT", "RAILBIRD_SMTP_HOST"] {
            assert!(!is_of_kubernetes(name, "8080"), "{name}");
        }
    }
}
