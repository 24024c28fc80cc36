//! The pages for subscribers: signing up and in, and the account.

mod account;
mod browser;
mod first_visit;
mod session;
mod subscribe;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use events::Moment;
use railbird::accounts::{self, AddressBook, Email, Holder, Ledger, SubscriptionId};
use railbird::app::Config;
use railbird::log::{ACCOUNTS, ADDRESSES};
use railbird::mail::{Mailing, Sender, Transport};
use railbird::public_url::PublicUrl;
use tempfile::TempDir;

use crate::support::*;

/// The ledger as of now.
async fn ledger(nats: &Nats) -> Ledger {
    accounts::read(&nats.log().await).await.unwrap()
}

/// The number of account events.
async fn events(nats: &Nats) -> u64 {
    let log = nats.log().await;
    log.state(ACCOUNTS).await.map_or(0, |state| state.last_seq)
}

async fn id_of(nats: &Nats, email: &str) -> SubscriptionId {
    let book = AddressBook::new(nats.log().await);
    book.id_of(&Email::parse(email).unwrap()).await.unwrap()
}

/// The number of keys of subscribers, valid or not.
async fn subscribers_keys(nats: &Nats) -> usize {
    let ledger = ledger(nats).await;
    let of_subscriber = |holder: &Holder| matches!(holder, Holder::Subscription(_));
    ledger
        .keys
        .iter()
        .filter(|(_, key)| of_subscriber(&key.holder))
        .count()
}

/// Services that write their mails to a folder.
struct Site {
    nats: Nats,
    mails: TempDir,
    replicas: Vec<Railbird>,
}

impl Site {
    async fn start() -> Self {
        Self::start_with(1, |_| ()).await
    }

    /// Starts a number of replicas with a changed configuration.
    async fn start_with(replicas: usize, change: impl Fn(&mut Config)) -> Self {
        Self::on(Nats::start(), replicas, change).await
    }

    async fn on(nats: Nats, replicas: usize, change: impl Fn(&mut Config)) -> Self {
        let mut site = Self {
            nats,
            mails: tempfile::tempdir().unwrap(),
            replicas: Vec::new(),
        };
        for _ in 0..replicas {
            let mailing = Mailing {
                transport: Transport::Folder(site.mails.path().join("mail")),
                from: Sender::parse("Railbird <keys@racing.example>").unwrap(),
                key_env: "test",
            };
            let replica = Railbird::start_with(&site.nats, |config| {
                config.mailing = Some(mailing);
                change(config);
            });
            site.replicas.push(replica.await);
        }
        site
    }

    /// The address of the first replica.
    fn http(&self) -> SocketAddr {
        self.replicas[0].http
    }

    /// Sends the form of `/pricing`.
    async fn subscribe(&self, email: &str, plan: &str) -> Reply {
        let fields = [("email", email), ("plan", plan), ("website", "")];
        post(self.http(), "/pricing", &fields).await
    }

    /// Sends the form with which someone asks for a link.
    async fn ask_for_link(&self, email: &str) -> Reply {
        let fields = [("email", email), ("do", "link")];
        post(self.http(), "/account", &fields).await
    }

    /// The mails to an address.
    fn mails_to(&self, email: &str) -> Vec<String> {
        let files = std::fs::read_dir(self.mails.path().join("mail"));
        let files = files.into_iter().flatten().map(|file| file.unwrap().path());
        let whole = files.filter(|path| path.extension().is_some_and(|end| end == "eml"));
        let texts = whole.filter_map(|path| std::fs::read_to_string(path).ok());
        let to = format!("To: {email}\r\n");
        let mails = texts.filter(|mail| mail.contains(&to));
        // Quoted-printable (RFC 2045, 6.7).
        mails
            .map(|mail| mail.replace("=\r\n", "").replace("=3D", "="))
            .collect()
    }

