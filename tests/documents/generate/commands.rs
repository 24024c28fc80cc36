//! Makes `docs/commands.md`: each command with its flags and variables, and the exit codes.

use std::collections::BTreeMap;
use std::fmt::Write;

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::{
    Cli, EXIT_CONFIGURATION, EXIT_FAILURE, EXIT_NO_PERMISSION, EXIT_SOFTWARE, EXIT_UNAVAILABLE,
    EXIT_USAGE,
};
use crate::documents::{MADE, add_item, check};

/// The exit codes and what they mean.
#[rustfmt::skip]
const EXIT_CODES: [(u8, &str); 7] = [
    (0, "success"),
    (EXIT_FAILURE, "the command failed, some input was rejected, or a check did not hold"),
    (EXIT_USAGE, "wrong command line"),
    (
        EXIT_UNAVAILABLE,
        "NATS is unreachable or has no stream yet (`serve` waits); `watch`: no ready service at the first attempt; \
         `export` and `diff`: no service",
    ),
    (EXIT_SOFTWARE, "a part of the service failed (`serve`, `dev`): start it again"),
    (EXIT_NO_PERMISSION, "NATS rejects the login, or denies publishing on the subject in the message"),
    (EXIT_CONFIGURATION, "wrong configuration; with `--production`, also if events can be lost, or others can read"),
];

#[test]
fn the_page_of_commands_is_that_of_the_command_line() {
    check("docs/commands.md", &page());
}

fn page() -> String {
    let mut page = format!(
        "# Commands\n\n{MADE}\n\n`railbird <command> --help` explains each flag. A flag takes precedence over its \
         variable.\nAs variables, switches take `true` or `false`, and lists have commas between their values.\n"
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
