//! Lists in headers, such as that of `Accept`.

use axum::http::{HeaderMap, HeaderName};

/// The elements of the lists in all headers of a name, each with its parameters (RFC 9110, 5.6).
pub(super) fn elements(
    headers: &HeaderMap,
    name: HeaderName,
) -> impl Iterator<Item = (&str, impl Iterator<Item = &str>)> {
    let values = headers.get_all(name).into_iter();
    let values = values.filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|element| {
        let mut parts = element.split(';').map(str::trim);
        (parts.next().unwrap_or_default(), parts)
    })
}

/// Whether a parameter is the weight 0, which excludes what it belongs to (RFC 9110, 12.4.2).
pub(super) fn is_zero_weight(parameter: &str) -> bool {
    matches!(parameter, "q=0" | "q=0.0" | "q=0.00" | "q=0.000")
}
