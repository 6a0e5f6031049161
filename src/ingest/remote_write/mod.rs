//! Prometheus remote write: a body becomes parts of samples.
//!
//! [`message`] reads the two versions of the protocol, [`mapping`] says by the settings what a series is, [`number`] makes
//! whole numbers of its values. The ledger joins the parts (`domain/part.rs`) and judges the samples. What can't be used is
//! set aside and spoils nothing: a sender drops for good what is answered with anything but 5xx.

pub mod mapping;
pub mod message;
pub mod number;

use bytes::Bytes;

use crate::domain::id::HostId;
use crate::domain::replica::REPLICA_CHARS_MAX;
use crate::domain::set_aside::{ASIDE_CHARS_MAX, Door, SetAside, cut};
use crate::domain::time::Timestamp;
use crate::ledger::parts::{Arrived, TakeParts};
use mapping::{Mapping, Meaning};
use message::{BadBody, Point, Series, Version, read};
use number::{BadNumber, STALE_BITS};

/// Most samples of one request that are ours: senders take 500 or 2,000 unless they are told otherwise. Bounds memory: a
/// sample takes ten times the bytes that it has on the wire.
pub const SAMPLES_MAX: usize = 50_000;

/// What a request holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// What the ledger takes.
    pub parts: TakeParts,
    /// Samples that say: unknown from here. They are understood, and change nothing.
    pub stale: usize,
    /// Samples of series that are none of ours.
    pub passed_over: usize,
    /// Exemplars, which are not kept.
    pub exemplars: usize,
    /// Histograms, which are not kept.
    pub histograms: usize,
}

/// Reads a message that has been inflated. `host`: whose token sent it.
pub fn translate(
    version: Version,
    message: Bytes,
    mapping: &Mapping,
    host: Option<&HostId>,
) -> Result<Request, BadBody> {
    let mut request = Request::default();
    read(version, message, |series| {
        if request.count() <= SAMPLES_MAX {
            request.take(&series, mapping, host);
        }
    })?;
    if request.count() > SAMPLES_MAX { Err(BadBody::TooLarge) } else { Ok(request) }
}

impl Request {
    /// How many samples are ours, good or bad.
    fn count(&self) -> usize {
        self.parts.parts.len().saturating_add(self.parts.aside.len())
    }

    fn take(&mut self, series: &Series, mapping: &Mapping, host: Option<&HostId>) {
        self.exemplars = self.exemplars.saturating_add(series.exemplars);
        self.histograms = self.histograms.saturating_add(series.histograms);
        if series.points.is_empty() {
            return;
        }
        if series.labels.is_none() {
            let detail = "its labels refer to symbols that are not there";
            return self.set_all_aside(series, host, ("invalid_sample", detail), [None, None]);
        }
        let meaning = mapping.meaning(series);
        let meaning = match meaning {
            Meaning::Nothing => {
                self.passed_over = self.passed_over.saturating_add(series.points.len());
                return;
            }
            Meaning::Bad { detail, sandbox, lease } => {
                return self.set_all_aside(series, host, ("invalid_sample", detail), [sandbox, lease]);
            }
            Meaning::Number(number) => number,
        };
        let replica = mapping.replica(series).map(|replica| cut(replica, REPLICA_CHARS_MAX));
        for point in &series.points {
            if point.bits == STALE_BITS {
                self.stale = self.stale.saturating_add(1);
                continue;
            }
            match meaning.part(point) {
                Ok(part) => self.parts.parts.push(Arrived { part, replica: replica.clone() }),
                Err(bad) => {
                    let (code, detail) = bad.map_or(("invalid_sample", "its time can't be one"), BadNumber::told);
                    let detail = format!("{} {detail}", meaning.kind.name());
                    self.parts.aside.push(SetAside {
                        account: Some(meaning.account.clone()),
                        door: Door::RemoteWrite,
                        host: host.cloned(),
                        sandbox: Some(meaning.sandbox.to_string()),
                        lease: meaning.lease.as_ref().map(ToString::to_string),
                        at: Timestamp::from_ms(point.at_ms),
                        code,
                        detail,
                    });
                }
            }
        }
    }

    fn set_all_aside(
        &mut self,
        series: &Series,
        host: Option<&HostId>,
        (code, detail): (&'static str, &str),
        [sandbox, lease]: [Option<String>; 2],
    ) {
        let aside = |point: &Point| SetAside {
            account: None,
            door: Door::RemoteWrite,
            host: host.cloned(),
            sandbox: sandbox.as_deref().map(|text| cut(text, ASIDE_CHARS_MAX)),
            lease: lease.as_deref().map(|text| cut(text, ASIDE_CHARS_MAX)),
            at: Timestamp::from_ms(point.at_ms),
            code,
            detail: detail.to_owned(),
        };
        self.parts.aside.extend(series.points.iter().map(aside));
    }
}
