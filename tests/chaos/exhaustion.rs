//! A service that has no space, inodes, descriptors, threads or memory left, for a time.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::chown;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::budget::Budget;
use super::quotes::Quotes;
use crate::conformance::rng::Rng;
use crate::support::*;

/// A user of the system without any other process: the number of threads is limited for each user.
const USER: u32 = 61_927;

/// Above what an earlier start needed: the number of threads depends on the moment.
const MARGIN: usize = 64;

/// How often the answers are compared while there is too little of something.
const CHECKS: u64 = 10;

/// What there is too little of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Resource {
    Bytes,
    Inodes,
    Descriptors,
    Threads,
    Memory,
}

impl Resource {
    /// Those that can run out here. Of threads and descriptors, any number may be left, at many moments: they are
    /// there twice. Prints a note if some cannot.
    fn choices() -> Vec<Self> {
        let mut choices = vec![Self::Memory];
        if disks_can_be_small() {
            choices.extend([Self::Bytes, Self::Inodes]);
        } else {
            eprintln!("SKIPPED: unshare cannot mount a small disk");
        }
        if users_can_be_limited() {
            choices.extend([Self::Descriptors, Self::Threads].repeat(2));
        } else {
            eprintln!(
                "SKIPPED: no other user can be limited without root, setpriv and a readable checkout"
            );
        }
        choices
    }
}

fn disks_can_be_small() -> bool {
    let mut command = Command::new("unshare");
    command.args(["-rm", "mount", "-t", "tmpfs", "none", "/mnt"]);
    command.output().is_ok_and(|output| output.status.success())
}

/// The stores in a data folder that are no damaged ones.
fn stores(data: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(data.join("views")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_store = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with('v');
    paths.filter(is_store).collect()
}

/// Sets a soft limit of a process, by a command that runs another one as the user of the process.
fn limit(command: Command, id: u32, limit: &str) {
    assert!(try_limit(command, id, limit), "{limit}");
}

/// False if the process has ended.
fn try_limit(mut command: Command, id: u32, limit: &str) -> bool {
    command.args(["prlimit", "--pid", &id.to_string(), &format!("--{limit}:")]);
    command.status().unwrap().success()
}

async fn is_ready(http: SocketAddr) -> bool {
    let sent = try_send(http, "GET", "/readyz", &[], String::new()).await;
    sent.is_ok_and(|reply| reply.status == 200)
}

fn as_user() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &USER.to_string(), "--clear-groups", "--"]);
    command
}

/// A command that runs as a user of its own, with a soft limit.
fn limited(limit: &str, program: &Path) -> Command {
    let mut command = as_user();
    command.args(["prlimit", &format!("--{limit}:")]);
    command.arg(program);
    command
}

/// Whether the limit of threads has an effect, and the service can run with it.
fn users_can_be_limited() -> bool {
    let run = |threads| {
        let mut command = limited(&format!("nproc={threads}"), Path::new("sh"));
        // The shell is the first, and `true` in the pipe two more.
        command.args(["-c", "true | true"]).output()
    };
    let succeeds = |threads| run(threads).is_ok_and(|output| output.stderr.is_empty());
    let mut service = limited("nproc=100", Path::new(env!("CARGO_BIN_EXE_railbird")));
    let runs = service.arg("--version").output();
    succeeds(100) && !succeeds(1) && runs.is_ok_and(|output| output.status.success())
}

fn threads(serving: &Serving) -> usize {
    let tasks = fs::read_dir(format!("/proc/{}/task", serving.id()));
    tasks.unwrap().count()
}

fn descriptors(serving: &Serving) -> usize {
    let is_open = |n: &usize| Path::new(&format!("/proc/{}/fd/{n}", serving.id())).exists();
    (0..).find(|n| !is_open(n)).unwrap()
}

/// A service on a disk of its own, which is filled.
async fn fill_disk(nats: &Nats, quotes: &Quotes, resource: Resource) {
    let data = tempfile::tempdir().unwrap();
    let size = if resource == Resource::Bytes {
        "64m"
    } else {
        "256m,nr_inodes=8k"
    };
    let serving = Serving::start_on_small_disk(nats, data.path(), size);
    until_valid(serving.http, &quotes.valid).await;
    quotes.until_whole(nats, &serving).await;
    let root = serving.root().join(data.path().strip_prefix("/").unwrap());
    let fillers = root.join("fillers");
    fs::create_dir(&fillers).unwrap();
    let bytes = if resource == Resource::Bytes {
        1 << 20
    } else {
        0
    };
    let full = (0..8192).find_map(|n| fs::write(fillers.join(n.to_string()), vec![1; bytes]).err());
    assert_eq!(full.unwrap().kind(), std::io::ErrorKind::StorageFull);
    quotes.publish(nats, 50).await;
    quotes.publish_large_cards(nats).await;
    for _ in 0..CHECKS {
        if quotes.check(serving.http).await == 0 {
            panic!("reads do not go on: {}", quotes.refusal(serving).await);
        }
    }
    fs::remove_dir_all(&fillers).unwrap();
    quotes.until_whole(nats, &serving).await;
    // The disk may have been filled in the middle of a write, after which sled accepts no other.
    let note = Quotes::note(&serving).await;
    assert!(!note.contains("damaged"), "{note}");
}

