//! The lines of an evidence file, read strictly: fields, types and ranges. Whether a line is written as the format has
//! it is for the caller to check, by writing the record again.

use super::reader::{Invalid, NotJson, Object, Value, document};
use super::time::parse_month;
use crate::domain::id::{AccountId, GrantId, KeyId, LeaseId, RateCardId, SandboxId};
use crate::domain::invoice::InvoiceNumber;
use crate::domain::lease::{HourTotals, Shape};
use crate::domain::money::{MICROS_MAX, Micros, PRICE_MICROS_MAX, PriceMicros};
use crate::domain::proof::credits::CreditTerms;
use crate::domain::proof::{CardSpan, GrantTerms, LeaseTerms, LifeId, Owner, ProofHead, Record};
use crate::domain::rate_card::RateCard;
use crate::domain::sample::{COUNTER_MAX, Reading, StorageReport};
use crate::domain::tax::TaxRate;
use crate::domain::time::{Day, Hour, Month, Timestamp};
use crate::domain::units::{FLOOR_MILLICORES_MAX, MEBIBYTES_MAX, MebiBytes, Millicores, VCPUS_MAX, Vcpus};
use crate::domain::usage::Usage;

/// The version of the format that is read.
const FORMAT: i64 = 1;
/// Most characters of a name in a header: far beyond what an account may have.
const NAME_CHARS_MAX: usize = 1_000;
/// Most items of one line: an hour has 3,600,000 instants.
const ITEMS_MAX: usize = 4_000_000;

/// A line that is not one of the format; for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine(pub String);

impl From<Invalid> for BadLine {
    fn from(invalid: Invalid) -> Self {
        Self(format!("{} {}", invalid.pointer, invalid.detail))
    }
}

impl From<NotJson> for BadLine {
    fn from(not: NotJson) -> Self {
        Self(format!("not JSON: {}", not.detail))
    }
}

type Read<T> = Result<T, BadLine>;

fn known<T>(value: Option<T>, what: &str) -> Read<T> {
    value.ok_or_else(|| BadLine(format!("{what} is out of range")))
}

fn whole(value: Value<'_, '_>) -> Read<i64> {
    Ok(value.integer(i64::MIN, i64::MAX)?)
}

fn at(value: Value<'_, '_>) -> Read<Timestamp> {
    known(Timestamp::from_ms(whole(value)?), "an instant")
}

fn opt_at(value: Value<'_, '_>) -> Read<Option<Timestamp>> {
    if value.is_null() { Ok(None) } else { at(value).map(Some) }
}

fn month(value: Value<'_, '_>) -> Read<Month> {
    known(parse_month(&value.text(7)?), "a month")
}

fn hour(value: Value<'_, '_>) -> Read<Hour> {
    let at = at(value)?;
    known(Some(at.hour()).filter(|hour| hour.start() == at), "an hour")
}

fn mib(value: Value<'_, '_>) -> Read<MebiBytes> {
    known(MebiBytes::new(value.integer(0, MEBIBYTES_MAX)?), "a size")
}

fn opt_mib(value: Value<'_, '_>) -> Read<Option<MebiBytes>> {
    if value.is_null() { Ok(None) } else { mib(value).map(Some) }
}

/// The items of a list, each a list of exactly `N` values.
fn rows<const N: usize, T>(list: Value<'_, '_>, read: impl Fn(&[Value<'_, '_>; N]) -> Read<T>) -> Read<Vec<T>> {
    list.items(ITEMS_MAX)?
        .map(|item| {
            let values: Vec<Value<'_, '_>> = item.items(N)?.collect();
            let values: [Value<'_, '_>; N] =
                values.try_into().map_err(|_| BadLine(format!("a row must have {N} values")))?;
            read(&values)
        })
        .collect()
}

/// Reads the header.
pub fn head(line: &[u8]) -> Read<ProofHead> {
    let names =
        ["evidence", "account", "name", "month", "number", "finalized_at", "carried_over_micros", "tax_rate_bps"];
    let value = document(line)?;
    let object = value.object(names)?;
    object.required("evidence")?.integer(FORMAT, FORMAT)?;
    let carried = object.required("carried_over_micros")?.integer(MICROS_MAX.saturating_neg(), 0)?;
    let tax = object.required("tax_rate_bps")?;
    Ok(ProofHead {
        account: object.required("account")?.id(AccountId::parse)?,
        name: object.required("name")?.text(NAME_CHARS_MAX)?,
        month: month(object.required("month")?)?,
        number: known(InvoiceNumber::new(whole(object.required("number")?)?), "a number")?,
        at: at(object.required("finalized_at")?)?,
        carried_over: known(Micros::new(carried), "an amount")?,
        tax: if tax.is_null() { None } else { Some(known(TaxRate::from_bps(whole(tax)?), "a tax rate")?) },
    })
}

