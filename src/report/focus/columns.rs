//! The columns, in the order in which they are written: their names, their types, and where a row has them.

use super::rows::{Row, Usage};
use crate::domain::id::LeaseId;
use crate::domain::time::Timestamp;

/// Digits after the point of money.
pub(super) const MONEY_DIGITS: usize = 18;
/// Digits after the point of a quantity.
pub(super) const QUANTITY_DIGITS: usize = 12;
/// Digits after the point of a price.
pub(super) const PRICE_DIGITS: usize = 6;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// A decimal with so many digits after the point.
    Decimal(usize),
    Time,
}

/// What a row has in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell<'r> {
    Text(Option<&'r str>),
    /// A value and its digits after the point.
    Decimal(Option<(i128, usize)>),
    Time(Timestamp),
}

/// A column.
pub(super) struct Column {
    pub(super) name: &'static str,
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "only typed files need it"))]
    pub(super) kind: Kind,
    /// Digits after the point that text shows at least.
    pub(super) digits_min: usize,
    pub(super) get: for<'r> fn(&'r Row<'_>) -> Cell<'r>,
}

const fn text(name: &'static str, get: for<'r> fn(&'r Row<'_>) -> Cell<'r>) -> Column {
    Column { name, kind: Kind::Text, digits_min: 0, get }
}

const fn money(name: &'static str, get: for<'r> fn(&'r Row<'_>) -> Cell<'r>) -> Column {
    Column { name, kind: Kind::Decimal(MONEY_DIGITS), digits_min: 9, get }
}

const fn quantity(name: &'static str, get: for<'r> fn(&'r Row<'_>) -> Cell<'r>) -> Column {
    Column { name, kind: Kind::Decimal(QUANTITY_DIGITS), digits_min: 1, get }
}

const fn price(name: &'static str, get: for<'r> fn(&'r Row<'_>) -> Cell<'r>) -> Column {
    Column { name, kind: Kind::Decimal(PRICE_DIGITS), digits_min: PRICE_DIGITS, get }
}

const fn time(name: &'static str, get: for<'r> fn(&'r Row<'_>) -> Cell<'r>) -> Column {
    Column { name, kind: Kind::Time, digits_min: 0, get }
}

const fn word(text: &str) -> Cell<'_> {
    Cell::Text(Some(text))
}

fn of_usage<'r>(row: &'r Row<'_>, get: impl Fn(&'r Usage<'_>) -> &'r str) -> Cell<'r> {
    Cell::Text(row.usage.as_ref().map(get))
}

fn amount(atto: i128) -> Cell<'static> {
    Cell::Decimal(Some((atto, MONEY_DIGITS)))
}

