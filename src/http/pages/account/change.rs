//! [`AccountChange`]: a change by someone who is signed in.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::http::header::SET_COOKIE;
use axum::response::{IntoResponse, Response};
use events::Text;
use jiff::Timestamp;

use super::overview::{FormOutcome, NAME_CHARS_MAX, OVERLAPS, account_page, keys_max};
use super::session::{SignedIn, cookie};
use super::{LeftPage, sign_in_page};
use crate::accounts::{AccountCommands, ApiKey, CommandError, KeyId, is_secret, now};
use crate::http::pages::form::Form;
use crate::http::pages::{PageError, page, run_command};
use crate::http::state::App;
use crate::log::LogError;

/// How often a revocation is tried while other writers change the key.
const REVOKE_TRIES_MAX: u32 = 10;
const REVOKED_BY_SUBSCRIBER: &str = "by the subscriber";

pub(super) struct AccountChange<'a> {
    pub(super) app: &'a Arc<App>,
    pub(super) commands: AccountCommands,
    pub(super) signed_in: SignedIn,
    pub(super) form: &'a Form,
}

impl AccountChange<'_> {
    /// Carries out the button that was pressed.
    pub(super) async fn run(self) -> Result<Response, PageError> {
        match self.form.get("do") {
            "create" => self.create().await,
            "rotate" => self.rotate().await,
            "revoke" => self.revoke().await,
            "sign-out" => self.sign_out().await,
            "leave" if self.form.get("sure") == "yes" => self.leave().await,
            _ => Err(PageError::InvalidForm),
        }
    }

    fn shown(&self, outcome: FormOutcome) -> Result<Response, PageError> {
        account_page(self.app, &self.signed_in, StatusCode::OK, outcome)
    }

    /// Counts a change against the limit of the subscription: those of others never delay it.
    fn count(&self) -> Result<(), PageError> {
        let subscription_id = &self.signed_in.session.subscription_id;
        let limited = self.app.pages.changes.take(subscription_id);
        limited.map_err(|retry_after| PageError::TooManyChanges { retry_after })
    }

    /// The key that a button creates.
    fn new_key(&self, button: &str) -> Result<ApiKey, PageError> {
        let nonce = self.form.get("nonce");
        if !is_secret(nonce) {
            return Err(PageError::InvalidForm);
        }
        let secrets = [&*self.signed_in.secret, nonce, button];
        Ok(ApiKey::derive(self.app.pages.key_env, &secrets))
    }

    /// The key that the form names.
    fn key(&self) -> Result<KeyId, PageError> {
        let key_id = KeyId::parse(self.form.get("key")).ok_or(PageError::InvalidForm)?;
        let ledger = self.app.health.ledger.borrow();
        let key = ledger.keys.get(&key_id);
        let key = key.filter(|key| key.holder == self.signed_in.holder);
        key.map(|_| key_id).ok_or(PageError::InvalidForm)
    }

    fn keys_max(&self) -> usize {
        let ledger = self.app.health.ledger.borrow();
        let account = ledger.accounts.get(&self.signed_in.holder);
        account.map_or(0, |account| keys_max(self.app, &account.plan)) as usize
    }

    /// Runs a command that creates a key, and shows the key if it is valid: now, or by an earlier press of the same
    /// button. Else shows why not.
    async fn show_created(
        &self,
        command: impl Future<Output = Result<(ApiKey, Option<CommandError>), CommandError>>
        + Send
        + 'static,
    ) -> Result<Response, PageError> {
        let run = run_command(command).await?;
        let (key, error) = run.map_err(|_| PageError::NotReady)?;
        let is_valid = {
            let ledger = self.app.health.ledger.borrow();
            let found = ledger.keys.get(&key.key_id);
            found.is_some_and(|found| found.hash == key.hash() && found.is_valid(now()))
        };
        if is_valid {
            return self.shown(FormOutcome::Created(key));
        }
        let text = match error {
            Some(CommandError::TooManyKeys(_)) => {
                "Your plan allows no more valid keys. Revoke one first."
            }
            Some(CommandError::NotActive(_)) => {
                "The operator of the service has to approve your subscription first."
            }
            _ => "The key was replaced or revoked before.",
        };
        self.refused(StatusCode::CONFLICT, text)
    }

    fn refused(&self, status: StatusCode, text: &str) -> Result<Response, PageError> {
        let refused = FormOutcome::Refused(text.to_owned());
        account_page(self.app, &self.signed_in, status, refused)
    }

    async fn create(self) -> Result<Response, PageError> {
        let name = self.form.get("name").trim();
        let is_short = name.chars().count() <= NAME_CHARS_MAX;
        let Some(name) = Text::parse(name).ok().filter(|_| is_short) else {
            let text = format!("A name has at most {NAME_CHARS_MAX} characters, on one line.");
            return self.refused(StatusCode::UNPROCESSABLE_ENTITY, &text);
        };
        let key = self.new_key("create")?;
        self.count()?;
        let id = self.signed_in.session.subscription_id.clone();
        let keys_max = self.keys_max();
        let commands = self.commands.clone();
        let command = async move {
            let creating = commands.issue_to_subscriber(id, (&key, name), keys_max);
            let error = unless_conflict(creating.await)?;
            Ok((key, error))
        };
        self.show_created(command).await
    }

    async fn rotate(self) -> Result<Response, PageError> {
        let key_id = self.key()?;
        let chosen = self.form.get("overlap");
        let overlap = OVERLAPS.iter().find(|(value, ..)| *value == chosen);
        let (_, _, overlap) = overlap.ok_or(PageError::InvalidForm)?;
        let new = self.new_key(key_id.as_str())?;
        self.count()?;
        let valid_until = Timestamp::now().saturating_add(*overlap);
        let valid_until = valid_until.unwrap_or(Timestamp::MAX).into();
        let holder = self.signed_in.holder.clone();
        let keys_max = self.keys_max();
        let commands = self.commands.clone();
        let command = async move {
            let holder = Some((&holder, keys_max));
            let rotating = commands.rotate(key_id, &new, valid_until, holder);
            let error = unless_conflict(rotating.await)?;
            Ok((new, error))
        };
        self.show_created(command).await
    }

    async fn revoke(self) -> Result<Response, PageError> {
        let key_id = self.key()?;
        let commands = self.commands.clone();
        let revoked = run_command(async move { revoke(&commands, key_id).await }).await?;
        revoked.map_err(|_| PageError::InvalidForm)?;
        self.shown(FormOutcome::Revoked(key_id))
    }

    async fn sign_out(self) -> Result<Response, PageError> {
        let commands = self.commands;
        let mail_id = self.signed_in.session.mail_id;
        let ended = run_command(async move { commands.end_session(mail_id).await });
        ended.await?.map_err(|_| PageError::NotReady)?;
        let signed_out = sign_in_page(self.app, StatusCode::OK, Some("You are signed out."));
        Ok(without_cookie(self.app, signed_out))
    }

    async fn leave(self) -> Result<Response, PageError> {
        let commands = self.commands;
        let id = self.signed_in.session.subscription_id;
        let left = run_command(async move { commands.forget(id).await });
        left.await?.map_err(|_| PageError::NotReady)?;
        let left = page(StatusCode::OK, &LeftPage::Left);
        Ok(without_cookie(self.app, left))
    }
}

fn without_cookie(app: &App, response: Response) -> Response {
    ([(SET_COOKIE, cookie(&app.pages, None))], response).into_response()
}

/// Why a command was not carried out, unless the log failed. After a conflict the ledger has the outcome of the other
/// writer, which may be an earlier press of the same button.
fn unless_conflict(
    outcome: Result<(), CommandError>,
) -> Result<Option<CommandError>, CommandError> {
    match outcome {
        Err(CommandError::Log(error)) if !matches!(error, LogError::Conflict) => Err(error.into()),
        Err(error) => Ok(Some(error)),
        Ok(()) => Ok(None),
    }
}

/// Revokes a key, also if another writer changes it at the same time.
async fn revoke(commands: &AccountCommands, key_id: KeyId) -> Result<(), CommandError> {
    let reason = Text::parse(REVOKED_BY_SUBSCRIBER).unwrap_or_default();
    let mut retries = 1..REVOKE_TRIES_MAX;
    loop {
        match commands.revoke(key_id, reason.clone()).await {
            Err(CommandError::Log(LogError::Conflict)) if retries.next().is_some() => {}
            outcome => return outcome,
        }
    }
}
