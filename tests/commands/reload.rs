//! The service under an operator and a service manager: what it reads again, what it reports, and what it needs of the
//! system.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::rustls::version::TLS13;

use crate::support::*;

/// The socket of a service manager, as systemd has one.
struct Manager(UnixDatagram);

impl Manager {
    fn in_folder(folder: &Path) -> (Self, String) {
        let path = folder.join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        (Self::of(socket), path.display().to_string())
    }

    /// One without a file: its name begins with `@` in the variable.
    fn abstract_one(name: &str) -> (Self, String) {
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        (Self::of(socket), format!("@{name}"))
    }

    fn of(socket: UnixDatagram) -> Self {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket)
    }

    /// The next message.
    async fn next(&self) -> String {
        let socket = self.0.try_clone().unwrap();
        let reading = tokio::task::spawn_blocking(move || {
            let mut message = [0; 4096];
            let length = socket.recv(&mut message).unwrap();
            String::from_utf8(message[..length].to_vec()).unwrap()
        });
        reading.await.unwrap()
    }

    /// All messages up to the first that begins with a text.
    async fn until(&self, begin: &str) -> Vec<String> {
        let mut messages = Vec::new();
        loop {
            messages.push(self.next().await);
            if messages[messages.len() - 1].starts_with(begin) {
                return messages;
            }
        }
    }
}

fn start(flags: &[&str], data: &Path, notify: &str) -> Serving {
    let mut serve = command();
    serve.env("NOTIFY_SOCKET", notify);
    let flags = [&["--http", "127.0.0.1:0", "--drain-delay", "0s"], flags].concat();
    Serving::start_as(serve, &flags, data)
}

fn signal(serving: &Serving, signal: Signal) {
    let id = Pid::from_raw(i32::try_from(serving.id()).unwrap()).unwrap();
    kill_process(id, signal).unwrap();
}

#[tokio::test]
async fn a_service_manager_is_sent_signs_of_life_if_it_watches() {
    let (nats, data) = (Nats::start(), tempfile::tempdir().unwrap());
    let (manager, address) = Manager::in_folder(data.path());
    let mut serve = command();
    serve.env("NOTIFY_SOCKET", address);
    serve.env("WATCHDOG_USEC", "200000");
    let flags = ["--http", "127.0.0.1:0", "--nats", &nats.url()];
    let serving = Serving::start_as(serve, &flags, &data.path().join("data"));
    for _ in 0..3 {
        manager.until("WATCHDOG=1").await;
    }
    // The drain is watched, too.
    signal(&serving, Signal::TERM);
    manager.until("STOPPING=1").await;
    manager.until("WATCHDOG=1").await;
    assert_eq!(serving.until_ended().await.0, Some(0));
}

/// A service whose log or live channel hangs is ended as well.
#[tokio::test]
async fn the_threads_of_the_log_and_of_the_live_channel_show_signs_of_life() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut names = BTreeSet::new();
    for runtime in &railbird.runtimes {
        let name = runtime.spawn(async { std::thread::current().name().map(str::to_owned) });
        names.extend(name.await.unwrap());
    }
    let shards = railbird.tasks().into_iter();
    let shards: Vec<_> = shards.filter(|task| task.starts_with("fan-out-")).collect();
    assert!(!shards.is_empty());
    for thread in shards.into_iter().chain(["log".to_owned()]) {
        assert!(names.contains(&thread), "{thread} is not among {names:?}");
    }
}

/// Has a service read its files again, and waits until it has.
async fn reload(serving: &Serving, manager: &Manager) {
    signal(serving, Signal::HUP);
    let messages = manager.until("RELOADING=1").await;
    let reloading = &messages[messages.len() - 1];
    let since_boot = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=");
    assert!(since_boot.unwrap().parse::<u64>().unwrap() > 0);
    manager.until("READY=1").await;
}

