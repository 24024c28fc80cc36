//! `railbird watch`, as people and scripts use it: against the service, and against one that plays its part by the book.

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

/// `railbird watch` in a folder of its own, with pipes.
struct Watching {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
    noted: Lines<BufReader<ChildStderr>>,
    _folder: tempfile::TempDir,
}

impl Watching {
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
            said: BufReader::new(child.stdout.take().unwrap()).lines(),
            noted: BufReader::new(child.stderr.take().unwrap()).lines(),
            child,
            _folder: folder,
        }
    }

    /// The next line of standard output that begins so.
    async fn said(&mut self, begin: &str) -> String {
        next(&mut self.said, begin).await
    }

    /// The next line of standard error that begins so.
    async fn noted(&mut self, begin: &str) -> String {
        next(&mut self.noted, begin).await
    }

    /// How it ends, with everything that it has still to say.
    async fn ends(mut self) -> (i32, String) {
        let mut all = String::new();
        while let Some(line) = self.said.next_line().await.unwrap() {
            all += &(line + "\n");
        }
        while let Some(line) = self.noted.next_line().await.unwrap() {
            all += &(line + "\n");
        }
        let status = timeout(PATIENCE, self.child.wait()).await.unwrap().unwrap();
        (status.code().unwrap_or(-1), all)
    }

    async fn interrupt(self) -> (i32, String) {
        let process = self.child.id().unwrap().to_string();
        let kill = std::process::Command::new("kill")
            .args(["-INT", &process])
            .status();
        assert!(kill.unwrap().success());
        self.ends().await
    }
}

async fn next<R: AsyncRead + Unpin>(lines: &mut Lines<BufReader<R>>, begin: &str) -> String {
    loop {
        let line = timeout(PATIENCE, lines.next_line()).await;
        let line = line
            .unwrap_or_else(|_| panic!("waited in vain for {begin}"))
            .unwrap();
        let line = line.unwrap_or_else(|| panic!("ended before it said {begin}"));
        if line.starts_with(begin) {
            return line;
        }
    }
}

#[tokio::test]
async fn a_pipe_gets_a_line_a_message_and_ctrl_c_is_no_failure() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let seq = nats
        .publish([
            card(DAY, "ST", 3, 2),
            odds("ST", 3, &second(0), &[3.5, 1.4]),
        ])
        .await;
    railbird.until_seq(seq).await;
    let mut watching = Watching::start(railbird.http, &["--api-key", &railbird.key]);
    watching.said("welcome ").await;
    assert_eq!(
        watching.said("odds_update ").await,
        format!(
            "odds_update {DAY}/ST/3 seq=2 status=scheduled snapshot=true 1:H1=3.5/- 2:H2=1.4/-"
        )
    );
    watching.said("snapshot_complete ").await;
    nats.publish([odds("ST", 3, &second(1), &[3.6])]).await;
    assert_eq!(
        watching.said("odds_update ").await,
        format!("odds_update {DAY}/ST/3 seq=3 status=scheduled 1:H1=3.6/- 2:H2=1.4/-")
    );
    let (code, rest) = watching.interrupt().await;
    assert_eq!(code, 0, "{rest}");
}

#[tokio::test]
async fn only_the_races_that_were_asked_for_are_shown() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let quotes = [("ST", 1), ("HV", 2), ("ST", 2)];
    let quotes = quotes.map(|(venue, race)| odds(venue, race, &second(0), &[3.5]));
    railbird.until_seq(nats.publish(quotes).await).await;
    let of_two = ["--race", "HV/2", "--race", "ST/1", "--date", DAY];
    let args = [&["--json", "--api-key", &railbird.key], &of_two[..]].concat();
    let mut watching = Watching::start(railbird.http, &args);
    let mut venues = Vec::new();
    loop {
        let message: Value = serde_json::from_str(&watching.said("{").await).unwrap();
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
async fn a_service_that_comes_back_is_found_again() {
    let nats = Nats::start();
    let folder = tempfile::tempdir().unwrap();
    let railbird = Railbird::start_in(&nats, folder.path()).await;
    let (http, key) = (railbird.http, railbird.key.clone());
    let mut watching = Watching::start(http, &["--api-key", &key]);
    watching.said("snapshot_complete ").await;
    railbird.stop().await;
    let lost = watching.noted("railbird: ").await;
    assert!(
        lost.starts_with("railbird: connection lost, reconnecting in "),
        "{lost}"
    );
    nats.publish([odds("ST", 3, &second(1), &[3.6])]).await;
    let railbird = Railbird::start_on(&nats, folder.path(), http).await;
    railbird.until_seq(1).await;
    let line = watching.said(&format!("odds_update {DAY}/ST/3 ")).await;
    assert!(line.ends_with(" 1:H1=3.6/-"), "{line}");
    let (code, rest) = watching.interrupt().await;
    assert_eq!((code, rest.contains(&key)), (0, false), "{rest}");
}

#[tokio::test]
async fn what_cannot_be_watched_is_said_with_its_exit_code_and_never_with_the_key() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let http = railbird.http.to_string();
    let nowhere = "127.0.0.1:1".to_owned();
    let wrong = "rb_test_thisIsNoKeyThatAnybodyHasEverIssued00";
    let with_key = format!("{http}/ws/live/odds?api_key={wrong}");
    let trace = ["--api-key", wrong, "--log", "trace"];
    for (http, args, code, said) in [
        (&http, &trace[..], 1, "the API key is not valid"),
        (&with_key, &[], 1, "the API key is not valid"),
        (&http, &[], 78, "there is no API key"),
        (&http, &["--api-key", "a\nb"], 78, "characters that no key"),
        (
            &nowhere,
            &trace,
            69,
            "no service answers on ws://127.0.0.1:1",
        ),
        (&http, &["--race", "x/y/z", "--api-key", wrong], 2, "x/y/z"),
    ] {
        let (found, all) = Watching::start(http, args).ends().await;
        assert_eq!(found, code, "{args:?}: {all}");
        assert!(all.contains(said), "{args:?}: {all}");
        assert!(!all.contains(wrong), "{args:?}: {all}");
    }
    let ftp =
        crate::support::railbird(["watch", "--url", "ftp://me:secret@h/", "--api-key", wrong])
            .await;
    assert_eq!(ftp.code, 78, "{}", ftp.all);
    assert!(!ftp.all.contains("secret"), "{}", ftp.all);
}

