//! What a replay says at its end: usage and cost by sandbox and resource, and every refused row by its code.

use serde_json::{Value, json};

use super::play::Outcome;
use super::steps::Tally;
use crate::cli::format::{Align, Table, dollars, grouped, ratio6, rfc3339, thousandths};
use crate::domain::usage::Usage;
use crate::ledger::view::CostTable;

/// vCPU-microseconds of a vCPU-hour.
const CPU_US_PER_HOUR: i128 = 3_600_000_000;
/// MiB-milliseconds of a GiB-hour.
const MIB_MS_PER_GIB_HOUR: i128 = 1_024 * 3_600_000;
/// Sandboxes that the text shows; `--json` has all.
const SHOWN_SANDBOXES_MAX: usize = 40;

/// The report as lines of text.
#[must_use]
pub fn text(outcome: &Outcome) -> Vec<String> {
    let costs = &outcome.by_sandbox;
    let mut lines = vec![format!("From {} to {}", rfc3339(costs.from), rfc3339(costs.to)), String::new()];
    lines.extend(by_sandbox(costs));
    lines.push(String::new());
    lines.extend(by_resource(&outcome.by_resource));
    lines.push(String::new());
    let total = outcome.total();
    lines.push(format!(
        "{} rows; {} samples taken, {} known already; {} leases",
        count(total.rows),
        count(total.accepted),
        count(total.duplicates),
        count(total.leases),
    ));
    if total.off > 0 {
        lines.push(format!("{} rows of a VM that was off", count(total.off)));
    }
    if total.lone > 0 {
        lines.push(format!("{} rows alone within an hour: they prove no time", count(total.lone)));
    }
    if total.silences > 0 {
        let hours = thousandths(i128::from(total.silent_ms).saturating_div(3_600), "hours");
        lines.push(format!("{} silences of more than an hour, {hours}: nothing is billed", count(total.silences)));
    }
    for (code, refused) in &total.refused {
        lines.push(format!("{} refused: {code}", count(refused.count)));
    }
    for (sandbox, tally) in outcome.tallies.iter().filter(|(_, tally)| !tally.refused.is_empty()) {
        for (code, refused) in &tally.refused {
            for (line, detail) in &refused.examples {
                let place = if *line == 0 { String::new() } else { format!(" line {line}") };
                lines.push(format!("  {sandbox}{place}: {code}: {detail}"));
            }
        }
    }
    lines
}

/// The report as one JSON document. Quantities are decimal strings, as in the API.
#[must_use]
pub fn json(outcome: &Outcome) -> Value {
    let rows = |table: &CostTable, name: &str| -> Vec<Value> {
        let rows = table.rows.iter().map(|row| {
            let mut value = amounts(row.usage, row.amounts);
            if let Some(fields) = value.as_object_mut() {
                fields.insert(name.to_owned(), json!(row.group));
            }
            value
        });
        rows.collect()
    };
    let tallies: Vec<Value> = outcome
        .tallies
        .iter()
        .map(|(sandbox, tally)| json!({ "sandbox": sandbox.as_str(), "rows": tally_json(tally) }))
        .collect();
    json!({
        "from": rfc3339(outcome.by_sandbox.from),
        "to": rfc3339(outcome.by_sandbox.to),
        "sandboxes": rows(&outcome.by_sandbox, "sandbox"),
        "resources": rows(&outcome.by_resource, "resource"),
        "total": amounts(outcome.by_sandbox.usage, outcome.by_sandbox.amounts),
        "rows": tally_json(&outcome.total()),
        "traces": tallies,
    })
}

fn amounts(usage: Usage, amounts: crate::domain::cost::Amounts) -> Value {
    json!({
        "usage": {
            "run_ms": usage.run_ms.to_string(),
            "cpu_used_us": usage.cpu_used_us.to_string(),
            "cpu_us": usage.cpu_us.to_string(),
            "memory_mib_ms": usage.memory_mib_ms.to_string(),
            "storage_mib_ms": usage.storage_mib_ms.to_string(),
        },
        "list_micros": amounts.list.count(),
        "free_micros": amounts.free.count(),
        "net_micros": amounts.net.count(),
    })
}

