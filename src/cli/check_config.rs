//! `railbird check-config`.

use clap::Args;

use super::WrongConfiguration;
use super::checks::Checks;
use super::report::result;
use super::serve::Serve;

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  railbird check-config --production --nats-creds service.creds --data /var/lib/railbird --plans plans.toml"
)]
pub(super) struct CheckConfig {
    #[command(flatten)]
    serve: Serve,
}

impl CheckConfig {
    pub(super) fn run(&self) -> Result<(), WrongConfiguration> {
        let mut checks = Checks::default();
        self.serve.config(&mut checks);
        // The service starts with an expired certificate, because it may be renewed.
        if let Ok(Some(tls)) = self.serve.tls()
            && let Err(expired) = tls.check_expiry()
        {
            checks.add("TLS", Err::<(), _>(expired), |()| String::new());
        }
        for check in checks.iter() {
            let (state, text) = match &check.outcome {
                Ok(text) => ("ok", text),
                Err(error) => ("error", error),
            };
            result(format_args!("{:<12} {state:<5} {text}", check.part));
        }
        let errors = checks.iter().filter(|check| check.outcome.is_err()).count();
        match errors {
            0 => Ok(()),
            1 => Err(WrongConfiguration(
                "1 error in the configuration".to_owned(),
            )),
            _ => Err(WrongConfiguration(format!(
                "{errors} errors in the configuration"
            ))),
        }
    }
}
