//! Columns as the core's types: a stored value that does not parse is corrupt.

use crate::domain::id::{
    AccountId, EventId, ExtendId, GrantId, HostId, KeyId, LeaseId, NoteId, RateCardId, SandboxId, TokenId, VoidId,
};
use crate::domain::lease::HourTotals;
use crate::domain::limits::DayTotals;
use crate::domain::money::Micros;
use crate::domain::tax::TaxRate;
use crate::domain::time::{Day, Hour, Month, Timestamp};
use crate::domain::units::MebiBytes;
use crate::domain::usage::Usage;

use super::dialect::Row;
use super::{Answer, Rows, StoreError};

/// A value, or [`StoreError::Corrupt`] with what it should have been.
pub(super) fn known<T>(value: Option<T>, what: &str) -> Answer<T> {
    value.ok_or_else(|| StoreError::corrupt(what))
}

/// An id that is kept as text.
pub(super) trait Id: Sized {
    /// Reads it.
    fn read(text: &str) -> Option<Self>;
}

macro_rules! ids {
    ($($id:ident),*) => { $(impl Id for $id {
        fn read(text: &str) -> Option<Self> {
            Self::parse(text).ok()
        }
    })* };
}

ids!(AccountId, EventId, ExtendId, GrantId, HostId, KeyId, LeaseId, NoteId, RateCardId, SandboxId, TokenId, VoidId);

impl Row {
    /// An id.
    pub(super) fn id<T: Id>(&mut self) -> Answer<T> {
        known(T::read(self.text()?), "an id")
    }

    /// An id, or NULL.
    pub(super) fn opt_id<T: Id>(&mut self) -> Answer<Option<T>> {
        self.opt_text()?.map(|text| known(T::read(text), "an id")).transpose()
    }

    /// An id that is part of a key: empty text is none.
    pub(super) fn key_id<T: Id>(&mut self) -> Answer<Option<T>> {
        let text = self.text()?;
        if text.is_empty() { Ok(None) } else { known(T::read(text), "an id").map(Some) }
    }

    /// Free text.
    pub(super) fn string(&mut self) -> Answer<String> {
        self.text().map(str::to_owned)
    }

    /// The place of the asking row, from 0 on: `r.ord`, which counts from 1.
    pub(super) fn place(&mut self) -> Answer<usize> {
        known(self.int()?.checked_sub(1).and_then(|place| usize::try_from(place).ok()), "a row's place")
    }

    /// A truth value.
    pub(super) fn flag(&mut self) -> Answer<bool> {
        self.int().map(|int| int != 0)
    }

    /// An instant.
    pub(super) fn time(&mut self) -> Answer<Timestamp> {
        known(Timestamp::from_ms(self.int()?), "an instant")
    }

    /// An instant, or NULL.
    pub(super) fn opt_time(&mut self) -> Answer<Option<Timestamp>> {
        self.opt_int()?.map(|ms| known(Timestamp::from_ms(ms), "an instant")).transpose()
    }

    /// A day.
    pub(super) fn day(&mut self) -> Answer<Day> {
        known(Day::from_index(self.int()?), "a day")
    }

    /// A day, or NULL.
    pub(super) fn opt_day(&mut self) -> Answer<Option<Day>> {
        self.opt_int()?.map(|index| known(Day::from_index(index), "a day")).transpose()
    }

    /// An hour.
    pub(super) fn hour(&mut self) -> Answer<Hour> {
        known(Hour::from_index(self.int()?), "an hour")
    }

    /// An hour, or NULL.
    pub(super) fn opt_hour(&mut self) -> Answer<Option<Hour>> {
        self.opt_int()?.map(|index| known(Hour::from_index(index), "an hour")).transpose()
    }

    /// A month.
    pub(super) fn month(&mut self) -> Answer<Month> {
        known(Month::from_index(self.int()?), "a month")
    }

    /// A month, or NULL.
    pub(super) fn opt_month(&mut self) -> Answer<Option<Month>> {
        self.opt_int()?.map(|index| known(Month::from_index(index), "a month")).transpose()
    }

    /// An amount, or NULL.
    pub(super) fn opt_micros(&mut self) -> Answer<Option<Micros>> {
        self.opt_int()?.map(|micros| known(Micros::new(micros), "an amount")).transpose()
    }

    /// An amount.
    pub(super) fn micros(&mut self) -> Answer<Micros> {
        known(Micros::new(self.int()?), "an amount")
    }

    /// A tax rate, or NULL.
    pub(super) fn opt_tax_rate(&mut self) -> Answer<Option<TaxRate>> {
        self.opt_int()?.map(|bps| known(TaxRate::from_bps(bps), "a tax rate")).transpose()
    }

    /// Memory or storage.
    pub(super) fn mebibytes(&mut self) -> Answer<MebiBytes> {
        known(MebiBytes::new(self.int()?), "a number of MiB")
    }

    /// Memory or storage, or NULL.
    pub(super) fn opt_mebibytes(&mut self) -> Answer<Option<MebiBytes>> {
        self.opt_int()?.map(|mib| known(MebiBytes::new(mib), "a number of MiB")).transpose()
    }

