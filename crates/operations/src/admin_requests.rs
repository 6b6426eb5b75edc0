//! Durations and results of requests to the admin API, since the start.
//!
//! Bounds: one entry per route, and one counter per route and status.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::{Method, StatusCode};
use metrics::{Histogram, HistogramValue, Labels, Number};

use crate::route::Resource;

/// Requests by route.
#[derive(Debug, Default)]
pub(crate) struct AdminRequestTimes(Mutex<BTreeMap<RouteKey, RouteRequests>>);

/// Method and path of a route.
type RouteKey = (&'static str, &'static str);

#[derive(Debug, Default)]
struct RouteRequests {
    times: Histogram,
    by_status: BTreeMap<u16, u64>,
}

/// The values of all routes, by labels.
#[derive(Debug, Default)]
pub(crate) struct AdminRequests {
    /// `method` and `route`.
    pub(crate) times: Vec<(Labels, HistogramValue)>,
    /// `method`, `route` and `status`.
    pub(crate) counts: Vec<(Labels, Number)>,
}

impl AdminRequestTimes {
    /// Records a request. One that matches no route counts as `other`.
    pub(crate) fn record(
        &self,
        (method, resource): (&Method, Option<&'static Resource>),
        took: Duration,
        status: StatusCode,
    ) {
        let key = route_key(method, resource);
        let mut routes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let route = routes.entry(key).or_default();
        route.times.record(took.as_nanos() as u64);
        *route.by_status.entry(status.as_u16()).or_default() += 1;
    }

    pub(crate) fn values(&self) -> AdminRequests {
        let mut values = AdminRequests::default();
        let routes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for ((method, route), requests) in routes.iter() {
            let labels: Labels = vec![("method", (*method).into()), ("route", (*route).into())];
            for (status, count) in &requests.by_status {
                let status = ("status", status.to_string().into());
                let labels = labels.iter().cloned().chain([status]).collect();
                values.counts.push((labels, Number::Integer((*count).into())));
            }
            let mut times = HistogramValue::default();
            times.add(&requests.times);
            values.times.push((labels, times));
        }
        values
    }
}

/// `HEAD` counts as `GET`.
fn route_key(method: &Method, resource: Option<&'static Resource>) -> RouteKey {
    let method = match *method {
        Method::GET | Method::HEAD => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        _ => "other",
    };
    (method, resource.map_or("other", |resource| resource.path))
}
