//! [`Plans`]: what a key may do, as it stands in a TOML file.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use events::Text;
use serde::Deserialize;
use toml::Spanned;

/// What the service has when it is told of no others.
const BUILT_IN: &str = include_str!("../../plans.toml");
/// The plan of keys that are on none that is known.
const DEFAULT: &str = "default";
const NAME_LEN_MAX: usize = 32;

/// All plans, in the order of the file.
#[derive(Debug, Clone)]
pub struct Plans {
    all: Arc<[Arc<Plan>]>,
    default: Arc<Plan>,
}

/// What those who are on it may do.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// What keys and subscriptions call it: 1 to 32 of `a-z 0-9 -`.
    pub name: Text,
    /// As people read it.
    pub price: Text,
    /// What it is for.
    pub description: Text,
    /// Requests in a minute; `None` for no limit.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Requests in a day; `None` for no limit.
    pub requests_per_day: Option<NonZeroU32>,
    /// WebSockets at a time; `None` where live odds are not included.
    pub connections: Option<NonZeroU32>,
    /// Whether people may subscribe to it by themselves.
    pub sign_up: bool,
    /// Whether an operator has to approve of a subscription.
    pub approval: bool,
}

/// Why a file of plans is not taken.
#[derive(Debug, thiserror::Error)]
pub enum PlansError {
    /// It is not there, or may not be read.
    #[error("{} cannot be read: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// What it says is wrong.
    #[error("{}: {wrong}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What, and where.
        wrong: Wrong,
    },
}

/// What is wrong with plans, and where.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}{}: {what}", field.as_ref().map(|field| format!(", {field}")).unwrap_or_default())]
pub struct Wrong {
    /// The line, from 1.
    line: usize,
    /// The field that stands there.
    field: Option<String>,
    what: String,
}

impl Default for Plans {
    /// Those that are built in.
    fn default() -> Self {
        Self::parse(BUILT_IN).expect("plans.toml is tested")
    }
}

impl Plans {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or what it says is wrong.
    pub fn read(path: &Path) -> Result<Self, PlansError> {
        let path = path.to_owned();
        match std::fs::read_to_string(&path) {
            Err(error) => Err(PlansError::Unreadable { path, error }),
            Ok(text) => Self::parse(&text).map_err(|wrong| PlansError::Wrong { path, wrong }),
        }
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// What it says is wrong.
    pub fn parse(text: &str) -> Result<Self, Wrong> {
        let file: File = toml::from_str(text)
            .map_err(|error| Wrong::at(text, error.span().unwrap_or_default(), error.message()))?;
        let (mut names, mut all) = (HashSet::new(), Vec::new());
        for table in file.plan {
            let plan = table.check(text)?;
            if !names.insert(plan.name.clone()) {
                let what = format!("there are two plans named {:?}", plan.name.as_str());
                return Err(Wrong::at(text, table.name.span(), &what));
            }
            all.push(Arc::new(plan));
        }
        let default = all.iter().find(|plan| plan.name.as_str() == DEFAULT);
        let default = default.cloned().ok_or_else(|| {
            let what = "a plan named \"default\" is needed, for keys that are on no other";
            Wrong::at(text, text.len()..text.len(), what)
        })?;
        Ok(Self {
            all: all.into(),
            default,
        })
    }

    /// All of them, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Plan>> {
        self.all.iter()
    }

    /// The plan of a name, if there is one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<Plan>> {
        self.iter().find(|plan| plan.name.as_str() == name)
    }

    /// The plan of keys that are on none that is known.
    #[must_use]
    pub fn default_plan(&self) -> &Arc<Plan> {
        &self.default
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    plan: Vec<Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    name: Spanned<Text>,
    price: Text,
    description: Text,
    requests_per_minute: Option<NonZeroU32>,
    requests_per_day: Option<NonZeroU32>,
    live_odds: Spanned<bool>,
    connections: Option<Spanned<NonZeroU32>>,
    sign_up: bool,
    approval: Option<Spanned<bool>>,
}