#[tokio::test]
async fn a_key_may_lie_in_a_file_or_where_dev_leaves_it() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &Path| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{}\n", railbird.key)).unwrap();
        path.display().to_string()
    };
    let file = write(&folder.path().join("key"));
    Watching::start(railbird.http, &["--api-key-file", &file])
        .said("snapshot_complete ")
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
async fn a_reader_that_has_read_enough_ends_it() {
    let mut channel = Channel::open().await;
    let mut watching = Watching::start(channel.at(), &["--api-key", "k"]);
    let (mut socket, _) = channel.accept().await;
    socket.say(welcome(json!({}))).await;
    watching.said("welcome ").await;
    let Watching {
        said,
        noted,
        mut child,
        _folder,
    } = watching;
    drop(said);
    let ended = async {
        for seq in 0.. {
            if socket.try_say(heartbeat(seq)).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
        child.wait().await.unwrap()
    };
    let status = timeout(PATIENCE, ended).await.expect("it ends");
    assert!(status.success());
    drop(noted);
}

/// The live channel, played by the test.
struct Channel(TcpListener);

struct Played(WebSocketStream<TcpStream>);

impl Channel {
    async fn open() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    fn at(&self) -> String {
        self.0.local_addr().unwrap().to_string()
    }

    /// The next connection, and the query that it came with.
    async fn accept(&mut self) -> (Played, String) {
        let (stream, _) = timeout(PATIENCE, self.0.accept()).await.unwrap().unwrap();
        let mut query = String::new();
        #[expect(clippy::result_large_err, reason = "the library's own type")]
        let look = |request: &Request, response: Response| {
            assert_eq!(request.headers()["x-api-key"], "k");
            query = request.uri().query().unwrap_or_default().to_owned();
            Ok(response)
        };
        let socket = accept_hdr_async(stream, look).await.unwrap();
        (Played(socket), query)
    }
}

impl Played {
    async fn say(&mut self, message: Value) {
        self.try_say(message).await.unwrap();
    }

    async fn try_say(
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
    json!({ "event": "heartbeat", "seq": seq, "server_time": "2026-10-03T04:00:00Z", "feed": { "state": "live" } })
}

#[tokio::test]
async fn a_connection_that_is_cut_is_resumed_where_it_was() {
    let mut channel = Channel::open().await;
    let mut watching = Watching::start(channel.at(), &["--api-key", "k", "--race", "3"]);
    let (mut socket, query) = channel.accept().await;
    assert_eq!(query, "race=3");
    socket.say(welcome(json!({}))).await;
    socket
        .say(json!({ "event": "snapshot_complete", "seq": 9, "races": 0, "replayed": 0 }))
        .await;
    socket.say(heartbeat(14)).await;
    socket
        .say(json!({ "event": "closing", "code": 1001, "reason": "the service is stopping", "retry_after_ms": 20 }))
        .await;
    socket.close(1001).await;
    assert_eq!(
        watching.noted("railbird: ").await,
        "railbird: connection lost, reconnecting in 0.0 s: the service is stopping"
    );

    let (mut socket, query) = channel.accept().await;
    assert_eq!(query, "race=3&since=14&epoch=e1");
    socket
        .say(welcome(
            json!({ "recovered": false, "reason": "other_epoch", "epoch": "e2" }),
        ))
        .await;
    drop(socket);
    let (_socket, query) = channel.accept().await;
    assert_eq!(
        query, "race=3",
        "what was begun anew is not resumed before it is complete"
    );
    let said = watching.said("welcome seq=9 epoch=e2").await;
    assert!(
        said.ends_with(" recovered=false reason=other_epoch"),
        "{said}"
    );
}

#[tokio::test]
async fn a_key_that_is_taken_back_ends_it() {
    for say_so in [true, false] {
        let mut channel = Channel::open().await;
        let watching = Watching::start(channel.at(), &["--api-key", "k"]);
        let (mut socket, _) = channel.accept().await;
        socket.say(welcome(json!({}))).await;
        if say_so {
            socket
                .say(json!({ "event": "closing", "code": 4401, "reason": "the key was revoked", "retry_after_ms": 0 }))
                .await;
        }
        let ((code, all), ()) = tokio::join!(watching.ends(), socket.close(4401));
        assert_eq!(code, 1, "{all}");
        assert!(all.contains("the API key is no longer valid"), "{all}");
    }
}

#[tokio::test]
async fn a_channel_that_falls_silent_is_a_lost_connection() {
    let mut channel = Channel::open().await;
    let mut watching = Watching::start(channel.at(), &["--api-key", "k"]);
    let (mut socket, _) = channel.accept().await;
    socket.say(welcome(json!({ "heartbeat_ms": 1000 }))).await;
    let lost = watching.noted("railbird: connection lost").await;
    assert!(lost.ends_with("nothing came for 2 s"), "{lost}");
    channel.accept().await;
}
