//! `/api/v1/racecards/{date}`.

use projections::keys;

use super::meeting_choice::races_of_meeting;
use super::request::resource;
use super::routes::Routes;

pub(super) fn router() -> Routes {
    Routes::default().route(
        "/api/v1/racecards/{date}",
        resource(&["venue"], |request| races_of_meeting(request, keys::cards)),
    )
}
