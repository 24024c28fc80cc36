//! [`check_variables`]: finds a variable of the environment whose name is mistyped.

use std::collections::BTreeSet;
use std::env;

use clap::Command;

/// What the names of all variables begin with.
const PREFIX: &str = "RAILBIRD_";
/// The variable that names a file with the value of another one.
const FILE_SUFFIX: &str = "_FILE";
/// Letters that are missing, wrong, in excess or swapped in a name that is mistyped.
const MISTAKES_MAX: usize = 2;

/// Checks the names of the variables that are set. One that is nearly that of a flag is mistyped, and the flag would
/// have its default: an admin address without a token, say. Others are left alone, because Kubernetes and Compose set
/// some with the prefix.
///
/// # Errors
/// Returns the variable and the one that it may stand for.
pub(super) fn check_variables(command: &Command) -> Result<(), String> {
    let mut known = BTreeSet::new();
    collect(command, &mut known);
    let set = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in set.filter(|name| name.starts_with(PREFIX) && !known.contains(name)) {
        let distance = |known: &&String| strsim::osa_distance(&name, known);
        if let Some(nearest) = known.iter().min_by_key(distance)
            && distance(&nearest) <= MISTAKES_MAX
        {
            return Err(format!("there is no variable {name}; there is {nearest}"));
        }
    }
    Ok(())
}

/// The variables of all commands: a file of variables may serve several.
fn collect(command: &Command, known: &mut BTreeSet<String>) {
    let variables = command.get_arguments().filter_map(|arg| arg.get_env());
    for name in variables.filter_map(|name| name.to_str()) {
        known.insert(name.to_owned());
        known.insert(format!("{name}{FILE_SUFFIX}"));
    }
    for command in command.get_subcommands() {
        collect(command, known);
    }
}
