//! The queries of the dashboard.
