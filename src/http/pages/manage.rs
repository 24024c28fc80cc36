//! `/keys/manage`: where the link in a mail leads. A key is replaced or revoked here.
//!
//! Programs that look through mail follow links: GET changes nothing. A link is good for the key of its mail and for what took the
//! place of that, and so it is of no more use to a stranger who finds the mail than the key is.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use events::Moment;
use jiff::SignedDuration;
use jiff::Timestamp;
use jiff::fmt::friendly::{Designator, Spacing, SpanPrinter};

use super::form::Form;
use super::{Keep, Problem, page, said};
use crate::accounts::{ApiKey, Key, KeyId, KeyState, is_secret, random_secret};
use crate::http::params::QueryParams;
use crate::http::state::App;
use crate::limits::Network;

/// Keys that are shown: those that were replaced long ago are of no interest.
const KEYS_SHOWN: usize = 5;

#[derive(Template)]
#[template(path = "pages/manage.html")]
struct Manage<'a> {
    token: &'a str,
    /// Makes the new key, with the token: so the same button makes the same key, however often it is pressed.
    nonce: String,
    fresh: Option<ApiKey>,
    notice: Option<&'static str>,
    keys: Vec<Row>,
    is_over: bool,
    overlap: String,
    env: &'static str,
}

struct Row {
    id: KeyId,
    state: &'static str,
    is_valid: bool,
    can_rotate: bool,
    made: String,
    end: Option<String>,
}

impl Row {
    fn of(key_id: KeyId, key: &Key, now: Moment) -> Self {
        let state = key.state(now);
        let until = |what: &str, end: Moment| format!("{what} {}", date_time(end));
        let end = match (&key.revoked, key.valid_until()) {
            (Some(revoked), _) => Some(until("revoked", revoked.at)),
            (None, Some(end)) if key.is_valid(now) => Some(until("valid until", end)),
            (None, Some(end)) => Some(until("ended", end)),
            (None, None) => None,
        };
        Self {
            id: key_id,
            state: match state {
                KeyState::Valid => "valid",
                KeyState::Overlapping => "replaced, and still valid",
                KeyState::Rotated => "replaced",
                KeyState::Expired => "expired",
                KeyState::Revoked => "revoked",
            },
            is_valid: key.is_valid(now),
            can_rotate: state == KeyState::Valid,
            made: date_time(key.issued_at),
            end,
        }
    }
}

fn date_time(moment: Moment) -> String {
    let time = moment.timestamp().strftime("%-d %B %Y, %H:%M UTC");
    time.to_string()
}

fn in_words(duration: SignedDuration) -> String {
    let words = SpanPrinter::new()
        .designator(Designator::Verbose)
        .spacing(Spacing::BetweenUnitsAndDesignators);
    words.duration_to_string(&duration)
}

/// The keys of a link, the newest first.
fn rows(app: &App, token: &str) -> Option<Vec<Row>> {
    let ledger = app.ledger.borrow();
    let (_, mail) = ledger.mail_of_link(token)?;
    let now = Timestamp::now().into();
    let mut rows: Vec<Row> = ledger
        .keys_of_mail(mail)
        .map(|(key_id, key)| Row::of(key_id, key, now))
        .collect();
    rows.reverse();
    Some(rows)
}

/// The page of a link as things stand.
fn shown(
    app: &App,
    token: &str,
    fresh: Option<ApiKey>,
    notice: Option<&'static str>,
) -> Result<Response, Problem> {
    let mut keys = rows(app, token).ok_or_else(|| unknown(app))?;
    let is_over = !keys.iter().any(|key| key.is_valid);
    keys.truncate(KEYS_SHOWN);
    let manage = Manage {
        token,
        nonce: random_secret().map_err(|_| Problem::NotReady)?,
        fresh,
        notice,
        keys,
        is_over,
        overlap: in_words(app.pages.overlap),
        env: app.pages.key_env,
    };
    Ok(page(StatusCode::OK, Keep::Nobody, &manage))
}

/// What is not known may not be known yet.
fn unknown(app: &App) -> Problem {
    if app.keys.is_complete() {
        Problem::NoSuchLink
    } else {
        Problem::NotReady
    }
}

pub(super) async fn show(State(app): State<Arc<App>>, query: QueryParams) -> Response {
    let token = query.get("token").unwrap_or_default();
    let shown = shown(&app, token, None, None);
    shown.unwrap_or_else(|problem| problem.page("../pricing"))
}

pub(super) async fn change(
    State(app): State<Arc<App>>,
    Extension(network): Extension<Network>,
    request: Request,
) -> Response {
    let changed = match Form::read(request).await {
        Ok(form) => changed(&app, network, &form).await,
        Err(problem) => Err(problem),
    };
    changed.unwrap_or_else(|problem| problem.page("../pricing"))
}

async fn changed(app: &Arc<App>, network: Network, form: &Form) -> Result<Response, Problem> {
    let token = form.get("token");
    let rows = rows(app, token).ok_or_else(|| unknown(app))?;
    let key_id = KeyId::parse(form.get("key")).filter(|id| rows.iter().any(|row| row.id == *id));
    let key_id = key_id.ok_or(Problem::NotFromThePage)?;
    let too_many = |seconds| Problem::TooMany {
        retry_after: seconds,
    };
    match form.get("do") {
        "rotate" => {
            let nonce = form.get("nonce");
            if !is_secret(nonce) {
                return Err(Problem::NotFromThePage);
            }
            app.pages.per_network.take(&network).map_err(too_many)?;
            let new = ApiKey::derive(app.pages.key_env, &[token, nonce, key_id.as_str()]);
            let (commands, overlap) = (app.pages.commands.clone(), app.pages.overlap);
            let (made, new) = said(async move {
                let made = commands.rotate(key_id, &new, overlap).await?;
                Ok((made, new))
            })
            .await?;
            if made {
                return shown(app, token, Some(new), None);
            }
            let notice = "This key was replaced or revoked before, and nothing was changed. If you do not have the one that took its place, replace that one.";
            shown(app, token, None, Some(notice))
        }
        "revoke" => {
            let commands = app.pages.commands.clone();
            said(async move { commands.revoke(key_id).await }).await?;
            shown(
                app,
                token,
                None,
                Some("It is revoked. Programs that use it are turned away."),
            )
        }
        _ => Err(Problem::NotFromThePage),
    }
}