#[tokio::test]
async fn a_service_manager_is_sent_the_start_the_phases_and_the_end() {
    let (mut nats, data) = (Nats::start(), tempfile::tempdir().unwrap());
    let url = nats.url();
    nats.kill();
    let of_folder = Manager::in_folder(data.path());
    let id = std::process::id();
    let of_name = Manager::abstract_one(&format!("railbird-test-{id}"));
    for (manager, address) in [of_folder, of_name] {
        let serving = start(&["--nats", &url], &data.path().join("data"), &address);
        assert_eq!(manager.next().await, "READY=1", "first, without the log");
        manager
            .until("STATUS=not ready: the log cannot be reached")
            .await;
        nats.start_again();
        manager.until("STATUS=ready").await;
        signal(&serving, Signal::TERM);
        let end = manager.until("STOPPING=1").await;
        assert_eq!(
            end[end.len() - 1],
            "STOPPING=1\nSTATUS=the service is stopping"
        );
        assert_eq!(serving.until_ended().await.0, Some(0));
        nats.kill();
    }
}

fn plans(folder: &Path, lines: &str) -> String {
    let file = folder.join("plans.toml");
    std::fs::write(&file, plan("default", lines)).unwrap();
    file.display().to_string()
}

async fn limit(serving: &Serving, key: &str) -> String {
    let headers = [("x-api-key", key)];
    let reply = request(serving.http, "GET", "/api/v1/meetings", &headers).await;
    assert_eq!(reply.status, 200);
    reply.header("x-ratelimit-limit").to_owned()
}

#[tokio::test]
async fn sighup_puts_the_file_of_plans_in_force_and_a_broken_one_changes_nothing() {
    const LIVE: &str = "live_odds = true\nconnections = 2";
    let (nats, data) = (Nats::start(), tempfile::tempdir().unwrap());
    let (manager, address) = Manager::in_folder(data.path());
    let key = issue_key(&nats).await;
    let file = plans(data.path(), &format!("requests_per_minute = 1000\n{LIVE}"));
    let flags = ["--nats", &nats.url(), "--plans", &file];
    let serving = start(&flags, &data.path().join("data"), &address);
    manager.until("STATUS=ready").await;
    assert_eq!(limit(&serving, &key).await, "1000");
    let mut live = Raw::open(serving.http, &key).await;

    plans(data.path(), &format!("requests_per_minute = 2000\n{LIVE}"));
    assert_eq!(limit(&serving, &key).await, "1000", "not before the signal");
    reload(&serving, &manager).await;
    assert_eq!(limit(&serving, &key).await, "2000");

    plans(data.path(), "requests_per_minute = 0");
    reload(&serving, &manager).await;
    assert_eq!(limit(&serving, &key).await, "2000");
    std::fs::remove_file(&file).unwrap();
    reload(&serving, &manager).await;
    assert_eq!(limit(&serving, &key).await, "2000");
    live.write.write_all(&text(ping("1"))).await.unwrap();
    assert_eq!(live.read.next().await, ack("1"), "the socket is open");

    plans(data.path(), "requests_per_minute = 3000");
    reload(&serving, &manager).await;
    assert_eq!(limit(&serving, &key).await, "3000");
    let end = live.read.until_end().await;
    assert!(end.contains(&Got::Close(Some(4403))), "{end:?}");

    let log = serving.stop().await;
    let errors = log.iter().filter(|line| line.contains("were not reloaded"));
    let errors: Vec<_> = errors.collect();
    assert_eq!(errors.len(), 2, "{log:#?}");
    assert!(errors.iter().all(|line| line.contains(&file)), "{errors:?}");
    assert!(errors[0].contains("line 7"), "{errors:?}");
}

