//! Promotional credit in evidence: the credits that an invoice drew on, as they were before it.
//!
//! A credit that an invoice draws nothing on has no part in it, so it is not in the evidence. What was drawn before is
//! told as a sum; by day only where the invoice gives back, for what is given back is what was drawn for that day.

use std::collections::BTreeSet;

use super::Record;
use crate::domain::checked::Overflow;
use crate::domain::credit::{Credit, CreditBook, CreditDraw};
use crate::domain::id::{AccountId, GrantId};
use crate::domain::invoice::Invoice;
use crate::domain::money::Micros;
use crate::domain::time::{Day, Month, Timestamp};

/// A credit that is drawn on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreditTerms {
    /// Its id.
    pub id: GrantId,
    /// How much.
    pub granted: Micros,
    /// The first day whose usage it pays for.
    pub starts_on: Day,
    /// The first day whose usage it pays for no more; `None`: never.
    pub expires_on: Option<Day>,
    /// What earlier invoices had drawn on it, in all.
    pub drawn_before: Micros,
}

/// The records of the credits that an invoice drew on; `before`: the account's book without this invoice.
#[must_use]
pub fn records(before: &CreditBook, invoice: &Invoice) -> Vec<Record> {
    let ids: BTreeSet<&GrantId> = invoice.draws.iter().map(|draw| &draw.credit).collect();
    let mut terms: Vec<CreditTerms> = before
        .credits()
        .filter(|(credit, _)| ids.contains(&credit.id))
        .map(|(credit, drawn_before)| CreditTerms {
            id: credit.id.clone(),
            granted: credit.granted,
            starts_on: credit.starts_on,
            expires_on: credit.expires_on,
            drawn_before,
        })
        .collect();
    terms.sort_by(|left, right| left.id.cmp(&right.id));
    let back = invoice.draws.iter().filter(|draw| draw.amount < Micros::ZERO);
    let days: BTreeSet<Day> = back.map(|draw| draw.day).collect();
    let drawn = |day: Day| {
        let drawn = before.drawn_on(day).iter().filter(|(id, amount)| ids.contains(id) && *amount != Micros::ZERO);
        Record::CreditDrawn(day, drawn.cloned().collect())
    };
    terms.into_iter().map(Record::Credit).chain(days.into_iter().map(drawn)).collect()
}

/// The book that these records tell of.
pub fn book(
    account: &AccountId,
    terms: &[CreditTerms],
    drawn: &[(Day, Vec<(GrantId, Micros)>)],
) -> Result<CreditBook, Overflow> {
    let credit = |terms: &CreditTerms| Credit {
        account: account.clone(),
        id: terms.id.clone(),
        granted: terms.granted,
        starts_on: terms.starts_on,
        expires_on: terms.expires_on,
        note: String::new(),
        created_at: Timestamp::EPOCH,
    };
    let mut book = CreditBook::new(terms.iter().map(credit).collect());
    for (day, by_credit) in drawn {
        let draw =
            |(credit, amount): &(GrantId, Micros)| CreditDraw { day: *day, credit: credit.clone(), amount: *amount };
        book.note(&by_credit.iter().map(draw).collect::<Vec<_>>())?;
    }
    // The rest was drawn for days that nothing is given back for; which, does not matter.
    let day = Month::FIRST.first_day();
    for terms in terms {
        let told = book.credits().find(|(credit, _)| credit.id == terms.id).map_or(Micros::ZERO, |(_, drawn)| drawn);
        let amount = terms.drawn_before.minus(told)?;
        book.note(&[CreditDraw { day, credit: terms.id.clone(), amount }])?;
    }
    Ok(book)
}
