//! `railbird watch` with pipes: against the service, and against a live channel that the test scripts.

use std::path::Path;
use std::process::Stdio;

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

use crate::support::*;

/// A `railbird watch` process with pipes, in a folder of its own.
struct WatchProcess {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: Lines<BufReader<ChildStderr>>,
    _folder: tempfile::TempDir,
}

impl WatchProcess {
    fn start(http: impl std::fmt::Display, args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::from(command());
        let mut child = command
            .args(["watch", "--url", &format!("ws://{http}")])
            .args(args)
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self {
            stdout: BufReader::new(child.stdout.take().unwrap()).lines(),
            stderr: BufReader::new(child.stderr.take().unwrap()).lines(),
            child,
            _folder: folder,
        }
    }

    /// The next line of standard output with this prefix.
    async fn output(&mut self, prefix: &str) -> String {
        next(&mut self.stdout, prefix).await
    }

    /// The next line of standard error with this prefix.
    async fn note(&mut self, prefix: &str) -> String {
        next(&mut self.stderr, prefix).await
    }

    /// Waits for the end of the process; returns the exit code and the remaining output.
    async fn exit(mut self) -> (i32, String) {
        let mut all = String::new();
        while let Some(line) = self.stdout.next_line().await.unwrap() {
            all += &(line + "\n");
        }
        while let Some(line) = self.stderr.next_line().await.unwrap() {
            all += &(line + "\n");
        }
        let status = timeout(PATIENCE, self.child.wait()).await.unwrap().unwrap();
        (status.code().unwrap_or(-1), all)
    }

    /// Sends Ctrl-C to the process.
    async fn interrupt(self) -> (i32, String) {
        let process = self.child.id().unwrap().to_string();
        let kill = std::process::Command::new("kill")
            .args(["-INT", &process])
            .status();
        assert!(kill.unwrap().success());
        self.exit().await
    }
}

async fn next<R: AsyncRead + Unpin>(lines: &mut Lines<BufReader<R>>, prefix: &str) -> String {
    loop {
        let line = timeout(PATIENCE, lines.next_line()).await;
        let line = line
            .unwrap_or_else(|_| panic!("no line starts with {prefix}"))
            .unwrap();
        let line = line.unwrap_or_else(|| panic!("the output ended before {prefix}"));
        if line.starts_with(prefix) {
            return line;
        }
    }
}

#[tokio::test]
async fn a_pipe_receives_a_line_per_message_and_ctrl_c_exits_with_0() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let seq = nats
        .publish([
            card(DAY, "ST", 3, 2),
            odds("ST", 3, &second(0), &[3.5, 1.4]),
        ])
        .await;
    railbird.until_seq(seq).await;
    let mut process = WatchProcess::start(railbird.http, &["--api-key", &railbird.key]);
    process.output("welcome ").await;
    assert_eq!(
        process.output("odds_update ").await,
        format!(
            "odds_update {DAY}/ST/3 seq=2 status=scheduled snapshot=true 1:H1=3.5/- 2:H2=1.4/-"
        )
    );
    process.output("snapshot_complete ").await;
    nats.publish([odds("ST", 3, &second(1), &[3.6])]).await;
    assert_eq!(
        process.output("odds_update ").await,
        format!("odds_update {DAY}/ST/3 seq=3 status=scheduled 1:H1=3.6/- 2:H2=1.4/-")
    );
    let (code, rest) = process.interrupt().await;
    assert_eq!(code, 0, "{rest}");
}

#[tokio::test]
async fn only_the_selected_races_are_printed() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let quotes = [("ST", 1), ("HV", 2), ("ST", 2)];
    let quotes = quotes.map(|(venue, race)| odds(venue, race, &second(0), &[3.5]));
    railbird.until_seq(nats.publish(quotes).await).await;
    let of_two = ["--race", "HV/2", "--race", "ST/1", "--date", DAY];
    let args = [&["--json", "--api-key", &railbird.key], &of_two[..]].concat();
    let mut process = WatchProcess::start(railbird.http, &args);
    let mut venues = Vec::new();
    loop {
        let message: Value = serde_json::from_str(&process.output("{").await).unwrap();
        match message["event"].as_str().unwrap() {
            "odds_update" => venues.push(message["venue_code"].clone()),
            "snapshot_complete" => break,
            _ => {}
        }
    }
    venues.sort_by_key(Value::to_string);
    assert_eq!(venues, ["HV", "ST"]);
}

