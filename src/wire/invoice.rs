//! Invoices.

use serde::Serialize;
use utoipa::ToSchema;

use super::note::InvoiceLife;
use super::schema::{
    DayText, Decimal, DigestText, Id, MicrosCount, MonthText, PriceCount, Quantity, SignedMicrosCount, TaxRateBps,
    TimeText,
};
use super::time::{show_day, show_month, show_time};
use crate::domain::Overflow;
use crate::domain::credit;
use crate::domain::id::GrantId;
use crate::domain::invoice::{self, Status, Used, decimal};
use crate::domain::money::PriceMicros;
use crate::ledger::close::ClosedMonth;
use crate::ledger::notes::Afterlife;
use crate::report::evidence::tree::hex;

/// Whether an invoice can still change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(rename_all = "lowercase")]
pub enum StatusWord {
    /// It shows what the month would bill if it were closed now.
    Draft,
    /// It never changes.
    Final,
}

/// A line: usage of a resource at one price, free time (below zero), or money that is carried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Line {
    /// `cpu`, `memory`, `storage`, `free_hours`, `carried_over`, `credit`, `tax` or `carried_forward`.
    pub resource: &'static str,
    /// When it was used: another month than the invoice's for usage that came late.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = MonthText, required = false)]
    pub month_of_use: Option<String>,
    /// The first day of the span of one rate card.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = DayText, required = false)]
    pub from: Option<String>,
    /// The first day after the span.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = DayText, required = false)]
    pub to: Option<String>,
    /// The card that holds in the span.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Id, required = false)]
    pub rate_card: Option<String>,
    /// How much; times the unit price it is the amount, to the microdollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Decimal, required = false)]
    pub quantity: Option<String>,
    /// CPU only: what was measured, before the floor.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Decimal, required = false)]
    pub measured_quantity: Option<String>,
    /// `vCPU-hour`, `GiB-hour` or `sandbox-hour`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub unit: Option<&'static str>,
    /// The exact quantity: vCPU-microseconds, MiB-milliseconds, or milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Quantity, required = false)]
    pub exact_quantity: Option<String>,
    /// Per unit; absent for free hours, which pay for whatever ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = PriceCount, required = false)]
    pub unit_price_micros: Option<i64>,
    /// Credit only: the grant that pays.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Id, required = false)]
    pub grant: Option<String>,
    /// Tax only: the rate, in basis points.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = TaxRateBps, required = false)]
    pub tax_rate_bps: Option<i64>,
    /// Tax only: what is taxed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = MicrosCount, required = false)]
    pub taxable_micros: Option<i64>,
    /// What it adds to the total.
    #[schema(value_type = SignedMicrosCount)]
    pub amount_micros: i64,
}

impl Line {
    fn new(line: &invoice::Line) -> Result<Self, Overflow> {
        let used = line.used.as_ref();
        let shown = |quantity: i128| line.item.unit().map(|(_, size)| decimal(quantity, size)).transpose();
        Ok(Self {
            resource: line.item.name(),
            month_of_use: used.map(|used| show_month(used.month)),
            from: used.map(|used| show_day(used.from)),
            to: used.map(|used| show_day(used.to)),
            rate_card: used.map(|used| used.card.to_string()),
            quantity: used.map(|used| shown(used.quantity)).transpose()?.flatten(),
            measured_quantity: used.and_then(|used| used.measured).map(shown).transpose()?.flatten(),
            unit: used.and(line.item.unit()).map(|(unit, _)| unit),
            exact_quantity: used.map(|used: &Used| used.quantity.to_string()),
            unit_price_micros: used.and_then(|used| used.price).map(PriceMicros::micros_per_hour),
            grant: line.credit.as_ref().map(GrantId::to_string),
            tax_rate_bps: line.taxed.map(|taxed| taxed.rate.bps()),
            taxable_micros: line.taxed.map(|taxed| taxed.base.count()),
            amount_micros: line.amount.count(),
        })
    }
}

/// What an invoice drew on a grant of credit for the usage of a day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CreditDraw {
    /// The day of use.
    #[schema(value_type = DayText)]
    pub day: String,
    /// The grant.
    #[schema(value_type = Id)]
    pub grant: String,
    /// How much; below zero: given back.
    #[schema(value_type = SignedMicrosCount)]
    pub amount_micros: i64,
}