/// Reads a record.
pub fn record(line: &[u8]) -> Read<Record> {
    // What a line is of, by the fields that it begins with and has.
    let text = std::str::from_utf8(line).map_err(|_| BadLine("not UTF-8".to_owned()))?;
    let value = document(line)?;
    let first = text.trim_start_matches(['{', ' ']);
    if first.starts_with("\"card\"") {
        return card(value);
    }
    if first.starts_with("\"grant\"") {
        return grant(value);
    }
    if first.starts_with("\"credit\"") {
        return credit(value);
    }
    if first.starts_with("\"credit_day\"") {
        return credit_drawn(value);
    }
    let has = |name: &str| text.contains(&format!(",\"{name}\":"));
    if has("voided") {
        return voided(value);
    }
    if has("late") {
        return late(value);
    }
    if has("reports") {
        return reports(value);
    }
    if has("readings") {
        return readings(value);
    }
    if has("drawn") {
        return drawn(value);
    }
    if has("deleted_at") { sandbox(value) } else { lease(value) }
}

fn card(value: Value<'_, '_>) -> Read<Record> {
    let names = ["card", "from", "to", "cpu_micros", "memory_micros", "storage_micros", "floor_millicores"];
    let object = value.object(names)?;
    let price = |name| -> Read<PriceMicros> {
        known(PriceMicros::new(object.required(name)?.integer(0, PRICE_MICROS_MAX)?), "a price")
    };
    let floor = object.required("floor_millicores")?.integer(0, FLOOR_MILLICORES_MAX)?;
    let card = RateCard {
        id: object.required("card")?.id(RateCardId::parse)?,
        cpu: price("cpu_micros")?,
        memory: price("memory_micros")?,
        storage: price("storage_micros")?,
        floor: known(Millicores::new(floor), "a floor")?,
    };
    Ok(Record::Card(CardSpan { from: object.required("from")?.day()?, to: object.required("to")?.day()?, card }))
}

fn grant(value: Value<'_, '_>) -> Read<Record> {
    let object = value.object(["grant", "granted_ms", "starts_on", "expires_on", "drawn_before_ms"])?;
    let expires = object.required("expires_on")?;
    Ok(Record::Grant(GrantTerms {
        id: object.required("grant")?.id(GrantId::parse)?,
        granted_ms: whole(object.required("granted_ms")?)?,
        starts_on: object.required("starts_on")?.day()?,
        expires_on: if expires.is_null() { None } else { Some(expires.day()?) },
        drawn_before_ms: whole(object.required("drawn_before_ms")?)?,
    }))
}

fn signed_micros(value: &Value<'_, '_>) -> Read<Micros> {
    known(Micros::new(whole(*value)?), "an amount")
}

fn credit(value: Value<'_, '_>) -> Read<Record> {
    let object = value.object(["credit", "granted_micros", "starts_on", "expires_on", "drawn_before_micros"])?;
    let expires = object.required("expires_on")?;
    Ok(Record::Credit(CreditTerms {
        id: object.required("credit")?.id(GrantId::parse)?,
        granted: object.required("granted_micros")?.micros()?,
        starts_on: object.required("starts_on")?.day()?,
        expires_on: if expires.is_null() { None } else { Some(expires.day()?) },
        drawn_before: signed_micros(&object.required("drawn_before_micros")?)?,
    }))
}

fn credit_drawn(value: Value<'_, '_>) -> Read<Record> {
    let object = value.object(["credit_day", "drawn"])?;
    let drawn =
        rows(object.required("drawn")?, |[credit, amount]| Ok((credit.id(GrantId::parse)?, signed_micros(amount)?)))?;
    Ok(Record::CreditDrawn(object.required("credit_day")?.day()?, drawn))
}

fn life<const N: usize>(object: &Object<'_, '_, N>) -> Read<LifeId> {
    let life = object.required("life")?.integer(1, i64::MAX)?;
    Ok(LifeId { sandbox: object.required("sandbox")?.id(SandboxId::parse)?, life })
}

