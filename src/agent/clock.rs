//! Two clocks, and the labels that samples carry.
//!
//! Lengths are measured by `CLOCK_BOOTTIME`, which never steps; labels are `CLOCK_REALTIME`, which may. A label is always
//! later than the one before it, by at least half of the time that really went by: so a clock that is set back makes
//! labels run at half speed until it has caught up, and no step of a counter looks like more than a sandbox can make.
//! A clock that is set forward moves the labels with it. Either is noticed and told.

use crate::clock::{Clock, boot_ms};
use crate::domain::time::Timestamp;

/// What the clocks may drift from each other between two looks before it is called a step, in milliseconds: far more
/// than time keeping corrects by slewing (5 ms in 10 s), far less than anything that changes a bill.
pub const STEP_MS_MIN: i64 = 500;

/// One look at both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instants {
    /// Milliseconds since the boot.
    pub boot_ms: i64,
    /// The calendar's time.
    pub real: Timestamp,
}

/// Who knows the time; a value of its own in tests.
pub trait Time: Send + Sync {
    /// Both clocks, now.
    fn now(&self) -> Instants;
}

/// The host's clocks.
#[derive(Clone, Debug)]
pub struct HostTime(Clock);

impl HostTime {
    /// The host's clocks.
    #[must_use]
    pub fn new() -> Self {
        Self(Clock::system())
    }
}

impl Default for HostTime {
    fn default() -> Self {
        Self::new()
    }
}

impl Time for HostTime {
    fn now(&self) -> Instants {
        Instants { boot_ms: boot_ms(), real: self.0.now() }
    }
}

/// Gives labels to readings, and notices steps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Labels {
    /// The last label, and the boot clock at it.
    last: Option<(Timestamp, i64)>,
    /// What the calendar was ahead of the boot clock at the last look.
    offset_ms: Option<i64>,
}

impl Labels {
    /// Labels that go on after what an earlier process gave: `boot_ms` is `None` when the host has booted since.
    #[must_use]
    pub fn after(last: Timestamp, boot_ms: Option<i64>) -> Self {
        Self {
            last: Some((last, boot_ms.unwrap_or(i64::MAX))),
            offset_ms: boot_ms.map(|boot| last.ms().saturating_sub(boot)),
        }
    }

    /// The label of a reading that is taken now, and the step that the calendar's clock has made since the last one, in
    /// milliseconds (negative: it was set back).
    pub fn label(&mut self, now: Instants) -> (Timestamp, Option<i64>) {
        let offset_ms = now.real.ms().saturating_sub(now.boot_ms);
        let step = self.offset_ms.map(|before| offset_ms.saturating_sub(before));
        self.offset_ms = Some(offset_ms);
        let label = match self.last {
            None => now.real,
            Some((last, boot_ms)) => {
                let went_by = now.boot_ms.saturating_sub(boot_ms).max(0);
                now.real.max(last.near(went_by.div_euclid(2).max(1)))
            }
        };
        self.last = Some((label, now.boot_ms));
        (label, step.filter(|step| step.saturating_abs() >= STEP_MS_MIN))
    }

    /// The last label.
    #[must_use]
    pub fn last(&self) -> Option<Timestamp> {
        self.last.map(|(label, _)| label)
    }

    /// The boot clock at the last label.
    #[must_use]
    pub fn last_boot_ms(&self) -> Option<i64> {
        self.last.map(|(_, boot_ms)| boot_ms)
    }

    /// Forgets the last label, since the server refused what was labelled so as being of the future: the clock was
    /// wrong, and later labels need not be after it.
    pub fn release(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::{HostTime, Instants, Labels, Time};
    use crate::domain::time::Timestamp;

    fn at(boot_s: i64, real_s: i64) -> Instants {
        Instants { boot_ms: boot_s * 1_000, real: Timestamp::from_ms(real_s * 1_000).unwrap() }
    }

    fn run(looks: &[(i64, i64)]) -> Vec<(i64, Option<i64>)> {
        let mut labels = Labels::default();
        looks
            .iter()
            .map(|(boot_s, real_s)| {
                let (label, step) = labels.label(at(*boot_s, *real_s));
                (label.ms() / 1_000, step.map(|ms| ms / 1_000))
            })
            .collect()
    }

    #[test]
    fn a_label_is_the_calendar_while_it_goes_steadily() {
        assert_eq!(run(&[(10, 1_000), (20, 1_010), (30, 1_020)]), [(1_000, None), (1_010, None), (1_020, None)]);
    }

    #[test]
    fn a_clock_set_back_makes_labels_go_at_half_speed_until_it_has_caught_up() {
        let looks = [(10, 1_000), (20, 980), (30, 990), (40, 1_000), (60, 1_020), (70, 1_030)];
        let labels = run(&looks);
        assert_eq!(
            labels,
            [(1_000, None), (1_005, Some(-30)), (1_010, None), (1_015, None), (1_025, None), (1_030, None)]
        );
        // Even where the calendar is ahead of the last label by a little only.
        assert_eq!(run(&[(10, 1_000), (20, 1_001)]), [(1_000, None), (1_005, Some(-9))]);
    }

    #[test]
    fn a_clock_set_forward_is_followed_and_told() {
        assert_eq!(run(&[(10, 1_000), (20, 4_610), (30, 4_620)]), [(1_000, None), (4_610, Some(3_600)), (4_620, None)]);
    }

    #[test]
    fn what_was_refused_as_the_future_does_not_hold_later_labels() {
        let mut labels = Labels::default();
        labels.label(at(10, 4_600));
        labels.release();
        assert_eq!(labels.label(at(20, 1_010)).0.ms(), 1_010_000);
    }

    #[test]
    fn labels_go_on_after_a_restart_and_a_reboot() {
        let last = Timestamp::from_ms(1_000_000).unwrap();
        let mut same_boot = Labels::after(last, Some(10_000));
        assert_eq!(same_boot.label(at(20, 900)), (Timestamp::from_ms(1_005_000).unwrap(), Some(-110_000)));
        let mut booted = Labels::after(last, None);
        assert_eq!(booted.label(at(3, 900)), (Timestamp::from_ms(1_000_001).unwrap(), None));
        assert_eq!(booted.label(at(13, 1_200)).0.ms(), 1_200_000);
    }

    #[test]
    fn the_hosts_clocks_go_forward() {
        let time = HostTime::new();
        let (first, second) = (time.now(), time.now());
        assert!(first.boot_ms > 0 && second.boot_ms >= first.boot_ms && first.real.ms() > 1_000_000_000_000);
    }
}
