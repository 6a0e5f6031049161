//! Every metric of the program, in one place, in a registry of its own.
//!
//! Labels have few values: routes as they are written in the router, never paths; no account, no key.

use std::sync::{Arc, Mutex, PoisonError};
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
    remote_write: IntCounterVec,
    ledger: Arc<Mutex<LedgerMetrics>>,
}

/// What the ledger has counted since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerCounts {
    /// Batches committed.
    pub batches: u64,
    /// Leases admitted.
    pub admitted: u64,
    /// Requests that the gate refused.
    pub refused: u64,
    /// Batches of samples that assumed their leases to be as they were left: rightly, and in vain.
    pub recalls: [(&'static str, u64); 2],
    /// Batches that took admissions for new: rightly, and in vain.
    pub taken_for_new: [(&'static str, u64); 2],
    /// Net cost that late samples added, in microdollars: billed, but beyond what was held for it.
    pub late_micros: i64,
    /// Accounts that the daily job has computed again from their evidence.
    pub verified_accounts: u64,
    /// Figures that it found to differ.
    pub verified_differences: u64,
    /// When it last ended, in seconds since 1970; 0 when it has not.
    pub verified_at_seconds: i64,
    /// Net cost that rate cards added which were not known at admission, in microdollars.
    pub repriced_micros: i64,
    /// Running leases whose samples have stopped, as last counted.
    pub stale_leases: i64,
    /// Time that nobody pays for, by cause, in milliseconds; found when its leases were settled.
    pub unbilled_ms: [(&'static str, u64); 4],
}

/// The ledger's own counts, brought up to date at each look.
#[derive(Debug)]
struct LedgerMetrics {
    batches: IntCounter,
    admitted: IntCounter,
    refused: IntCounter,
    recalls: IntCounterVec,
    taken_for_new: IntCounterVec,
    late_micros: IntGauge,
    verified_accounts: IntCounter,
    verified_differences: IntCounter,
    verified_at_seconds: IntGauge,
    repriced_micros: IntGauge,
    stale_leases: IntGauge,
    unbilled_ms: IntCounterVec,
}

impl LedgerMetrics {
    fn new() -> Result<Self, prometheus::Error> {
        Ok(Self {
            batches: IntCounter::new("runtab_ledger_batches_total", "Batches committed.")?,
            admitted: IntCounter::new("runtab_ledger_leases_total", "Leases admitted.")?,
            refused: IntCounter::new("runtab_ledger_refusals_total", "Requests that the gate refused.")?,
            recalls: counters(
                "runtab_ledger_recalls_total",
                "Batches of samples that did not read their leases, by whether they were as remembered.",
                &["outcome"],
            )?,
            taken_for_new: counters(
                "runtab_ledger_taken_for_new_total",
                "Batches that did not look for leases and sandboxes, by whether all were new and admitted.",
                &["outcome"],
            )?,
            late_micros: IntGauge::new("runtab_late_micros", "Net cost that late samples added, in microdollars.")?,
            verified_accounts: IntCounter::new("runtab_verify_accounts_total", "Accounts computed from evidence.")?,
            verified_differences: IntCounter::new("runtab_verify_differences_total", "Figures that differ from it.")?,
            verified_at_seconds: IntGauge::new(
                "runtab_verify_last_run_timestamp_seconds",
                "When the daily verification last ended; 0: it has not.",
            )?,
            repriced_micros: IntGauge::new(
                "runtab_repriced_micros",
                "Net cost that rate cards added after admission, in microdollars.",
            )?,
            stale_leases: IntGauge::new("runtab_stale_leases", "Running leases whose samples have stopped.")?,
            unbilled_ms: counters(
                "runtab_unbilled_milliseconds_total",
                "Time that nobody pays for, found when its leases were settled.",
                &["cause"],
            )?,
        })
    }

    fn show(&self, counts: &LedgerCounts) {
        for (counter, count) in [
            (&self.batches, counts.batches),
            (&self.admitted, counts.admitted),
            (&self.refused, counts.refused),
            (&self.verified_accounts, counts.verified_accounts),
            (&self.verified_differences, counts.verified_differences),
        ] {
            counter.inc_by(count.saturating_sub(counter.get()));
        }
        for (counters, counts) in [(&self.recalls, counts.recalls), (&self.taken_for_new, counts.taken_for_new)] {
            for (outcome, count) in counts.into_iter().filter(|(outcome, _)| !outcome.is_empty()) {
                let counter = counters.with_label_values(&[outcome]);
                counter.inc_by(count.saturating_sub(counter.get()));
            }
        }
        self.late_micros.set(counts.late_micros);
        self.verified_at_seconds.set(counts.verified_at_seconds);
        self.repriced_micros.set(counts.repriced_micros);
        self.stale_leases.set(counts.stale_leases);
        for (cause, ms) in counts.unbilled_ms.into_iter().filter(|(cause, _)| !cause.is_empty()) {
            let counter = self.unbilled_ms.with_label_values(&[cause]);
            counter.inc_by(ms.saturating_sub(counter.get()));
        }
    }
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
            remote_write: counters(
                "runtab_remote_write_samples_total",
                "Samples of remote write, by what became of them.",
                &["outcome"],
            )?,
            ledger: Arc::new(Mutex::new(LedgerMetrics::new()?)),
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
        metrics.register(metrics.remote_write.clone())?;
        metrics.register(build)?;
        metrics.register_ledger()?;
        metrics.register(ProcessCollector::for_self())?;
        Ok(metrics)
    }

    fn register(&self, collector: impl Collector + 'static) -> Result<(), prometheus::Error> {
        self.registry.register(Box::new(collector))
    }

    fn register_ledger(&self) -> Result<(), prometheus::Error> {
        let ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let counters = [&ledger.batches, &ledger.admitted, &ledger.refused];
        for counter in counters.into_iter().chain([&ledger.verified_accounts, &ledger.verified_differences]) {
            self.register(counter.clone())?;
        }
        self.register(ledger.recalls.clone())?;
        self.register(ledger.taken_for_new.clone())?;
        self.register(ledger.verified_at_seconds.clone())?;
        self.register(ledger.late_micros.clone())?;
        self.register(ledger.repriced_micros.clone())?;
        self.register(ledger.stale_leases.clone())?;
        self.register(ledger.unbilled_ms.clone())
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

    /// Some samples of remote write had one outcome.
    pub fn remote_write(&self, outcome: &str, count: u64) {
        self.remote_write.with_label_values(&[outcome]).inc_by(count);
    }

    /// The gate answered an admission: `admitted`, `repeated`, or the code of a problem.
    pub fn admission(&self, outcome: &str) {
        self.admissions.with_label_values(&[outcome]).inc();
    }

    /// All metrics in the Prometheus text format, the ledger's counts as given.
    pub fn exposition(&self, counts: &LedgerCounts) -> Result<Vec<u8>, prometheus::Error> {
        // Held while the text is made, so that two looks at once don't count one difference twice.
        let ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.show(counts);
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

    use super::{LedgerCounts, Metrics};

    #[test]
    fn what_is_counted_is_shown() {
        let metrics = Metrics::new().unwrap();
        let guard = metrics.request_began();
        metrics.request_answered("GET", "/v1/accounts", "200", Duration::from_millis(3));
        metrics.samples("accepted", 5);
        metrics.admission("admitted");
        metrics.request_shed();
        let text =
            String::from_utf8(metrics.exposition(&LedgerCounts { admitted: 7, ..LedgerCounts::default() }).unwrap())
                .unwrap();
        for line in [
            r#"runtab_http_requests_total{method="GET",route="/v1/accounts",status="200"} 1"#,
            r#"runtab_http_request_seconds_bucket{route="/v1/accounts",le="0.005"} 1"#,
            "runtab_http_requests_in_flight 1",
            "runtab_http_shed_total 1",
            r#"runtab_samples_total{outcome="accepted"} 5"#,
            r#"runtab_admissions_total{outcome="admitted"} 1"#,
            "runtab_ledger_leases_total 7",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        drop(guard);
        assert!(
            String::from_utf8(metrics.exposition(&LedgerCounts { admitted: 7, ..LedgerCounts::default() }).unwrap())
                .unwrap()
                .contains("in_flight 0")
        );
    }
}
