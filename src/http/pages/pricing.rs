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
use axum::response::Response;

use super::form::Form;
use super::words::{number, title};
use super::{PageCaching, PageError, page, run_unseen, subscriber};
use crate::accounts::{Email, LINK_LASTS, RESEND_AFTER};
use crate::http::state::App;
use crate::limits::Network;
use crate::limits::plans::{Plan, Plans};
use crate::metrics::{SIGN_UPS, label_values};

/// The length at which the typed address is cut when the form is shown again.
const EMAIL_CHARS_SHOWN: usize = 320;

label_values! {
    /// What became of a form.
    pub(crate) enum SignUpOutcome {
        Taken = "taken",
        Invalid = "invalid",
        /// Over a limit.
        Limited = "limited",
        /// A field that people do not see was filled in.
        Bot = "bot",
        /// Sign-up is closed.
        Closed = "closed",
        /// The log did not accept it.
        Failed = "failed",
    }
}

#[derive(Template)]
#[template(path = "pages/pricing.html", config = "web/templates/askama.toml")]
struct PricingPage<'a> {
    plans: Vec<PlanCard<'a>>,
    closed: Option<&'static str>,
    email: String,
    errors: Vec<FormError>,
}

struct FormError {
    /// The field; `None` if the error is about no field.
    field: Option<&'static str>,
    text: &'static str,
}

/// A plan as the page shows it.
struct PlanCard<'a> {
    id: &'a str,
    name: String,
    price: &'a str,
    description: &'a str,
    features: Vec<String>,
    connections: Option<String>,
    approval: bool,
    chosen: bool,
}

#[derive(Template)]
#[template(path = "pages/sign_up_sent.html", config = "web/templates/askama.toml")]
struct SentPage<'a> {
    plan: String,
    approval: bool,
    email: &'a str,
    link_minutes: i64,
    resend_after_minutes: i64,
}

impl PricingPage<'_> {
    fn error_of(&self, field: &str) -> Option<&'static str> {
        let error = self.errors.iter().find(|error| error.field == Some(field));
        error.map(|error| error.text)
    }
}

impl<'a> PlanCard<'a> {
    fn of(plan: &'a Plan, chosen: &str) -> Self {
        let per = |requests: Option<std::num::NonZeroU32>, time: &str| {
            requests.map(|requests| counted(requests.get(), "request", time))
        };
        let per_minute = per(plan.requests_per_minute, " a minute");
        let per_day = per(plan.requests_per_day, " a day");
        let mut features: Vec<String> = per_minute.into_iter().chain(per_day).collect();
        if features.is_empty() {
            features.push("Any number of requests".to_owned());
        }
        let odds_after = plan.odds_after;
        features
            .extend(odds_after.map(|after| format!("Odds that have not changed for {after:#}")));
        features.extend(plan.exports.then(|| "Files of whole meetings".to_owned()));
        let id = plan.name.as_str();
        Self {
            id,
            name: title(id),
            price: plan.price.as_str(),
            description: plan.description.as_str(),
            features,
            connections: plan.connections.map(|n| counted(n.get(), "connection", "")),
            approval: plan.approval,
            chosen: id == chosen,
        }
    }
}

/// `1 request`, `10,000 requests`.
fn counted(n: u32, noun: &str, suffix: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {noun}{plural}{suffix}", number(n.into()))
}

/// Why sign-up is closed, if it is.
fn closed(app: &App) -> Option<&'static str> {
    if !app.can_mail {
        return Some("This service cannot send mail at the moment. Ask its operator for a key.");
    }
    let is_closed = !app.keys.plans().iter().any(|plan| plan.sign_up);
    is_closed.then_some("No plan is open to sign-up. Ask the operator of this service for a key.")
}

fn pricing_page(
    app: &App,
    status: StatusCode,
    chosen: &str,
    email: &str,
    errors: Vec<FormError>,
) -> Response {
    let caching = match status {
        StatusCode::OK => PageCaching::Revalidate,
        _ => PageCaching::NoStore,
    };
    let plans = app.keys.plans();
    let open = plans.iter().filter(|plan| plan.sign_up);
    let pricing = PricingPage {
        plans: open.map(|plan| PlanCard::of(plan, chosen)).collect(),
        closed: closed(app),
        email: email.chars().take(EMAIL_CHARS_SHOWN).collect(),
        errors,
    };
    page(status, caching, &pricing)
}

pub(super) async fn show(State(app): State<Arc<App>>) -> Response {
    pricing_page(&app, StatusCode::OK, "", "", Vec::new())
}