impl Table {
    fn check(&self, text: &str) -> Result<Plan, Wrong> {
        let wrong = |span, what| Err(Wrong::at(text, span, what));
        let name = self.name.get_ref();
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty()
            || name.as_str().len() > NAME_LEN_MAX
            || !name.as_str().bytes().all(plain)
        {
            return wrong(self.name.span(), "a name is 1 to 32 of a-z 0-9 -");
        }
        match (self.live_odds.get_ref(), &self.connections) {
            (true, None) => {
                return wrong(
                    self.live_odds.span(),
                    "with live odds, connections are needed",
                );
            }
            (false, Some(connections)) => {
                return wrong(
                    connections.span(),
                    "without live odds there are no connections",
                );
            }
            _ => {}
        }
        let approval = self
            .approval
            .as_ref()
            .filter(|approval| *approval.get_ref());
        if let Some(approval) = approval.filter(|_| !self.sign_up) {
            return wrong(
                approval.span(),
                "nobody can subscribe to this plan: sign_up is false",
            );
        }
        Ok(Plan {
            name: name.clone(),
            price: self.price.clone(),
            description: self.description.clone(),
            requests_per_minute: self.requests_per_minute,
            requests_per_day: self.requests_per_day,
            connections: self
                .connections
                .as_ref()
                .map(|connections| *connections.get_ref()),
            sign_up: self.sign_up,
            approval: approval.is_some(),
        })
    }
}

impl Wrong {
    /// Names the line on which a span begins, and the field that it is of.
    fn at(text: &str, span: Range<usize>, what: &str) -> Self {
        let before = text.get(..span.start).unwrap_or(text);
        let begin = before.rfind('\n').map_or(0, |end| end + 1);
        let line = text[begin..].lines().next().unwrap_or_default();
        let field = line
            .split_once('=')
            .map(|(field, _)| field.trim().to_owned());
        Self {
            line: before.matches('\n').count() + 1,
            field,
            what: what.lines().collect::<Vec<_>>().join(" "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Plans;

    const DEFAULT: &str = "[[plan]]\nname = \"default\"\nprice = \"Free\"\ndescription = \"All\"\nlive_odds = false\nsign_up = false\n";

    fn wrong(text: &str) -> String {
        Plans::parse(text).expect_err(text).to_string()
    }

    /// The default plan with one of its lines replaced.
    fn with(from: &str, to: &str) -> String {
        assert!(DEFAULT.contains(from), "{from}");
        DEFAULT.replace(from, to)
    }

    #[test]
    fn those_that_are_built_in_are_right_and_in_order() {
        let plans = Plans::default();
        let names: Vec<_> = plans.iter().map(|plan| plan.name.as_str()).collect();
        assert_eq!(names, ["free", "standard", "professional", "default"]);
        let free = plans.get("free").expect("it is there");
        assert_eq!(free.requests_per_minute.map(u32::from), Some(60));
        assert!(free.sign_up && !free.approval && free.connections.is_none());
        assert!(!plans.default_plan().sign_up);
        assert_eq!(plans.get("dev"), None);
    }

    #[test]
    fn what_is_left_out_is_without_a_limit() {
        let plans = Plans::parse(DEFAULT).expect("right");
        let plan = plans.default_plan();
        assert_eq!(
            (plan.requests_per_minute, plan.requests_per_day),
            (None, None)
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_field() {
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
                 `requests_per_day`, `live_odds`, `connections`, `sign_up`, `approval`",
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
                "line 5, live_odds: with live odds, connections are needed",
            ),
            (
                with("sign_up = false", "sign_up = false\nconnections = 1"),
                "line 7, connections: without live odds there are no connections",
            ),
            (
                with("sign_up = false", "sign_up = false\napproval = true"),
                "line 7, approval: nobody can subscribe to this plan: sign_up is false",
            ),
            (
                DEFAULT.repeat(2),
                "line 8, name: there are two plans named \"default\"",
            ),
            (
                with("\"default\"", "\"basic\""),
                "line 7: a plan named \"default\" is needed, for keys that are on no other",
            ),
            (
                String::new(),
                "line 1: a plan named \"default\" is needed, for keys that are on no other",
            ),
        ] {
            assert_eq!(wrong(&text), expected);
        }
        let no_toml = wrong("[[plan]\nname = 1");
        assert!(no_toml.starts_with("line 1: "), "{no_toml}");
    }
}
