//! `railbird feeders`.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use askama::Template;
use clap::Subcommand;

use super::WrongUse;
use super::report::{line, result};
use crate::accounts::random_secret;

/// The least that bcrypt has. A costly hash protects passwords that can be guessed, not 160 random bits, and
/// nats-server computes it at each login.
const HASH_COST: u32 = 4;
/// The users in nats.conf itself.
const RESERVED: [&str; 4] = ["admin", "railbird", "keys", "feeder"];
/// Names are tokens of an account and a user.
const NAME_LEN_MAX: usize = 32;
/// The kinds of subjects that events have.
const KINDS: [&str; 7] = ["horse", "race", "result", "odds", "sources", "*", ">"];

#[derive(Debug, Subcommand)]
pub(super) enum Feeders {
    /// Add a user for a feeder to the NATS configuration, and print its password once.
    ///
    /// The user has an account of its own: it publishes on its subjects alone, receives the rejections there, reads the
    /// stored events, and sees nothing of other feeders. nats-server takes it at the second of two reloads, which
    /// disturb no connection. The file has a hash of the password.
    Add {
        /// The user: 1 to 32 of a-z 0-9 -.
        #[arg(value_parser = parse_name)]
        name: String,
        /// The subjects on which it may publish, such as 'racing.odds.>'; several are separated by commas.
        #[arg(long, required = true, value_delimiter = ',', value_parser = parse_subjects)]
        subjects: Vec<String>,
        /// The file that nats.conf includes.
        #[arg(long, value_name = "FILE", default_value = "feeders.conf")]
        file: PathBuf,
    },
}

impl Feeders {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let Self::Add {
            name,
            subjects,
            file,
        } = self;
        if let Some((one, other)) = overlap(&subjects) {
            bail!(WrongUse(format!(
                "the subjects {one:?} and {other:?} overlap: nats-server would store an event on both twice"
            )));
        }
        let shown = file.display();
        let read = fs::read_to_string(&file);
        let conf = read.with_context(|| format!("{shown} cannot be read"))?;
        let account = format!("FEEDER_{}", name.to_uppercase().replace('-', "_"));
        if conf.lines().any(|line| line == format!("{account} {{")) {
            bail!("{shown} has a feeder {name:?} already; delete its account there to replace it");
        }
        let password = random_secret()?;
        let added = FeederAccount {
            account: &account,
            name: &name,
            subjects: &subjects,
            password_hash: &bcrypt::hash(&password, HASH_COST)?,
        };
        let added = added.render()?;
        // In place, because a container may have the file mounted.
        let opened = OpenOptions::new().append(true).open(&file);
        let written = opened.and_then(|mut file| file.write_all(added.as_bytes()));
        written.with_context(|| format!("{shown} cannot be written"))?;
        line(format_args!(
            "the feeder {name:?} is in {shown}; reload nats-server twice, a second apart; the password is shown only \
             this once:"
        ));
        result(password);
        Ok(())
    }
}

fn parse_name(text: &str) -> Result<String, String> {
    let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if text.is_empty() || text.len() > NAME_LEN_MAX || !text.bytes().all(is_allowed) {
        return Err(format!("a name is 1 to {NAME_LEN_MAX} of a-z 0-9 -"));
    }
    if RESERVED.contains(&text) {
        return Err(format!("{text:?} is a user of nats.conf"));
    }
    Ok(text.to_owned())
}

fn parse_subjects(text: &str) -> Result<String, &'static str> {
    let tokens: Vec<&str> = text.split('.').collect();
    let is_text = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    let last = tokens.len() - 1;
    let are_tokens = tokens.iter().enumerate().all(|(n, token)| match *token {
        "*" => true,
        ">" => n == last,
        token => !token.is_empty() && token.bytes().all(is_text),
    });
    let is_kind = tokens.get(1).is_some_and(|kind| KINDS.contains(kind));
    if !are_tokens || tokens[0] != "racing" || !is_kind {
        return Err("subjects are such as racing.odds.> or racing.odds.*.ST.*");
    }
    Ok(text.to_owned())
}

/// The first two subjects that an event can be on both of.
fn overlap(subjects: &[String]) -> Option<(&str, &str)> {
    let pairs = (subjects.iter().enumerate())
        .flat_map(|(n, one)| subjects[..n].iter().map(move |other| (&**other, &**one)));
    pairs.into_iter().find(|(one, other)| {
        let mut one = one.split('.');
        let mut other = other.split('.');
        loop {
            match (one.next(), other.next()) {
                (Some(">"), Some(_)) | (Some(_), Some(">")) | (None, None) => return true,
                (Some(one), Some(other)) if one == other || one == "*" || other == "*" => {}
                _ => return false,
            }
        }
    })
}

/// The account of a feeder. What it imports is all that it can do to the log; the permissions beside that make the
/// server report what it denies.
#[derive(Template)]
#[template(path = "feeder.txt", config = "web/templates/askama.toml")]
struct FeederAccount<'a> {
    account: &'a str,
    name: &'a str,
    subjects: &'a [String],
    password_hash: &'a str,
}

#[cfg(test)]
mod tests {
    use super::{overlap, parse_name, parse_subjects};

    #[test]
    fn subjects_that_an_event_can_be_on_both_of_overlap() {
        for (subjects, expected) in [
            ("racing.odds.>", false),
            ("racing.odds.>,racing.race.>", false),
            ("racing.odds.*.ST.*,racing.odds.*.HV.*", false),
            ("racing.horse.*,racing.horse.H1.more", false),
            ("racing.odds.>,racing.odds.>", true),
            ("racing.race.>,racing.odds.>,racing.>", true),
            ("racing.odds.*.ST.*,racing.odds.2026-11-21.*.*", true),
        ] {
            let parts: Vec<_> = subjects.split(',').map(str::to_owned).collect();
            assert_eq!(overlap(&parts).is_some(), expected, "{subjects}");
        }
    }

    #[test]
    fn names_and_subjects_cannot_change_the_rest_of_the_configuration() {
        for name in ["tote", "a-1"] {
            assert_eq!(parse_name(name).unwrap(), name);
        }
        for name in [
            "", "Tote", "a b", "a_b", "a}", "admin", "railbird", "keys", "feeder",
        ] {
            assert!(parse_name(name).is_err(), "{name}");
        }
        for subjects in [
            "racing.>",
            "racing.odds.>",
            "racing.*.*.ST.*",
            "racing.horse.H_1",
            "racing.sources",
        ] {
            assert_eq!(parse_subjects(subjects).unwrap(), subjects);
        }
        for subjects in [
            "",
            ">",
            "racing",
            "racing.",
            "accounts.>",
            "racing.>.odds",
            "racing.bets.>",
            "racing.odds..1",
            "racing.odds.\"",
            "racing.odds.a b",
            "$JS.API.>",
        ] {
            assert!(parse_subjects(subjects).is_err(), "{subjects}");
        }
    }
}
