//! `[remote_write]`: which series of a Prometheus are the numbers that samples are made of.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

use super::section::{OutOfBounds, bounded, section};

/// Most characters of a name, a template or a list of selectors.
const CHARS_MAX: usize = 1_000;

/// The name of a metric or a label; empty: there is none.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Name(String);

impl Name {
    fn fixed(name: &'static str) -> Self {
        Self(name.to_owned())
    }

    /// The name; `None`: there is none.
    #[must_use]
    pub fn get(&self) -> Option<&str> {
        (!self.0.is_empty()).then_some(&*self.0)
    }
}

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || b"_:".contains(&first))
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_:.".contains(&byte))
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if (text.is_empty() || is_name(text)) && text.len() <= CHARS_MAX {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!("{text:?} is no name of a metric or a label"))
        }
    }
}

/// One piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fragment {
    /// Stands as it is.
    Text(String),
    /// A label's value, or (from 1) one segment of it between slashes.
    Label(String, Option<usize>),
}

/// A text with labels in it: `${label}`, or `${label/2}` for the second segment of a path.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Template {
    text: String,
    fragments: Vec<Fragment>,
}

impl fmt::Debug for Template {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.text)
    }
}

impl Template {
    fn of_label(label: &'static str) -> Self {
        Self { text: format!("${{{label}}}"), fragments: vec![Fragment::Label(label.to_owned(), None)] }
    }

    fn nothing() -> Self {
        Self { text: String::new(), fragments: Vec::new() }
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// The text for a series; `None` where it has not all of the labels, or the template is empty.
    pub fn expand<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> Option<String> {
        let mut text = String::new();
        for fragment in &self.fragments {
            match fragment {
                Fragment::Text(fixed) => text.push_str(fixed),
                Fragment::Label(name, segment) => {
                    let value = label(name)?;
                    text.push_str(match segment {
                        None => value,
                        Some(number) => {
                            let mut segments = value.split('/').filter(|segment| !segment.is_empty());
                            segments.nth(number.checked_sub(1)?)?
                        }
                    });
                }
            }
        }
        (!text.is_empty()).then_some(text)
    }
}

impl FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no template: write ${{label}}, or ${{label/2}} for a path's second segment");
        if text.len() > CHARS_MAX || text.chars().any(char::is_control) {
            return Err(bad());
        }
        let mut fragments = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let (inside, after) = after.split_once('}').ok_or_else(bad)?;
            let (name, segment) = match inside.split_once('/') {
                None => (inside, None),
                Some((name, number)) => {
                    (name, Some(number.parse().ok().filter(|number| (1..=100).contains(number)).ok_or_else(bad)?))
                }
            };
            if !is_name(name) {
                return Err(bad());
            }
            if !before.is_empty() {
                fragments.push(Fragment::Text(before.to_owned()));
            }
            fragments.push(Fragment::Label(name.to_owned(), segment));
            rest = after;
        }
        if !rest.is_empty() {
            fragments.push(Fragment::Text(rest.to_owned()));
        }
        Ok(Self { text: text.to_owned(), fragments })
    }
}

/// One condition on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Selector {
    label: String,
    pattern: String,
    equal: bool,
}

/// Conditions on labels, separated by commas, all of which must hold: `label=PATTERN` or `label!=PATTERN`, where `*`
/// stands for any characters but a slash.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Selectors(Vec<Selector>);

impl Selectors {
    /// Whether a series is meant; a label that is missing is empty.
    pub fn hold<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.0
            .iter()
            .all(|selector| matches(&selector.pattern, label(&selector.label).unwrap_or_default()) == selector.equal)
    }
}

