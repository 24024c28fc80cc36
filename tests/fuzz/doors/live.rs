//! The parser of client messages, for the fuzz targets.

use serde_json::Value;

use super::request::{Op, Request, RequestError, invalid_parameter};
use super::server_message::{InForce, ServerMessage};
use super::subscription::{LiveSubscription, ResumePoint};

/// Parses a message, and makes a subscription of it as a session does. Returns the number of values of its filter and
/// the answer, as JSON.
pub fn parse_message(text: &str) -> (usize, Vec<u8>) {
    let (id, request) = Request::parse(text);
    let id = id.as_ref();
    let subscription = request.and_then(subscription);
    let values = subscription.as_ref().map(|(_, subscription)| {
        let lists = serde_json::to_value(&subscription.filter).unwrap_or_default();
        let lists = lists.as_object().into_iter().flatten();
        lists
            .filter_map(|(_, list)| list.as_array())
            .map(Vec::len)
            .sum::<usize>()
    });
    let values = values.unwrap_or_default();
    let answer = match &subscription {
        Ok((op, subscription)) => render(&ServerMessage::Ack {
            op: *op,
            id,
            seq: 0,
            in_force: InForce::new(subscription, None),
        }),
        Err(error) => render(&ServerMessage::Error {
            error: error.code(),
            id,
            message: &error.to_string(),
        }),
    };
    (values, answer)
}

fn subscription(request: Request) -> Result<(Op, LiveSubscription), RequestError> {
    let mut subscription = LiveSubscription::default();
    subscription
        .set(request.events, request.conflate_ms, request.heartbeat_ms)
        .map_err(invalid_parameter)?;
    let recorded_at = request.recorded_at.as_deref();
    let _ = ResumePoint::new(
        request.since.unwrap_or_default(),
        request.epoch,
        recorded_at,
    );
    subscription.filter = request.filter;
    let removed = subscription.filter.clone();
    let mut rest = subscription.filter.clone();
    rest.remove(&removed).map_err(RequestError::NotSubscribed)?;
    Ok((request.op, subscription))
}

fn render(message: &ServerMessage<'_>) -> Vec<u8> {
    serde_json::to_vec(message).unwrap_or_else(|_| Value::Null.to_string().into())
}