fn sandbox(value: Value<'_, '_>) -> Read<Record> {
    let object = value.object(["sandbox", "life", "deleted_at"])?;
    Ok(Record::Sandbox(life(&object)?, opt_at(object.required("deleted_at")?)?))
}

fn reports(value: Value<'_, '_>) -> Read<Record> {
    let object = value.object(["sandbox", "life", "hour", "reports"])?;
    let list = object.required("reports")?;
    let reports = rows(list, |[when, storage]| Ok(StorageReport { at: at(*when)?, storage: mib(*storage)? }))?;
    Ok(Record::Reports(life(&object)?, hour(object.required("hour")?)?, reports))
}

fn lease(value: Value<'_, '_>) -> Read<Record> {
    let names = ["lease", "sandbox", "life", "key", "vcpus", "memory_mib", "starts_at", "ends_at", "proven_until"];
    let object = value.object(names)?;
    let vcpus = Vcpus::new(object.required("vcpus")?.integer(1, VCPUS_MAX)?);
    Ok(Record::Lease(LeaseTerms {
        id: object.required("lease")?.id(LeaseId::parse)?,
        of: life(&object)?,
        key: object.required("key")?.id(KeyId::parse)?,
        shape: Shape { vcpus: known(vcpus, "a number of vCPUs")?, memory: mib(object.required("memory_mib")?)? },
        starts_at: at(object.required("starts_at")?)?,
        ends_at: at(object.required("ends_at")?)?,
        proven_until: opt_at(object.required("proven_until")?)?,
    }))
}

fn readings(value: Value<'_, '_>) -> Read<Record> {
    let object = value.object(["lease", "hour", "readings"])?;
    let readings = rows(object.required("readings")?, |[when, epoch, cpu, memory, storage]| {
        Ok(Reading {
            at: at(*when)?,
            epoch: epoch.integer(0, COUNTER_MAX)?,
            cpu_usage_us: cpu.integer(0, COUNTER_MAX)?,
            memory: opt_mib(*memory)?,
            storage: opt_mib(*storage)?,
        })
    })?;
    Ok(Record::Readings(object.required("lease")?.id(LeaseId::parse)?, hour(object.required("hour")?)?, readings))
}

fn drawn(value: Value<'_, '_>) -> Read<Record> {
    let object = value.object(["lease", "hour", "drawn"])?;
    let drawn = rows(object.required("drawn")?, |[grant, ms]| Ok((grant.id(GrantId::parse)?, whole(*ms)?)))?;
    Ok(Record::Drawn(object.required("lease")?.id(LeaseId::parse)?, hour(object.required("hour")?)?, drawn))
}

fn owner<const N: usize>(object: &Object<'_, '_, N>) -> Read<Owner> {
    match object.given("lease") {
        Some(lease) => Ok(Owner::Lease(lease.id(LeaseId::parse)?)),
        None => Ok(Owner::Life(life(object)?)),
    }
}

fn voided(value: Value<'_, '_>) -> Read<Record> {
    let object = value.object(["lease", "sandbox", "life", "voided"])?;
    let instants = object.required("voided")?.items(ITEMS_MAX)?.map(at).collect::<Read<_>>()?;
    Ok(Record::Voided(owner(&object)?, instants))
}

fn late(value: Value<'_, '_>) -> Read<Record> {
    let object = value.object(["lease", "sandbox", "life", "late", "billed"])?;
    let of = owner(&object)?;
    let billed = object.required("billed")?;
    let days = if billed.is_empty_array() { Vec::new() } else { rows(billed, billed_day)? };
    Ok(Record::Late(of, month(object.required("late")?)?, days))
}

fn billed_day(row: &[Value<'_, '_>; 9]) -> Read<(Day, HourTotals)> {
    let [day, run, used, cpu, memory, storage, free_ms, free_cpu, free_memory] = row;
    let wide = |value: &Value<'_, '_>| whole(*value).map(i128::from);
    let usage = Usage {
        run_ms: wide(run)?,
        cpu_used_us: wide(used)?,
        cpu_us: wide(cpu)?,
        memory_mib_ms: wide(memory)?,
        storage_mib_ms: wide(storage)?,
    };
    let free = Usage { cpu_us: wide(free_cpu)?, memory_mib_ms: wide(free_memory)?, ..Usage::ZERO };
    Ok((day.day()?, HourTotals { usage, free_ms: wide(free_ms)?, free }))
}
