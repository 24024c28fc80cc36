//! The views: on disk, rebuilt, repaired, and as fresh as they say.

mod disk;
mod freshness;
mod lag;
mod race_day;
mod repair;
mod snapshots;
