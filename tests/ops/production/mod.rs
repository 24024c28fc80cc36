//! docs/production.md, followed to the letter on a [machine](Machine): real systemd, real packages, a real proxy.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::support::*;

/// Ends the output of a block in a [`Shell`].
const END_OF_BLOCK: &str = "--- end of block";

/// A machine as `tests/ops/production/machine.sh` describes it, with the repository at /usr/local/src/railbird.
pub(crate) struct Machine {
    /// The first process is its only child, and ends with it.
    unshare: Child,
    first_process: u32,
}

impl Machine {
    /// `None`, with a note, where this user may not make one.
    pub(crate) fn start() -> Option<Self> {
        let is_possible = rustix::process::geteuid().is_root()
            && Path::new("/lib/systemd/systemd").exists()
            && Command::new("unshare")
                .args(["--mount", "--net", "--pid", "--cgroup", "--fork", "true"])
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success());
        if !is_possible {
            eprintln!("SKIPPED: a machine with systemd needs root, and namespaces");
            return None;
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ops/production/machine.sh");
        let namespaces = [
            "--net",
            "--mount",
            "--pid",
            "--ipc",
            "--uts",
            "--cgroup",
            "--fork",
            "--kill-child",
        ];
        let unshare = Command::new("unshare")
            .args(namespaces)
            .arg("bash")
            .arg(script)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let until = std::time::Instant::now() + PATIENCE;
        let mut machine = Self {
            unshare,
            first_process: 0,
        };
        while !machine.is_up() {
            assert!(
                std::time::Instant::now() < until && machine.unshare.try_wait().unwrap().is_none(),
                "the machine does not start"
            );
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        Some(machine)
    }

    fn is_up(&mut self) -> bool {
        let parent = self.unshare.id();
        let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
        let Some(child) = children.ok().and_then(|pids| pids.trim().parse().ok()) else {
            return false;
        };
        self.first_process = child;
        let name = std::fs::read_to_string(format!("/proc/{child}/comm"));
        name.is_ok_and(|name| name.trim() == "systemd")
            && self
                .command("systemctl", &["is-system-running", "--wait", "--quiet"])
                .stderr(Stdio::null())
                .status()
                .unwrap()
                .success()
    }

    /// A command on the machine.
    pub(crate) fn command(&self, program: &str, args: &[&str]) -> Command {
        let target = format!("--target={}", self.first_process);
        let mut command = Command::new("nsenter");
        command.args([&target, "--all", "--wdns=/root", "--", program]);
        command.args(args).stdin(Stdio::null());
        command.env_clear().env("HOME", "/root");
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        command.env("PATH", path).env("LANG", "C.UTF-8");
        command
    }

    /// A shell as that of an administrator who begins to follow a page.
    pub(crate) fn shell(&self) -> Shell {
        let mut shell = self.bare_shell();
        let (output, is_prepared) = shell.run(&read("tests/ops/production/prepare.sh"));
        assert!(is_prepared, "{output}");
        shell
    }

    /// Runs the commands of a block. Panics if one of them fails, or prints something else than the page says.
    pub(crate) fn follow(&self, shell: &mut Shell, page: &str, block: &Block) {
        let (output, has_succeeded) = shell.run(&block.commands);
        let Block { line, commands, .. } = block;
        let at = format!("{page}:{line}\n{commands}\nprints\n{output}");
        if !has_succeeded {
            let journal = self
                .command("journalctl", &["--no-pager", "--lines=60"])
                .output();
            let journal = String::from_utf8_lossy(&journal.unwrap().stdout).into_owned();
            panic!("{at}\nand fails. The journal:\n{journal}");
        }
        if let Some(printed) = &block.printed {
            assert!(is_as_printed(&output, printed), "{at}\nand not\n{printed}");
        }
    }

    /// A shell with what the network would have given: packages, and a build.
    fn bare_shell(&self) -> Shell {
        let mut command = self.command("bash", &["--norc", "-euo", "pipefail"]);
        for name in ["NATS_SERVER", "CADDY", "PROMETHEUS"] {
            let name = format!("RAILBIRD_{name}");
            if let Some(path) = std::env::var_os(&name) {
                command.env(name, path);
            }
        }
        let root = "/var/lib/caddy/.local/share/caddy/pki/authorities/local/root.crt";
        let mut shell = command
            .env("REPOSITORY", env!("CARGO_MANIFEST_DIR"))
            .env("BUILT", env!("CARGO_BIN_EXE_railbird"))
            .env("CURL_CA_BUNDLE", root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Shell {
            input: shell.stdin.take().unwrap(),
            output: BufReader::new(shell.stdout.take().unwrap()),
            process: shell,
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
    }
}

pub(crate) struct Shell {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Shell {
    /// Runs a block. Returns its output, and whether all of its commands succeeded.
    pub(crate) fn run(&mut self, block: &str) -> (String, bool) {
        let run = format!("exec 2>&1\n{block}\necho; echo '{END_OF_BLOCK}'\n");
        self.input.write_all(run.as_bytes()).unwrap();
        self.input.flush().unwrap();
        let mut output = String::new();
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).unwrap() == 0 {
                return (output, false);
            }
            if line.trim_end() == END_OF_BLOCK {
                return (output, true);
            }
            output.push_str(&line);
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Commands of a page, and what they print, if it says so.
pub(crate) struct Block {
    line: usize,
    pub(crate) commands: String,
    printed: Option<String>,
}

/// The blocks of the page in their order: each fence `shell`, with the fence `text` that follows it.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            continue;
        };
        let fenced: Vec<&str> = lines
            .by_ref()
            .map(|(_, line)| line)
            .take_while(|line| *line != "```")
            .collect();
        let fenced = fenced.join("\n");
        match info {
            "shell" => blocks.push(Block {
                line: number + 1,
                commands: fenced,
                printed: None,
            }),
            "text" => blocks.last_mut().unwrap().printed = Some(fenced),
            // Of other programs: configurations.
            _ => {}
        }
    }
    blocks
}

/// Whether the output is the printed one, in which `...` is any text.
fn is_as_printed(output: &str, printed: &str) -> bool {
    let (output, printed) = (output.trim(), printed.trim());
    let Some((first, rest)) = printed.split_once("...") else {
        return output == printed;
    };
    let (middle, last) = rest.rsplit_once("...").unwrap_or(("", rest));
    let inner = output.strip_prefix(first);
    let Some(mut inner) = inner.and_then(|inner| inner.strip_suffix(last)) else {
        return false;
    };
    middle.split("...").all(|piece| {
        let found = inner.split_once(piece);
        found.is_some_and(|(_, after)| {
            inner = after;
            true
        })
    })
}

/// The text of a file of the repository.
pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn the_page_is_right_on_a_machine_with_nothing_on_it() {
    let blocks = blocks(&read("docs/production.md"));
    assert!(blocks.len() > 10);
    let Some(machine) = Machine::start() else {
        return;
    };
    let mut shell = machine.shell();
    for block in blocks {
        machine.follow(&mut shell, "docs/production.md", &block);
    }
}

#[test]
fn three_dots_stand_for_any_text() {
    for (output, printed) in [
        ("a\n", "a"),
        ("a b c", "a ... c"),
        ("a\nb\nc", "a\n..."),
        ("x", "..."),
        ("key rb_1 end", "key ... end"),
    ] {
        assert!(is_as_printed(output, printed), "{output:?} {printed:?}");
    }
    for (output, printed) in [
        ("a", "b"),
        ("a b", "a"),
        ("a b d", "a ... c"),
        ("b", "a..."),
    ] {
        assert!(!is_as_printed(output, printed), "{output:?} {printed:?}");
    }
}
