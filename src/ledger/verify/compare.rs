//! Comparing what is kept with what was computed, figure by figure.

use super::Difference;
use crate::domain::credit::CreditDraw;
use crate::domain::id::{AccountId, KeyId, LeaseId, SandboxId};
use crate::domain::invoice::{Digests, Invoice, Line};
use crate::domain::lease::HourTotals;
use crate::domain::limits::DayTotals;
use crate::domain::time::Hour;
use crate::domain::usage::Usage;

/// The differences of one account.
#[derive(Debug)]
pub(super) struct Differences {
    account: AccountId,
    found: Vec<Difference>,
}

/// An hour's row, for people.
pub(super) fn lease_hour(sandbox: &SandboxId, lease: Option<&LeaseId>, key: &KeyId, hour: Hour) -> String {
    let (year, month, day) = hour.day().ymd();
    let of_day = hour.index().rem_euclid(24);
    let lease = lease.map_or_else(|| "storage".to_owned(), |lease| format!("lease {lease}"));
    format!("{year:04}-{month:02}-{day:02}T{of_day:02} sandbox {sandbox} {lease} key {key}")
}

/// The columns of a usage.
fn columns(usage: Usage) -> [(&'static str, i128); 5] {
    [
        ("run_ms", usage.run_ms),
        ("cpu_used_us", usage.cpu_used_us),
        ("cpu_us", usage.cpu_us),
        ("memory_mib_ms", usage.memory_mib_ms),
        ("storage_mib_ms", usage.storage_mib_ms),
    ]
}

/// The columns of what is reserved.
fn reserved_columns(usage: Usage) -> [(&'static str, i128); 5] {
    [
        ("reserved_run_ms", usage.run_ms),
        ("reserved_cpu_used_us", usage.cpu_used_us),
        ("reserved_cpu_us", usage.cpu_us),
        ("reserved_memory_mib_ms", usage.memory_mib_ms),
        ("reserved_storage_mib_ms", usage.storage_mib_ms),
    ]
}

impl Differences {
    pub(super) fn new(account: AccountId) -> Self {
        Self { account, found: Vec::new() }
    }

    pub(super) fn into_found(self) -> Vec<Difference> {
        self.found
    }

    /// Notes a figure that differs.
    pub(super) fn figure(&mut self, table: &'static str, row: &str, column: &'static str, kept: i128, computed: i128) {
        if kept != computed {
            let (account, row) = (self.account.clone(), row.to_owned());
            self.found.push(Difference { account, table, row, column, kept, computed });
        }
    }

    fn all(
        &mut self,
        table: &'static str,
        row: &str,
        kept: impl IntoIterator<Item = (&'static str, i128)>,
        computed: impl IntoIterator<Item = (&'static str, i128)>,
    ) {
        for ((column, kept), (_, computed)) in kept.into_iter().zip(computed) {
            self.figure(table, row, column, kept, computed);
        }
    }

    /// An hour of usage.
    pub(super) fn totals(&mut self, row: &str, kept: HourTotals, computed: HourTotals) {
        if kept == computed {
            return;
        }
        let free = |totals: HourTotals| {
            let Usage { cpu_us, memory_mib_ms, .. } = totals.free;
            [("free_ms", totals.free_ms), ("free_cpu_us", cpu_us), ("free_memory_mib_ms", memory_mib_ms)]
        };
        let table = "usage_hours";
        self.all(table, row, columns(kept.usage), columns(computed.usage));
        self.all(table, row, free(kept), free(computed));
    }

    /// A day of a key or an account.
    pub(super) fn day(&mut self, table: &'static str, row: &str, kept: DayTotals, computed: DayTotals) {
        self.all(table, row, columns(kept.used), columns(computed.used));
        self.all(table, row, reserved_columns(kept.reserved), reserved_columns(computed.reserved));
    }

    /// The digests of a final invoice; their first 64 bits are shown.
    pub(super) fn digests(&mut self, kept: &Invoice, found: Digests, computed: Digests) {
        let number = kept.number().map(|number| number.to_string()).unwrap_or_default();
        let row = format!("invoice {number}");
        let bits =
            |digest: [u8; 32]| digest.first_chunk::<8>().map_or(0, |bytes| i128::from(u64::from_be_bytes(*bytes)));
        let columns =
            [("evidence_digest", found.evidence, computed.evidence), ("terms_digest", found.terms, computed.terms)];
        for (column, found, computed) in columns {
            self.figure("invoices", &row, column, bits(found), bits(computed));
        }
    }

    /// A final invoice; whether it differs.
    pub(super) fn invoice(&mut self, kept: &Invoice, computed: &Invoice) -> bool {
        let before = self.found.len();
        let number = kept.number().map(|number| number.to_string()).unwrap_or_default();
        let heads = |invoice: &Invoice| {
            let lines = i128::try_from(invoice.lines.len()).unwrap_or(i128::MAX);
            let Invoice { list, free, credit, tax, total, .. } = invoice;
            let names = ["list_micros", "free_micros", "credit_micros", "tax_micros", "total_micros"];
            let amounts = [list, free, credit, tax, total].map(|micros| i128::from(micros.count()));
            names.into_iter().zip(amounts).chain([("lines", lines)])
        };
        self.all("invoices", &format!("invoice {number}"), heads(kept), heads(computed));
        for (place, (kept, computed)) in kept.lines.iter().zip(&computed.lines).enumerate() {
            let row = format!("invoice {number} line {} {}", place.saturating_add(1), kept.item.name());
            self.all("invoice_lines", &row, line_columns(kept), line_columns(computed));
            let words = |line: &Line| {
                let used = line.used.as_ref().map(|used| (used.from, used.to, used.card.clone()));
                (line.item, used, line.credit.clone(), line.taxed)
            };
            self.figure("invoice_lines", &row, "item", i128::from(words(kept) != words(computed)), 0);
        }
        let places = kept.draws.len().max(computed.draws.len());
        for place in 0..places {
            let (found, right) = (kept.draws.get(place), computed.draws.get(place));
            let row = format!("invoice {number} draw {}", place.saturating_add(1));
            let amount = |draw: Option<&CreditDraw>| draw.map_or(0, |draw| i128::from(draw.amount.count()));
            self.figure("credit_draws", &row, "drawn_micros", amount(found), amount(right));
            let of = |draw: Option<&CreditDraw>| draw.map(|draw| (draw.day, draw.credit.clone()));
            self.figure("credit_draws", &row, "credit", i128::from(of(found) != of(right)), 0);
        }
        self.found.len() > before
    }
}

fn line_columns(line: &Line) -> [(&'static str, i128); 5] {
    let used = line.used.as_ref();
    [
        ("use_month", used.map_or(-1, |used| i128::from(used.month.index()))),
        ("quantity", used.map_or(0, |used| used.quantity)),
        ("measured", used.and_then(|used| used.measured).unwrap_or(0)),
        ("price_micros", used.and_then(|used| used.price).map_or(-1, |price| i128::from(price.micros_per_hour()))),
        ("amount_micros", i128::from(line.amount.count())),
    ]
}
