//! Cost tables: rows of usage priced exactly and shown so that they add up.

use super::checked::Overflow;
use super::money::{Cost, Micros, apportion};
use super::usage::Usage;

/// List, free and net as people see them: `list = free + net`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// At list price.
    pub list: Micros,
    /// Paid by free time.
    pub free: Micros,
    /// To be paid.
    pub net: Micros,
}

/// An exact usage with its exact costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Priced {
    /// The usage.
    pub usage: Usage,
    /// At list price.
    pub list: Cost,
    /// To be paid.
    pub net: Cost,
}

impl Priced {
    /// The sum.
    pub fn plus(self, other: Self) -> Result<Self, Overflow> {
        Ok(Self {
            usage: self.usage.plus(other.usage)?,
            list: self.list.plus(other.list)?,
            net: self.net.plus(other.net)?,
        })
    }

    /// As a total is shown: list and net rounded down, free their difference.
    pub fn amounts(self) -> Result<Amounts, Overflow> {
        let (list, net) = (self.list.floor()?, self.net.floor()?);
        Ok(Amounts { list, free: list.minus(net)?, net })
    }
}

/// The total of rows and what each row shows under it: net and free by largest remainder, a row's list their sum.
pub fn tabulate(rows: &[Priced]) -> Result<(Priced, Amounts, Vec<Amounts>), Overflow> {
    let total = rows.iter().try_fold(Priced::default(), |sum, row| sum.plus(*row))?;
    let shown = total.amounts()?;
    let net: Vec<Cost> = rows.iter().map(|row| row.net).collect();
    let free = rows.iter().map(|row| row.list.minus(row.net)).collect::<Result<Vec<_>, _>>()?;
    let parts = apportion(shown.net, &net)?.into_iter().zip(apportion(shown.free, &free)?);
    let rows = parts.map(|(net, free)| Ok(Amounts { list: net.plus(free)?, free, net })).collect::<Result<_, _>>()?;
    Ok((total, shown, rows))
}