    /// The five columns of a usage.
    pub(super) fn usage(&mut self) -> Answer<Usage> {
        Ok(Usage {
            run_ms: i128::from(self.int()?),
            cpu_used_us: i128::from(self.int()?),
            cpu_us: i128::from(self.int()?),
            memory_mib_ms: i128::from(self.int()?),
            storage_mib_ms: i128::from(self.int()?),
        })
    }

    /// The eight columns of an hour's totals.
    pub(super) fn hour_totals(&mut self) -> Answer<HourTotals> {
        Ok(HourTotals {
            usage: self.usage()?,
            free_ms: i128::from(self.int()?),
            free: Usage { cpu_us: i128::from(self.int()?), memory_mib_ms: i128::from(self.int()?), ..Usage::ZERO },
        })
    }

    /// The ten columns of a day's totals.
    pub(super) fn day_totals(&mut self) -> Answer<DayTotals> {
        Ok(DayTotals { used: self.usage()?, reserved: self.usage()? })
    }
}

/// Answers by the place of the asking row: one list for each of `asked` rows, in the order found.
pub(super) fn grouped<T>(asked: usize, found: Vec<(usize, T)>) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    groups.resize_with(asked, Vec::new);
    for (place, value) in found {
        if let Some(group) = groups.get_mut(place) {
            group.push(value);
        }
    }
    groups
}

/// 64 bits of a quantity; [`StoreError::Overflow`] when it needs more.
pub(super) fn narrow(quantity: i128) -> Answer<i64> {
    i64::try_from(quantity).map_err(|_| StoreError::Overflow)
}

/// Bits of the lower part of a quantity in two columns.
const LOW_BITS: u32 = 62;

/// A quantity as its lower part and, where 64 bits do not hold it, the higher one.
fn split(quantity: i128) -> Answer<(i64, Option<i64>)> {
    if let Ok(all) = i64::try_from(quantity) {
        return Ok((all, None));
    }
    let size = 1_i128.checked_shl(LOW_BITS).unwrap_or_default();
    let (high, low) = (quantity.checked_div_euclid(size), quantity.checked_rem_euclid(size));
    let (high, low) = high.zip(low).ok_or(StoreError::Overflow)?;
    Ok((narrow(low)?, Some(narrow(high)?)))
}

/// The quantity of its two parts.
fn joined(low: i64, high: Option<i64>) -> Option<i128> {
    let size = 1_i128.checked_shl(LOW_BITS)?;
    i128::from(high.unwrap_or(0)).checked_mul(size)?.checked_add(i128::from(low))
}

impl Row {
    /// A quantity in two columns, or NULL; see [`Rows::opt_wide`].
    pub(super) fn opt_wide(&mut self) -> Answer<Option<i128>> {
        let (low, high) = (self.opt_int()?, self.opt_int()?);
        low.map(|low| known(joined(low, high), "a quantity")).transpose()
    }
}

impl Rows<'_> {
    /// A quantity in two columns, which may need more than 64 bits, or NULL.
    pub(super) fn opt_wide(&mut self, quantity: Option<i128>) -> Answer<&mut Self> {
        let parts = quantity.map(split).transpose()?;
        Ok(self.opt_int(parts.map(|(low, _)| low)).opt_int(parts.and_then(|(_, high)| high)))
    }

    /// The five columns of a usage.
    pub(super) fn usage(&mut self, usage: &Usage) -> Answer<()> {
        self.int(narrow(usage.run_ms)?)
            .int(narrow(usage.cpu_used_us)?)
            .int(narrow(usage.cpu_us)?)
            .int(narrow(usage.memory_mib_ms)?)
            .int(narrow(usage.storage_mib_ms)?);
        Ok(())
    }

    /// The eight columns of an hour's totals. Free time pays for compute only: other free quantities have no column.
    pub(super) fn hour_totals(&mut self, totals: &HourTotals) -> Answer<()> {
        let free = totals.free;
        if free.run_ms != 0 || free.cpu_used_us != 0 || free.storage_mib_ms != 0 {
            return Err(StoreError::corrupt("free time pays for CPU and memory only"));
        }
        self.usage(&totals.usage)?;
        self.int(narrow(totals.free_ms)?).int(narrow(free.cpu_us)?).int(narrow(free.memory_mib_ms)?);
        Ok(())
    }

    /// The ten columns of a day's totals.
    pub(super) fn day_totals(&mut self, totals: &DayTotals) -> Answer<()> {
        self.usage(&totals.used)?;
        self.usage(&totals.reserved)
    }
}

#[cfg(test)]
mod tests {
    use super::{joined, split};

    #[test]
    fn wide_quantities_come_back() {
        for quantity in [
            0,
            1,
            -1,
            i64::MAX.into(),
            i64::MIN.into(),
            i128::from(i64::MAX) + 1,
            i128::from(i64::MIN) - 1,
            1 << 80,
            -(1 << 80) - 7,
        ] {
            let (low, high) = split(quantity).unwrap();
            assert_eq!((joined(low, high), high.is_none()), (Some(quantity), i64::try_from(quantity).is_ok()));
        }
        assert!(split(i128::MAX).is_err());
    }
}
