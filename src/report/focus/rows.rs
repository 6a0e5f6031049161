//! A row: one charge, with all that its columns are read from.

use super::super::{ReportError, show_month};
use crate::domain::Overflow;
use crate::domain::charge::{Atto, BilledHour, Charge, atto};
use crate::domain::id::RateCardId;
use crate::domain::invoice::{Invoice, Item, Line, Used};
use crate::domain::rate_card::RateCard;
use crate::domain::time::{Day, Month, Span};

/// What all rows of a bill share.
pub(super) struct Head {
    /// Who sends it.
    pub(super) issuer: String,
    /// Whose it is.
    pub(super) account: String,
    /// The account's name.
    pub(super) name: String,
    /// The month that bills.
    pub(super) month: Month,
    /// The invoice's number, once it has one.
    pub(super) number: Option<String>,
    /// Where the lines of usage are: what of, since when, and the line's place from 1.
    lines: Vec<(Item, Used, usize)>,
}

/// What is bought: how FOCUS calls it.
pub(super) struct Sku {
    /// Its id.
    pub(super) id: &'static str,
    /// What is metered.
    pub(super) meter: &'static str,
    /// The unit of its quantity.
    pub(super) unit: &'static str,
    /// The service that it is part of.
    pub(super) service: &'static str,
    /// FOCUS's category of that service.
    pub(super) category: &'static str,
    /// FOCUS's subcategory of that service.
    pub(super) subcategory: &'static str,
}

const CPU: Sku = Sku {
    id: "sandbox-cpu",
    meter: "vCPU time",
    unit: "vCPU-Hours",
    service: "Sandboxes",
    category: "Compute",
    subcategory: "Virtual Machines",
};
const MEMORY: Sku = Sku { id: "sandbox-memory", meter: "Memory reserved", unit: "GiB-Hours", ..CPU };
const STORAGE: Sku = Sku {
    id: "sandbox-storage",
    meter: "Storage reserved",
    unit: "GiB-Hours",
    service: "Sandbox storage",
    category: "Storage",
    subcategory: "Block Storage",
};

/// What a row has where it is of usage.
pub(super) struct Usage<'a> {
    /// The hour's usage.
    pub(super) hour: &'a BilledHour,
    /// The part of it.
    pub(super) charge: Charge,
    /// The card that prices it.
    pub(super) card: RateCardId,
    /// What is bought.
    pub(super) sku: &'static Sku,
    /// The price's id.
    pub(super) price_id: String,
    /// The price's details, as JSON.
    pub(super) details: String,
}

/// A row.
pub(super) struct Row<'a> {
    pub(super) head: &'a Head,
    /// When it was used, or the month that bills.
    pub(super) period: Span,
    /// FOCUS's category of the charge.
    pub(super) category: &'static str,
    /// Whether it corrects a month that was billed before.
    pub(super) corrects: bool,
    pub(super) description: String,
    pub(super) usage: Option<Usage<'a>>,
    /// At list price.
    pub(super) list: Atto,
    /// What is to be paid.
    pub(super) billed: Atto,
    /// Which line of the invoice it is part of.
    pub(super) line: Option<String>,
}

impl Head {
    pub(super) fn of(invoice: &Invoice, issuer: &str) -> Self {
        let name = invoice.name.trim();
        let lines = (1_usize..).zip(&invoice.lines);
        Self {
            issuer: issuer.to_owned(),
            account: invoice.account.to_string(),
            name: if name.is_empty() { invoice.account.to_string() } else { name.to_owned() },
            month: invoice.month,
            number: invoice.number().map(|number| number.to_string()),
            lines: lines.filter_map(|(place, line)| Some((line.item, line.used.clone()?, place))).collect(),
        }
    }

    /// The id of a line: the invoice's number (or month), and the line's place.
    fn line_id(&self, place: usize) -> String {
        format!("{}/{place}", self.number.clone().unwrap_or_else(|| show_month(self.month)))
    }

    /// The line that bills an item on a day.
    fn line_of(&self, item: Item, day: Day) -> Option<String> {
        let found = self.lines.iter().find(|(of, used, _)| *of == item && used.from <= day && day < used.to);
        found.map(|(_, _, place)| self.line_id(*place))
    }
}

fn sku(item: Item) -> Result<&'static Sku, Overflow> {
    [(Item::Cpu, &CPU), (Item::Memory, &MEMORY), (Item::Storage, &STORAGE)]
        .into_iter()
        .find_map(|(of, sku)| (of == item).then_some(sku))
        .ok_or(Overflow)
}

impl<'a> Row<'a> {
    /// A part of an hour's usage.
    pub(super) fn usage(
        head: &'a Head,
        hour: &'a BilledHour,
        charge: &Charge,
        card: &RateCard,
    ) -> Result<Self, ReportError> {
        let sku = sku(charge.item)?;
        let free = if charge.free { ", paid by free hours" } else { "" };
        let floor = match charge.item {
            Item::Cpu => format!("\"x_FloorMillicores\": {}, ", card.floor.count()),
            _ => String::new(),
        };
        let usage = Usage {
            hour,
            charge: *charge,
            card: card.id.clone(),
            sku,
            price_id: format!("{}@{}", sku.id, card.id),
            details: format!("{{{floor}\"x_RateCardId\": \"{}\"}}", card.id),
        };
        Ok(Self {
            head,
            period: hour.hour.span(),
            category: "Usage",
            corrects: hour.hour.start().month() != head.month,
            description: format!("{} of sandbox {}{free}", sku.meter, hour.sandbox),
            usage: Some(usage),
            list: charge.list()?,
            billed: charge.billed()?,
            line: head.line_of(charge.item, hour.hour.day()),
        })
    }

    /// A line of the invoice that has no usage behind it.
    pub(super) fn money(head: &'a Head, place: usize, line: &Line) -> Result<Self, ReportError> {
        let (category, description) = super::super::money_words(line.item)?;
        let amount = atto(line.amount);
        Ok(Self {
            line: Some(head.line_id(place)),
            category,
            description: description.to_owned(),
            ..Self::rounding(head, amount)
        })
    }

    /// What is left to the amount due, which is in whole cents.
    pub(super) fn rounding(head: &'a Head, amount: Atto) -> Self {
        Self {
            head,
            period: head.month.span(),
            category: "Adjustment",
            corrects: false,
            description: "Rounding of the amount due to whole cents".to_owned(),
            usage: None,
            list: amount,
            billed: amount,
            line: None,
        }
    }
}
