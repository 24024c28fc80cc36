//! [`Plans`]: the plans of a TOML file, with their limits.

use std::collections::HashSet;
use std::fs;
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use events::Text;
use jiff::SignedDuration;
use serde::Deserialize;
use toml::Spanned;

/// The plans without a configured file.
const BUILT_IN: &str = include_str!("../../ops/plans.toml");
const NAME_LEN_MAX: usize = 32;
/// The keys of a subscriber on a plan that does not say how many: one for each program, of a few.
const KEYS_DEFAULT: NonZeroU32 = NonZeroU32::new(5).expect("not zero");

/// Requests a minute of all pages that a subscriber has open: a day whose races are all opened takes some hundred.
const PAGES_REQUESTS_PER_MINUTE: NonZeroU32 = NonZeroU32::new(240).expect("not zero");
/// WebSockets at a time of these pages: one for each, and one for each source that is compared.
const PAGES_CONNECTIONS: NonZeroU32 = NonZeroU32::new(10).expect("not zero");

/// All plans, in the order of the file.
#[derive(Debug, Clone)]
pub struct Plans(Arc<[Arc<Plan>]>);

/// A plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The name in keys and subscriptions: 1 to 32 of `a-z 0-9 -`.
    pub name: Text,
    /// The price, as shown on the pricing page.
    pub price: Text,
    /// The description, as shown on the pricing page.
    pub description: Text,
    /// The maximum requests in a minute; `None` for no limit.
    pub requests_per_minute: Option<NonZeroU32>,
    /// The maximum requests in a day; `None` for no limit.
    pub requests_per_day: Option<NonZeroU32>,
    /// The maximum WebSockets at a time; `None` if live odds are not included.
    pub connections: Option<NonZeroU32>,
    /// Without live odds: how long the odds of a race have not changed before they can be read; `None` if never.
    pub odds_after: Option<SignedDuration>,
    /// Whether files of whole meetings are included.
    pub exports: bool,
    /// The maximum valid keys of a subscriber.
    pub keys: NonZeroU32,
    /// Whether it can be chosen on the pricing page.
    pub sign_up: bool,
    /// Whether an operator has to approve a subscription.
    pub approval: bool,
}

impl Plan {
    /// Whether odds can be read that have not changed for a time; `None` is the longest.
    pub fn includes_odds(&self, unchanged: Option<SignedDuration>) -> bool {
        let is_old = |after| unchanged.is_none_or(|unchanged| unchanged >= after);
        self.connections.is_some() || self.odds_after.is_some_and(is_old)
    }

    /// The plan for the pages of the service: the same data within limits of their own.
    pub fn of_pages(&self) -> Self {
        Self {
            requests_per_minute: Some(PAGES_REQUESTS_PER_MINUTE),
            requests_per_day: None,
            connections: self.connections.and(Some(PAGES_CONNECTIONS)),
            ..self.clone()
        }
    }
}

/// A text does not define valid plans.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}{}: {message}", field.as_ref().map(|field| format!(", {field}")).unwrap_or_default())]
pub struct InvalidPlans {
    /// The line, from 1.
    line: usize,
    /// The field on that line, if any.
    field: Option<String>,
    message: String,
}

impl Default for Plans {
    /// The built-in plans.
    fn default() -> Self {
        Self::parse(BUILT_IN).expect("ops/plans.toml is tested")
    }
}