#[tokio::test]
async fn a_replay_prints_what_a_live_client_was_sent_and_ends() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let quotes = [3.5, 3.6, 3.7].map(|win| odds("ST", 3, &second(win as u64), &[win]));
    let last = nats
        .publish([vec![card(DAY, "ST", 3, 1)], quotes.into()].concat())
        .await;
    railbird.until_seq(last).await;
    let third = nats.recorded_at(3).await;
    let of_day = [
        "--api-key",
        &railbird.key,
        "--replay",
        "--date",
        DAY,
        "--speed",
        "1000",
    ];
    for (more, seqs) in [
        (&["--race", "ST/3"][..], &[2, 3, 4][..]),
        (&["--from", &third], &[2, 3, 4]),
        (&["--to", &third], &[2]),
        (&["--race", "ST/9"], &[]),
    ] {
        let process = WatchProcess::start(railbird.http, &[&of_day[..], more].concat());
        let (code, all) = process.exit().await;
        assert_eq!(code, 0, "{more:?}: {all}");
        let odds = all.lines().filter(|line| line.starts_with("odds_update"));
        let printed: Vec<u64> = odds
            .map(|line| {
                line.split_once("seq=")
                    .unwrap()
                    .1
                    .split(' ')
                    .next()
                    .unwrap()
                    .parse()
                    .unwrap()
            })
            .collect();
        assert_eq!(printed, seqs, "{more:?}: {all}");
    }
    let process = WatchProcess::start(railbird.http, &of_day[..3]);
    let (code, all) = process.exit().await;
    assert_eq!(code, 1, "{all}");
    assert!(all.contains("A replay is of one date"), "{all}");
}

#[tokio::test]
async fn a_restarted_service_is_reconnected() {
    let nats = Nats::start();
    let folder = tempfile::tempdir().unwrap();
    let railbird = Railbird::start_in(&nats, folder.path()).await;
    let (http, key) = (railbird.http, railbird.key.clone());
    let mut process = WatchProcess::start(http, &["--api-key", &key]);
    process.output("snapshot_complete ").await;
    railbird.stop().await;
    let lost = process.note("railbird: ").await;
    assert!(
        lost.starts_with("railbird: connection lost, reconnecting in "),
        "{lost}"
    );
    nats.publish([odds("ST", 3, &second(1), &[3.6])]).await;
    let railbird = Railbird::start_on(&nats, folder.path(), http).await;
    railbird.until_seq(1).await;
    let line = process.output(&format!("odds_update {DAY}/ST/3 ")).await;
    assert!(line.ends_with(" 1:H1=3.6/-"), "{line}");
    let (code, rest) = process.interrupt().await;
    assert_eq!((code, rest.contains(&key)), (0, false), "{rest}");
}

#[tokio::test]
async fn each_failure_has_its_exit_code_and_never_prints_the_key() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let http = railbird.http.to_string();
    let unreachable = "127.0.0.1:1".to_owned();
    let wrong = "rb_test_thisIsNoKeyThatAnybodyHasEverIssued00";
    let with_key = format!("{http}/ws/live/odds?api_key={wrong}");
    let trace = ["--api-key", wrong, "--log", "trace"];
    for (http, args, code, message) in [
        (&http, &trace[..], 1, "the API key is not valid"),
        (&with_key, &[], 1, "the API key is not valid"),
        (&http, &[], 78, "there is no API key"),
        (&http, &["--api-key", "a\nb"], 78, "characters that no key"),
        (
            &unreachable,
            &trace,
            69,
            "cannot connect to ws://127.0.0.1:1",
        ),
        (&http, &["--race", "x/y/z", "--api-key", wrong], 2, "x/y/z"),
    ] {
        let (found, all) = WatchProcess::start(http, args).exit().await;
        assert_eq!(found, code, "{args:?}: {all}");
        assert!(all.contains(message), "{args:?}: {all}");
        assert!(!all.contains(wrong), "{args:?}: {all}");
    }
    let ftp =
        crate::support::railbird(["watch", "--url", "ftp://me:secret@h/", "--api-key", wrong])
            .await;
    assert_eq!(ftp.code, 78, "{}", ftp.all);
    assert!(!ftp.all.contains("secret"), "{}", ftp.all);
}

#[tokio::test]
async fn the_key_is_read_from_a_file_or_from_the_folder_of_dev() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &Path| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{}\n", railbird.key)).unwrap();
        path.display().to_string()
    };
    let file = write(&folder.path().join("key"));
    WatchProcess::start(railbird.http, &["--api-key-file", &file])
        .output("snapshot_complete ")
        .await;
    write(&folder.path().join(".railbird/dev.key"));
    let mut child = Command::from(command())
        .args(["watch", "--url", &format!("ws://{}", railbird.http)])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    next(&mut lines, "snapshot_complete ").await;
}

