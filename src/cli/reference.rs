//! The pages of `docs/` that are made of the program: commands and metrics.

use std::fmt::Write;

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::{Cli, EXIT_CODES};
use crate::metrics;

/// `docs/commands.md`: each command with its flags and variables, and the exit codes.
pub(super) fn commands() -> String {
    let mut page = format!(
        "# Commands\n\n{MADE}. `railbird <command> --help` explains each flag. A flag takes precedence over its \
         variable. As\nvariables, switches take `true` or `false`, and lists have commas between their values.\n"
    );
    add_command(&mut page, &Cli::command(), "railbird");
    page.push_str("\n## Exit codes\n\n");
    for (code, meaning) in EXIT_CODES {
        add_item(&mut page, &format!("`{code}`: {meaning}"));
    }
    page
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

fn add_command(page: &mut String, command: &Command, path: &str) {
    let about = command.get_about().map(ToString::to_string);
    let flags: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| !is_built_in(arg))
        .collect();
    let _ = write!(page, "\n## {path}\n\n{}\n", about.unwrap_or_default());
    if !flags.is_empty() {
        page.push('\n');
    }
    for arg in flags {
        add_item(page, &argument(arg));
    }
    for subcommand in command.get_subcommands() {
        add_command(
            page,
            subcommand,
            &format!("{path} {}", subcommand.get_name()),
        );
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
