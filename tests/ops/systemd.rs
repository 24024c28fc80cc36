//! The systemd units, checked by systemd itself.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use super::shipped;
use crate::support::*;

/// The highest exposure that `systemd-analyze security` may find, in tenths of its scale from 0 to 10: "OK" ends at 5.
const EXPOSURE_MAX: &str = "20";

/// Prints a note and returns `None` where there is no systemd, or one that cannot check a unit that is not installed.
fn systemd_analyze() -> Option<()> {
    let asked = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if asked.is_ok_and(|status| status.success()) {
        return Some(());
    }
    eprintln!("SKIPPED: there is no systemd-analyze of systemd 250 or later");
    None
}

/// Writes a unit for programs that are here, and has systemd check a unit of it.
fn check(name: &str, instance: &str, replacements: &[(&str, String)]) {
    if systemd_analyze().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = shipped(name, replacements);
    let unit = folder.path().join(instance);
    std::fs::write(&unit, text).unwrap();
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    for args in [
        &["verify", "--man=no"][..],
        &["security", "--offline=true", &threshold],
    ] {
        let mut command = Command::new("systemd-analyze");
        let output = command.args(args).arg(&unit).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        // An unknown setting is a warning.
        assert!(output.status.success() && errors.is_empty(), "{output:?}");
    }
}

#[test]
fn systemd_accepts_the_unit_of_a_replica_and_finds_it_confined() {
    let railbird = env!("CARGO_BIN_EXE_railbird").to_owned();
    let replacements = [("/usr/local/bin/railbird", railbird)];
    check("railbird@.service", "railbird@1.service", &replacements);
}

#[test]
fn no_unit_writes_cores_and_a_replica_is_watched() {
    for unit in [
        "nats-server.service",
        "nats-cluster@.service",
        "railbird@.service",
        "railbird-backup.service",
    ] {
        assert!(shipped(unit, &[]).contains("\nLimitCORE=0\n"), "{unit}");
    }
    // SIGABRT, the default, does not end a process that is stopped.
    let replica = shipped("railbird@.service", &[]);
    assert!(replica.contains("\nWatchdogSec=10\nWatchdogSignal=SIGKILL\n"));
}

#[test]
fn systemd_accepts_the_unit_of_nats_server_and_finds_it_confined() {
    let nats = std::env::var("RAILBIRD_NATS_SERVER").unwrap_or_else(|_| "nats-server".to_owned());
    let replacements = [("/usr/local/bin/nats-server", nats)];
    check("nats-server.service", "nats-server.service", &replacements);
}

#[tokio::test]
async fn railbird_knows_every_command_and_flag_of_its_units() {
    let units = ["railbird@.service", "railbird-backup.service"];
    let unit = units.map(|unit| shipped(unit, &[])).concat();
    let unit = unit.replace("\\\n", "").replace("%i", "1");
    let commands = unit.lines().filter_map(|line| {
        let (setting, command) = line.split_once("=/usr/local/bin/railbird ")?;
        setting.starts_with("Exec").then_some(command)
    });
    let mut names = BTreeSet::new();
    for command in commands {
        let mut args: Vec<&str> = command.split_whitespace().collect();
        names.insert(args[0]);
        args.push("--help");
        let help = railbird(args).await;
        assert_eq!(help.code, 0, "{command}: {}", help.all);
    }
    assert_eq!(names, BTreeSet::from(["check-config", "log", "serve"]));
}

#[test]
fn systemd_accepts_the_unit_of_a_server_of_a_cluster_and_finds_it_confined() {
    let nats = std::env::var("RAILBIRD_NATS_SERVER").unwrap_or_else(|_| "nats-server".to_owned());
    let replacements = [("/usr/local/bin/nats-server", nats)];
    check(
        "nats-cluster@.service",
        "nats-cluster@1.service",
        &replacements,
    );
}
