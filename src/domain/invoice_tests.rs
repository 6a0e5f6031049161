//! Invoices on their own: lines, spans, what is carried, and how they add up.

use super::{Head, Invoice, InvoiceNumber, Item, Status, decimal};
use crate::domain::credit::{Credit, CreditBook};
use crate::domain::id::{AccountId, GrantId, RateCardId};
use crate::domain::lease::HourTotals;
use crate::domain::money::{Micros, PriceMicros};
use crate::domain::rate_card::{PriceBook, RateCard, RateCardEntry};
use crate::domain::tax::TaxRate;
use crate::domain::time::{Day, Month, Timestamp};
use crate::domain::units::Millicores;
use crate::domain::usage::Usage;

fn micros(count: i64) -> Micros {
    Micros::new(count).unwrap()
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

fn account() -> AccountId {
    AccountId::parse("acme").unwrap()
}

fn book() -> PriceBook {
    let dearer = RateCardEntry {
        account: None,
        effective_on: Day::from_ymd(2026, 11, 16).unwrap(),
        card: Some(card("dearer", 30_000)),
        created_at: Timestamp::EPOCH,
    };
    PriceBook::new(card("list", 25_000), &account(), &[dearer])
}

fn head(carried_over: i64) -> Head {
    let month = Month::from_ym(2026, 11).unwrap();
    Head {
        account: account(),
        name: "Acme".to_owned(),
        month,
        carried_over: micros(carried_over),
        credits: CreditBook::default(),
        tax: None,
    }
}

fn busy(cpu_us: i128) -> HourTotals {
    HourTotals {
        usage: Usage { run_ms: cpu_us / 1_000, cpu_used_us: cpu_us, cpu_us, ..Usage::ZERO },
        ..HourTotals::default()
    }
}

fn on(month: i64, day: i64, totals: HourTotals) -> (Day, HourTotals) {
    (Day::from_ymd(2026, month, day).unwrap(), totals)
}

#[test]
fn a_span_of_each_card_and_late_usage_after_them() {
    let hour = 3_600_000_000;
    let days = [on(10, 31, busy(hour)), on(11, 2, busy(hour)), on(11, 1, busy(hour)), on(11, 20, busy(2 * hour))];
    let invoice = Invoice::draft(head(0), &days, &book()).unwrap();
    let lines: Vec<_> = invoice
        .lines
        .iter()
        .map(|line| {
            let used = line.used.as_ref().unwrap();
            (
                line.item,
                used.month.ym().1,
                used.from.ymd().2,
                used.to.ymd().2,
                used.quantity / hour,
                line.amount.count(),
            )
        })
        .collect();
    let cpu = Item::Cpu;
    assert_eq!(lines, [(cpu, 11, 1, 16, 2, 50_000), (cpu, 11, 16, 1, 2, 60_000), (cpu, 10, 1, 1, 1, 25_000)]);
    assert_eq!((invoice.total.count(), invoice.due_cents(), invoice.status), (135_000, 14, Status::Draft));
}

#[test]
fn lines_sum_to_the_total_whatever_the_fractions() {
    let free = |totals: HourTotals| HourTotals {
        free_ms: 7,
        free: Usage { cpu_us: totals.usage.cpu_us / 3, memory_mib_ms: totals.usage.memory_mib_ms / 7, ..Usage::ZERO },
        ..totals
    };
    let mut days = Vec::new();
    for day in 1..=30 {
        let usage = Usage {
            run_ms: 1,
            cpu_used_us: 1,
            cpu_us: 1_234_567 * i128::from(day),
            memory_mib_ms: 7_654_321 * i128::from(day),
            storage_mib_ms: 11_111_111,
        };
        days.push(on(11, day, free(HourTotals { usage, ..HourTotals::default() })));
    }
    let invoice = Invoice::draft(head(0), &days, &book()).unwrap();
    let sum: i64 = invoice.lines.iter().map(|line| line.amount.count()).sum();
    assert_eq!(sum, invoice.total.count());
    assert_eq!(invoice.list.count() - invoice.free.count(), invoice.total.count());
    assert_eq!(invoice.lines.iter().filter(|line| line.item == Item::FreeHours).count(), 2);
}

#[test]
fn below_zero_is_carried_forward_and_begins_the_next() {
    let days = [on(10, 3, busy(-3_600_000_000))];
    let invoice = Invoice::draft(head(-5), &days, &book()).unwrap();
    let lines: Vec<_> = invoice.lines.iter().map(|line| (line.item, line.amount.count())).collect();
    assert_eq!(lines, [(Item::Cpu, -25_000), (Item::CarriedOver, -5), (Item::CarriedForward, 25_005)]);
    assert_eq!((invoice.total, invoice.due_cents()), (Micros::ZERO, 0));
    assert_eq!(invoice.carried_forward().unwrap(), micros(-25_005));
    let next = Invoice::draft(head(-25_005), &[on(11, 3, busy(7_200_000_000))], &book()).unwrap();
    assert_eq!((next.total, next.carried_forward().unwrap()), (micros(24_995), Micros::ZERO));
}

#[test]
fn cents_are_rounded_half_up_once() {
    for (total, cents) in [(0, 0), (4_999, 0), (5_000, 1), (14_999, 1), (15_000, 2)] {
        let invoice = Invoice { total: micros(total), ..Invoice::draft(head(0), &[], &book()).unwrap() };
        assert_eq!(invoice.due_cents(), cents, "{total}");
    }
}

#[test]
fn quantities_have_twelve_digits() {
    for (units, shown) in [
        (0, "0.000000000000"),
        (3_600_000_000, "1.000000000000"),
        (1, "0.000000000278"),
        (-1, "-0.000000000278"),
        (44_444_444_444, "12.345679012222"),
        (3_599_999_999, "0.999999999722"),
    ] {
        assert_eq!(decimal(units, 3_600_000_000).unwrap(), shown);
    }
    // Rounded up into the next whole; what is too small is zero without a sign.
    assert_eq!(decimal(9_999_999_999_999, 10_000_000_000_000).unwrap(), "1.000000000000");
    assert_eq!(decimal(-1, 10_000_000_000_000).unwrap(), "0.000000000000");
    assert!(decimal(1, 0).is_err());
}

#[test]
fn numbers_are_shown_with_six_digits_and_more() {
    let shown = |number| InvoiceNumber::new(number).map(|number| number.to_string());
    assert_eq!(shown(1).as_deref(), Some("RT-000001"));
    assert_eq!(shown(12_345_678).as_deref(), Some("RT-12345678"));
    assert_eq!(shown(0), None);
    for item in Item::ALL {
        assert_eq!(Item::of_name(item.name()), Some(item));
    }
}

fn credit(id: &str, granted: i64) -> Credit {
    Credit {
        account: account(),
        id: GrantId::parse(id).unwrap(),
        granted: micros(granted),
        starts_on: Day::from_ymd(2026, 11, 1).unwrap(),
        expires_on: Some(Day::from_ymd(2026, 11, 20).unwrap()),
        note: String::new(),
        created_at: Timestamp::EPOCH,
    }
}

fn money_lines(invoice: &Invoice) -> Vec<(Item, i64)> {
    invoice.lines.iter().filter(|line| line.used.is_none()).map(|line| (line.item, line.amount.count())).collect()
}

#[test]
fn credit_pays_for_usage_of_its_days_then_tax_is_added_to_the_rest() {
    let hour = 3_600_000_000;
    let days = [on(11, 3, busy(hour)), on(11, 20, busy(hour))];
    let credits = CreditBook::new(vec![credit("promo", 40_000), credit("a", 5_000)]);
    let head = Head { credits, tax: TaxRate::from_bps(1_900), ..head(-1_000) };
    let invoice = Invoice::draft(head, &days, &book()).unwrap();
    // 25,000 on a day with credit, 30,000 on one without; 1,000 carried over: 29,000, and 19 % of that.
    let expected = [(Item::CarriedOver, -1_000), (Item::Credit, -5_000), (Item::Credit, -20_000), (Item::Tax, 5_510)];
    assert_eq!(money_lines(&invoice), expected);
    assert_eq!((invoice.credit, invoice.tax, invoice.total), (micros(25_000), micros(5_510), micros(34_510)));
    let drawn: Vec<_> = invoice.draws.iter().map(|draw| (draw.credit.as_str(), draw.amount.count())).collect();
    assert_eq!(drawn, [("a", 5_000), ("promo", 20_000)]);
    assert_eq!(invoice.due_cents(), 3);
}

#[test]
fn a_correction_of_what_credit_paid_gives_credit_back_and_no_money() {
    let hour = 3_600_000_000;
    let mut credits = CreditBook::new(vec![credit("promo", 100_000)]);
    let tax = TaxRate::from_bps(700);
    let paid =
        Invoice::draft(Head { credits: credits.clone(), tax, ..head(0) }, &[on(11, 3, busy(hour))], &book()).unwrap();
    assert_eq!(money_lines(&paid), [(Item::Credit, -25_000), (Item::Tax, 0)]);
    credits.note(&paid.draws).unwrap();
    let month = Month::from_ym(2026, 12).unwrap();
    let next = Head { month, credits, tax, ..head(0) };
    let corrected = Invoice::draft(next, &[on(11, 3, busy(-hour))], &book()).unwrap();
    assert_eq!(money_lines(&corrected), [(Item::Credit, 25_000), (Item::Tax, 0)]);
    assert_eq!((corrected.total, corrected.credit), (Micros::ZERO, micros(-25_000)));
}
