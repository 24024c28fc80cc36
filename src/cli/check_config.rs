//! `railbird check-config`.

use std::net::TcpListener;

use clap::Args;

use super::WrongConfiguration;
use super::checks::Checks;
use super::report::result;
use super::serve::Serve;
use crate::app::Config;
use crate::log::{
    ACCOUNTS, ADDRESSES, KEY_USE, LEASES, Log, LogError, NatsConfig, RACING, SNAPSHOTS,
};
use crate::mail::Mailing;

#[derive(Debug, Args)]
pub(super) struct CheckConfig {
    #[command(flatten)]
    serve: Serve,
    /// Also listen on both addresses for a moment, log in to NATS, look for its streams, and log in to the mail server
    /// without sending a mail. Not beside the service, which has the addresses.
    #[arg(long)]
    connect: bool,
}

impl CheckConfig {
    pub(super) async fn run(&self) -> Result<(), WrongConfiguration> {
        let mut checks = Checks::default();
        let config = self.serve.config(&mut checks);
        // The service starts with an expired certificate, because it may be renewed.
        if let Ok(Some(tls)) = self.serve.tls()
            && let Err(expired) = tls.check_expiry()
        {
            checks.0.push(("TLS", Err(expired.to_string())));
        }
        if let Some(config) = config.filter(|_| self.connect) {
            check_ports(&config, &mut checks);
            self.check_nats(config.nats, &mut checks).await;
            if let Some(mailing) = &config.mailing {
                check_mail(mailing, &mut checks).await;
            }
        }
        for (part, outcome) in &checks.0 {
            let (state, text) = match outcome {
                Ok(text) => ("ok", text),
                Err(error) => ("error", error),
            };
            result(format_args!("{part:<12} {state:<5} {text}"));
        }
        let errors = checks.0.iter().filter(|(_, outcome)| outcome.is_err());
        match errors.count() {
            0 => Ok(()),
            1 => Err("1 error in the configuration".into()),
            errors => Err(format!("{errors} errors in the configuration").into()),
        }
    }

    async fn check_nats(&self, nats: NatsConfig, checks: &mut Checks) {
        let log = Log::connect(nats, "railbird-check").await;
        let log = checks.add("NATS", log, |log| {
            format!("logged in to nats-server {}", log.server_version())
        });
        let Some(log) = log else { return };
        for stream in [RACING, ACCOUNTS, ADDRESSES, KEY_USE, LEASES, SNAPSHOTS] {
            let name = stream.name;
            let state = match log.state(stream).await {
                Ok(state) => Ok(format!("{name}: {} messages", state.messages)),
                Err(LogError::NoStream(_)) => {
                    Ok(format!("{name}: none yet, the service creates it"))
                }
                Err(error) => Err(format!("{name}: {error}")),
            };
            checks.0.push(("stream", state));
        }
        if self.serve.production {
            let risks = log.durability().await.map(|found| found.risks());
            let risks = risks.unwrap_or_else(|error| vec![error.to_string()]);
            (checks.0).extend(risks.into_iter().map(|risk| ("production", Err(risk))));
        }
    }
}

fn check_ports(config: &Config, checks: &mut Checks) {
    for (flag, address) in [("--http", config.http), ("--admin", config.admin)] {
        let bound = TcpListener::bind(address);
        let bound = bound.map_err(|error| format!("{flag}: cannot listen on {address}: {error}"));
        checks.add("listen", bound, |_| format!("{flag} {address} is free"));
    }
}

async fn check_mail(mailing: &Mailing, checks: &mut Checks) {
    let server = &mailing.transport;
    let tried = mailing.try_transport().await;
    let tried = tried.map_err(|error| format!("--smtp-url: {server}: {error}"));
    checks.add("mail server", tried, |()| {
        format!("{server} takes mails; none was sent")
    });
}