    /// The tokens in the mails to an address.
    fn tokens_to(&self, email: &str) -> BTreeSet<String> {
        let mails = self.mails_to(email);
        let links = mails.iter().filter_map(|mail| mail.split_once("?token="));
        links
            .map(|(_, after)| {
                let token = after.chars().take_while(char::is_ascii_alphanumeric);
                token.collect()
            })
            .collect()
    }

    /// Waits for a number of mails to an address.
    async fn until_mails(&self, email: &str, count: usize) {
        eventually(&format!("{email} has {count} mails"), || async {
            self.mails_to(email).len() == count
        })
        .await;
    }

    /// Carries out an action that sends a link, and returns its token.
    async fn link_by(&self, email: &str, action: impl Future<Output = Reply>) -> String {
        let before = self.tokens_to(email);
        html(&action.await, 200);
        eventually(&format!("{email} has another link"), || async {
            self.tokens_to(email).len() > before.len()
        })
        .await;
        let mut new = self.tokens_to(email).into_iter();
        new.find(|token| !before.contains(token)).unwrap()
    }

    /// Subscribes an address, and signs in with the link of the mail.
    async fn subscriber(&self, email: &str, plan: &str) -> Account<'_> {
        let token = self.link_by(email, self.subscribe(email, plan)).await;
        self.sign_in(&token).await
    }

    /// Asks for another link, and signs in with it.
    async fn sign_in_again(&self, email: &str) -> Account<'_> {
        let token = self.link_by(email, self.ask_for_link(email)).await;
        self.sign_in(&token).await
    }

    async fn sign_in(&self, token: &str) -> Account<'_> {
        let page = html(&self.open(token).await, 200);
        let reply = press_link(self.http(), &page, "sign-in").await;
        let account = Account {
            site: self,
            cookie: cookie_of(&reply),
        };
        account.page().await;
        account
    }

    /// Opens a link.
    async fn open(&self, token: &str) -> Reply {
        let path = format!("/account?token={token}");
        self.replicas[0].get_open(&path).await
    }

    /// Waits until every replica responds to a key with a status.
    async fn until(&self, status: u16, key: &str) {
        for replica in &self.replicas {
            eventually(&format!("a key gets {status}"), || async {
                let headers = [("x-api-key", key)];
                let reply = request(replica.http, "GET", "/api/v1/account", &headers).await;
                reply.status == status
            })
            .await;
        }
    }

    /// Waits until every replica has folded all account events.
    async fn until_folded(&self) {
        let last = events(&self.nats).await;
        for replica in &self.replicas {
            eventually("all events are folded", || async {
                replica.app.health.ledger.borrow().seq >= last
            })
            .await;
        }
    }

    async fn keys_command(&self, arguments: &[&str]) -> Output {
        let nats = self.nats.url_of("keys");
        let all = [&["keys"], arguments, &["--nats", &nats]].concat();
        let all = all.into_iter().map(ToOwned::to_owned);
        let output = railbird(all).await;
        assert_eq!(output.code, 0, "{}", output.all);
        self.until_folded().await;
        output
    }
}

/// Presses a button of the page of a link.
async fn press_link(http: SocketAddr, page: &str, button: &str) -> Reply {
    let fields = [
        ("token", attribute(page, "name=\"token\" value=\"")),
        ("nonce", attribute(page, "name=\"nonce\" value=\"")),
        ("do", button),
    ];
    post(http, "/account", &fields).await
}

/// `name=value` of the cookie that a response sets.
fn cookie_of(reply: &Reply) -> String {
    assert_eq!(reply.status, 303, "{}", reply.text());
    assert_eq!(reply.header("location"), "account");
    let (cookie, _) = reply.header("set-cookie").split_once(';').unwrap();
    cookie.to_owned()
}

/// Someone who is signed in.
struct Account<'a> {
    site: &'a Site,
    cookie: String,
}

