//! `/pricing`: the plans, and the form to subscribe.
//!
//! The response and its timing are the same whether or not the address is known, as nothing waits for the outcome. It
//! is a page rather than a redirection, so that it can show the address without putting it in a URL. Sending the form
//! again does no harm.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use strum::{IntoStaticStr, VariantNames};

use super::form::Form;
use super::words::{self, title};
use super::{POLICY, PageError, RETRY_AFTER_SECONDS, open_page, page, run_unseen, subscriber};
use crate::accounts::Email;
use crate::http::state::App;
use crate::limits::Network;
use crate::limits::plans::{Plan, Plans};
use crate::metrics::SIGN_UPS;

/// The length at which the typed address is cut when the form is shown again.
const EMAIL_CHARS_SHOWN: usize = 320;
/// The price of a plan that costs nothing, as `ops/plans.toml` has it.
const FREE: &str = "free";

/// What became of a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(crate) enum SignUpOutcome {
    Taken,
    Invalid,
    /// Over a limit.
    Limited,
    /// A field that people do not see was filled in.
    Bot,
    /// Sign-up is closed.
    Closed,
    /// The log did not accept it.
    Failed,
}

#[derive(Template)]
#[template(path = "pages/pricing.html", config = "web/templates/askama.toml")]
struct PricingPage<'a> {
    plans: Vec<&'a Arc<Plan>>,
    /// The name of a plan, or empty.
    chosen: &'a str,
    closed: Option<&'static str>,
    email: String,
    errors: Vec<FormError>,
}

/// A text, and the field that it is about, if any.
type FormError = (Option<&'static str>, String);

/// A form that is shown again: what became of it, the seconds after which another one is accepted, and the errors.
struct RejectedForm(SignUpOutcome, Option<u32>, Vec<FormError>);

#[derive(Template)]
#[template(path = "pages/sign_up_sent.html", config = "web/templates/askama.toml")]
struct SentPage<'a> {
    plan: String,
    approval: bool,
    email: &'a str,
}

impl PricingPage<'_> {
    fn error_of(&self, field: &str) -> Option<&str> {
        let mut errors = self.errors.iter();
        errors.find_map(|(of, text)| (*of == Some(field)).then_some(&**text))
    }
}

/// Why sign-up is closed, if it is.
fn closed(app: &App) -> Option<&'static str> {
    if !app.health.can_mail {
        return Some("This service cannot send mail at the moment. Ask its operator for a key.");
    }
    let is_closed = !app.keys.plans().iter().any(|plan| plan.sign_up);
    is_closed.then_some("No plan is open to sign-up. Ask the operator of this service for a key.")
}

/// What a button that leads to the plans says.
pub(super) fn offer(app: &App) -> &'static str {
    let plans = app.keys.plans();
    let is_free = |plan: &Arc<Plan>| plan.sign_up && plan.price.as_str().eq_ignore_ascii_case(FREE);
    match closed(app) {
        Some(_) => "Plans and prices",
        None if plans.iter().any(is_free) => "Get a free key",
        None => "Get a key",
    }
}

fn pricing_page<'a>(
    app: &App,
    plans: &'a Plans,
    (chosen, email): (&'a str, &str),
    errors: Vec<FormError>,
) -> PricingPage<'a> {
    PricingPage {
        plans: plans.iter().filter(|plan| plan.sign_up).collect(),
        chosen,
        closed: closed(app),
        email: email.chars().take(EMAIL_CHARS_SHOWN).collect(),
        errors,
    }
}

pub(super) async fn show(State(app): State<Arc<App>>) -> Response {
    let plans = app.keys.plans();
    let shown = pricing_page(&app, &plans, ("", ""), Vec::new());
    open_page(POLICY.clone(), &shown)
}