#[tokio::test]
async fn closing_the_pipe_ends_the_process() {
    let mut channel = ScriptedChannel::open().await;
    let mut process = WatchProcess::start(channel.address(), &["--api-key", "k"]);
    let (mut socket, _) = channel.accept().await;
    socket.send(welcome(json!({}))).await;
    process.output("welcome ").await;
    let WatchProcess {
        stdout,
        stderr,
        mut child,
        _folder,
    } = process;
    drop(stdout);
    let exited = async {
        for seq in 0.. {
            if socket.try_send(heartbeat(seq)).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
        child.wait().await.unwrap()
    };
    let status = timeout(PATIENCE, exited).await.expect("it exits");
    assert!(status.success());
    drop(stderr);
}

/// A live channel that the test scripts.
struct ScriptedChannel(TcpListener);

struct ScriptedConnection(WebSocketStream<TcpStream>);

impl ScriptedChannel {
    async fn open() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    fn address(&self) -> String {
        self.0.local_addr().unwrap().to_string()
    }

    /// Accepts a connection; returns it with the query of its URL.
    async fn accept(&mut self) -> (ScriptedConnection, String) {
        let (stream, _) = timeout(PATIENCE, self.0.accept()).await.unwrap().unwrap();
        let mut query = String::new();
        #[expect(clippy::result_large_err, reason = "the library's own type")]
        let check = |request: &Request, response: Response| {
            assert_eq!(request.headers()["x-api-key"], "k");
            query = request.uri().query().unwrap_or_default().to_owned();
            Ok(response)
        };
        let socket = accept_hdr_async(stream, check).await.unwrap();
        (ScriptedConnection(socket), query)
    }
}

impl ScriptedConnection {
    async fn send(&mut self, message: Value) {
        self.try_send(message).await.unwrap();
    }

    async fn try_send(
        &mut self,
        message: Value,
    ) -> Result<(), tokio_tungstenite::tungstenite::Error> {
        self.0.send(Message::text(message.to_string())).await
    }

    async fn close(mut self, code: u16) {
        let frame = CloseFrame {
            code: code.into(),
            reason: "the end".into(),
        };
        self.0.close(Some(frame)).await.unwrap();
        while self.0.next().await.is_some_and(|frame| frame.is_ok()) {}
    }
}

fn welcome(more: Value) -> Value {
    let mut welcome = json!({ "event": "welcome", "seq": 9, "epoch": "e1", "server_time": "2026-10-03T04:00:00Z" });
    let more = more.as_object().unwrap().clone();
    welcome.as_object_mut().unwrap().extend(more);
    welcome
}

fn heartbeat(seq: u64) -> Value {
    let recorded_at = format!("2026-10-03T03:59:{seq:02}.5Z");
    json!({ "event": "heartbeat", "seq": seq, "recorded_at": recorded_at, "server_time": "2026-10-03T04:00:00Z", "feed": { "state": "live" } })
}

#[tokio::test]
async fn a_cut_connection_resumes_at_its_last_position() {
    let mut channel = ScriptedChannel::open().await;
    let mut process = WatchProcess::start(channel.address(), &["--api-key", "k", "--race", "3"]);
    let (mut socket, query) = channel.accept().await;
    assert_eq!(query, "race=3");
    socket.send(welcome(json!({}))).await;
    socket
        .send(json!({ "event": "snapshot_complete", "seq": 9, "recorded_at": "2026-10-03T03:59:09Z", "races": 0, "replayed": 0 }))
        .await;
    socket.send(heartbeat(14)).await;
    socket
        .send(json!({ "event": "closing", "code": 1001, "reason": "the service is stopping", "retry_after_ms": 20 }))
        .await;
    socket.close(1001).await;
    assert_eq!(
        process.note("railbird: ").await,
        "railbird: connection lost, reconnecting in 0.0 s: the service is stopping"
    );

    let (mut socket, query) = channel.accept().await;
    assert_eq!(
        query,
        "race=3&since=14&recorded_at=2026-10-03T03%3A59%3A14.5Z&epoch=e1"
    );
    socket
        .send(welcome(
            json!({ "recovered": false, "reason": "other_epoch", "epoch": "e2" }),
        ))
        .await;
    drop(socket);
    let (_socket, query) = channel.accept().await;
    assert_eq!(query, "race=3", "an incomplete snapshot is not resumed");
    let line = process.output("welcome seq=9 epoch=e2").await;
    assert!(
        line.ends_with(" recovered=false reason=other_epoch"),
        "{line}"
    );
}

#[tokio::test]
async fn a_revoked_key_ends_the_process() {
    for announced in [true, false] {
        let mut channel = ScriptedChannel::open().await;
        let process = WatchProcess::start(channel.address(), &["--api-key", "k"]);
        let (mut socket, _) = channel.accept().await;
        socket.send(welcome(json!({}))).await;
        if announced {
            socket
                .send(json!({ "event": "closing", "code": 4401, "reason": "the key was revoked", "retry_after_ms": 0 }))
                .await;
        }
        let ((code, all), ()) = tokio::join!(process.exit(), socket.close(4401));
        assert_eq!(code, 1, "{all}");
        assert!(all.contains("the API key is no longer valid"), "{all}");
    }
}

#[tokio::test]
async fn a_silent_channel_counts_as_a_lost_connection() {
    let mut channel = ScriptedChannel::open().await;
    let mut process = WatchProcess::start(channel.address(), &["--api-key", "k"]);
    let (mut socket, _) = channel.accept().await;
    socket.send(welcome(json!({ "heartbeat_ms": 1000 }))).await;
    let lost = process.note("railbird: connection lost").await;
    assert!(lost.ends_with("no message for 2 s"), "{lost}");
    channel.accept().await;
}
