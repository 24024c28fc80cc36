//! The search by name: pages of those with a text in a name, in any language.

use projections::json::JsonObject;
use projections::keys::folded;

use super::paging::next_path;
use super::{Answer, ApiError, ApiRequest, PageRows};

/// Names that one page looks at. They are read as of one event, which delays the next.
const NAMES_SEARCHED_MAX: usize = 10_000;

/// The text that a name has to have.
pub(super) struct NamePart(String);

impl NamePart {
    pub(super) fn is_in<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> bool {
        names.into_iter().any(|name| folded(name).contains(&self.0))
    }
}

/// The rows of those that are found, each by its position, under the name of the list and its path.
pub(super) fn search<T>(
    request: &ApiRequest,
    list: &str,
    all: impl Iterator<Item = Result<(String, T), ApiError>>,
    row: impl Fn(&str, &T, &NamePart) -> Result<Option<Vec<u8>>, ApiError>,
) -> Result<Answer, ApiError> {
    let mut page = PageRows::of(&request.query)?;
    let part = NamePart(folded(request.query.get("name").unwrap_or_default()));
    let (mut last, mut next) = (String::new(), String::new());
    for (searched, one) in all.enumerate() {
        let (position, one) = one?;
        if page.is_full() || searched == NAMES_SEARCHED_MAX {
            next = next_path(&format!("/api/v1/{list}"), &request.query, &last);
            break;
        }
        if let Some(row) = row(&position, &one, &part)? {
            page.push(&row);
        }
        last = position;
    }
    let json = JsonObject::new().list(list, page.list());
    Ok(Answer::page(json, &next))
}
