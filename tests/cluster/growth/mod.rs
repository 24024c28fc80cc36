//! docs/scaling.md, "From one node to three", followed on a [machine](Machine) as docs/production.md leaves it, while a
//! feeder publishes.

use std::collections::HashSet;
use std::io::Read as _;
use std::process::{Child, Stdio};
use std::time::Instant;

use crate::ops::production::{Block, Machine, Shell, blocks, read};
use crate::support::*;

const PAGE: &str = "docs/scaling.md";
/// The block that begins with it stands for each of the three machines.
const OF_EACH_MACHINE: &str = "N=1\n";
/// The three addresses are those of one machine here.
const NODES: (&str, &str) = (
    "NODES=(10.0.0.1 10.0.0.2 10.0.0.3)",
    "NODES=(127.0.0.11 127.0.0.12 127.0.0.13)",
);
const FEEDER: &str = "/usr/local/src/railbird/tests/cluster/growth/feeder.py";
const ACKNOWLEDGED: &str = "/root/acknowledged";

/// The blocks of a section.
fn section(page: &str, heading: &str) -> Vec<Block> {
    let (_, section) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    blocks(section.split("\n## ").next().unwrap())
}

/// A feeder on the machine that publishes until its input ends.
struct Feeder<'a> {
    machine: &'a Machine,
    process: Child,
}

impl<'a> Feeder<'a> {
    fn start(machine: &'a Machine) -> Self {
        let mut python = machine.command("python3", &[FEEDER, "feed", ACKNOWLEDGED]);
        let process = python
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self { machine, process }
    }

    /// Which events were acknowledged, as "sequence id".
    fn acknowledged(&self) -> Vec<String> {
        let lines = self
            .machine
            .command("cat", &[ACKNOWLEDGED])
            .output()
            .unwrap();
        let lines = String::from_utf8(lines.stdout).unwrap();
        // The last line may be written just now.
        let whole = lines.rsplit_once('\n').unwrap_or_default().0;
        whole.lines().map(str::to_owned).collect()
    }