impl Account<'_> {
    async fn get(&self) -> Reply {
        let headers = [("cookie", &*self.cookie)];
        request(self.site.http(), "GET", "/account", &headers).await
    }

    async fn page(&self) -> String {
        let page = html(&self.get().await, 200);
        assert!(page.contains("value=\"sign-out\""), "signed out:\n{page}");
        page
    }

    async fn is_signed_in(&self) -> bool {
        html(&self.get().await, 200).contains("value=\"sign-out\"")
    }

    /// Presses a button of a page, at one of the replicas.
    async fn press_at(
        &self,
        replica: usize,
        page: &str,
        button: &str,
        fields: &[(&str, &str)],
    ) -> Reply {
        let nonce = page
            .contains("name=\"nonce\"")
            .then(|| attribute(page, "name=\"nonce\" value=\""));
        let always = [("do", button), ("nonce", nonce.unwrap_or_default())];
        let fields: Vec<_> = always.iter().chain(fields).copied().collect();
        let headers = [("cookie", &*self.cookie)];
        let http = self.site.replicas[replica].http;
        post_with(http, "/account", &headers, &fields).await
    }

    /// Presses a button of the page as it is now.
    async fn press(&self, button: &str, fields: &[(&str, &str)]) -> Reply {
        let page = self.page().await;
        self.press_at(0, &page, button, fields).await
    }

    /// Creates a key, and waits until it is valid.
    async fn create(&self, name: &str) -> String {
        let reply = self.press("create", &[("name", name)]).await;
        let key = shown(&html(&reply, 200)).expect("a key").to_owned();
        self.site.until(200, &key).await;
        key
    }

    async fn rotate(&self, key: &str, overlap: &str) -> Reply {
        let fields = [("key", key_id(key)), ("overlap", overlap)];
        self.press("rotate", &fields).await
    }

    async fn revoke(&self, key: &str) -> Reply {
        self.press("revoke", &[("key", key_id(key))]).await
    }
}

/// The key that a page shows.
fn shown(page: &str) -> Option<&str> {
    let (_, after) = page.split_once("id=\"key\"")?;
    let (key, _) = after.split_once('>')?.1.split_once('<')?;
    Some(key)
}

fn key_id(key: &str) -> &str {
    key.split('_').nth(2).unwrap()
}

fn now() -> Moment {
    jiff::Timestamp::now().into()
}

/// The value of an attribute that follows a text.
fn attribute<'a>(page: &'a str, before: &str) -> &'a str {
    let found = page.split_once(before);
    let (_, after) = found.unwrap_or_else(|| panic!("no {before} in\n{page}"));
    after.split_once('"').unwrap().0
}

/// Checks that a response is a page with strict headers, and without scripts but for the one that copies a new key.
/// Returns its HTML.
fn html(reply: &Reply, status: u16) -> String {
    let page = reply.text();
    assert_eq!(reply.status, status, "{page}");
    assert_eq!(reply.header("content-type"), "text/html; charset=utf-8");
    assert_eq!(reply.header("referrer-policy"), "same-origin");
    assert_eq!(reply.header("x-content-type-options"), "nosniff");
    let policy = reply.header("content-security-policy");
    for part in [
        "default-src 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    let copies = "<script src=\"assets/copy.js\" defer></script>";
    let scripts = match shown(&page) {
        Some(_) => "script-src 'self';",
        None => "script-src 'none';",
    };
    assert!(
        !policy.contains("unsafe") && policy.contains(scripts),
        "{policy}"
    );
    assert_eq!(page.contains(copies), shown(&page).is_some(), "{page}");
    for active in [
        "<script",
        "javascript:",
        " style=",
        " onclick",
        " onload",
        "http://",
        "https://",
    ] {
        let page = page.replace("xmlns='http://www.w3.org/2000/svg'", "");
        // The command line that uses a new key.
        let page = page.replace("http://127.0.0.1:", "").replace(copies, "");
        assert!(!page.contains(active), "{active} in\n{page}");
    }
    page
}
