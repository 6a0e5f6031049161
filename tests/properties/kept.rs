//! A lease as a caller keeps it, checked against hindsight.

use std::collections::BTreeMap;

use runtab::domain::curve::evaluate;
use runtab::domain::meter::{Meter, Terms, evidence_span, judge, replay};
use runtab::domain::rate_card::PriceBook;
use runtab::domain::sample::Reading;
use runtab::domain::time::Span;
use runtab::domain::usage::{Usage, UsageByHour};

use crate::world::{Case, list_micros};

/// A lease as a caller keeps it: the meter, the evidence, and the sum of what was posted.
pub(crate) struct Kept<'a> {
    pub(crate) prices: &'a PriceBook,
    pub(crate) case: Case,
    pub(crate) end: (i64, Option<i64>),
    pub(crate) meter: Meter,
    pub(crate) accepted: BTreeMap<i64, Reading>,
    pub(crate) posted: UsageByHour,
    /// Whether all evidence is handed over, or the least that is promised to be enough.
    pub(crate) all_evidence: bool,
}

impl<'a> Kept<'a> {
    pub(crate) fn new(prices: &'a PriceBook, case: &Case, all_evidence: bool) -> Self {
        Self {
            prices,
            case: case.clone(),
            end: case.untold(),
            meter: Meter::default(),
            accepted: BTreeMap::new(),
            posted: UsageByHour::default(),
            all_evidence,
        }
    }

    pub(crate) fn terms(&self) -> Terms<'a> {
        self.case.terms(self.prices, self.end)
    }

    pub(crate) fn evidence(&self, span: Span) -> Vec<Reading> {
        if self.all_evidence {
            return self.accepted.values().copied().collect();
        }
        let (start, end) = (span.start.ms(), span.end.ms());
        let first = self.accepted.range(..start).next_back().map_or(start, |(at, _)| *at);
        let last = self.accepted.range(end..).next().map_or(end, |(at, _)| *at);
        self.accepted.range(first..=last).map(|(_, reading)| *reading).collect()
    }

    pub(crate) fn take(&mut self, reading: Reading) {
        let at = reading.at.ms();
        if self.accepted.contains_key(&at) {
            return;
        }
        let terms = self.terms();
        let before = self.accepted.range(..at).next_back().map(|(_, other)| other);
        let after = self.accepted.range(at..).next().map(|(_, other)| other);
        if self.case.is_acceptable_in_any_order() {
            assert_eq!(judge(&terms, before, after, &reading), Ok(()));
        }
        let (meter, delta) = if after.is_none() {
            self.meter.take(&terms, reading).unwrap()
        } else {
            let around = self.evidence(evidence_span(before, after));
            self.meter.take_late(&terms, &around, reading).unwrap()
        };
        self.accepted.insert(at, reading);
        self.moved(meter, &delta);
    }

    pub(crate) fn move_end(&mut self, end: (i64, Option<i64>)) {
        let before = self.terms();
        let after = self.case.terms(self.prices, end);
        let needed = self.meter.end_evidence_span(&before, &after);
        let around = needed.map_or(Vec::new(), |span| self.evidence(span));
        let (meter, delta) = self.meter.move_end(&before, &after, &around).unwrap();
        self.end = end;
        self.moved(meter, &delta);
    }

    pub(crate) fn moved(&mut self, meter: Meter, delta: &UsageByHour) {
        self.meter = meter;
        self.posted = std::mem::take(&mut self.posted).plus(delta).unwrap();
    }

    /// Hindsight: what was posted and what is kept are those of the set, however it came.
    pub(crate) fn check(&self) {
        let terms = self.terms();
        let readings: Vec<Reading> = self.accepted.values().copied().collect();
        assert_eq!(self.posted, evaluate(&terms, &readings).unwrap());
        assert_eq!((self.meter, self.posted.clone()), replay(&terms, &readings).unwrap());
    }

    pub(crate) fn micros(&self) -> i64 {
        list_micros(self.prices, self.posted.total().unwrap())
    }

    pub(crate) fn cpu_micros(&self) -> i64 {
        let cpu_us = self.posted.total().unwrap().cpu_us;
        list_micros(self.prices, Usage { cpu_us, ..Usage::ZERO })
    }
}