/// A service on which a limit is set while it serves, and maybe while it builds new views.
async fn limit_serving(nats: &Nats, quotes: &Quotes, resource: Resource, rng: &mut Rng) {
    let data = tempfile::tempdir().unwrap();
    chown(data.path(), Some(USER), None).unwrap();
    let command = limited("nproc=4096", Path::new(env!("CARGO_BIN_EXE_railbird")));
    let flags = ["--http", "127.0.0.1:0", "--nats", &nats.url()];
    let serving = Serving::start_as(command, &flags, data.path());
    until_valid(serving.http, &quotes.valid).await;
    quotes.until_whole(nats, &serving).await;
    let before = stores(data.path());
    let more = usize::try_from(rng.below(8)).unwrap();
    let (low, high) = match resource {
        Resource::Descriptors => (
            format!("nofile={}", descriptors(&serving) + more),
            "nofile=4096",
        ),
        _ => (format!("nproc={}", threads(&serving) + more), "nproc=4096"),
    };
    limit(as_user(), serving.id(), &low);
    let rebuilds = rng.happens(50);
    if rebuilds {
        let headers = [];
        let begin = try_send(serving.admin, "POST", "/rebuild", &headers, String::new());
        let _ = timeout(Duration::from_secs(2), begin).await;
    }
    quotes.publish(nats, 50).await;
    quotes.publish_large_cards(nats).await;
    for _ in 0..CHECKS {
        quotes.check(serving.http).await;
    }
    limit(as_user(), serving.id(), high);
    quotes.until_whole(nats, &serving).await;
    let note = Quotes::note(&serving).await;
    assert!(!note.contains("damaged"), "{note}");
    eventually("the old views are removed", async || {
        stores(data.path()).len() == 1
    })
    .await;
    assert!(rebuilds || stores(data.path()) == before, "the same store");
}

/// A service that opens its views while there are hardly any threads or descriptors.
async fn limit_opening(nats: &Nats, quotes: &Quotes, resource: Resource, rng: &mut Rng) {
    let data = tempfile::tempdir().unwrap();
    chown(data.path(), Some(USER), None).unwrap();
    let flags = ["--http", "127.0.0.1:0", "--nats", &nats.url()];
    let start = |limit: &str| {
        let command = limited(limit, Path::new(env!("CARGO_BIN_EXE_railbird")));
        Serving::start_as(command, &flags, data.path())
    };
    let serving = start("nproc=4096");
    until_valid(serving.http, &quotes.valid).await;
    quotes.until_whole(nats, &serving).await;
    let (name, needed, least) = match resource {
        Resource::Descriptors => ("nofile", descriptors(&serving), 20),
        _ => ("nproc", threads(&serving), 6),
    };
    let before = stores(data.path());
    serving.stop().await;
    let few = needed.saturating_sub(usize::try_from(rng.below(16)).unwrap());
    // With too few for itself, it does not start. The least with which it does are too few for its views.
    let start_with = |few| {
        let limit = format!("{name}={few}");
        let started = catch_unwind(AssertUnwindSafe(|| start(&limit)));
        started
            .inspect_err(|reason| {
                let reason = reason.downcast_ref::<String>().unwrap();
                assert!(!reason.contains("task panicked"), "{limit}: {reason}");
            })
            .ok()
    };
    let mut serving = (few.max(least)..=needed + MARGIN)
        .find_map(start_with)
        .unwrap();
    for _ in 0..CHECKS {
        quotes.check(serving.http).await;
    }
    // It ends if there are too few for one of its tasks. A supervisor starts it again then.
    let many = format!("{name}=4096");
    let is_raised = try_limit(as_user(), serving.id(), &many);
    assert!(is_raised || serving.has_ended(), "{many}");
    let until_ready = async {
        while !serving.has_ended() && !is_ready(serving.http).await {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, until_ready).await.expect("ready in time");
    if serving.has_ended() {
        serving = start(&many);
    }
    quotes.until_whole(nats, &serving).await;
    let note = Quotes::note(&serving).await;
    assert_eq!(stores(data.path()), before, "{note}");
}

/// A service whose memory is limited. If that ends it, another one continues.
async fn limit_memory(nats: &Nats, quotes: &Quotes, rng: &mut Rng) {
    let data = tempfile::tempdir().unwrap();
    let mut serving = Serving::start(nats, data.path());
    until_valid(serving.http, &quotes.valid).await;
    let size = fs::read_to_string(format!("/proc/{}/statm", serving.id())).unwrap();
    let pages: u64 = size.split(' ').next().unwrap().parse().unwrap();
    let bytes = pages * 4096 + rng.below(32 << 20);
    limit(Command::new("env"), serving.id(), &format!("as={bytes}"));
    quotes.publish(nats, 50).await;
    quotes.publish_large_cards(nats).await;
    for _ in 0..CHECKS {
        quotes.check(serving.http).await;
    }
    serving.kill();
    let serving = Serving::start(nats, data.path());
    quotes.until_whole(nats, &serving).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_without_resources_gives_no_wrong_answer_and_recovers() {
    let choices = Resource::choices();
    let mut budget = Budget::of("exhaustion", 3);
    let nats = Nats::start();
    let quotes = Quotes::begin(&nats).await;
    quotes.publish(&nats, 100).await;
    while let Some(mut rng) = budget.next_round() {
        let resource = *rng.of(&choices);
        budget.step(format!("{resource:?}"));
        match resource {
            Resource::Bytes | Resource::Inodes => fill_disk(&nats, &quotes, resource).await,
            Resource::Memory => limit_memory(&nats, &quotes, &mut rng).await,
            _ if rng.happens(50) => limit_opening(&nats, &quotes, resource, &mut rng).await,
            Resource::Threads | Resource::Descriptors => {
                limit_serving(&nats, &quotes, resource, &mut rng).await;
            }
        }
        budget.count("exhaustions", 1);
    }
    budget.end();
}