impl FromStr for Selectors {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |part: &str| format!("{part:?} is no selector: write label=PATTERN or label!=PATTERN");
        if text.len() > CHARS_MAX || text.chars().any(char::is_control) {
            return Err(bad(text));
        }
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let selectors = parts.map(|part| {
            let (label, pattern) = part.split_once('=').ok_or_else(|| bad(part))?;
            let (label, equal) = label.strip_suffix('!').map_or((label, true), |label| (label, false));
            if is_name(label) {
                Ok(Selector { label: label.to_owned(), pattern: pattern.to_owned(), equal })
            } else {
                Err(bad(part))
            }
        });
        Ok(Self(selectors.collect::<Result<_, _>>()?))
    }
}

/// Whether a text is like a pattern, in time that grows with their product at most.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    // Which beginnings of the text the pattern's beginning can be.
    let mut reached = vec![false; text.len().saturating_add(1)];
    if let Some(start) = reached.first_mut() {
        *start = true;
    }
    for letter in pattern {
        let mut next = vec![false; reached.len()];
        for (place, here) in reached.iter().copied().enumerate() {
            let follows = text.get(place).copied();
            if letter == '*' {
                let before = place.checked_sub(1).and_then(|before| Some((before, *next.get(before)?)));
                let goes_on = before.is_some_and(|(before, reached)| reached && text.get(before) != Some(&'/'));
                if let Some(next) = next.get_mut(place) {
                    *next = here || goes_on;
                }
            } else if here
                && follows == Some(letter)
                && let Some(next) = next.get_mut(place.saturating_add(1))
            {
                *next = true;
            }
        }
        reached = next;
    }
    reached.last().copied().unwrap_or(false)
}

macro_rules! from_string {
    ($($name:ident),*) => { $(impl TryFrom<String> for $name {
        type Error = String;

        fn try_from(text: String) -> Result<Self, String> {
            text.parse()
        }
    })* };
}
from_string!(Name, Template, Selectors);

/// The unit of a CPU counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CpuUnit {
    /// Seconds, with a fraction.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

impl FromStr for CpuUnit {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "seconds" => Ok(Self::Seconds),
            "milliseconds" => Ok(Self::Milliseconds),
            "microseconds" => Ok(Self::Microseconds),
            "nanoseconds" => Ok(Self::Nanoseconds),
            _ => Err("a unit is seconds, milliseconds, microseconds or nanoseconds"),
        }
    }
}

section! {
    /// Prometheus remote write.
    RemoteWrite = "remote_write" {
        /// The metric of the CPU counter.
        cpu_metric: Name = Name::fixed("container_cpu_usage_seconds_total"), "RUNTAB_REMOTE_WRITE_CPU_METRIC";
        /// Its unit.
        cpu_unit: CpuUnit = CpuUnit::Seconds, "RUNTAB_REMOTE_WRITE_CPU_UNIT";
        /// The label that tells CPUs apart: "total", or none at all, is the whole.
        cpu_label: Name = Name::fixed("cpu"), "RUNTAB_REMOTE_WRITE_CPU_LABEL";
        /// Take the sum of the series of single CPUs, instead of the whole.
        cpu_sum: bool = false, "RUNTAB_REMOTE_WRITE_CPU_SUM";
        /// The metric of the memory, in bytes; empty: the lease's memory.
        memory_metric: Name = Name::fixed("container_spec_memory_limit_bytes"), "RUNTAB_REMOTE_WRITE_MEMORY_METRIC";
        /// The metric of the disk, in bytes; empty: none.
        storage_metric: Name = Name::fixed("container_fs_usage_bytes"), "RUNTAB_REMOTE_WRITE_STORAGE_METRIC";
        /// Take the sum of a sandbox's series of that metric.
        storage_sum: bool = true, "RUNTAB_REMOTE_WRITE_STORAGE_SUM";
        /// The metric that says when the counter began, in seconds since the epoch; empty: see `epoch`.
        epoch_metric: Name = Name::fixed("container_start_time_seconds"), "RUNTAB_REMOTE_WRITE_EPOCH_METRIC";
        /// Without such a metric: a template that gives the epoch, a whole number; empty: 0.
        epoch: Template = Template::nothing(), "RUNTAB_REMOTE_WRITE_EPOCH";
        /// A template that gives the account.
        account: Template = Template::of_label("container_label_runtab_account"), "RUNTAB_REMOTE_WRITE_ACCOUNT";
        /// A template that gives the sandbox.
        sandbox: Template = Template::of_label("container_label_runtab_sandbox"), "RUNTAB_REMOTE_WRITE_SANDBOX";
        /// A template that gives the lease.
        lease: Template = Template::of_label("container_label_runtab_lease"), "RUNTAB_REMOTE_WRITE_LEASE";
        /// Only series of which all of this holds; the others are passed over.
        only: Selectors = Selectors(Vec::new()), "RUNTAB_REMOTE_WRITE_ONLY";
        /// The label that tells replicas of one sender apart; empty: there are none.
        replica_label: Name = Name::fixed("replica"), "RUNTAB_REMOTE_WRITE_REPLICA_LABEL";
        /// After how long without a word another replica takes over a sandbox, in seconds.
        replica_silent_seconds: i64 = 60, "RUNTAB_REMOTE_WRITE_REPLICA_SILENT_SECONDS";
        /// How long a number waits for the others of its sample, in seconds.
        wait_seconds: i64 = 120, "RUNTAB_REMOTE_WRITE_WAIT_SECONDS";
        /// How often what has waited too long is released, and stale leases are counted, in milliseconds.
        watch_interval_ms: i64 = 15_000, "RUNTAB_REMOTE_WRITE_WATCH_INTERVAL_MS";
    }
}

