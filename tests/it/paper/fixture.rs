//! Invoices to be drawn: made by the core from usage, each hard on a layout in its own way.

use runtab::domain::breakdown::Breakdown;
use runtab::domain::credit::{Credit, CreditBook};
use runtab::domain::id::{AccountId, GrantId, NoteId, RateCardId, SandboxId};
use runtab::domain::invoice::{Head, Invoice, InvoiceNumber, Status};
use runtab::domain::lease::HourTotals;
use runtab::domain::money::{Micros, PriceMicros};
use runtab::domain::note::{Note, NoteKind, NoteLine, NoteNumber};
use runtab::domain::rate_card::{PriceBook, RateCard, RateCardEntry};
use runtab::domain::tax::TaxRate;
use runtab::domain::time::{Day, Month, Timestamp};
use runtab::domain::units::Millicores;
use runtab::domain::usage::Usage;
use runtab::report::Seller;

/// An invoice and what it came from.
pub(super) struct Drawn {
    pub(super) invoice: Invoice,
    pub(super) breakdown: Breakdown,
}

fn card(id: &str, cpu: i64) -> RateCard {
    let price = |micros| PriceMicros::new(micros).unwrap();
    RateCard {
        id: RateCardId::parse(id).unwrap(),
        cpu: price(cpu),
        memory: price(7_500),
        storage: price(108),
        floor: Millicores::new(50).unwrap(),
    }
}

/// A day of a sandbox that ran for some hours.
fn day_of(hours: i128, free_hours: i128) -> HourTotals {
    let usage = |hours: i128| Usage {
        run_ms: hours * 3_600_000,
        cpu_used_us: hours * 1_234_567_891,
        cpu_us: hours * 1_300_000_007,
        memory_mib_ms: hours * 4_096 * 3_600_000,
        storage_mib_ms: hours * 10_240 * 3_600_011,
    };
    let free = Usage { run_ms: 0, cpu_used_us: 0, storage_mib_ms: 0, ..usage(free_hours) };
    HourTotals { usage: usage(hours), free_ms: free_hours * 3_600_000, free }
}

fn days_of(year: i64, month: i64) -> Vec<Day> {
    let month = Month::from_ym(year, month).unwrap();
    (month.first_day().index()..month.next().first_day().index()).map(|day| Day::from_index(day).unwrap()).collect()
}

/// What pays and is added beside usage.
#[derive(Default)]
struct Money {
    credits: Vec<Credit>,
    tax: Option<TaxRate>,
}

fn drawn(
    name: &str,
    rows: &[(Day, SandboxId, HourTotals)],
    entries: &[RateCardEntry],
    money: Money,
    number: Option<i64>,
) -> Drawn {
    let account = AccountId::parse("acme").unwrap();
    let book = PriceBook::new(card("list", 25_000), &account, entries);
    let month = Month::from_ym(2026, 11).unwrap();
    let (credits, tax) = (CreditBook::new(money.credits), money.tax);
    let head = Head { account, name: name.to_owned(), month, carried_over: Micros::ZERO, credits, tax };
    let days: Vec<(Day, HourTotals)> =
        rows.iter().fold(Vec::new(), |mut days: Vec<(Day, HourTotals)>, (day, _, totals)| {
            match days.iter_mut().find(|(known, _)| known == day) {
                Some((_, sum)) => *sum = sum.plus(*totals).unwrap(),
                None => days.push((*day, *totals)),
            }
            days
        });
    let mut invoice = Invoice::draft(head, &days, &book).unwrap();
    if let Some(number) = number {
        let at = Timestamp::from_ms(1_764_806_400_000 + 31_536_000_000).unwrap();
        invoice.status = Status::Final { number: InvoiceNumber::new(number).unwrap(), at };
    }
    Drawn { invoice, breakdown: Breakdown::of(rows, &book).unwrap() }
}

