//! [`MailServer`]: a real mail server, aiosmtpd, whose behaviour tests control.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Authority, eventually, tool};

pub(crate) struct MailServer {
    child: Child,
    commands: ChildStdin,
    commands_sent: usize,
    /// The lines of its standard output.
    events: Arc<Mutex<Vec<Value>>>,
    port: u64,
    folder: TempDir,
}

/// A mail that the server received.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedMail {
    /// The bytes.
    pub(crate) raw: Vec<u8>,
    /// The mail as Python parses it, with its envelope.
    pub(crate) parsed: Value,
}

/// The security of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Security {
    Plain,
    StartTls,
    Tls,
}

/// The user and password of a server that requires a login.
pub(crate) const LOGIN: [&str; 2] = ["railbird", "p@ss/w:rd?#"];

impl MailServer {
    pub(crate) async fn start() -> Self {
        Self::start_as(Security::Plain, false).await
    }

    /// Starts a server with or without TLS, and with or without a login.
    pub(crate) async fn start_as(security: Security, login: bool) -> Self {
        let python = tool("RAILBIRD_PYTHON", "python3", ["-c", "import aiosmtpd"]);
        let folder = tempfile::tempdir().unwrap();
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let mut command = Command::new(python);
        command
            .arg(tests.join("support/smtp_server.py"))
            .arg(folder.path());
        if security != Security::Plain {
            let authority = Authority::new();
            authority.file(folder.path());
            let files = authority.issue().write(folder.path());
            command.arg("--cert").arg(files.cert);
            command.arg("--key").arg(files.key);
        }
        if security == Security::Tls {
            command.arg("--tls");
        }
        if login {
            command.arg("--login").args(LOGIN);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let events = Arc::new(Mutex::new(Vec::new()));
        let (received, lines) = (Arc::clone(&events), child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in BufReader::new(lines).lines() {
                let line = serde_json::from_str(&line.unwrap()).unwrap();
                received.lock().unwrap().push(line);
            }
        });
        let commands = child.stdin.take().unwrap();
        let mut server = Self {
            child,
            commands,
            commands_sent: 0,
            events,
            port: 0,
            folder,
        };
        server
            .until("it listens", |events| events[0]["port"].is_u64())
            .await;
        server.port = server.events()[0]["port"].as_u64().unwrap();
        server
    }

    /// `127.0.0.1:port`.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The certificate that has to be trusted.
    pub(crate) fn authority(&self) -> PathBuf {
        self.folder.path().join("authority.pem")
    }

    /// Sets the action of the next times that a stage is reached: a reply, `hold` or `cut`.
    pub(crate) async fn at(&mut self, stage: &str, action: &str, times: usize) {
        self.send(&json!({ "at": stage, "do": action, "times": times }))
            .await;
    }

    /// Releases the clients that are held at a stage, and holds no others.
    pub(crate) async fn release(&mut self, stage: &str) {
        self.send(&json!({ "release": stage })).await;
    }

    /// Closes all connections, and stops listening.
    pub(crate) async fn go_down(&mut self) {
        self.send(&json!({ "down": true })).await;
    }

    pub(crate) async fn come_up(&mut self) {
        self.send(&json!({ "down": false })).await;
    }

    async fn send(&mut self, command: &Value) {
        writeln!(self.commands, "{command}").unwrap();
        self.commands_sent += 1;
        let is_done = |event: &&Value| !event["done"].is_null();
        self.until("the command is carried out", |events| {
            events.iter().filter(is_done).count() == self.commands_sent
        })
        .await;
    }

    /// Waits until a stage was reached a number of times.
    pub(crate) async fn until_at(&self, stage: &str, times: usize) {
        let what = format!("{stage} is reached {times} times");
        self.until(&what, |events| at(events, stage) >= times).await;
    }

    /// The number of times that a stage was reached.
    pub(crate) fn times_at(&self, stage: &str) -> usize {
        at(&self.events(), stage)
    }

    /// Waits for a number of mails, and returns all mails, whether the server accepted them or not.
    pub(crate) async fn until_mails(&self, count: usize) -> Vec<ReceivedMail> {
        let what = format!("there are {count} mails");
        self.until(&what, |events| mails(events).count() >= count)
            .await;
        self.mails()
    }

    pub(crate) fn mails(&self) -> Vec<ReceivedMail> {
        let events = self.events();
        let received = mails(&events).map(|parsed| ReceivedMail {
            raw: std::fs::read(parsed["mail"].as_str().unwrap()).unwrap(),
            parsed: parsed.clone(),
        });
        received.collect()
    }

    fn events(&self) -> Vec<Value> {
        self.events.lock().unwrap().clone()
    }

    async fn until(&self, what: &str, holds: impl Fn(&[Value]) -> bool) {
        eventually(what, || async {
            let events = self.events();
            !events.is_empty() && holds(&events)
        })
        .await;
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn at(events: &[Value], stage: &str) -> usize {
    events.iter().filter(|event| event["at"] == stage).count()
}

fn mails(events: &[Value]) -> impl Iterator<Item = &Value> {
    events.iter().filter(|event| event["mail"].is_string())
}

impl ReceivedMail {
    /// The token of the link to the account page.
    pub(crate) fn token(&self) -> String {
        let token = |text: &Value| {
            let (_, after) = text
                .as_str()
                .unwrap()
                .split_once("/account?token=")
                .unwrap();
            after
                .chars()
                .take_while(char::is_ascii_alphanumeric)
                .collect::<String>()
        };
        let found = token(&self.parsed["text"]);
        assert_eq!(token(&self.parsed["html"]), found);
        found
    }

    pub(crate) fn to(&self) -> &str {
        self.parsed["to"][0].as_str().unwrap()
    }

    /// The value of a header that occurs once.
    pub(crate) fn header(&self, name: &str) -> &str {
        let headers = self.parsed["headers"].as_array().unwrap().iter();
        let mut named = headers.filter(|header| header[0] == name);
        let found = named.next().unwrap_or_else(|| panic!("no {name}"));
        assert!(named.next().is_none(), "{name} is there twice");
        found[1].as_str().unwrap()
    }
}