#[tokio::test]
async fn sighup_renews_the_certificate_at_once_and_a_broken_one_changes_nothing() {
    let (nats, data) = (Nats::start(), tempfile::tempdir().unwrap());
    let (manager, address) = Manager::in_folder(data.path());
    let authority = Authority::new();
    let (first, second) = (authority.issue(), authority.issue());
    let tls = first.write(data.path()).flags();
    let url = nats.url();
    let mut flags = vec!["--nats", &url];
    flags.extend(tls.iter().map(String::as_str));
    let serving = start(&flags, &data.path().join("data"), &address);
    manager.until("READY=1").await;
    let client = authority.client(&[&TLS13]);
    assert_eq!(client.certificate(serving.http).await, first.der());
    second.write(data.path());
    reload(&serving, &manager).await;
    assert_eq!(client.certificate(serving.http).await, second.der());
    let broken = PemCertificate {
        key: first.key,
        ..second.clone()
    };
    broken.write(data.path());
    reload(&serving, &manager).await;
    assert_eq!(client.certificate(serving.http).await, second.der());
    let log = serving.stop().await;
    let error = log.iter().find(|line| line.contains("was not reloaded"));
    assert!(error.unwrap().contains("key.pem"), "{error:?}");
}

/// The command of the service, behind a command of the shell.
fn after(shell: &str) -> Command {
    let mut command = Command::new("sh");
    let script = format!("{shell} && exec \"$0\" \"$@\"");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_railbird")]);
    command.stdin(Stdio::null());
    command
}

/// The soft and the hard limit of open files of a process.
fn open_files(serving: &Serving) -> (String, String) {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", serving.id())).unwrap();
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let mut limits = line.unwrap().split_whitespace().map(ToOwned::to_owned);
    (limits.next().unwrap(), limits.next().unwrap())
}

#[tokio::test]
async fn the_limit_of_open_files_is_raised_and_one_that_is_too_low_is_named_with_the_remedy() {
    let data = tempfile::tempdir().unwrap();
    let flags = ["--http", "127.0.0.1:0", "--drain-delay", "0s", "--nats"];
    let start = |shell: &str, more: &[&str]| {
        let flags = [&flags, more].concat();
        Serving::start_as(after(shell), &flags, data.path())
    };
    let nowhere = "nats://127.0.0.1:1";
    let raised = start("ulimit -Sn 100", &[nowhere, "--connections-max", "100"]);
    let (soft, hard) = open_files(&raised);
    assert_eq!(soft, hard);
    let log = raised.stop().await;
    assert!(
        !log.iter().any(|line| line.contains("open files")),
        "{log:#?}"
    );

    let low = start(
        "ulimit -Sn 500 && ulimit -Hn 500",
        &[nowhere, "--connections-max", "200"],
    );
    assert_eq!(open_files(&low).0, "500");
    let log = low.stop().await;
    let warnings = log.iter().filter(|line| line.contains("open files"));
    let warnings: Vec<_> = warnings.collect();
    assert_eq!(warnings.len(), 1, "{log:#?}");
    let checked = after("ulimit -n 500")
        .args(["check-config", "--data", "/nowhere", "--nats", nowhere])
        .args(["--connections-max", "200"])
        .output()
        .unwrap();
    let checked = String::from_utf8(checked.stdout).unwrap();
    for text in [
        "500",
        "LimitNOFILE=656",
        "nofile: 656",
        "--connections-max 200",
        "122",
    ] {
        assert!(warnings[0].contains(text), "{text}: {warnings:?}");
        assert!(checked.contains(text), "{text}: {checked}");
    }
}

/// The status of an answer on a connection that stays open, and the sequence that it reflects. `None` if it is closed.
async fn status_and_seq(stream: &mut TcpStream, key: &str) -> Option<(u16, u64)> {
    let request = format!("GET /api/v1/meetings HTTP/1.1\r\nHost: x\r\nX-API-Key: {key}\r\n\r\n");
    let mut answer = vec![0; 16 * 1024];
    let exchange = async {
        stream.write_all(request.as_bytes()).await.ok()?;
        stream.read(&mut answer).await.ok()
    };
    let length = timeout(PATIENCE, exchange)
        .await
        .expect("an answer or an end")?;
    let answer = String::from_utf8_lossy(&answer[..length]).to_lowercase();
    let (_, seq) = answer.split_once("railbird-seq: ")?;
    let (seq, _) = seq.split_once('\r')?;
    Some((answer.split(' ').nth(1)?.parse().ok()?, seq.parse().ok()?))
}