impl RemoteWrite {
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        bounded("replica_silent_seconds", self.replica_silent_seconds, 1, 86_400)?;
        bounded("wait_seconds", self.wait_seconds, 1, 86_400)?;
        bounded("watch_interval_ms", self.watch_interval_ms, 10, 3_600_000)
    }

    /// [`RemoteWrite::watch_interval_ms`] as a duration.
    #[must_use]
    pub fn watch_interval(&self) -> Duration {
        Duration::from_millis(self.watch_interval_ms.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::{Selectors, Template, matches};

    fn labels(name: &str) -> Option<&'static str> {
        match name {
            "id" => Some("/firecracker/acme/s-1/l-1"),
            "pod" => Some("p"),
            _ => None,
        }
    }

    #[test]
    fn templates_take_labels_and_segments_of_paths() {
        let expand = |text: &str| text.parse::<Template>().unwrap().expand(labels);
        assert_eq!(expand("${id/2}").as_deref(), Some("acme"));
        assert_eq!(expand("x-${pod}.${id/4}").as_deref(), Some("x-p.l-1"));
        assert_eq!(expand("acme").as_deref(), Some("acme"));
        assert_eq!((expand("${id/5}"), expand("a${none}"), expand("")), (None, None, None));
        for bad in ["${", "${}", "${a b}", "${id/0}", "${id/x}", "a\n"] {
            assert!(bad.parse::<Template>().is_err(), "{bad}");
        }
    }

    #[test]
    fn selectors_tell_leaves_from_parents() {
        let hold = |text: &str| text.parse::<Selectors>().unwrap().hold(labels);
        assert!(hold("") && hold("id=/firecracker/*/*/*") && hold("id=/firecracker/*/*/*, pod!=q, none="));
        assert!(!hold("id=/firecracker/*/*") && !hold("id=/*") && !hold("pod!=p") && !hold("none=x"));
        assert!("id".parse::<Selectors>().is_err() && "=x".parse::<Selectors>().is_err());
    }

    #[test]
    fn patterns_stop_at_slashes() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("*", "ab", true),
            ("*", "a/b", false),
            ("a*c*", "abcd", true),
            ("a*c", "abcd", false),
            ("**", "ab", true),
            ("*/", "ab/", true),
            ("", "", true),
            ("", "a", false),
            ("/*/b", "//b", true),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }
}
