//! The past on request.

mod as_of;
mod mirror;
mod replay;
mod series;
pub(crate) mod served;
