//! Lines of an invoice: what each is about, and what is behind it.

use super::id::{GrantId, RateCardId};
use super::money::{Micros, PriceMicros};
use super::tax::Taxed;
use super::time::{Day, Month};

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// CPU as billed, in vCPU-microseconds.
    Cpu,
    /// Memory, in MiB-milliseconds.
    Memory,
    /// Storage, in MiB-milliseconds.
    Storage,
    /// Free time, in milliseconds of one running sandbox; its amount is below zero.
    FreeHours,
    /// What the invoice before carried forward; below zero.
    CarriedOver,
    /// Promotional credit of one grant; its amount is below zero (above, where more is given back than drawn).
    Credit,
    /// Tax on the sum of the lines before it.
    Tax,
    /// What the next invoice begins with; brings the total to 0.
    CarriedForward,
}

impl Item {
    /// All of them, in the order of an invoice.
    pub const ALL: [Self; 8] = [
        Self::Cpu,
        Self::Memory,
        Self::Storage,
        Self::FreeHours,
        Self::CarriedOver,
        Self::Credit,
        Self::Tax,
        Self::CarriedForward,
    ];

    /// Its stable name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Storage => "storage",
            Self::FreeHours => "free_hours",
            Self::CarriedOver => "carried_over",
            Self::Credit => "credit",
            Self::Tax => "tax",
            Self::CarriedForward => "carried_forward",
        }
    }

    /// The item of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|item| item.name() == name)
    }

    /// The unit of its quantity as people see it, and how many exact units are in one; `None` for money alone.
    #[must_use]
    pub fn unit(self) -> Option<(&'static str, i128)> {
        match self {
            Self::Cpu => Some(("vCPU-hour", 3_600_000_000)),
            Self::Memory | Self::Storage => Some(("GiB-hour", 3_686_400_000)),
            Self::FreeHours => Some(("sandbox-hour", 3_600_000)),
            Self::CarriedOver | Self::Credit | Self::Tax | Self::CarriedForward => None,
        }
    }
}

/// The usage behind a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// When it was used: the invoice's month, or an earlier one for usage that came late.
    pub month: Month,
    /// The first day of the span.
    pub from: Day,
    /// The first day after it.
    pub to: Day,
    /// The card that holds in the span.
    pub card: RateCardId,
    /// How much, in the item's exact units.
    pub quantity: i128,
    /// CPU only: what was measured, before the floor, in the same units.
    pub measured: Option<i128>,
    /// Per hour; `None` for free hours, which pay for whatever ran.
    pub price: Option<PriceMicros>,
}

/// A line of an invoice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What it is about.
    pub item: Item,
    /// The usage behind it; `None` for money alone.
    pub used: Option<Used>,
    /// The grant of credit that pays.
    pub credit: Option<GrantId>,
    /// The tax.
    pub taxed: Option<Taxed>,
    /// What it adds to the total.
    pub amount: Micros,
}

impl Line {
    /// A line of usage.
    #[must_use]
    pub fn of_usage(item: Item, used: Used, amount: Micros) -> Self {
        Self { item, used: Some(used), credit: None, taxed: None, amount }
    }

    /// A line of money alone.
    #[must_use]
    pub fn of_money(item: Item, amount: Micros) -> Self {
        Self { item, used: None, credit: None, taxed: None, amount }
    }
}
