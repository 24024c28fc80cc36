//! The pages of `docs/` that are made of the program: commands, health and metrics.

use std::collections::BTreeMap;
use std::fmt::Write;

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::{Cli, EXIT_CODES};
use crate::health::{Impact, IncidentKind, Reason};
use crate::metrics;

/// `docs/commands.md`: each command with its flags and variables, and the exit codes.
pub(super) fn commands() -> String {
    let mut page = format!(
        "# Commands\n\n{MADE}. `railbird <command> --help` explains each flag. A flag\n\
         takes precedence over its variable. As variables, switches take `true` or `false`, and lists have commas \
         between their\nvalues.\n"
    );
    add_command(
        &mut page,
        &Cli::command(),
        "railbird",
        &mut Described::new(),
    );
    page.push_str("\n## Exit codes\n\n");
    for (code, meaning) in EXIT_CODES {
        add_item(&mut page, &format!("`{code}`: {meaning}"));
    }
    page
}

/// `docs/health.md`: each reason why something is wrong, with what it means.
pub(super) fn health() -> String {
    let mut page = format!(
        "# Health\n\n{MADE}. It lists what can be wrong. The first reason that there is\n\
         stands in `/readyz`; `/status` shows the worst that all of them mean for a part of the service, and \
         incidents.\n\n\
         | reason | `reason` of `/readyz` | API | live odds | feeders | mail | incident | alert |\n\
         |---|---|---|---|---|---|---|---|\n"
    );
    for reason in Reason::ALL {
        let meaning = reason.meaning();
        let _ = write!(
            page,
            "| `{reason:?}` | {} |",
            meaning.unready.unwrap_or_default()
        );
        for impact in meaning.impacts {
            let _ = write!(page, " {} |", impact_word(impact));
        }
        let incident = meaning.incident.map(|kind| format!("`{}`", code(kind)));
        let alert = meaning.alert.map(|alert| {
            let section = alert.to_lowercase();
            format!("[{alert}](production.md#{section})")
        });
        let incident = incident.unwrap_or_default();
        let alert = alert.unwrap_or_default();
        let _ = writeln!(page, " {incident} | {alert} |");
    }
    page
}

/// As `/status.json` names it.
fn code(kind: IncidentKind) -> String {
    let name = serde_json::to_value(kind).unwrap_or_default();
    name.as_str().unwrap_or_default().to_owned()
}

fn impact_word(impact: Impact) -> &'static str {
    match impact {
        Impact::None | Impact::Operational(_) => "works",
        Impact::Degraded(_) => "degraded",
        Impact::Down(_) => "down",
    }
}

/// `docs/metrics.md`: each metric with its labels.
pub(super) fn metrics() -> String {
    let mut page = format!("# Metrics\n\n{MADE}.\n\n");
    for (metric, help) in metrics::described() {
        add_item(&mut page, &format!("`{metric}`: {help}"));
    }
    page
}

const MADE: &str = "`railbird schemas --docs docs` makes this page";

/// Of more flags that are described elsewhere, the first and the last are named.
const NAMED_FLAGS_MAX: usize = 3;

/// Where each flag was described, by its description.
type Described = BTreeMap<String, String>;

fn add_command(page: &mut String, command: &Command, path: &str, described: &mut Described) {
    let about = command.get_about().map(ToString::to_string);
    let _ = write!(page, "\n## {path}\n\n{}\n", about.unwrap_or_default());
    let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut new = Vec::new();
    for arg in command.get_arguments().filter(|arg| !is_built_in(arg)) {
        let text = argument(arg);
        match (described.get(&text), arg.get_long()) {
            (Some(elsewhere), Some(flag)) => {
                let flags = known.entry(elsewhere.clone()).or_default();
                flags.push(format!("`--{flag}`"));
            }
            _ => new.push(text),
        }
    }
    if !(new.is_empty() && known.is_empty()) {
        page.push('\n');
    }
    for text in new {
        add_item(page, &text);
        described.insert(text, path.to_owned());
    }
    for (elsewhere, flags) in known {
        let named = match &flags[..] {
            [first, .., last] if flags.len() > NAMED_FLAGS_MAX => {
                format!("{first} to {last}, {} flags", flags.len())
            }
            flags => flags.join(", "),
        };
        add_item(page, &format!("as for `{elsewhere}`: {named}"));
    }
    for subcommand in command.get_subcommands() {
        let path = format!("{path} {}", subcommand.get_name());
        add_command(page, subcommand, &path, described);
    }
}

fn is_built_in(arg: &Arg) -> bool {
    ["help", "version"].contains(&arg.get_id().as_str())
}

/// `--flag VALUE`, its variable, and its default.
fn argument(arg: &Arg) -> String {
    let takes_value = !matches!(arg.get_action(), ArgAction::SetTrue);
    let names = arg.get_value_names().unwrap_or_default().iter();
    let value: Vec<String> = names.map(|name| format!("<{name}>")).collect();
    let value = value.join(" ");
    let mut text = match arg.get_long() {
        Some(long) if takes_value => format!("`--{long} {value}`"),
        Some(long) => format!("`--{long}`"),
        None => format!("`{value}`"),
    };
    if let Some(variable) = arg.get_env() {
        let _ = write!(text, ", `{}`", variable.to_string_lossy());
    }
    let defaults = arg.get_default_values().iter();
    let defaults: Vec<_> = defaults.map(|value| value.to_string_lossy()).collect();
    if takes_value && !defaults.is_empty() {
        let _ = write!(text, ", default `{}`", defaults.join(","));
    }
    if arg.is_required_set() {
        text.push_str(", required");
    }
    text
}

/// Adds an item of a list, wrapped at 120 columns.
fn add_item(page: &mut String, text: &str) {
    const COLUMNS: usize = 120;
    let mut line = String::from("-");
    for word in text.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > COLUMNS {
            page.push_str(&line);
            page.push('\n');
            line = String::from(" ");
        }
        let _ = write!(line, " {word}");
    }
    page.push_str(&line);
    page.push('\n');
}
