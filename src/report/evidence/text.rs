//! The canonical text of the header and of each record: one line of JSON without blanks, fields in a fixed order, whole
//! numbers, instants in milliseconds since 1970, hours as their first instant, days and months as text.

use std::fmt::Write as _;

use crate::domain::id::GrantId;
use crate::domain::lease::HourTotals;
use crate::domain::proof::{LifeId, Owner, ProofHead, Record};
use crate::domain::sample::{Reading, StorageReport};
use crate::domain::tax::TaxRate;
use crate::domain::time::{Day, Timestamp};
use crate::domain::units::MebiBytes;
use crate::report::{show_day, show_month};

/// Appends formatted text; a String takes whatever is written.
macro_rules! put {
    ($out:expr, $($text:tt)*) => { write!($out, $($text)*).unwrap_or_default() };
}

/// The version of the format: the header's first field.
pub(crate) const FORMAT: i64 = 1;

/// Appends a number, or null.
fn number(out: &mut String, value: Option<i64>) {
    match value {
        Some(value) => put!(out, "{value}"),
        None => out.push_str("null"),
    }
}

/// Appends free text as a JSON string: quotes, backslashes and control characters escaped, all else as it is.
fn text(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                out.push('\\');
                out.push(letter);
            }
            letter if letter < ' ' => put!(out, "\\u{:04x}", u32::from(letter)),
            letter => out.push(letter),
        }
    }
    out.push('"');
}

/// Appends a day, or null.
fn day_or_null(out: &mut String, day: Option<Day>) {
    match day {
        Some(day) => put!(out, "\"{}\"", show_day(day)),
        None => out.push_str("null"),
    }
}

/// Appends items in brackets.
fn list<T>(out: &mut String, items: &[T], mut item: impl FnMut(&mut String, &T)) {
    out.push('[');
    for (place, one) in items.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        item(out, one);
    }
    out.push(']');
}

/// Appends the header's line.
pub fn head_line(out: &mut String, head: &ProofHead) {
    put!(out, "{{\"evidence\":{FORMAT},\"account\":\"{}\",\"name\":", head.account);
    text(out, &head.name);
    put!(out, ",\"month\":\"{}\",\"number\":{}", show_month(head.month), head.number.count());
    put!(out, ",\"finalized_at\":{},\"carried_over_micros\":{}", head.at.ms(), head.carried_over.count());
    out.push_str(",\"tax_rate_bps\":");
    number(out, head.tax.map(TaxRate::bps));
    out.push('}');
}

fn life(out: &mut String, id: &LifeId) {
    put!(out, "\"sandbox\":\"{}\",\"life\":{}", id.sandbox, id.life);
}

/// Appends a record's line.
pub fn record_line(out: &mut String, record: &Record) {
    out.push('{');
    match record {
        Record::Card(span) => {
            put!(out, "\"card\":\"{}\",\"from\":\"{}\"", span.card.id, show_day(span.from));
            put!(out, ",\"to\":\"{}\",\"cpu_micros\":{}", show_day(span.to), span.card.cpu.micros_per_hour());
            put!(out, ",\"memory_micros\":{}", span.card.memory.micros_per_hour());
            put!(out, ",\"storage_micros\":{}", span.card.storage.micros_per_hour());
            put!(out, ",\"floor_millicores\":{}", span.card.floor.count());
        }
        Record::Grant(grant) => {
            put!(out, "\"grant\":\"{}\",\"granted_ms\":{}", grant.id, grant.granted_ms);
            put!(out, ",\"starts_on\":\"{}\",\"expires_on\":", show_day(grant.starts_on));
            day_or_null(out, grant.expires_on);
            put!(out, ",\"drawn_before_ms\":{}", grant.drawn_before_ms);
        }
        Record::Credit(credit) => {
            put!(out, "\"credit\":\"{}\",\"granted_micros\":{}", credit.id, credit.granted.count());
            put!(out, ",\"starts_on\":\"{}\",\"expires_on\":", show_day(credit.starts_on));
            day_or_null(out, credit.expires_on);
            put!(out, ",\"drawn_before_micros\":{}", credit.drawn_before.count());
        }
        Record::CreditDrawn(day, drawn) => {
            put!(out, "\"credit_day\":\"{}\",\"drawn\":", show_day(*day));
            list(out, drawn, |out, (credit, amount)| put!(out, "[\"{credit}\",{}]", amount.count()));
        }
        Record::Sandbox(id, deleted_at) => {
            life(out, id);
            out.push_str(",\"deleted_at\":");
            number(out, deleted_at.map(Timestamp::ms));
        }
        Record::Reports(id, hour, reports) => {
            life(out, id);
            put!(out, ",\"hour\":{},\"reports\":", hour.start().ms());
            list(out, reports, report);
        }
        Record::Lease(lease) => {
            put!(out, "\"lease\":\"{}\",", lease.id);
            life(out, &lease.of);
            put!(out, ",\"key\":\"{}\",\"vcpus\":{}", lease.key, lease.shape.vcpus.count());
            put!(out, ",\"memory_mib\":{},\"starts_at\":{}", lease.shape.memory.mib(), lease.starts_at.ms());
            put!(out, ",\"ends_at\":{},\"proven_until\":", lease.ends_at.ms());
            number(out, lease.proven_until.map(Timestamp::ms));
        }
        Record::Readings(id, hour, readings) => {
            put!(out, "\"lease\":\"{id}\",\"hour\":{},\"readings\":", hour.start().ms());
            list(out, readings, reading);
        }
        Record::Drawn(id, hour, drawn) => {
            put!(out, "\"lease\":\"{id}\",\"hour\":{},\"drawn\":", hour.start().ms());
            list(out, drawn, draw);
        }
        Record::Voided(of, instants) => {
            owner(out, of);
            out.push_str(",\"voided\":");
            list(out, instants, |out, at| put!(out, "{}", at.ms()));
        }
        Record::Late(of, month, billed) => {
            owner(out, of);
            put!(out, ",\"late\":\"{}\",\"billed\":", show_month(*month));
            list(out, billed, billed_day);
        }
    }
    out.push('}');
}

fn owner(out: &mut String, of: &Owner) {
    match of {
        Owner::Life(id) => life(out, id),
        Owner::Lease(id) => put!(out, "\"lease\":\"{id}\""),
    }
}

fn report(out: &mut String, report: &StorageReport) {
    put!(out, "[{},{}]", report.at.ms(), report.storage.mib());
}

fn reading(out: &mut String, reading: &Reading) {
    put!(out, "[{},{},{},", reading.at.ms(), reading.epoch, reading.cpu_usage_us);
    number(out, reading.memory.map(MebiBytes::mib));
    out.push(',');
    number(out, reading.storage.map(MebiBytes::mib));
    out.push(']');
}

fn draw(out: &mut String, (grant, ms): &(GrantId, i64)) {
    put!(out, "[\"{grant}\",{ms}]");
}

fn billed_day(out: &mut String, (day, totals): &(Day, HourTotals)) {
    let HourTotals { usage, free_ms, free } = totals;
    put!(out, "[\"{}\",{},{},{}", show_day(*day), usage.run_ms, usage.cpu_used_us, usage.cpu_us);
    put!(out, ",{},{},{free_ms}", usage.memory_mib_ms, usage.storage_mib_ms);
    put!(out, ",{},{}]", free.cpu_us, free.memory_mib_ms);
}