fn tally_json(tally: &Tally) -> Value {
    let refused: Vec<Value> = tally
        .refused
        .iter()
        .map(|(code, refused)| {
            let examples = refused.examples.iter().map(|(line, detail)| json!({ "line": line, "detail": detail }));
            json!({ "code": code, "count": refused.count, "examples": examples.collect::<Vec<_>>() })
        })
        .collect();
    json!({
        "rows": tally.rows, "off": tally.off, "lone": tally.lone, "silences": tally.silences,
        "silent_ms": tally.silent_ms, "leases": tally.leases, "accepted": tally.accepted,
        "duplicates": tally.duplicates, "refused": refused,
    })
}

fn by_sandbox(costs: &CostTable) -> Vec<String> {
    let mut table = Table::new(&[
        ("sandbox", Align::Left),
        ("hours", Align::Right),
        ("vCPU-hours used", Align::Right),
        ("vCPU-hours billed", Align::Right),
        ("GiB-hours", Align::Right),
        ("list", Align::Right),
        ("free", Align::Right),
        ("net", Align::Right),
    ]);
    let cells = |name: &str, usage: Usage, amounts: crate::domain::cost::Amounts| {
        vec![
            name.to_owned(),
            ratio6(usage.run_ms, 3_600_000),
            ratio6(usage.cpu_used_us, CPU_US_PER_HOUR),
            ratio6(usage.cpu_us, CPU_US_PER_HOUR),
            ratio6(usage.memory_mib_ms, MIB_MS_PER_GIB_HOUR),
            dollars(amounts.list.count()),
            dollars(amounts.free.count()),
            dollars(amounts.net.count()),
        ]
    };
    for row in costs.rows.iter().take(SHOWN_SANDBOXES_MAX) {
        table.row(cells(row.group.as_deref().unwrap_or("-"), row.usage, row.amounts));
    }
    let hidden = costs.rows.len().saturating_sub(SHOWN_SANDBOXES_MAX);
    if hidden > 0 {
        table.row(vec![format!("and {hidden} more: --json shows all")]);
    }
    table.footing(cells("total", costs.usage, costs.amounts));
    table.lines()
}

fn by_resource(costs: &CostTable) -> Vec<String> {
    let columns = ["list", "free", "net"].map(|name| (name, Align::Right));
    let mut table = Table::new(&[&[("resource", Align::Left)], columns.as_slice()].concat());
    let cells = |name: &str, amounts: crate::domain::cost::Amounts| {
        let shown = [amounts.list, amounts.free, amounts.net].map(|amount| dollars(amount.count()));
        std::iter::once(name.to_owned()).chain(shown).collect()
    };
    for row in &costs.rows {
        table.row(cells(row.group.as_deref().unwrap_or("-"), row.amounts));
    }
    table.footing(cells("total", costs.amounts));
    table.lines()
}

fn count(number: usize) -> String {
    grouped(u64::try_from(number).unwrap_or(u64::MAX))
}

impl Outcome {
    /// All tallies together, with the first examples of each code.
    #[must_use]
    pub fn total(&self) -> Tally {
        self.tallies.values().fold(Tally::default(), |mut total, tally| {
            total.add(tally);
            total.rows = total.rows.saturating_add(tally.rows);
            total.off = total.off.saturating_add(tally.off);
            total.lone = total.lone.saturating_add(tally.lone);
            total.silences = total.silences.saturating_add(tally.silences);
            total.silent_ms = total.silent_ms.saturating_add(tally.silent_ms);
            total.leases = total.leases.saturating_add(tally.leases);
            total
        })
    }
}
