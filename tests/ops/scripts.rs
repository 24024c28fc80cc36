//! `script/`: each script explains itself, and finds only what it has installed where that is requested.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::*;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The scripts in bash that people start.
fn scripts() -> impl Iterator<Item = PathBuf> {
    let files = fs::read_dir(root().join("script")).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let scripts = paths.filter(|path| path.extension().is_none());
    scripts.chain([root().join(".ci/run")])
}

/// Writes programs into a folder that print a version and succeed, or fail.
fn fakes(folder: &Path, names: &[&str], code: i32) {
    for name in names {
        let file = folder.join(name);
        fs::write(&file, format!("#!/bin/sh\necho v99.9.9\nexit {code}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Runs a command with these programs before those on PATH.
fn run_with(folder: &Path, command: &mut Command) -> Output {
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", folder.display());
    command.current_dir(root()).env("PATH", path);
    command.output().unwrap()
}

#[test]
fn each_script_prints_its_help_and_does_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    fakes(folder.path(), &["cargo"], 1);
    let help = |script: &Path| {
        let output = run_with(folder.path(), Command::new(script).arg("--help"));
        assert!(output.status.success(), "{}: {output:?}", script.display());
        assert!(output.stderr.is_empty(), "{}: {output:?}", script.display());
        String::from_utf8(output.stdout).unwrap()
    };
    for script in scripts() {
        let text = fs::read_to_string(&script).unwrap();
        let comment = text
            .lines()
            .skip(1)
            .map_while(|line| line.strip_prefix('#'));
        let lines = comment.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line)));
        assert_eq!(
            help(&script),
            lines.collect::<String>(),
            "{}",
            script.display()
        );
    }
    assert!(help(&root().join("bench/run")).starts_with("usage: bench/run"));
}

#[test]
fn scripts_that_use_their_own_tools_see_no_others() {
    let (folder, temp) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let names = ["node", "npm", "nginx", "chromium", "nats-server", "by-hand"];
    fakes(folder.path(), &names, 0);
    let mut bash = Command::new("bash");
    bash.env("RAILBIRD_OWN_TOOLS", "1")
        .env("RAILBIRD_NODE", folder.path().join("node"))
        .env("PYTHONUNBUFFERED", "1")
        .env("TMPDIR", temp.path());
    let check = "source script/tools.sh
        for name in $NAMES; do
          ! on_path \"$name\" && ! \"$name\" 2>/dev/null || echo \"$name is used\"
        done
        ! on_path_since node 22 0 || echo \"$PATH has a node\"
        [[ -z ${RAILBIRD_NODE:-} ]] || echo \"a variable names $RAILBIRD_NODE\"
        [[ -z ${PYTHONUNBUFFERED:-} ]] || echo \"Python is as somebody has set it\"
        ls -A \"$HOME\"
        cargo --version >/dev/null
        python3 --version >/dev/null";
    bash.env("NAMES", names.join(" "));
    let output = run_with(folder.path(), bash.args(["-euc", check]));
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    let left: Vec<_> = fs::read_dir(temp.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_unpacked_nginx_creates_its_folders_where_it_is_started() {
    let own = |nginx: &PathBuf| nginx.starts_with(root().join(".tools"));
    let Some(nginx) = program("nginx").filter(own) else {
        eprintln!("SKIPPED: nginx is not that of script/program");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let conf = folder.path().join("nginx.conf");
    fs::write(
        &conf,
        "events {}\nhttp { server { listen unix:socket; } }\n",
    )
    .unwrap();
    let mut nginx = Command::new(nginx);
    nginx.args(["-t", "-e", "stderr", "-p"]).arg(folder.path());
    let output = nginx.arg("-c").arg(&conf).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    for name in ["access.log", "body", "nginx.pid", "proxy"] {
        assert!(folder.path().join(name).exists(), "{name}");
    }
}