#[tokio::test]
async fn more_clients_than_open_files_are_refused_and_the_others_are_served() {
    // Half of what is left for clients: each may be an HTTP connection or a WebSocket.
    const LIMIT: usize = 400;
    const CONNECTIONS: usize = (LIMIT - 256) / 2;
    let (nats, folder) = (Nats::start(), tempfile::tempdir().unwrap());
    let (url, plans) = (nats.url(), folder.path().join("plans.toml"));
    let live = "live_odds = true\nconnections = 1000";
    std::fs::write(&plans, plan("default", live)).unwrap();
    let flags = [
        "--http",
        "127.0.0.1:0",
        "--drain-delay",
        "0s",
        "--nats",
        &url,
    ];
    let flags = [&flags[..], &["--plans", plans.to_str().unwrap()]].concat();
    let shell = after(&format!("ulimit -n {LIMIT}"));
    let serving = Serving::start_as(shell, &flags, &folder.path().join("data"));
    let key = issue_key(&nats).await;
    until_valid(serving.http, &key).await;
    let log = nats.log().await;

    let mut client = TcpStream::connect(serving.http).await.unwrap();
    assert_eq!(status_and_seq(&mut client, &key).await, Some((200, 0)));
    let mut crowd = Vec::new();
    for _ in 0..LIMIT {
        crowd.push(TcpStream::connect(serving.http).await.unwrap());
    }
    let mut answers = Vec::new();
    for stream in &mut crowd {
        answers.push(status_and_seq(stream, &key).await);
    }
    let served = answers.iter().filter(|answer| **answer == Some((200, 0)));
    assert_eq!(served.count(), CONNECTIONS - 1);
    let closed = answers.iter().filter(|answer| answer.is_none()).count();
    assert_eq!(closed, LIMIT - (CONNECTIONS - 1));
    let seq = log.append(outgoing(&registered("H1", "HORSE 1"))).await;
    let seq = seq.unwrap().seq;
    let updated = timeout(PATIENCE, async {
        while status_and_seq(&mut client, &key).await != Some((200, seq)) {}
    });
    updated.await.expect("the views are served and updated");
    drop((crowd, client));

    let path = format!("/ws/live/odds?api_key={key}");
    let mut sockets = Vec::new();
    let opened = timeout(PATIENCE, async {
        while sockets.len() < CONNECTIONS {
            sockets.extend(Socket::try_connect(serving.http, &path).await.ok());
        }
    });
    opened
        .await
        .expect("the places of the crowd are free again");
    let refused = Socket::refused(serving.http, &path).await;
    assert_eq!(refused.status, 503, "{}", refused.text());
    sockets.pop();
    eventually("its place is free again", async || {
        Socket::try_connect(serving.http, &path).await.is_ok()
    })
    .await;
    let log = serving.stop().await;
    let failed: Vec<_> = log
        .iter()
        .filter(|line| line.contains("accept failed") || line.contains("\"ERROR\""))
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

#[tokio::test]
async fn a_service_whose_log_nobody_reads_goes_on() {
    let (nats, data) = (Nats::start(), tempfile::tempdir().unwrap());
    let (manager, address) = Manager::in_folder(data.path());
    let mut serve = command();
    serve
        .args(["serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .args(["--drain-delay", "0s", "--nats", &nats.url(), "--data"])
        .arg(data.path().join("data"))
        .env("NOTIFY_SOCKET", address)
        .stderr(Stdio::piped());
    let mut child = serve.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    lines
        .find(|line| line.as_ref().unwrap().contains("serving"))
        .unwrap()
        .unwrap();
    // The end of the pipe, as when the program that keeps the log has crashed.
    drop(lines);
    let id = Pid::from_child(&child);
    for _ in 0..2 {
        // Each is logged.
        kill_process(id, Signal::HUP).unwrap();
        manager.until("RELOADING=1").await;
        manager.until("READY=1").await;
    }
    kill_process(id, Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
}