/// The address and the plan of the form, if both are valid.
fn parse<'a>(form: &Form, plans: &'a Plans) -> Result<(Email, &'a Plan), Vec<FormError>> {
    let is_open = |plan: &&Arc<Plan>| plan.sign_up;
    let plan = plans.get(form.get("plan")).filter(is_open);
    let plan = plan.ok_or(FormError {
        field: Some("plan"),
        text: match form.get("plan") {
            "" => "Choose a plan.",
            _ => "Choose one of these plans: the plan you chose is not open to sign-up.",
        },
    });
    let email = Email::parse_input(form.get("email")).map_err(|text| FormError {
        field: Some("email"),
        text,
    });
    match (plan, email) {
        (Ok(plan), Ok(email)) => Ok((email, plan)),
        (plan, email) => Err(plan.err().into_iter().chain(email.err()).collect()),
    }
}

pub(super) async fn subscribe(
    State(app): State<Arc<App>>,
    Extension(network): Extension<Network>,
    request: Request,
) -> Response {
    let form = match Form::read(request, &app.pages.url).await {
        Ok(form) => form,
        Err(error) => return error.page(),
    };
    let show_again = |outcome: SignUpOutcome, status, errors| {
        SIGN_UPS.increment(outcome.as_str());
        let plan = form.get("plan");
        let email = form.get("email");
        pricing_page(&app, status, plan, email, errors)
    };
    if closed(&app).is_some() {
        return show_again(SignUpOutcome::Closed, StatusCode::FORBIDDEN, Vec::new());
    }
    let plans = app.keys.plans();
    let (email, plan) = match parse(&form, &plans) {
        Ok(valid) => valid,
        Err(errors) => {
            return show_again(
                SignUpOutcome::Invalid,
                StatusCode::UNPROCESSABLE_ENTITY,
                errors,
            );
        }
    };
    // People do not see this field, programs fill it in. The response is the same.
    let is_person = form.get("website").is_empty();
    if let Err((retry_after, error)) = count(&app, network, is_person.then_some(&email)) {
        let mut response = show_again(
            SignUpOutcome::Limited,
            StatusCode::TOO_MANY_REQUESTS,
            vec![error],
        );
        let headers = response.headers_mut();
        headers.insert(RETRY_AFTER, retry_after.into());
        return response;
    }
    if let Err(error) = save(&app, network, &email, plan, is_person).await {
        let (status, _, text) = error.parts();
        let mut response = show_again(
            SignUpOutcome::Failed,
            status,
            vec![FormError { field: None, text }],
        );
        error.set_headers(&mut response);
        return response;
    }
    let outcome = if is_person {
        SignUpOutcome::Taken
    } else {
        SignUpOutcome::Bot
    };
    SIGN_UPS.increment(outcome.as_str());
    let sent = SentPage {
        plan: title(plan.name.as_str()),
        approval: plan.approval,
        email: email.reveal(),
        link_minutes: LINK_LASTS.as_mins(),
        resend_after_minutes: RESEND_AFTER.as_mins(),
    };
    page(StatusCode::OK, PageCaching::NoStore, &sent)
}

/// Counts a request against the limits of its network and, unless a program sent it, of its address and all sign-ups.
/// Returns the seconds until the next one if a limit is reached.
fn count(app: &App, network: Network, email: Option<&Email>) -> Result<(), (u32, FormError)> {
    let error = |field, text| move |seconds| (seconds, FormError { field, text });
    let pages = &app.pages;
    let customer = network.customer();
    pages.sign_ups_per_network.take(&customer).map_err(error(
        None,
        "Too many people subscribed from your network. Wait a while, and try again.",
    ))?;
    let Some(email) = email else {
        return Ok(());
    };
    pages
        .sign_ups_per_email
        .take(&email.mailbox())
        .map_err(error(
            Some("email"),
            "This address was subscribed too often. Check your mailbox, or try again tomorrow.",
        ))?;
    // The first one of a network counts apart: a few networks cannot take the sign-ups of all.
    let is_first = pages.first_sign_ups.take(&network.coarse()).is_ok();
    pages.sign_ups.take(&is_first).map_err(error(
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
    let (email, plan, approved) = (email.clone(), plan.name.clone(), !plan.approval);
    let commands = app.pages.commands.by(subscriber(network, None));
    let subscribing = move || {
        let commands = commands.clone();
        let email = email.clone();
        let plan = plan.clone();
        async move {
            if is_person {
                commands.subscribe(&email, plan, approved).await
            } else {
                Ok(())
            }
        }
    };
    run_unseen(app, subscribing).await
}
