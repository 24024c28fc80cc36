//! `railbird dev`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio::signal::unix::SignalKind;
use tokio::time::sleep;

use super::checks::Checks;
use super::demo::Demo;
use super::nats_server::NatsServer;
use super::open_files::ConnectionsMax;
use super::player::Player;
use super::report::result;
use super::running::{RunningService, keep_files_private};
use super::serve::ServiceArgs;
use crate::accounts::{ApiKey, DEV_ENV, KeyIssued};
use crate::app::{Config, Service};
use crate::atomic_file;
use crate::http::state::App;
use crate::log::Log;
use crate::mail::Mailing;
use crate::projector::Phase;
use crate::shutdown::{Shutdown, Signals, StoppedAtOnce};

const DATA_DEFAULT: &str = ".railbird";
/// Interval at which the state of the key cache is polled.
const KEY_POLL: Duration = Duration::from_millis(20);

#[derive(Debug, Args)]
pub(super) struct Dev {
    /// Folder for the log, the views, the mails and the API key.
    #[arg(long, env = "RAILBIRD_DATA", value_name = "DIR", default_value = DATA_DEFAULT)]
    data: PathBuf,
    /// Port of the nats-server on loopback; 0 picks a free port.
    #[arg(long, env = "RAILBIRD_NATS_PORT", default_value_t = 4222)]
    nats_port: u16,
    /// Do not publish simulated racing.
    #[arg(long, env = "RAILBIRD_NO_DEMO")]
    no_demo: bool,
    #[command(flatten)]
    service: ServiceArgs,
}

impl Dev {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        keep_files_private();
        // SIGHUP is the end of the terminal, and so of this program.
        let [interrupt, terminate] = [SignalKind::interrupt(), SignalKind::terminate()];
        let mut signals = Signals::of(&[interrupt, terminate, SignalKind::hangup()])?;
        let folder = self.data.join("nats");
        let mut nats = tokio::select! {
            nats = NatsServer::start(&folder, self.nats_port) => nats?,
            // Dropped while it starts, the server is killed.
            () = signals.next() => return Ok(()),
        };
        let url = nats.url.clone();
        let served = tokio::select! {
            served = self.serve(&url, &mut signals) => served,
            error = nats.ended() => Err(error),
        };
        tokio::select! {
            () = nats.stop() => served,
            () = signals.next() => served.and(Err(StoppedAtOnce.into())),
        }
    }

    async fn serve(self, nats: &str, signals: &mut Signals) -> anyhow::Result<()> {
        let shutdown = Shutdown::new();
        let mailing = self.service.mail.dev(&self.data.join("mail"))?;
        let transport = mailing.transport.clone();
        let (log, service) = tokio::select! {
            started = self.start(nats, mailing, &shutdown) => started?,
            () = signals.next() => return Ok(()),
        };
        let http = service.http_addr()?;
        let admin = service.admin_addr()?;
        let app = Arc::clone(&service.app);
        let mut running = RunningService::new(service, shutdown.clone());
        let demo = async {
            if !self.no_demo {
                wait_until_live(&app).await;
                let player = Player::new(&log, &shutdown);
                Demo { player, app: &app }.run().await?;
            }
            anyhow::Ok(())
        };
        let introduction = async {
            let key = dev_key(&self.data, &app).await?;
            if http.ip().is_loopback() {
                let _ = app.dev_key.set(key.clone());
            }
            wait_until_live(&app).await;
            if !self.no_demo {
                wait_for_meeting_today(&app).await;
            }
            result(format_args!(
                "Board    http://{http}/\n\
                 HTTP     http://{http}  (operators: http://{admin})\n\
                 NATS     {nats}\n\
                 Mail     {transport}\n\
                 API key  {key}\n\n\
                 curl -H 'X-API-Key: {key}' http://{http}/api/v1/racecards/today\n\
                 ws://{http}/ws/live/odds?api_key={key}"
            ));
            anyhow::Ok(())
        };
        let ended = tokio::select! {
            error = running.ended() => return Err(error),
            () = signals.next() => Ok(()),
            Err(error) = demo => Err(error),
            Err(error) = introduction => Err(error),
        };
        // No balancer sends requests here.
        running.stop(Duration::ZERO, signals).await?;
        log.close().await;
        ended
    }

    /// Connects to nats-server, and starts a service on it.
    async fn start(
        &self,
        nats: &str,
        mailing: Mailing,
        shutdown: &Shutdown,
    ) -> anyhow::Result<(Log, Service)> {
        let log = Log::connect(nats, "railbird-dev").await?;
        let mut checks = Checks::default();
        let config = self.service.config(&mut checks);
        checks.result()?;
        let config = config.context("the configuration is not complete")?;
        ConnectionsMax::within_limit(self.service.connections_max).warn();
        let config = Config {
            nats: nats.into(),
            data: self.data.clone(),
            mailing: Some(mailing),
            // A page that is being developed has a server of its own.
            origins: config.origins.and_loopback(),
            ..config
        };
        Ok((log, Service::start(config, shutdown.clone()).await?))
    }
}

/// The key of an earlier run if it is still valid, else a new one. Only this user can read its file.
async fn dev_key(data: &Path, app: &App) -> anyhow::Result<String> {
    while !app.keys.is_complete() {
        sleep(KEY_POLL).await;
    }
    let path = data.join("dev.key");
    let earlier = fs::read_to_string(&path).unwrap_or_default();
    if app.keys.check(earlier.trim()).is_ok() {
        return Ok(earlier.trim().to_owned());
    }
    let key = ApiKey::generate(DEV_ENV)?;
    // The plan with the most connections: the board needs live odds.
    let plans = app.keys.plans();
    let plan = plans.iter().max_by_key(|plan| plan.connections);
    let plan = plan.map(|plan| plan.name.clone()).unwrap_or_default();
    let issued = KeyIssued::new(&key, plan, None);
    app.pages.commands.issue(issued).await?;
    let key = key.reveal();
    let written = atomic_file::replace(&path, format!("{key}\n").as_bytes());
    written.with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(key.to_owned())
}

async fn wait_until_live(app: &App) {
    let mut status = app.projector.status.clone();
    // The channel closes when the service shuts down, which also ends the caller.
    let _ = status.wait_for(|status| status.phase == Phase::Live).await;
}

async fn wait_for_meeting_today(app: &App) {
    let mut status = app.projector.status.clone();
    loop {
        let today = projections::keys::meetings_of(app.clock.today());
        let views = app.views.current();
        let has_meeting = views.is_some_and(|views| views.scan(&today).next().is_some());
        if has_meeting || status.changed().await.is_err() {
            return;
        }
    }
}