/// A month of two sandboxes, with free hours on its first days, credit from the tenth on, tax, and late usage of
/// October.
pub(super) fn usual(name: &str) -> Drawn {
    let sandbox = |id: &str| SandboxId::parse(id).unwrap();
    let mut rows = vec![(*days_of(2026, 10).last().unwrap(), sandbox("build-cache"), day_of(3, 0))];
    for (place, day) in (0_i128..).zip(days_of(2026, 11)) {
        if place % 7 < 5 {
            rows.push((day, sandbox("build-cache"), day_of(4 + place % 5, if place < 4 { 3 } else { 0 })));
            rows.push((day, sandbox("agent-7f3a"), day_of(9 - place % 4, 0)));
        }
    }
    let credit = Credit {
        account: AccountId::parse("acme").unwrap(),
        id: GrantId::parse("welcome-2026").unwrap(),
        granted: Micros::new(2_000_000).unwrap(),
        starts_on: days_of(2026, 11)[9],
        expires_on: None,
        note: String::new(),
        created_at: Timestamp::from_ms(0).unwrap(),
    };
    let money = Money { credits: vec![credit], tax: TaxRate::from_bps(1_900) };
    drawn(name, &rows, &[], money, Some(42))
}

/// Usage of five months, each day at prices of its own: some 460 lines, and 600 sandboxes.
pub(super) fn long() -> Drawn {
    let mut entries = Vec::new();
    let mut rows = Vec::new();
    for day in (7..=11).flat_map(|month| days_of(2026, month)) {
        let place = day.index();
        let (id, at) = (format!("c-{place}"), Timestamp::from_ms(0).unwrap());
        let card = Some(card(&id, 20_000 + place % 97));
        entries.push(RateCardEntry { account: None, effective_on: day, card, created_at: at });
        for sandbox in 0..4 {
            let name = SandboxId::parse(&format!("sandbox-{:04}", (place * 4 + sandbox) % 600)).unwrap();
            rows.push((day, name, day_of(i128::from(1 + (place + sandbox) % 9), 0)));
        }
    }
    drawn("Long Lines Ltd", &rows, &entries, Money::default(), Some(1_234_567))
}

/// A credit note on the usual invoice, with a reason of 2,000 characters.
pub(super) fn credit_note() -> Note {
    let invoice = usual("Acme Inc").invoice;
    let line = |description: &str, micros| NoteLine {
        description: description.to_owned(),
        amount: Micros::new(micros).unwrap(),
    };
    let lines = vec![line("Outage on 12 November, 14:05 to 15:20", 750_000), line("חשבון", 250_001)];
    let reason: String = "We could not start sandboxes for an hour and a quarter; this gives back what was promised. "
        .repeat(23)
        .chars()
        .take(2_000)
        .collect();
    let number = NoteNumber::new(NoteKind::Credit, 7).unwrap();
    let at = Timestamp::from_ms(1_764_806_400_000 + 32_000_000_000).unwrap();
    let id = NoteId::parse("n-7").unwrap();
    Note::on(&invoice, InvoiceNumber::new(42).unwrap(), number, id, reason, lines, at).unwrap()
}

/// A draft of a month in which nothing was used.
pub(super) fn empty() -> Drawn {
    drawn("", &[], &[], Money::default(), None)
}

/// A seller with everything filled in.
pub(super) fn seller() -> Seller {
    Seller {
        logo_text: "Sandcastle".to_owned(),
        name: "Sandcastle Computing GmbH".to_owned(),
        address: "Straße der Pariser Kommune 8\n10243 Berlin\nGermany".to_owned(),
        tax_id: "VAT DE 123 456 789".to_owned(),
        payment_terms:
            "Please pay within 14 days by bank transfer to IBAN DE02 1203 0000 0000 2020 51, BIC BYLADEM1001, \
                        and name the invoice's number."
                .to_owned(),
        footer: "Sandcastle Computing GmbH · Amtsgericht Berlin HRB 12345 · billing@sandcastle.example".to_owned(),
        fonts: Vec::new(),
    }
}