impl RejectedForm {
    fn page(self, app: &App, form: &Form) -> Response {
        let Self(outcome, retry_after, errors) = self;
        SIGN_UPS.increment(outcome.into_str());
        let status = match outcome {
            SignUpOutcome::Closed => StatusCode::FORBIDDEN,
            SignUpOutcome::Limited => StatusCode::TOO_MANY_REQUESTS,
            SignUpOutcome::Failed => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        let plans = app.keys.plans();
        let fields = (form.get("plan"), form.get("email"));
        let shown = pricing_page(app, &plans, fields, errors);
        let retry_after = retry_after.map(|seconds| [(RETRY_AFTER, seconds)]);
        (retry_after, page(status, &shown)).into_response()
    }
}

/// The address and the plan of the form, if both are valid.
fn parse<'a>(form: &Form, plans: &'a Plans) -> Result<(Email, &'a Plan), Vec<FormError>> {
    let plan = plans.get(form.get("plan")).filter(|plan| plan.sign_up);
    let plan = plan.ok_or(match form.get("plan") {
        "" => "Choose a plan.",
        _ => "Choose one of these plans: the plan you chose is not open to sign-up.",
    });
    match (plan, Email::parse_input(form.get("email"))) {
        (Ok(plan), Ok(email)) => Ok((email, plan)),
        (plan, email) => {
            let errors = [("plan", plan.err()), ("email", email.err())].into_iter();
            let error = |(field, text): (_, Option<&str>)| Some((Some(field), text?.to_owned()));
            Err(errors.filter_map(error).collect())
        }
    }
}

pub(super) async fn subscribe(
    State(app): State<Arc<App>>,
    Extension(network): Extension<Network>,
    request: Request,
) -> Result<Response, PageError> {
    let form = Form::read(request, &app.pages.url).await?;
    let subscribed = subscribe_by(&app, network, &form).await;
    Ok(subscribed.unwrap_or_else(|rejected| rejected.page(&app, &form)))
}

async fn subscribe_by(app: &App, network: Network, form: &Form) -> Result<Response, RejectedForm> {
    if closed(app).is_some() {
        return Err(RejectedForm(SignUpOutcome::Closed, None, Vec::new()));
    }
    let plans = app.keys.plans();
    let (email, plan) =
        parse(form, &plans).map_err(|errors| RejectedForm(SignUpOutcome::Invalid, None, errors))?;
    // People do not see this field, programs fill it in. The response is the same.
    let is_person = form.get("website").is_empty();
    count(app, network, is_person.then_some(&email))?;
    let saved = save(app, network, &email, plan, is_person).await;
    saved.map_err(|error| {
        let errors = vec![(None, error.to_string())];
        RejectedForm(SignUpOutcome::Failed, Some(RETRY_AFTER_SECONDS), errors)
    })?;
    let outcome = match is_person {
        true => SignUpOutcome::Taken,
        false => SignUpOutcome::Bot,
    };
    SIGN_UPS.increment(outcome.into_str());
    let sent = SentPage {
        plan: title(plan.name.as_str()),
        approval: plan.approval,
        email: email.reveal(),
    };
    Ok(page(StatusCode::OK, &sent))
}

/// Counts a request against the limits of its network and, unless a program sent it, of its address and all sign-ups.
fn count(app: &App, network: Network, email: Option<&Email>) -> Result<(), RejectedForm> {
    let limited = |field, text: &'static str| {
        move |seconds| {
            let errors = vec![(field, text.to_owned())];
            RejectedForm(SignUpOutcome::Limited, Some(seconds), errors)
        }
    };
    let pages = &app.pages;
    let customer = network.customer();
    pages.sign_ups_per_network.take(&customer).map_err(limited(
        None,
        "Too many people subscribed from your network. Wait a while, and try again.",
    ))?;
    let Some(email) = email else {
        return Ok(());
    };
    let mailbox = email.mailbox();
    pages.sign_ups_per_email.take(&mailbox).map_err(limited(
        Some("email"),
        "This address was subscribed too often. Check your mailbox, or try again tomorrow.",
    ))?;
    // The first one of a network counts apart: a few networks cannot take the sign-ups of all.
    let is_first = pages.first_sign_ups.take(&network.coarse()).is_ok();
    pages.sign_ups.take(&is_first).map_err(limited(
        None,
        "Too many people are subscribing at the moment. Wait a while, and try again.",
    ))
}

async fn save(
    app: &App,
    network: Network,
    email: &Email,
    plan: &Plan,
    is_person: bool,
) -> Result<(), PageError> {
    let commands = app.pages.commands.by(subscriber(network, None));
    let (email, plan, approved) = (email.clone(), plan.name.clone(), !plan.approval);
    let subscribing = move || {
        let (commands, email, plan) = (commands.clone(), email.clone(), plan.clone());
        async move {
            if !is_person {
                return Ok(());
            }
            commands.subscribe(&email, plan, approved).await
        }
    };
    run_unseen(app, subscribing).await
}
