//! Rigs: the service and nats-server as processes, under faults that a seed chooses. `script/chaos` runs them for long.

mod balancer;
mod budget;
mod clock;
mod damage;
mod disk;
mod exhaustion;
mod feeders;
mod gets;
mod kill;
mod moved_clock;
mod network;
mod overload;
mod past;
mod power;
mod quotes;
mod replica;
mod stored;
mod trace;
mod tracer;
mod traffic;
mod views;
