//! Every metric of the agent, in a registry of its own. No label names a sandbox or a customer.

use prometheus::core::Collector;
use prometheus::process_collector::ProcessCollector;
use prometheus::{Encoder, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder};

/// The metrics; cheap to clone, clones count together.
#[derive(Clone, Debug)]
pub struct AgentMetrics {
    registry: Registry,
    /// Sandboxes by what they do: `waiting`, `running`, `ended`, `resting`.
    pub sandboxes: IntGaugeVec,
    /// Documents that are refused, and counters or disks that can't be read now.
    pub faults: IntGauge,
    /// Groups that no document names.
    pub groups_unknown: IntGauge,
    /// Rounds of readings.
    pub rounds: IntCounter,
    /// Rows that were written into the spool.
    pub spooled: IntCounter,
    /// Rows that wait in memory, since the spool does not take them.
    pub unwritten: IntGauge,
    /// Rows that a later one of their lease has replaced while the spool did not take them.
    pub thinned: IntCounter,
    /// How slow readings are: 0 is full speed, 3 the slowest.
    pub slowed: IntGauge,
    /// Rounds whose rows the spool did not take.
    pub spool_refused: IntCounter,
    /// Bytes of the spool.
    pub spool_bytes: IntGauge,
    /// Rows in the spool that no server has answered.
    pub unanswered: IntGauge,
    /// Unanswered rows that were given up for their age.
    pub given_up: IntCounter,
    /// Bytes of torn writes that were cut off the spool.
    pub torn_bytes: IntCounter,
    /// Bytes of the spool that could not be read any more.
    pub damaged_bytes: IntCounter,
    /// Requests by what became of them: `answered`, `later`, `refused`.
    pub requests: IntCounterVec,
    /// Rows by what a server said: `accepted`, `duplicate`, or the code of a rejection.
    pub answers: IntCounterVec,
    /// When a server answered last, in seconds since 1970.
    pub answered_at: IntGauge,
    /// Counters that were found to be another one.
    pub epochs: IntCounter,
    /// Readings below the one before.
    pub went_back: IntCounter,
    /// Groups that were gone before their last reading could be taken.
    pub last_missed: IntCounter,
    /// Steps of the calendar's clock.
    pub clock_steps: IntCounter,
    /// The last of them, in milliseconds.
    pub clock_step_ms: IntGauge,
}

fn counter(name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
    IntCounter::new(format!("runtab_agent_{name}"), help)
}

fn gauge(name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
    IntGauge::new(format!("runtab_agent_{name}"), help)
}

fn counters(name: &str, help: &str, label: &str) -> Result<IntCounterVec, prometheus::Error> {
    IntCounterVec::new(Opts::new(format!("runtab_agent_{name}"), help), &[label])
}

impl AgentMetrics {
    /// Registers every metric, and those of the process; an error only when two have one name.
    pub fn new() -> Result<Self, prometheus::Error> {
        let sandboxes = Opts::new("runtab_agent_sandboxes", "Sandboxes of this host, by what they do.");
        let metrics = Self {
            registry: Registry::new(),
            sandboxes: IntGaugeVec::new(sandboxes, &["state"])?,
            faults: gauge("faults", "Documents refused, and counters or disks that can't be read.")?,
            groups_unknown: gauge("groups_unknown", "Groups that no sandbox's document names.")?,
            rounds: counter("rounds_total", "Rounds of readings.")?,
            spooled: counter("samples_spooled_total", "Samples written into the spool.")?,
            unwritten: gauge("samples_unwritten", "Samples in memory, since the spool does not take them.")?,
            thinned: counter("samples_thinned_total", "Samples replaced by a later one of their lease.")?,
            slowed: gauge("slowed", "How slow readings are for want of room: 0 is full speed, 3 the slowest.")?,
            spool_refused: counter("spool_refused_total", "Rounds whose samples the spool did not take.")?,
            spool_bytes: gauge("spool_bytes", "Bytes of the spool.")?,
            unanswered: gauge("samples_unanswered", "Samples in the spool that no server has answered.")?,
            given_up: counter("samples_given_up_total", "Unanswered samples given up for their age.")?,
            torn_bytes: counter("spool_torn_bytes_total", "Bytes of torn writes cut off the spool.")?,
            damaged_bytes: counter("spool_damaged_bytes_total", "Bytes of the spool that can't be read any more.")?,
            requests: counters("requests_total", "Requests, by what became of them.", "outcome")?,
            answers: counters("samples_answered_total", "Samples, by what a server said.", "outcome")?,
            answered_at: gauge("answered_timestamp_seconds", "When a server answered last.")?,
            epochs: counter("epochs_total", "Counters found to be another one.")?,
            went_back: counter("readings_went_back_total", "Readings below the one before.")?,
            last_missed: counter("last_readings_missed_total", "Groups gone before their last reading.")?,
            clock_steps: counter("clock_steps_total", "Steps of the calendar's clock.")?,
            clock_step_ms: gauge("clock_step_milliseconds", "The last step of the calendar's clock.")?,
        };
        metrics.register_all()?;
        Ok(metrics)
    }

    fn register_all(&self) -> Result<(), prometheus::Error> {
        for counter in [
            &self.rounds,
            &self.spooled,
            &self.thinned,
            &self.spool_refused,
            &self.given_up,
            &self.torn_bytes,
            &self.damaged_bytes,
            &self.epochs,
            &self.went_back,
            &self.last_missed,
            &self.clock_steps,
        ] {
            self.register(counter.clone())?;
        }
        for gauge in [
            &self.faults,
            &self.groups_unknown,
            &self.unwritten,
            &self.slowed,
            &self.spool_bytes,
            &self.unanswered,
            &self.answered_at,
            &self.clock_step_ms,
        ] {
            self.register(gauge.clone())?;
        }
        self.register(self.sandboxes.clone())?;
        self.register(self.requests.clone())?;
        self.register(self.answers.clone())?;
        self.register(ProcessCollector::for_self())
    }

    fn register(&self, collector: impl Collector + 'static) -> Result<(), prometheus::Error> {
        self.registry.register(Box::new(collector))
    }

    /// All metrics in the Prometheus text format.
    pub fn exposition(&self) -> Result<Vec<u8>, prometheus::Error> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }
}

/// Brings a counter up to what was counted elsewhere.
pub fn raise(counter: &IntCounter, to: u64) {
    counter.inc_by(to.saturating_sub(counter.get()));
}

/// A count as a gauge takes it.
#[must_use]
pub fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{AgentMetrics, raise};

    #[test]
    fn what_is_counted_is_shown() {
        let metrics = AgentMetrics::new().unwrap();
        raise(&metrics.given_up, 7);
        raise(&metrics.given_up, 3);
        metrics.sandboxes.with_label_values(&["running"]).set(2);
        metrics.answers.with_label_values(&["duplicate"]).inc_by(5);
        let text = String::from_utf8(metrics.exposition().unwrap()).unwrap();
        for line in [
            "runtab_agent_samples_given_up_total 7",
            r#"runtab_agent_sandboxes{state="running"} 2"#,
            r#"runtab_agent_samples_answered_total{outcome="duplicate"} 5"#,
            "process_resident_memory_bytes ",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
