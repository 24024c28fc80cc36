//! [`MailServer`]: a real mail server, aiosmtpd, that does what it is told.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{eventually, tool};

pub(crate) struct MailServer {
    child: Child,
    orders: ChildStdin,
    given: usize,
    said: Arc<Mutex<Vec<Value>>>,
    port: u64,
    folder: TempDir,
}

/// A mail as the server had it.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedMail {
    /// The bytes as they came.
    pub(crate) raw: Vec<u8>,
    /// As Python reads them, with what the server was told beside them.
    pub(crate) parsed: Value,
}

/// How the server is to be spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Plain,
    StartTls,
    Tls,
}

/// The user of a server that asks for one.
pub(crate) const LOGIN: [&str; 2] = ["railbird", "p@ss/w:rd?#"];

impl MailServer {
    pub(crate) async fn start() -> Self {
        Self::start_as(Manner::Plain, false).await
    }

    /// The same, with TLS or without, and with a login or without.
    pub(crate) async fn start_as(manner: Manner, login: bool) -> Self {
        let python = tool("RAILBIRD_PYTHON", "python3", ["-c", "import aiosmtpd"]);
        let folder = tempfile::tempdir().unwrap();
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let mut command = Command::new(python);
        command
            .arg(tests.join("support/smtp_server.py"))
            .arg(folder.path());
        if manner != Manner::Plain {
            make_certificates(folder.path());
            command.arg("--cert").arg(folder.path().join("cert.pem"));
            command.arg("--key").arg(folder.path().join("key.pem"));
        }
        if manner == Manner::Tls {
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
        let said = Arc::new(Mutex::new(Vec::new()));
        let (hears, lines) = (Arc::clone(&said), child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in BufReader::new(lines).lines() {
                let line = serde_json::from_str(&line.unwrap()).unwrap();
                hears.lock().unwrap().push(line);
            }
        });
        let orders = child.stdin.take().unwrap();
        let mut server = Self {
            child,
            orders,
            given: 0,
            said,
            port: 0,
            folder,
        };
        server
            .until("it listens", |said| said[0]["port"].is_u64())
            .await;
        server.port = server.said()[0]["port"].as_u64().unwrap();
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

    /// The next times that a stage is reached: a reply, `hold` or `cut`.
    pub(crate) async fn at(&mut self, stage: &str, action: &str, times: usize) {
        self.order(&json!({ "at": stage, "do": action, "times": times }))
            .await;
    }

    /// Whoever is held at a stage goes on, and so do those to come.
    pub(crate) async fn go(&mut self, stage: &str) {
        self.order(&json!({ "go": stage })).await;
    }

    /// Hangs up on everybody, and listens no more.
    pub(crate) async fn go_down(&mut self) {
        self.order(&json!({ "down": true })).await;
    }

    pub(crate) async fn come_up(&mut self) {
        self.order(&json!({ "down": false })).await;
    }

    async fn order(&mut self, order: &Value) {
        writeln!(self.orders, "{order}").unwrap();
        self.given += 1;
        let given = self.given;
        let done = move |said: &[Value]| said.iter().filter(|line| !line["done"].is_null()).count();
        self.until("the order is carried out", |said| done(said) == given)
            .await;
    }

    /// Waits until a stage was reached so often.
    pub(crate) async fn until_at(&self, stage: &str, times: usize) {
        let what = format!("{stage} is reached {times} times");
        self.until(&what, |said| at(said, stage) >= times).await;
    }

    /// How often a stage was reached.
    pub(crate) fn times_at(&self, stage: &str) -> usize {
        at(&self.said(), stage)
    }

    /// Waits for so many mails, and returns all there are: taken or not, for a client may hear of neither.
    pub(crate) async fn until_mails(&self, count: usize) -> Vec<ReceivedMail> {
        let what = format!("there are {count} mails");
        self.until(&what, |said| mails(said).count() >= count).await;
        self.mails()
    }

    pub(crate) fn mails(&self) -> Vec<ReceivedMail> {
        let said = self.said();
        let received = mails(&said).map(|parsed| ReceivedMail {
            raw: std::fs::read(parsed["mail"].as_str().unwrap()).unwrap(),
            parsed: parsed.clone(),
        });
        received.collect()
    }

    fn said(&self) -> Vec<Value> {
        self.said.lock().unwrap().clone()
    }

    async fn until(&self, what: &str, holds: impl Fn(&[Value]) -> bool) {
        eventually(what, || async {
            let said = self.said();
            !said.is_empty() && holds(&said)
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

fn at(said: &[Value], stage: &str) -> usize {
    said.iter().filter(|line| line["at"] == stage).count()
}

fn mails(said: &[Value]) -> impl Iterator<Item = &Value> {
    said.iter().filter(|line| line["mail"].is_string())
}

impl ReceivedMail {
    /// The key, of which there is one: in the text and in the HTML.
    pub(crate) fn key(&self) -> String {
        let keys = |text: &Value| {
            let words = text
                .as_str()
                .unwrap()
                .split(|c: char| !c.is_alphanumeric() && c != '_');
            let keys = words.filter(|word| word.starts_with("rb_") && word.len() > 20);
            keys.map(ToOwned::to_owned).collect::<Vec<_>>()
        };
        let mut found = keys(&self.parsed["text"]);
        found.extend(keys(&self.parsed["html"]));
        let key = found[0].clone();
        assert!(found.iter().all(|other| *other == key), "{found:?}");
        key
    }

    /// The token of the link with which the key is rotated or revoked.
    pub(crate) fn token(&self) -> String {
        let token = |text: &Value| {
            let (_, behind) = text
                .as_str()
                .unwrap()
                .split_once("/keys/manage?token=")
                .unwrap();
            behind
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

    /// A header, of which there is one.
    pub(crate) fn header(&self, name: &str) -> &str {
        let headers = self.parsed["headers"].as_array().unwrap().iter();
        let mut named = headers.filter(|header| header[0] == name);
        let found = named.next().unwrap_or_else(|| panic!("no {name}"));
        assert!(named.next().is_none(), "{name} is there twice");
        found[1].as_str().unwrap()
    }
}

/// An authority, and a certificate of it for loopback.
fn make_certificates(folder: &Path) {
    let mut authority = CertificateParams::new([]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let (authority_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::new(authority, authority_key);
    let names = ["localhost", "127.0.0.1"].map(ToOwned::to_owned);
    let server = CertificateParams::new(names).unwrap();
    let cert_pem = server.signed_by(&key, &issuer).unwrap().pem();
    for (name, pem) in [
        ("authority.pem", authority_pem),
        ("cert.pem", cert_pem),
        ("key.pem", key.serialize_pem()),
    ] {
        std::fs::write(folder.join(name), pem).unwrap();
    }
}