impl Plans {
    /// Reads a TOML file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or its content is invalid.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let file = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("{file} cannot be read"))?;
        Self::parse(&text).with_context(|| file.to_string())
    }

    /// Parses TOML.
    ///
    /// # Errors
    /// Returns [`InvalidPlans`] with the line and the field of the first error.
    pub fn parse(text: &str) -> Result<Self, InvalidPlans> {
        let file: PlansFile = toml::from_str(text).map_err(|error| {
            InvalidPlans::at(text, error.span().unwrap_or_default(), error.message())
        })?;
        let mut names = HashSet::new();
        let mut all = Vec::new();
        for table in file.plan {
            let plan = table.check(text)?;
            if !names.insert(plan.name.clone()) {
                let message = format!("there are two plans named {:?}", plan.name.as_str());
                return Err(InvalidPlans::at(text, table.name.span(), &message));
            }
            all.push(Arc::new(plan));
        }
        if all.is_empty() {
            let message = "a plan is required";
            return Err(InvalidPlans::at(text, text.len()..text.len(), message));
        }
        Ok(Self(all.into()))
    }

    /// All plans, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Plan>> {
        self.0.iter()
    }

    /// The plan with a name.
    pub fn get(&self, name: &str) -> Option<&Arc<Plan>> {
        self.iter().find(|plan| plan.name.as_str() == name)
    }

    /// The names of all plans, separated by commas.
    pub fn names(&self) -> String {
        let names: Vec<_> = self.iter().map(|plan| plan.name.as_str()).collect();
        names.join(", ")
    }

    /// The tightest plan, under a name that is not configured: of each limit the least that a plan allows, and odds
    /// only if all plans include them. So a mistake in a name never gives more than any plan does.
    pub fn tightest(&self, name: Text) -> Plan {
        let least = |limit: fn(&Plan) -> Option<NonZeroU32>| {
            self.iter().filter_map(|plan| limit(plan)).min()
        };
        let in_all = |has: fn(&Plan) -> bool| self.iter().all(|plan| has(plan));
        let live_odds = in_all(|plan| plan.connections.is_some());
        let has_odds = in_all(|plan| plan.includes_odds(None));
        let odds_after = self.iter().filter_map(|plan| plan.odds_after).max();
        Plan {
            name,
            price: Text::default(),
            description: Text::default(),
            requests_per_minute: least(|plan| plan.requests_per_minute),
            requests_per_day: least(|plan| plan.requests_per_day),
            connections: least(|plan| plan.connections).filter(|_| live_odds),
            odds_after: odds_after.filter(|_| has_odds),
            exports: in_all(|plan| plan.exports),
            keys: least(|plan| Some(plan.keys)).unwrap_or(KEYS_DEFAULT),
            sign_up: false,
            approval: true,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlansFile {
    #[serde(default)]
    plan: Vec<PlanTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanTable {
    name: Spanned<Text>,
    price: Text,
    description: Text,
    requests_per_minute: Option<NonZeroU32>,
    requests_per_day: Option<NonZeroU32>,
    live_odds: Spanned<bool>,
    connections: Option<Spanned<NonZeroU32>>,
    odds_after: Option<Spanned<String>>,
    #[serde(default)]
    exports: bool,
    keys: Option<NonZeroU32>,
    sign_up: bool,
    approval: Option<Spanned<bool>>,
}

impl PlanTable {
    fn check(&self, text: &str) -> Result<Plan, InvalidPlans> {
        let invalid = |span, message| Err(InvalidPlans::at(text, span, message));
        let name = self.name.get_ref();
        let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let is_name = (1..=NAME_LEN_MAX).contains(&name.as_str().len());
        if !is_name || !name.as_str().bytes().all(is_allowed) {
            return invalid(self.name.span(), "a name is 1 to 32 of a-z 0-9 -");
        }
        match (self.live_odds.get_ref(), &self.connections) {
            (true, None) => {
                let message = "a plan with live odds requires connections";
                return invalid(self.live_odds.span(), message);
            }
            (true, Some(_)) if self.odds_after.is_some() => {
                let message = "a plan with live odds has all odds: odds_after has no effect";
                return invalid(self.live_odds.span(), message);
            }
            (false, Some(connections)) => {
                let message = "a plan without live odds has no connections";
                return invalid(connections.span(), message);
            }
            _ => {}
        }
        let odds_after = self.odds_after.as_ref();
        let odds_after = odds_after.map(|set| {
            let parsed = set.get_ref().parse::<SignedDuration>().ok();
            parsed.filter(|after| after.is_positive()).ok_or_else(|| {
                InvalidPlans::at(text, set.span(), "odds_after is a time such as \"15m\"")
            })
        });
        let approval = self.approval.as_ref().filter(|set| *set.get_ref());
        if let Some(approval) = approval.filter(|_| !self.sign_up) {
            let message = "approval has no effect on a plan with sign_up = false";
            return invalid(approval.span(), message);
        }
        Ok(Plan {
            name: name.clone(),
            price: self.price.clone(),
            description: self.description.clone(),
            requests_per_minute: self.requests_per_minute,
            requests_per_day: self.requests_per_day,
            connections: self.connections.as_ref().map(|set| *set.get_ref()),
            odds_after: odds_after.transpose()?,
            exports: self.exports,
            keys: self.keys.unwrap_or(KEYS_DEFAULT),
            sign_up: self.sign_up,
            approval: approval.is_some(),
        })
    }
}

impl InvalidPlans {
    /// An error at a span, with the line on which it begins and the field on that line.
    fn at(text: &str, span: Range<usize>, message: &str) -> Self {
        let before = text.get(..span.start).unwrap_or(text);
        let begin = before.rfind('\n').map_or(0, |end| end + 1);
        let line = text[begin..].lines().next().unwrap_or_default();
        let field = line.split_once('=');
        let field = field.map(|(field, _)| field.trim().to_owned());
        Self {
            line: before.matches('\n').count() + 1,
            field,
            message: message.lines().collect::<Vec<_>>().join(" "),
        }
    }
}

#[cfg(test)]
mod tests {
    use events::Text;
    use jiff::SignedDuration;

    use super::Plans;

    const DEFAULT: &str = "[[plan]]\nname = \"default\"\nprice = \"Free\"\ndescription = \"All\"\nlive_odds = false\nsign_up = false\n";

    fn error(text: &str) -> String {
        Plans::parse(text).expect_err(text).to_string()
    }

    /// The default plan with one of its lines replaced.
    fn with(from: &str, to: &str) -> String {
        assert!(DEFAULT.contains(from), "{from}");
        DEFAULT.replace(from, to)
    }

    #[test]
    fn the_built_in_plans_are_valid_and_in_order() {
        let plans = Plans::default();
        let names: Vec<_> = plans.iter().map(|plan| plan.name.as_str()).collect();
        assert_eq!(names, ["free", "standard", "professional", "default"]);
        let free = plans.get("free").expect("a built-in plan");
        assert_eq!(free.requests_per_minute.map(u32::from), Some(60));
        assert!(free.sign_up && !free.approval && free.connections.is_none());
        assert_eq!(plans.get("dev"), None);
    }

    #[test]
    fn a_missing_limit_means_no_limit() {
        let plans = Plans::parse(DEFAULT).expect("valid plans");
        let plan = plans.get("default").expect("it is there");
        assert_eq!(
            (plan.requests_per_minute, plan.requests_per_day),
            (None, None)
        );
    }

    #[test]
    fn an_error_names_its_line_and_field() {
        for (text, expected) in [
            (
                with("\"Free\"", "5"),
                "line 3, price: invalid type: integer `5`, expected a string",
            ),
            (
                with("sign_up = false", "sign_up = false\nrequests_per_day = 0"),
                "line 7, requests_per_day: invalid value: integer `0`, expected a nonzero u32",
            ),
            (
                with(
                    "sign_up = false",
                    "sign_up = false\nrequests_per_minute = -1",
                ),
                "line 7, requests_per_minute: invalid value: integer `-1`, expected a nonzero u32",
            ),
            (
                with("sign_up", "signup"),
                "line 6, signup: unknown field `signup`, expected one of `name`, `price`, `description`, `requests_per_minute`, \
                 `requests_per_day`, `live_odds`, `connections`, `odds_after`, `exports`, `keys`, `sign_up`, `approval`",
            ),
            (
                with("price = \"Free\"\n", ""),
                "line 1: missing field `price`",
            ),
            (
                with("\"default\"", "\"The Default\""),
                "line 2, name: a name is 1 to 32 of a-z 0-9 -",
            ),
            (
                with("live_odds = false", "live_odds = true"),
                "line 5, live_odds: a plan with live odds requires connections",
            ),
            (
                with("sign_up = false", "sign_up = false\nconnections = 1"),
                "line 7, connections: a plan without live odds has no connections",
            ),
            (
                with("sign_up = false", "sign_up = false\napproval = true"),
                "line 7, approval: approval has no effect on a plan with sign_up = false",
            ),
            (
                DEFAULT.repeat(2),
                "line 8, name: there are two plans named \"default\"",
            ),
            (String::new(), "line 1: a plan is required"),
        ] {
            assert_eq!(error(&text), expected);
        }
        let not_toml = error("[[plan]\nname = 1");
        assert!(not_toml.starts_with("line 1: "), "{not_toml}");
    }

    #[test]
    fn a_plan_without_live_odds_may_have_them_later() {
        let soon = with("sign_up = false", "sign_up = false\nodds_after = \"soon\"");
        let expected = "line 7, odds_after: odds_after is a time such as \"15m\"";
        assert_eq!(error(&soon), expected);
        let both = "live_odds = true\nconnections = 1\nodds_after = \"15m\"";
        let expected =
            "line 5, live_odds: a plan with live odds has all odds: odds_after has no effect";
        assert_eq!(error(&with("live_odds = false", both)), expected);

        let plan = |lines: &str| {
            let plans = Plans::parse(&with("live_odds = false", lines)).expect(lines);
            let seconds = [Some(0), Some(899), Some(900), None];
            let ages = seconds.map(|seconds| seconds.map(SignedDuration::from_secs));
            let plan = plans.get("default").expect("it is there");
            ages.map(|age| plan.includes_odds(age))
        };
        assert_eq!(plan("live_odds = true\nconnections = 1"), [true; 4]);
        assert_eq!(plan("live_odds = false"), [false; 4]);
        let late = plan("live_odds = false\nodds_after = \"15m\"");
        assert_eq!(late, [false, false, true, true]);
    }

    #[test]
    fn the_tightest_plan_allows_no_more_than_any_plan() {
        let tightest = |tables: &[&str]| {
            let tables = tables.iter().enumerate();
            let tables = tables.map(|(n, lines)| {
                with("\"default\"", &format!("\"plan-{n}\"")).replace("live_odds = false", lines)
            });
            let plans = Plans::parse(&tables.collect::<String>()).expect("valid plans");
            plans.tightest(Text::default())
        };
        let live = "live_odds = true\nconnections = 5\nrequests_per_minute = 10";
        let more = "live_odds = true\nconnections = 7\nrequests_per_day = 9";
        let late = "live_odds = false\nodds_after = \"15m\"\nrequests_per_minute = 60";
        let later = "live_odds = false\nodds_after = \"1h\"";
        let none = "live_odds = false";
        let hour = SignedDuration::from_hours(1);
        for (tables, per_minute, per_day, connections, odds_after) in [
            (vec![live, more], Some(10), Some(9), Some(5), None),
            (vec![live, late, later], Some(10), None, None, Some(hour)),
            (vec![late, none], Some(60), None, None, None),
            (vec![none], None, None, None, None),
        ] {
            let plan = tightest(&tables);
            let limits = [
                plan.requests_per_minute,
                plan.requests_per_day,
                plan.connections,
            ];
            let limits = limits.map(|limit| limit.map(u32::from));
            assert_eq!(limits, [per_minute, per_day, connections], "{tables:?}");
            assert_eq!(plan.odds_after, odds_after, "{tables:?}");
        }
        let built_in = Plans::default();
        let tightest = built_in.tightest(Text::default());
        assert_eq!(tightest.requests_per_minute.map(u32::from), Some(60));
        assert_eq!(tightest.connections, None);
    }
}
