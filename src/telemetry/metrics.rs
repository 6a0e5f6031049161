//! Every metric of the program, in one place, in a registry of its own.
//!
//! Labels have few values: routes as they are written in the router, never paths; no account, no key.

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::process_collector::ProcessCollector;
use prometheus::{
    Encoder, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
};

/// Upper bounds of the latency buckets, in seconds: an admission takes a few milliseconds.
const LATENCY_BUCKETS: [f64; 12] = [0.000_5, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// The metrics; cheap to clone, clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    request_seconds: HistogramVec,
    in_flight: IntGauge,
    shed: IntCounter,
    samples: IntCounterVec,
    admissions: IntCounterVec,
}

impl Metrics {
    /// Registers every metric, and those of the process; an error only when two have one name.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let seconds = HistogramOpts::new("runtab_http_request_seconds", "Time to answer a request, by route.")
            .buckets(LATENCY_BUCKETS.to_vec());
        let metrics = Self {
            requests: counters("runtab_http_requests_total", "Requests answered.", &["method", "route", "status"])?,
            request_seconds: HistogramVec::new(seconds, &["route"])?,
            in_flight: IntGauge::new("runtab_http_requests_in_flight", "Requests being answered.")?,
            shed: IntCounter::new("runtab_http_shed_total", "Requests refused because too many were in flight.")?,
            samples: counters("runtab_samples_total", "Samples received, by what became of them.", &["outcome"])?,
            admissions: counters("runtab_admissions_total", "Admissions, by what the gate said.", &["outcome"])?,
            registry,
        };
        let build =
            IntGaugeVec::new(Opts::new("runtab_build_info", "Always 1; the version is a label."), &["version"])?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        metrics.register(metrics.requests.clone())?;
        metrics.register(metrics.request_seconds.clone())?;
        metrics.register(metrics.in_flight.clone())?;
        metrics.register(metrics.shed.clone())?;
        metrics.register(metrics.samples.clone())?;
        metrics.register(metrics.admissions.clone())?;
        metrics.register(build)?;
        metrics.register(ProcessCollector::for_self())?;
        Ok(metrics)
    }

    fn register(&self, collector: impl Collector + 'static) -> Result<(), prometheus::Error> {
        self.registry.register(Box::new(collector))
    }

    /// A request has come; the returned guard counts it out again.
    #[must_use]
    pub fn request_began(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    /// A request was answered.
    pub fn request_answered(&self, method: &str, route: &str, status: &str, took: Duration) {
        self.requests.with_label_values(&[method, route, status]).inc();
        self.request_seconds.with_label_values(&[route]).observe(took.as_secs_f64());
    }

    /// A request was refused because too many were in flight.
    pub fn request_shed(&self) {
        self.shed.inc();
    }

    /// Some samples had one outcome: `accepted`, `duplicate`, or the code of a rejection.
    pub fn samples(&self, outcome: &str, count: u64) {
        self.samples.with_label_values(&[outcome]).inc_by(count);
    }

    /// The gate answered an admission: `admitted`, `repeated`, or the code of a problem.
    pub fn admission(&self, outcome: &str) {
        self.admissions.with_label_values(&[outcome]).inc();
    }

    /// All metrics in the Prometheus text format.
    pub fn exposition(&self) -> Result<Vec<u8>, prometheus::Error> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }
}

fn counters(name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec, prometheus::Error> {
    IntCounterVec::new(Opts::new(name, help), labels)
}

/// Counts a request as being in flight until it is dropped.
#[derive(Debug)]
pub struct InFlight(IntGauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Metrics;

    #[test]
    fn what_is_counted_is_shown() {
        let metrics = Metrics::new().unwrap();
        let guard = metrics.request_began();
        metrics.request_answered("GET", "/v1/accounts", "200", Duration::from_millis(3));
        metrics.samples("accepted", 5);
        metrics.admission("admitted");
        metrics.request_shed();
        let text = String::from_utf8(metrics.exposition().unwrap()).unwrap();
        for line in [
            r#"runtab_http_requests_total{method="GET",route="/v1/accounts",status="200"} 1"#,
            r#"runtab_http_request_seconds_bucket{route="/v1/accounts",le="0.005"} 1"#,
            "runtab_http_requests_in_flight 1",
            "runtab_http_shed_total 1",
            r#"runtab_samples_total{outcome="accepted"} 5"#,
            r#"runtab_admissions_total{outcome="admitted"} 1"#,
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        drop(guard);
        assert!(String::from_utf8(metrics.exposition().unwrap()).unwrap().contains("in_flight 0"));
    }
}