    /// Waits until another event was acknowledged.
    fn until_acknowledged_another(&self) {
        let (before, until) = (self.acknowledged().len(), Instant::now() + PATIENCE);
        while self.acknowledged().len() == before {
            assert!(Instant::now() < until, "the feeder publishes nothing");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    /// What was acknowledged, and the longest wait for that, in seconds.
    fn stop(mut self) -> (Vec<String>, String) {
        drop(self.process.stdin.take());
        let mut longest = String::new();
        let mut output = self.process.stdout.take().unwrap();
        output.read_to_string(&mut longest).unwrap();
        assert!(self.process.wait().unwrap().success());
        (self.acknowledged(), longest.trim().to_owned())
    }
}

impl Drop for Feeder<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A client on the machine that gets the meetings again and again, through Caddy.
struct Reader {
    process: Child,
}

impl Reader {
    fn start(machine: &Machine) -> Self {
        let get = "while read -r -t 0.05 line || (($? > 128)); do curl --silent --output /dev/null \
                   --write-out '%{http_code}\n' --header \"X-API-Key: $(tail --lines=1 /root/first-key)\" \
                   --cacert /var/lib/caddy/.local/share/caddy/pki/authorities/local/root.crt \
                   https://localhost/api/v1/meetings; done";
        let mut bash = machine.command("bash", &["-c", get]);
        let bash = bash.stdin(Stdio::piped()).stdout(Stdio::piped());
        let process = bash.spawn().unwrap();
        Self { process }
    }

    /// The statuses that it got.
    fn stop(mut self) -> Vec<String> {
        drop(self.process.stdin.take());
        let mut statuses = String::new();
        let mut output = self.process.stdout.take().unwrap();
        output.read_to_string(&mut statuses).unwrap();
        statuses.lines().map(str::to_owned).collect()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Each message of the log, as "sequence id".
fn log(machine: &Machine) -> Vec<String> {
    let file = "/root/log";
    let list = machine
        .command("python3", &[FEEDER, "list", file])
        .output()
        .unwrap();
    assert!(list.status.success(), "{list:?}");
    let lines = machine.command("cat", &[file]).output().unwrap();
    let lines = String::from_utf8(lines.stdout).unwrap();
    lines.lines().map(str::to_owned).collect()
}

/// Follows the blocks, those of each machine three times.
fn follow(machine: &Machine, shell: &mut Shell, mut block: Block) {
    block.commands = block.commands.replace(NODES.0, NODES.1);
    let Some(commands) = block
        .commands
        .strip_prefix(OF_EACH_MACHINE)
        .map(str::to_owned)
    else {
        return machine.follow(shell, PAGE, &block);
    };
    for machine_number in 1..=3 {
        block.commands = format!("N={machine_number}\n{commands}");
        machine.follow(shell, PAGE, &block);
    }
}

#[test]
fn one_node_becomes_three_without_losing_an_event() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let mut shell = machine.shell();
    let production = read("docs/production.md");
    for heading in [
        "Programs",
        "Passwords",
        "The log",
        "Replicas",
        "TLS",
        "Keys and feeders",
    ] {
        for block in section(&production, heading) {
            machine.follow(&mut shell, "docs/production.md", &block);
        }
    }
    let feeder = Feeder::start(&machine);
    feeder.until_acknowledged_another();
    let reader = Reader::start(&machine);
    let mut before = Vec::new();
    for block in section(&read(PAGE), "From one node to three") {
        // The last moment at which the old server can be asked.
        if block
            .commands
            .contains("systemctl disable --now nats-server")
        {
            before = log(&machine);
        }
        follow(&machine, &mut shell, block);
    }
    feeder.until_acknowledged_another();
    let (acknowledged, longest) = feeder.stop();
    let answers = reader.stop();
    eprintln!(
        "a feeder waited {longest} s, {} GETs were answered",
        answers.len()
    );
    assert!(
        answers.len() > 10 && answers.iter().all(|status| status == "200"),
        "{answers:?}"
    );
    let after = log(&machine);
    assert!(before.len() > 218 && acknowledged.len() > 10);
    assert_eq!(
        after[..before.len()],
        before,
        "every event has its sequence"
    );
    let seqs = after.iter().map(|line| line.split(' ').next().unwrap());
    assert!(
        seqs.eq((1..=after.len()).map(|seq| seq.to_string())),
        "the log has a hole"
    );
    let ids: HashSet<_> = after
        .iter()
        .map(|line| line.split(' ').nth(1).unwrap())
        .collect();
    assert_eq!(ids.len(), after.len(), "an event is in the log twice");
    let after: HashSet<_> = after.iter().collect();
    for event in &acknowledged {
        assert!(
            after.contains(event),
            "{event} was acknowledged, and is not in the log"
        );
    }
    assert_the_streams_have_three_replicas(&mut shell);
    assert_the_replicas_are_equal(&mut shell);
}

fn assert_the_streams_have_three_replicas(shell: &mut Shell) {
    let until = Instant::now() + PATIENCE;
    loop {
        let (ready, is_ready) = shell.run("curl --silent --fail http://127.0.0.1:8081/readyz");
        // A stream that has just grown elects a leader.
        if is_ready && ready.contains("\"drift\":{\"settings\":[],\"risks\":[],\"away\":[]}") {
            return;
        }
        assert!(Instant::now() < until, "{ready}");
    }
}

fn assert_the_replicas_are_equal(shell: &mut Shell) {
    let until = Instant::now() + PATIENCE;
    loop {
        let digest = "curl --silent --fail http://127.0.0.1:909$replica/digest; echo";
        let (digests, _) = shell.run(&format!("for replica in 1 2; do {digest}; done"));
        let lines: Vec<_> = digests.trim().lines().collect();
        let [one, other] = lines[..] else {
            panic!("{digests}");
        };
        if one.contains("\"seq\":") && one == other {
            return;
        }
        assert!(Instant::now() < until, "{digests}");
    }
}
