//! [`Routes`]: the paths of the public address, and [`RouteTable`]: what is counted of each.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::Request;
use axum::routing::MethodRouter;

use super::state::App;
use crate::metrics::{KnownMethod, OTHER, RouteMetrics};

/// The paths of the public address, by their templates: a router that knows which templates it has.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    router: Router<Arc<App>>,
    counted: Vec<(&'static str, RouteMetrics)>,
}

impl Routes {
    /// Adds a path.
    pub(super) fn route(self, template: &'static str, methods: MethodRouter<Arc<App>>) -> Self {
        self.add(template, methods, RouteMetrics::new(template))
    }

    /// Adds a path that supervisors and balancers request all the time.
    pub(super) fn probe(self, template: &'static str, methods: MethodRouter<Arc<App>>) -> Self {
        self.add(template, methods, RouteMetrics::of_probe(template))
    }

    fn add(
        mut self,
        template: &'static str,
        methods: MethodRouter<Arc<App>>,
        metrics: RouteMetrics,
    ) -> Self {
        self.counted.push((template, metrics));
        self.router = self.router.route(template, methods);
        self
    }

    /// Adds all paths of others.
    pub(super) fn merge(mut self, others: Self) -> Self {
        self.counted.extend(others.counted);
        self.router = self.router.merge(others.router);
        self
    }

    /// The router, and what counts its answers.
    pub(super) fn into_parts(self) -> (Router<Arc<App>>, RouteTable) {
        let mut templates = matchit::Router::new();
        for (template, metrics) in self.counted {
            let inserted = templates.insert(template, metrics);
            inserted.expect("the router, which finds paths in the same way, has accepted it");
        }
        let table = RouteTable {
            templates,
            unknown: RouteMetrics::new(OTHER),
        };
        (self.router, table)
    }
}

/// What is counted of each path. The template of a path is looked up once more than the router does, which is cheaper
/// than a layer of the router: axum boxes each for each request.
pub(crate) struct RouteTable {
    templates: matchit::Router<RouteMetrics>,
    unknown: RouteMetrics,
}

impl RouteTable {
    /// Counts a request from its head on. What is returned takes the status at the head of its answer.
    pub(super) fn start<'a, B>(
        &'a self,
        request: &Request<B>,
    ) -> impl FnOnce(u16) + Send + use<'a, B> {
        let found = self.templates.at(request.uri().path());
        let route = found.map_or(&self.unknown, |found| found.value);
        let method = KnownMethod::from(request.method().as_str());
        let started_at = Instant::now();
        move |status| route.answered(method, status, started_at.elapsed())
    }
}