impl From<&credit::CreditDraw> for CreditDraw {
    fn from(draw: &credit::CreditDraw) -> Self {
        let (day, grant) = (show_day(draw.day), draw.credit.to_string());
        Self { day, grant, amount_micros: draw.amount.count() }
    }
}

/// An invoice, or a draft of one. Its lines sum to the total.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Invoice {
    /// Whose.
    #[schema(value_type = Id)]
    pub account: String,
    /// The account's name when the invoice was made.
    pub account_name: String,
    /// The month that bills.
    #[schema(value_type = MonthText)]
    pub month: String,
    /// The number; null for a draft, and for a closed month that had nothing to bill.
    pub number: Option<String>,
    /// Draft or final.
    pub status: StatusWord,
    /// When it became final; null for a draft.
    #[schema(value_type = Option<TimeText>, required = true)]
    pub finalized_at: Option<String>,
    /// The month's own usage by span and resource, late usage by month of use, what is carried over, credit by grant,
    /// tax, what is carried forward.
    pub lines: Vec<Line>,
    /// All usage at list price.
    #[schema(value_type = SignedMicrosCount)]
    pub list_micros: i64,
    /// What free time paid of it.
    #[schema(value_type = SignedMicrosCount)]
    pub free_micros: i64,
    /// What promotional credit paid of it; below zero where more is given back than drawn.
    #[schema(value_type = SignedMicrosCount)]
    pub credit_micros: i64,
    /// Tax.
    #[schema(value_type = MicrosCount)]
    pub tax_micros: i64,
    /// What credit paid for which day of use; its credit lines are the sums of this.
    pub credit_draws: Vec<CreditDraw>,
    /// The sum of the lines.
    #[schema(value_type = MicrosCount)]
    pub total_micros: i64,
    /// The total, rounded half up to cents.
    #[schema(value_type = MicrosCount)]
    pub amount_due_cents: i64,
    /// SHA-256 of the evidence that a final invoice was made from; null for a draft, and for invoices made before
    /// there were digests.
    #[schema(value_type = Option<DigestText>, required = true)]
    pub evidence_digest: Option<String>,
    /// SHA-256 of the rate cards and grants in it.
    #[schema(value_type = Option<DigestText>, required = true)]
    pub terms_digest: Option<String>,
    /// What became of it after it was final; absent while nothing has. The rest never changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub life: Option<InvoiceLife>,
}

impl Invoice {
    /// An invoice as it is shown; an error only where a quantity is too large to be divided exactly.
    pub fn new(invoice: &invoice::Invoice) -> Result<Self, Overflow> {
        let (status, finalized_at) = match invoice.status {
            Status::Draft => (StatusWord::Draft, None),
            Status::Nothing => (StatusWord::Final, None),
            Status::Final { at, .. } => (StatusWord::Final, Some(show_time(at))),
        };
        Ok(Self {
            account: invoice.account.to_string(),
            account_name: invoice.name.clone(),
            month: show_month(invoice.month),
            number: invoice.number().map(|number| number.to_string()),
            status,
            finalized_at,
            lines: invoice.lines.iter().map(Line::new).collect::<Result<_, _>>()?,
            list_micros: invoice.list.count(),
            free_micros: invoice.free.count(),
            credit_micros: invoice.credit.count(),
            tax_micros: invoice.tax.count(),
            credit_draws: invoice.draws.iter().map(CreditDraw::from).collect(),
            total_micros: invoice.total.count(),
            amount_due_cents: invoice.due_cents(),
            evidence_digest: invoice.digests.map(|digests| hex(&digests.evidence)),
            terms_digest: invoice.digests.map(|digests| hex(&digests.terms)),
            life: None,
        })
    }

    /// The same with what became of it.
    pub fn with_life(invoice: &invoice::Invoice, life: Option<&Afterlife>) -> Result<Self, Overflow> {
        let life = life.map(|life| InvoiceLife::new(invoice.total, life)).transpose()?;
        Ok(Self { life, ..Self::new(invoice)? })
    }
}

/// A closed month.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct MonthClosed {
    /// Which.
    #[schema(value_type = MonthText)]
    pub month: String,
    /// How many invoices it has.
    #[schema(value_type = super::schema::CounterCount)]
    pub invoices: i64,
}

impl From<ClosedMonth> for MonthClosed {
    fn from(closed: ClosedMonth) -> Self {
        Self { month: show_month(closed.month), invoices: closed.invoices }
    }
}
