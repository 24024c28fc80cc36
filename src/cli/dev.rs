//! `railbird dev`.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use events::Text;
use tokio::time::sleep;

use super::Outcome;
use super::demo::Demo;
use super::nats_server::NatsServer;
use super::player::Player;
use super::report::result;
use super::serve::ServiceArgs;
use crate::accounts::{AccountEvent, ApiKey, KeyIssued};
use crate::app::Service;
use crate::http::state::App;
use crate::live::status::Phase;
use crate::log::{ACCOUNTS, Log, Outgoing, RACING};
use crate::mail::Transport;
use crate::shutdown::{shutdown, signalled};

/// Where everything lies.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  railbird dev --data /tmp/railbird --http 127.0.0.1:8081")]
pub(super) struct Dev {
    /// Where the log, the views and the key lie.
    #[arg(long, env = "RAILBIRD_DATA", default_value = ".railbird")]
    data: PathBuf,
    /// Where NATS listens; 0 takes a free port.
    #[arg(long, env = "RAILBIRD_NATS_PORT", default_value_t = 4222)]
    nats_port: u16,
    /// Play no races.
    #[arg(long, env = "RAILBIRD_NO_DEMO")]
    no_demo: bool,
    #[command(flatten)]
    answering: ServiceArgs,
}

impl Dev {
    pub(super) async fn run(self) -> anyhow::Result<Outcome> {
        let mut nats = NatsServer::start(&self.data.join("nats"), self.nats_port).await?;
        let url = nats.url.clone();
        let outcome = tokio::select! {
            outcome = self.serve(&url) => outcome,
            error = nats.ended() => Err(error),
        };
        nats.stop().await;
        outcome
    }

    async fn serve(self, nats: &str) -> anyhow::Result<Outcome> {
        let mut signal = std::pin::pin!(signalled());
        let log = Log::connect(nats, "railbird-dev").await?;
        log.ensure(RACING).await?;
        log.ensure(ACCOUNTS).await?;
        let (trigger, ending) = shutdown();
        let mailing = self.answering.mail.dev(&self.data.join("mail"))?;
        let transport = mailing.transport.clone();
        let (nats_url, data) = (nats.to_owned(), self.data.clone());
        let config = self.answering.config(nats_url, data, Some(mailing))?;
        let service = Service::start(config, ending.clone()).await?;
        let (http, admin) = (service.http_addr()?, service.admin_addr()?);
        let app = std::sync::Arc::clone(service.app());
        let serving = tokio::spawn(service.run());
        let demo = async {
            if !self.no_demo {
                until_live(&app).await;
                let player = Player::new(&log, &ending);
                let demo = Demo { player, app: &app };
                demo.run().await?;
            }
            std::future::pending::<anyhow::Result<()>>().await
        };
        let introduce = async {
            let key = dev_key(&self.data, &log, &app).await?;
            until_live(&app).await;
            if !self.no_demo {
                until_meeting_today(&app).await;
            }
            introduce(http, admin, nats, &transport, &key);
            std::future::pending::<anyhow::Result<()>>().await
        };
        let ended = tokio::select! {
            signalled = &mut signal => signalled.map_err(Into::into),
            failed = demo => failed,
            failed = introduce => failed,
        };
        trigger.pull();
        serving.await?;
        log.close().await;
        ended.map(|()| Outcome::Done)
    }
}

fn introduce(http: SocketAddr, admin: SocketAddr, nats: &str, mails: &Transport, key: &str) {
    result(format_args!(
        "HTTP     http://{http}  (operators: http://{admin})"
    ));
    result(format_args!("NATS     {nats}"));
    result(format_args!("Mail     {mails}"));
    result(format_args!("API key  {key}"));
    result(format_args!(""));
    result(format_args!(
        "curl -H 'X-API-Key: {key}' http://{http}/api/v1/racecards/today"
    ));
    result(format_args!("ws://{http}/ws/live/odds?api_key={key}"));
}

/// The key of an earlier run, if the log still knows it, else a new one, written for this user's eyes alone.
async fn dev_key(data: &Path, log: &Log, app: &App) -> anyhow::Result<String> {
    while !app.keys.is_complete() {
        sleep(Duration::from_millis(20)).await;
    }
    let path = data.join("dev.key");
    let earlier = fs::read_to_string(&path).unwrap_or_default();
    if app.keys.check(earlier.trim()).is_ok() {
        return Ok(earlier.trim().to_owned());
    }
    let key = ApiKey::generate("dev")?;
    let issued = KeyIssued::new(&key, Text::parse("default")?, None);
    let issued = AccountEvent::new(issued, jiff::Timestamp::now().into());
    log.append(Outgoing::from(&issued)).await?;
    let _ = fs::remove_file(&path);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("{} cannot be written", path.display()))?;
    writeln!(file, "{}", key.reveal())?;
    while app.keys.check(key.reveal()).is_err() {
        sleep(Duration::from_millis(20)).await;
    }
    Ok(key.reveal().to_owned())
}

async fn until_live(app: &App) {
    let mut status = app.projector.status.clone();
    // An error means that the service is ending, and so is this.
    let _ = status.wait_for(|status| status.phase == Phase::Live).await;
}

async fn until_meeting_today(app: &App) {
    let mut status = app.projector.status.clone();
    loop {
        let today = projections::keys::meetings_of(app.clock.today());
        if app.views.current().scan(&today).next().is_some() || status.changed().await.is_err() {
            return;
        }
    }
}