fn priced(row: &Row<'_>) -> Cell<'static> {
    Cell::Decimal(row.usage.as_ref().map(|usage| (usage.charge.priced, QUANTITY_DIGITS)))
}

fn consumed(row: &Row<'_>) -> Cell<'static> {
    Cell::Decimal(row.usage.as_ref().map(|usage| (usage.charge.consumed, QUANTITY_DIGITS)))
}

fn list_price(row: &Row<'_>) -> Cell<'static> {
    let price = |usage: &Usage<'_>| (i128::from(usage.charge.price.micros_per_hour()), PRICE_DIGITS);
    Cell::Decimal(row.usage.as_ref().map(price))
}

/// What free hours pay for is had for nothing.
fn contracted_price(row: &Row<'_>) -> Cell<'static> {
    if row.usage.as_ref().is_some_and(|usage| usage.charge.free) {
        Cell::Decimal(Some((0, PRICE_DIGITS)))
    } else {
        list_price(row)
    }
}

/// What is no usage has the service of compute: every row must have one.
const SERVICE: [&str; 3] = ["Sandboxes", "Compute", "Virtual Machines"];

/// All columns.
pub(super) static COLUMNS: &[Column] = &[
    text("AvailabilityZone", |_| Cell::Text(None)),
    money("BilledCost", |row| amount(row.billed)),
    text("BillingAccountId", |row| word(&row.head.account)),
    text("BillingAccountName", |row| word(&row.head.name)),
    text("BillingCurrency", |_| word("USD")),
    time("BillingPeriodEnd", |row| Cell::Time(row.head.month.span().end)),
    time("BillingPeriodStart", |row| Cell::Time(row.head.month.span().start)),
    text("ChargeCategory", |row| word(row.category)),
    text("ChargeClass", |row| Cell::Text(row.corrects.then_some("Correction"))),
    text("ChargeDescription", |row| word(&row.description)),
    text("ChargeFrequency", |row| word(if row.usage.is_some() { "Usage-Based" } else { "One-Time" })),
    time("ChargePeriodEnd", |row| Cell::Time(row.period.end)),
    time("ChargePeriodStart", |row| Cell::Time(row.period.start)),
    // There are no commitments; but the rules of consumed quantities ask.
    text("CommitmentDiscountStatus", |_| Cell::Text(None)),
    quantity("ConsumedQuantity", consumed),
    text("ConsumedUnit", |row| of_usage(row, |usage| usage.sku.unit)),
    money("ContractedCost", |row| amount(row.billed)),
    price("ContractedUnitPrice", contracted_price),
    money("EffectiveCost", |row| amount(row.billed)),
    text("HostProviderName", |row| word(&row.head.issuer)),
    text("InvoiceDetailId", |row| Cell::Text(row.line.as_deref().filter(|_| row.head.number.is_some()))),
    text("InvoiceId", |row| Cell::Text(row.head.number.as_deref())),
    text("InvoiceIssuerName", |row| word(&row.head.issuer)),
    money("ListCost", |row| amount(row.list)),
    price("ListUnitPrice", list_price),
    text("PricingCategory", |row| of_usage(row, |_| "Standard")),
    text("PricingCurrency", |_| word("USD")),
    price("PricingCurrencyContractedUnitPrice", contracted_price),
    money("PricingCurrencyEffectiveCost", |row| amount(row.billed)),
    price("PricingCurrencyListUnitPrice", list_price),
    quantity("PricingQuantity", priced),
    text("PricingUnit", |row| of_usage(row, |usage| usage.sku.unit)),
    text("ProviderName", |row| word(&row.head.issuer)),
    text("PublisherName", |row| word(&row.head.issuer)),
    text("ResourceId", |row| of_usage(row, |usage| usage.hour.sandbox.as_str())),
    text("ResourceName", |row| of_usage(row, |usage| usage.hour.sandbox.as_str())),
    text("ResourceType", |row| of_usage(row, |_| "Sandbox")),
    text("ServiceCategory", |row| word(row.usage.as_ref().map_or(SERVICE[1], |usage| usage.sku.category))),
    text("ServiceName", |row| word(row.usage.as_ref().map_or(SERVICE[0], |usage| usage.sku.service))),
    text("ServiceProviderName", |row| word(&row.head.issuer)),
    text("ServiceSubcategory", |row| word(row.usage.as_ref().map_or(SERVICE[2], |usage| usage.sku.subcategory))),
    text("SkuId", |row| of_usage(row, |usage| usage.sku.id)),
    text("SkuMeter", |row| of_usage(row, |usage| usage.sku.meter)),
    text("SkuPriceDetails", |row| of_usage(row, |usage| &usage.details)),
    text("SkuPriceId", |row| of_usage(row, |usage| &usage.price_id)),
    text("x_ApiKeyId", |row| of_usage(row, |usage| usage.hour.key.as_str())),
    text("x_Free", |row| of_usage(row, |usage| if usage.charge.free { "true" } else { "false" })),
    text("x_LeaseId", |row| {
        Cell::Text(row.usage.as_ref().and_then(|usage| usage.hour.lease.as_ref()).map(LeaseId::as_str))
    }),
    text("x_RateCardId", |row| of_usage(row, |usage| usage.card.as_str())),
];
