//! Three nats-servers as one log: what holds while servers and replicas end, hang and are cut off.

mod support;
