//! `/pricing`: the plans, and the form by which a key is had.
//!
//! The answer is the same, to the byte and nearly to the millisecond, whether or not the address is known. It is a page, and no
//! redirection to one: so it can say where the mail goes without an address in a URL. To send the form again does no harm.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::Response;
use events::Text;
use tokio::time::sleep;

use super::form::Form;
use super::{Keep, Problem, page, said};
use crate::accounts::Email;
use crate::http::state::App;
use crate::limits::Network;
use crate::limits::plans::{Plan, Plans};
use crate::metrics;

/// The answer is not given before, so that the time it takes does not tell what was done: the log is written in less.
const ANSWER_AFTER: Duration = Duration::from_millis(300);
/// What is shown again of what was typed.
const CHARS_SHOWN: usize = 320;

#[derive(Template)]
#[template(path = "pages/pricing.html")]
struct Pricing<'a> {
    plans: Vec<Card<'a>>,
    closed: Option<&'static str>,
    email: String,
    problems: Vec<Wrong>,
}

/// What is wrong with what was typed.
struct Wrong {
    /// The field; `None` if it is none of them.
    at: Option<&'static str>,
    text: &'static str,
}

/// A plan as it is shown.
struct Card<'a> {
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
#[template(path = "pages/sent.html")]
struct Sent<'a> {
    plan: String,
    approval: bool,
    email: &'a str,
}

impl Pricing<'_> {
    fn problem(&self, field: &str) -> Option<&'static str> {
        let wrong = self.problems.iter().find(|wrong| wrong.at == Some(field));
        wrong.map(|wrong| wrong.text)
    }
}

impl<'a> Card<'a> {
    fn of(plan: &'a Plan, chosen: &str) -> Self {
        let per = |requests: Option<std::num::NonZeroU32>, time: &str| {
            requests.map(|requests| counted(requests.get(), "request", time))
        };
        let limits = [
            per(plan.requests_per_minute, " a minute"),
            per(plan.requests_per_day, " a day"),
        ];
        let mut features: Vec<String> = limits.into_iter().flatten().collect();
        if features.is_empty() {
            features.push("Any number of requests".to_owned());
        }
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

/// A name in lower case as a title.
fn title(name: &str) -> String {
    let (first, rest) = name.split_at(name.len().min(1));
    format!("{}{}", first.to_uppercase(), rest.replace('-', " "))
}

/// `1 request`, `10,000 requests`.
fn counted(n: u32, what: &str, behind: &str) -> String {
    let digits = n.to_string();
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let plural = if n == 1 { "" } else { "s" };
    format!("{grouped} {what}{plural}{behind}")
}

/// Why nobody can subscribe, if so.
fn closed(app: &App) -> Option<&'static str> {
    if !app.can_mail {
        Some(
            "This service has no way to send mail, and so cannot send you a key. Ask who runs it for one.",
        )
    } else if !app.plans.iter().any(|plan| plan.sign_up) {
        Some("None of the plans is open to sign-up. Ask who runs this service for a key.")
    } else {
        None
    }
}

fn pricing(
    app: &App,
    status: StatusCode,
    chosen: &str,
    email: &str,
    problems: Vec<Wrong>,
) -> Response {
    let keep = if status == StatusCode::OK {
        Keep::Anybody
    } else {
        Keep::Nobody
    };
    let closed = closed(app);
    let shown = app.plans.iter().filter(|plan| plan.sign_up);
    page(
        status,
        keep,
        &Pricing {
            plans: shown.map(|plan| Card::of(plan, chosen)).collect(),
            closed,
            email: email.chars().take(CHARS_SHOWN).collect(),
            problems,
        },
    )
}

pub(super) async fn show(State(app): State<Arc<App>>) -> Response {
    pricing(&app, StatusCode::OK, "", "", Vec::new())
}

/// What somebody wants, as far as it was typed right.
struct Wish<'a> {
    email: Email,
    plan: &'a Plan,
}

impl<'a> Wish<'a> {
    fn read(form: &Form, plans: &'a Plans) -> Result<Self, Vec<Wrong>> {
        let open = |plan: &&Arc<Plan>| plan.sign_up;
        let plan = plans.get(form.get("plan")).filter(open).ok_or(Wrong {
            at: Some("plan"),
            text: match form.get("plan") {
                "" => "Choose a plan.",
                _ => "Choose one of these plans: the one you chose is not open to sign-up.",
            },
        });
        let email = Email::typed(form.get("email")).map_err(|text| Wrong {
            at: Some("email"),
            text,
        });
        match (plan, email) {
            (Ok(plan), Ok(email)) => Ok(Self { email, plan }),
            (plan, email) => Err(plan.err().into_iter().chain(email.err()).collect()),
        }
    }
}

pub(super) async fn subscribe(
    State(app): State<Arc<App>>,
    Extension(network): Extension<Network>,
    request: Request,
) -> Response {
    let form = match Form::read(request).await {
        Ok(form) => form,
        Err(problem) => return problem.page("pricing"),
    };
    let again = |outcome, status, problems| {
        metrics::sign_up(outcome);
        let (plan, email) = (form.get("plan"), form.get("email"));
        pricing(&app, status, plan, email, problems)
    };
    if closed(&app).is_some() {
        return again("closed", StatusCode::FORBIDDEN, Vec::new());
    }
    let wish = match Wish::read(&form, &app.plans) {
        Ok(wish) => wish,
        Err(problems) => return again("invalid", StatusCode::UNPROCESSABLE_ENTITY, problems),
    };
    if let Err((seconds, problem)) = count(&app, network, &wish.email) {
        let mut response = again("limited", StatusCode::TOO_MANY_REQUESTS, vec![problem]);
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
        return response;
    }
    // Only programs see this field. They are told what everybody is told.
    let is_person = form.get("website").is_empty();
    let (done, ()) = tokio::join!(write_down(&app, &wish, is_person), sleep(ANSWER_AFTER));
    if let Err(problem) = done {
        let problems = vec![Wrong {
            at: None,
            text: problem.parts().2,
        }];
        let mut response = again("failed", problem.parts().0, problems);
        problem.mark(&mut response);
        return response;
    }
    metrics::sign_up(if is_person { "taken" } else { "bot" });
    let sent = Sent {
        plan: title(wish.plan.name.as_str()),
        approval: wish.plan.approval,
        email: wish.email.reveal(),
    };
    page(StatusCode::OK, Keep::Nobody, &sent)
}

/// Counts a request, and says in how many seconds there may be another if there were too many.
fn count(app: &App, network: Network, email: &Email) -> Result<(), (u32, Wrong)> {
    let wrong = |at, text| move |seconds| (seconds, Wrong { at, text });
    app.pages.per_network.take(&network).map_err(wrong(
        None,
        "Too many keys were asked for from your network. Wait a while, and try again.",
    ))?;
    app.pages.per_email.take(&email.folded()).map_err(wrong(
        Some("email"),
        "Too many keys were asked for with this address. Look into your mailbox, or try again tomorrow.",
    ))
}

async fn write_down(app: &Arc<App>, wish: &Wish<'_>, is_person: bool) -> Result<(), Problem> {
    if !app.keys.is_complete() {
        return Err(Problem::NotReady);
    }
    if !is_person {
        return Ok(());
    }
    let (email, plan) = (wish.email.clone(), wish.plan.name.clone());
    let app = Arc::clone(app);
    said(async move {
        let is_free = |plan: &Text| {
            app.plans
                .get(plan.as_str())
                .is_some_and(|plan| !plan.approval)
        };
        app.pages.commands.subscribe(email, plan, is_free).await
    })
    .await
}
