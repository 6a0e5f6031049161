//! Checking a bill without a database: an evidence file and the JSON of an invoice, and nothing else.
//!
//! From the file every line of the invoice is worked out by the same core that billed it, and the file's digest; both
//! are compared with the invoice. What is found is told in words, the most telling first; nothing found: they are
//! equal. The file is read as a stream, one life of a sandbox at a time.

use std::io::BufRead;

use serde_json::Value;

use super::evidence::{self, BadLine};
use super::invoice::Invoice as Shown;
use crate::domain::invoice::{Head, Invoice, Status};
use crate::domain::proof::ProofHead;
use crate::domain::proof::Record;
use crate::domain::proof::bill::{Bill, Billed};
use crate::report::evidence::{Digester, head_line};

/// Fields that are not compared with the others: lines are compared one by one, and what became of an invoice after it
/// was final is no part of it.
const APART: [&str; 2] = ["lines", "life"];

/// How much was read and compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Lines of the file.
    pub records: u64,
    /// Samples in it.
    pub samples: u64,
    /// Lines of the invoice that agree.
    pub lines: usize,
}

/// The verdict: what was checked, and what was found to differ, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// How much was checked.
    pub checked: Checked,
    /// What differs; empty: equal.
    pub found: Vec<String>,
}

impl Verdict {
    fn of(checked: Checked, found: String) -> Self {
        Self { checked, found: vec![found] }
    }
}

/// The evidence of a file, read through.
struct Read {
    head: ProofHead,
    billed: Billed,
    digester: Digester,
}

/// Checks an invoice (JSON, as the API shows it) against an evidence file. An error only where the file can't be read.
pub fn check(file: &mut dyn BufRead, invoice: &[u8]) -> std::io::Result<Verdict> {
    let mut checked = Checked::default();
    let shown: Value = match serde_json::from_slice(invoice) {
        Ok(shown) => shown,
        Err(error) => return Ok(Verdict::of(checked, format!("the invoice is not JSON: {error}"))),
    };
    let Some(fields) = shown.as_object() else {
        return Ok(Verdict::of(checked, "the invoice is not a JSON object".to_owned()));
    };
    let read = match read(file, &mut checked)? {
        Ok(read) => read,
        Err(BadLine(detail)) => {
            let line = checked.records;
            return Ok(Verdict::of(checked, format!("line {line} of the evidence: {detail}")));
        }
    };
    let computed = match computed(&read) {
        Ok(computed) => computed,
        Err(detail) => return Ok(Verdict::of(checked, detail)),
    };
    let nothing = Vec::new();
    let lines = |value: &Value| value.get("lines").and_then(Value::as_array).unwrap_or(&nothing).clone();
    let (theirs, ours) = (lines(&shown), lines(&computed));
    let mut found = Vec::new();
    let agree = theirs.iter().zip(&ours).take_while(|(theirs, ours)| theirs == ours).count();
    checked.lines = agree;
    found.extend(first_line(agree, theirs.get(agree), ours.get(agree)));
    let names = computed.as_object().into_iter().flatten().map(|(name, _)| name).chain(fields.keys());
    let mut seen: Vec<&String> = Vec::new();
    for name in names.filter(|name| !APART.contains(&name.as_str())) {
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        found.extend(differs(name, fields.get(name), computed.get(name)));
    }
    Ok(Verdict { checked, found })
}

fn read(file: &mut dyn BufRead, checked: &mut Checked) -> std::io::Result<Result<Read, BadLine>> {
    let mut line = Vec::new();
    let mut written = String::new();
    let mut head: Option<(ProofHead, Bill)> = None;
    let mut digester = Digester::default();
    while file.read_until(b'\n', &mut line)? > 0 {
        checked.records = checked.records.saturating_add(1);
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        let taken = match &mut head {
            None => evidence::head(&line).and_then(|read| {
                written.clear();
                head_line(&mut written, &read);
                canonical(&line, &written)?;
                let bill = Bill::new(read.account.clone(), read.month);
                head = Some((read, bill));
                Ok(())
            }),
            Some((_, bill)) => evidence::record(&line).and_then(|record| {
                if let Record::Reports(_, _, samples) = &record {
                    count(checked, samples.len());
                } else if let Record::Readings(_, _, samples) = &record {
                    count(checked, samples.len());
                }
                canonical(&line, digester.take(&record))?;
                bill.take(record).map_err(|wrong| BadLine(wrong.to_string()))
            }),
        };
        if let Err(bad) = taken {
            return Ok(Err(bad));
        }
        line.clear();
    }
    let Some((head, bill)) = head else { return Ok(Err(BadLine("there is no header".to_owned()))) };
    let billed = bill.finish().map_err(|wrong| BadLine(wrong.to_string()));
    Ok(billed.map(|billed| Read { head, billed, digester }))
}

fn count(checked: &mut Checked, samples: usize) {
    checked.samples = checked.samples.saturating_add(u64::try_from(samples).unwrap_or(u64::MAX));
}

/// A record has one text.
fn canonical(line: &[u8], written: &str) -> Result<(), BadLine> {
    if line == written.as_bytes() { Ok(()) } else { Err(BadLine("is not written as the format has it".to_owned())) }
}

/// The invoice that the evidence makes, as the API would show it.
fn computed(read: &Read) -> Result<Value, String> {
    let ProofHead { account, name, month, number, at, carried_over, tax } = read.head.clone();
    let head = Head { account, name, month, carried_over, credits: read.billed.credits.clone(), tax };
    let made = || {
        let draft = Invoice::draft(head, &read.billed.days, &read.billed.book)?;
        let digests = Some(read.digester.finish().with_head(&read.head, &[]));
        Shown::new(&Invoice { status: Status::Final { number, at }, digests, ..draft })
    };
    let shown = made().map_err(|overflow| overflow.to_string())?;
    serde_json::to_value(shown).map_err(|error| error.to_string())
}

/// The first line that differs, in words.
fn first_line(place: usize, theirs: Option<&Value>, ours: Option<&Value>) -> Option<String> {
    let name = format!("line {} of the invoice", place.saturating_add(1));
    match (theirs, ours) {
        (None, None) => None,
        (Some(theirs), None) => Some(format!("{name} is not in the evidence: {theirs}")),
        (None, Some(ours)) => Some(format!("{name} is missing: the evidence says {ours}")),
        (Some(theirs), Some(ours)) => {
            let fields = [theirs, ours].into_iter().filter_map(Value::as_object).flatten().map(|(field, _)| field);
            let differ = fields.into_iter().find(|field| theirs.get(*field) != ours.get(*field));
            let of = ["resource", "month_of_use"].map(|field| ours.get(field).and_then(Value::as_str).unwrap_or(""));
            let name = format!("{name} ({})", of.join(" ").trim());
            match differ {
                Some(field) => differs(&format!("{name}: {field}"), theirs.get(field), ours.get(field)),
                None => Some(format!("{name} is {theirs}, the evidence says {ours}")),
            }
        }
    }
}

fn differs(name: &str, theirs: Option<&Value>, ours: Option<&Value>) -> Option<String> {
    let show = |value: Option<&Value>| value.map_or_else(|| "absent".to_owned(), Value::to_string);
    (theirs != ours).then(|| format!("{name} is {}, the evidence says {}", show(theirs), show(ours)))
}
