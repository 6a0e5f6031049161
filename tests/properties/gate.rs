//! The admission decision, as a table in plain text: what stands, what is asked, what is said.
//!
//! A line is `what stands | what is asked -> answer`. List prices, 2026-11-10; hours beyond 24 are the next day.
//! Standing: `card=no`, `account=suspended`, `key=none|revoked|reader`, `limit=MICROS`, `all=MICROS` (the account's),
//! `used=MICROS` and `held=MICROS` of the key today, `others=MICROS` used by other keys today, `tomorrow=MICROS` held by
//! the key tomorrow, `free=HOURS`, `until=DAYS` (the grant pays on so many days), `unmetered=HOURS` (of 1 vCPU and
//! 1 GiB), `credit=MICROS` (today and tomorrow), `today=MICROS` (credit of today), `unbilled=MICROS` used today, `disk=MIB`,
//! `on=HH:MM-HH:MM` (another lease of the sandbox). Asked: `VCPUSxMIB@HH:MM+MINUTES`, `<=MICROS` for the most that it may
//! cost, `*` for the same sandbox as the first.

use std::collections::BTreeMap;

use runtab::domain::admission::{Ask, FreeCover, Refusal, Scope, Standing, decide};
use runtab::domain::credit::{Credit, CreditBook};
use runtab::domain::customer::{Account, AccountStatus, Key};
use runtab::domain::free_hours::Grant;
use runtab::domain::funds::Running;
use runtab::domain::id::{AccountId, GrantId, KeyId, LeaseId, SandboxId};
use runtab::domain::limits::DayTotals;
use runtab::domain::money::{Cost, Micros};
use runtab::domain::time::{Day, Span, Timestamp};
use runtab::domain::units::{MebiBytes, Vcpus};
use runtab::domain::usage::Usage;

use crate::world::{prices, shape};

const CASES: &str = "
# A16: what fits exactly passes
limit=80000 | 2x4096@10:00+60 -> yes
limit=79999 | 2x4096@10:00+60 -> limit key 10 needs 80000 of 79999 longest 3599
| 2x4096@10:00+60<=80000 -> yes
| 2x4096@10:00+60<=79999 -> max_cost 80000
# A8: no limit, and a limit of nothing
used=900000000 | 2x4096@10:00+60 -> yes
limit=0 | 1x1@10:00+1 -> limit key 10 needs 417 of 0 longest 0
| 1x1@10:00+1<=0 -> max_cost 417
# A9, A10, A12: used and held count together
limit=450000 held=400000 | 2x4096@10:00+60 -> limit key 10 needs 80000 of 50000 longest 2250
limit=450000 used=200000 held=170000 | 2x4096@10:00+60 -> yes
limit=200000 held=162500 | 1x1024@10:20+60 -> yes
limit=200000 held=162500 | 1x1024@10:20+60 1x1024@10:20+60 -> limit key 10 needs 65000 of 37500 longest 553
limit=100 used=100 | 1x1@10:00+1 -> limit key 10 needs 417 of 0 longest 0
# A14: a limit that was lowered
limit=500000 used=950000 | 1x1@10:00+1 -> limit key 10 needs 417 of 0 longest 0
# A15: over midnight, each day by itself
limit=50000 | 2x4096@23:30+60 -> yes
limit=70000 held=40000 tomorrow=40000 | 1x4096@23:30+75 -> limit key 11 needs 41250 of 30000 longest 3763
# A11: a new day is a new row
limit=100 used=100 | 1x1@24:00+0.2 -> yes
limit=100 used=100 | 1x1@23:59+2 -> limit key 10 needs 417 of 0 longest 0
# the key before the account; the account's is over all keys
limit=1000 all=1000 | 1x1024@10:00+60 -> limit key 10 needs 32500 of 1000 longest 110
all=32500 others=1 | 1x1024@10:00+60 -> limit account 10 needs 32500 of 32499 longest 3599
limit=32500 all=32499 | 1x1024@10:00+60 -> limit account 10 needs 32500 of 32499 longest 3599
# a fork is all or nothing, and what is needed includes the leases before
limit=60000 | 1x1024@10:00+60 1x1024@10:00+60 -> limit key 10 needs 65000 of 60000 longest 3046
# rule 1: in this order
key=none account=suspended | 1x1@10:00+1 -> unknown_key
key=revoked account=suspended | 1x1@10:00+1 -> key_revoked
key=reader account=suspended | 1x1@10:00+1 -> read_only_key
account=suspended on=09:00-11:00 | 1x1@10:00+1 -> account_suspended
# rule 2 before 3: no window of the sandbox meets
on=09:00-10:00 | 1x1@10:00+1 -> yes
on=09:00-10:01 | 1x1@10:00+1<=0 -> lease_running
on=10:01-11:00 | 1x1@10:00+1 -> yes
| 1x1@10:00+1 1x1@10:00+1* -> lease_running
| 1x1@10:00+1 1x1@10:01+1* -> yes
# rule 3 before 4: each lease by its own most
card=no | 2x4096@10:00+60<=1 -> max_cost 80000
| 1x1024@10:00+60<=32500 1x1024@10:00+60<=32499 -> max_cost 32500
# rule 4 before 5: shape, then disk, then free time
card=no free=1 limit=0 | 9x1024@10:00+1 -> card_required
card=no free=1 | 8x16384@10:00+60 -> yes
card=no free=1 | 8x16385@10:00+60 -> card_required
card=no free=1 disk=20480 | 1x1024@10:00+60 -> yes
card=no free=1 disk=20481 | 1x1024@10:00+60 -> card_required
card=no free=1 limit=0 | 1x1024@10:00+61 -> free_hours 61 of 60
card=no free=1 | 1x1024@10:00+30 1x1024@10:00+31 -> free_hours 61 of 60
card=no free=1 | 1x1024@10:00+60 9x1024@10:00+60 -> card_required
card=no free=2 unmetered=1 | 1x1024@10:00+60 -> yes
card=no free=1 unmetered=1 | 1x1024@10:00+1 -> free_hours 61 of 60
card=no free=9 until=1 | 1x1024@23:30+60 -> free_hours 60 of 30
card=no free=1 until=2 | 1x1024@23:30+60 -> yes
card=no free=1 limit=0 | 1x1024@10:00+60 -> limit key 10 needs 32500 of 0 longest 0
# credit pays for what free time does not cover, the worst case of it
card=no free=0 credit=32500 | 1x1024@10:00+60 -> yes
card=no free=0 credit=32499 | 1x1024@10:00+60 -> credit 32500 of 32499
card=no free=1 credit=1 | 1x1024@10:00+60 -> yes
card=no free=1 credit=32500 unmetered=1 | 1x1024@10:00+60 -> yes
card=no free=1 credit=32499 unmetered=1 | 1x1024@10:00+60 -> credit 32500 of 32499
# which lease draws the free time is not known: the cheapest counts
card=no free=1 credit=80000 | 2x4096@10:00+60 1x1024@10:00+60 -> yes
card=no free=1 credit=79999 | 2x4096@10:00+60 1x1024@10:00+60 -> credit 80000 of 79999
# what is used and not billed comes first; a shape or disk beyond free time counts whole
card=no free=0 credit=40000 unbilled=7500 | 1x1024@10:00+60 -> yes
card=no free=0 credit=40000 unbilled=7501 | 1x1024@10:00+60 -> credit 32500 of 32499
card=no free=9 credit=232500 | 9x1024@10:00+60 -> yes
card=no free=9 credit=232499 | 9x1024@10:00+60 -> credit 232500 of 232499
card=no free=9 credit=32500 disk=20481 | 1x1024@10:00+60 -> yes
card=no free=9 credit=32499 disk=20481 | 1x1024@10:00+60 -> credit 32500 of 32499
# only on its days; what lapsed is none
card=no free=0 today=40000 | 1x1024@23:30+60 -> credit 32500 of 16250
card=no free=0 credit=32500 | 1x1024@23:30+60 -> yes
card=no free=0 today=40000 | 1x1024@24:00+60 -> free_hours 60 of 0
card=no free=0 today=40000 | 9x1024@24:00+60 -> card_required
# a card pays for what free time does not cover
free=0 disk=20481 | 16x32768@10:00+60 -> yes
";

fn day(index: i64) -> Day {
    Day::from_ymd(2026, 11, index).unwrap()
}

fn at(text: &str) -> Timestamp {
    let (hours, minutes) = text.split_once(':').unwrap();
    let minutes = hours.parse::<i64>().unwrap() * 60 + minutes.parse::<i64>().unwrap();
    day(10).start().plus_ms(minutes * 60_000).unwrap()
}

/// Credit from before today up to a day.
fn credit(micros: i64, until: i64) -> Credit {
    Credit {
        account: AccountId::parse("acme").unwrap(),
        id: GrantId::parse("promo").unwrap(),
        granted: Micros::new(micros).unwrap(),
        starts_on: day(1),
        expires_on: Some(day(until)),
        note: String::new(),
        created_at: Timestamp::EPOCH,
    }
}

/// A usage that costs exactly so many microdollars: memory at 7,500 a GiB-hour.
fn costing(micros: i64) -> Usage {
    Usage { memory_mib_ms: i128::from(micros) * 491_520, ..Usage::ZERO }
}

struct Case {
    account: Account,
    key: Option<Key>,
    grant: Grant,
    key_days: BTreeMap<Day, DayTotals>,
    account_days: BTreeMap<Day, DayTotals>,
    unmetered_ms: BTreeMap<Day, i64>,
    credit: Option<Credit>,
    unbilled: BTreeMap<Day, Cost>,
    disk: MebiBytes,
    others: Vec<(SandboxId, LeaseId, Span)>,
}

fn sandbox(index: usize) -> SandboxId {
    SandboxId::parse(&format!("s{index}")).unwrap()
}

impl Case {
    fn blank() -> Self {
        let account = AccountId::parse("acme").unwrap();
        Self {
            account: Account {
                id: account.clone(),
                name: String::new(),
                status: AccountStatus::Active,
                card_on_file: true,
                daily_limit: None,
                counted_from: None,
                tax: None,
                created_at: Timestamp::EPOCH,
            },
            key: Some(Key {
                account: account.clone(),
                id: KeyId::parse("ci").unwrap(),
                name: String::new(),
                read_only: false,
                daily_limit: None,
                revoked_at: None,
                created_at: Timestamp::EPOCH,
            }),
            grant: Grant {
                account,
                id: GrantId::parse("g").unwrap(),
                granted_ms: 0,
                used_ms: 0,
                starts_on: day(10),
                expires_on: None,
                note: String::new(),
                created_at: Timestamp::EPOCH,
            },
            key_days: BTreeMap::new(),
            account_days: BTreeMap::new(),
            unmetered_ms: BTreeMap::new(),
            credit: None,
            unbilled: BTreeMap::new(),
            disk: MebiBytes::ZERO,
            others: Vec::new(),
        }
    }

    fn add(&mut self, on: Day, of_key: bool, totals: DayTotals) {
        let days = [(of_key, &mut self.key_days), (true, &mut self.account_days)];
        for (_, days) in days.into_iter().filter(|(counts, _)| *counts) {
            let sum = days.entry(on).or_default();
            *sum = sum.plus(totals).unwrap();
        }
    }

    fn stands(&mut self, name: &str, value: &str) {
        let number = || value.parse::<i64>().unwrap();
        let used = |micros| DayTotals { used: costing(micros), reserved: Usage::ZERO };
        let held = |micros| DayTotals { used: Usage::ZERO, reserved: costing(micros) };
        match (name, value) {
            ("card", "no") => self.account.card_on_file = false,
            ("account", "suspended") => self.account.status = AccountStatus::Suspended,
            ("key", "none") => self.key = None,
            ("key", "revoked") => self.key.as_mut().unwrap().revoked_at = Some(Timestamp::EPOCH),
            ("key", "reader") => self.key.as_mut().unwrap().read_only = true,
            ("limit", _) => self.key.as_mut().unwrap().daily_limit = Micros::new(number()),
            ("all", _) => self.account.daily_limit = Micros::new(number()),
            ("used", _) => self.add(day(10), true, used(number())),
            ("held", _) => self.add(day(10), true, held(number())),
            ("others", _) => self.add(day(10), false, used(number())),
            ("tomorrow", _) => self.add(day(11), true, held(number())),
            ("free", _) => self.grant.granted_ms = number() * 3_600_000,
            ("until", _) => self.grant.expires_on = Some(day(10 + number())),
            ("unmetered", _) => drop(self.unmetered_ms.insert(day(10), number() * 3_600_000)),
            ("credit", _) => self.credit = Some(credit(number(), 12)),
            ("today", _) => self.credit = Some(credit(number(), 11)),
            ("unbilled", _) => drop(self.unbilled.insert(day(10), Cost::from_micros(Micros::new(number()).unwrap()))),
            ("disk", _) => self.disk = MebiBytes::new(number()).unwrap(),
            ("on", _) => {
                let (start, end) = value.split_once('-').unwrap();
                let span = Span { start: at(start), end: at(end) };
                self.others.push((sandbox(0), LeaseId::parse("other").unwrap(), span));
            }
            other => panic!("{other:?}"),
        }
    }

    fn credits(&self) -> CreditBook {
        CreditBook::new(self.credit.clone().into_iter().collect())
    }

    /// Unmetered time is of leases of 1 vCPU and 1 GiB.
    fn running(&self) -> Vec<Running> {
        let one = shape(1, 1_024);
        let running = |(on, ms): (&Day, &i64)| {
            let held = one.worst_case(Span { start: on.start(), end: on.start().plus_ms(*ms).unwrap() }).unwrap();
            Running { shape: one, held: [(*on, held)].into(), unposted_ms: [(*on, *ms)].into() }
        };
        self.unmetered_ms.iter().map(running).collect()
    }

    fn ask(&self, index: usize, text: &str) -> Ask {
        let (text, same) = text.strip_suffix('*').map_or((text, false), |text| (text, true));
        let (text, most) = text.split_once("<=").map_or((text, None), |(text, most)| (text, Some(most)));
        let (size, window) = text.split_once('@').unwrap();
        let (vcpus, memory) = size.split_once('x').unwrap();
        let (start, minutes) = window.split_once('+').unwrap();
        let start = at(start);
        let (whole, tenths) = minutes.split_once('.').unwrap_or((minutes, "0"));
        let length_ms = whole.parse::<i64>().unwrap() * 60_000 + tenths.parse::<i64>().unwrap() * 6_000;
        Ask {
            lease: LeaseId::parse(&format!("l{index}")).unwrap(),
            sandbox: sandbox(if same { 0 } else { index }),
            shape: shape(vcpus.parse().unwrap(), memory.parse().unwrap()),
            window: Span { start, end: start.plus_ms(length_ms).unwrap() },
            max_cost: most.map(|most| Micros::new(most.parse().unwrap()).unwrap()),
            disk: self.disk,
        }
    }
}

fn said(answer: Result<(), Refusal>) -> String {
    match answer {
        Ok(()) => "yes".to_owned(),
        Err(Refusal::UnknownKey) => "unknown_key".to_owned(),
        Err(Refusal::KeyRevoked) => "key_revoked".to_owned(),
        Err(Refusal::ReadOnlyKey) => "read_only_key".to_owned(),
        Err(Refusal::AccountSuspended) => "account_suspended".to_owned(),
        Err(Refusal::LeaseRunning { .. }) => "lease_running".to_owned(),
        Err(Refusal::CardRequired { .. }) => "card_required".to_owned(),
        Err(Refusal::MaxCostExceeded { worst_case, .. }) => format!("max_cost {}", worst_case.count()),
        Err(Refusal::FreeHoursExhausted { needed_ms, available_ms }) => {
            format!("free_hours {} of {}", needed_ms / 60_000, available_ms / 60_000)
        }
        Err(Refusal::CreditExhausted { needed, available, .. }) => {
            format!("credit {} of {}", needed.count(), available.count())
        }
        Err(Refusal::SpendingLimitReached(limit)) => format!(
            "limit {} {} needs {} of {} longest {}",
            if limit.scope == Scope::Key { "key" } else { "account" },
            limit.day.ymd().2,
            limit.needed.count(),
            limit.available.count(),
            limit.longest_timeout_s
        ),
    }
}

#[test]
fn the_gate_says_what_the_table_says() {
    let prices = prices(50);
    let cover = FreeCover {
        vcpus: Vcpus::new(8).unwrap(),
        memory: MebiBytes::new(16 * 1_024).unwrap(),
        disk: MebiBytes::new(20 * 1_024).unwrap(),
    };
    let lines = CASES.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut wrong = Vec::new();
    for line in lines {
        let (standing, rest) = line.split_once('|').unwrap();
        let (asked, answer) = rest.split_once("->").unwrap();
        let mut case = Case::blank();
        for word in standing.split_whitespace() {
            let (name, value) = word.split_once('=').unwrap();
            case.stands(name, value);
        }
        let asks: Vec<Ask> = asked.split_whitespace().enumerate().map(|(index, text)| case.ask(index, text)).collect();
        let grants = [case.grant.clone()];
        let standing = Standing {
            account: &case.account,
            key: case.key.as_ref(),
            prices: &prices,
            others: &case.others,
            key_days: &listed(&case.key_days),
            account_days: &listed(&case.account_days),
            cover,
            grants: &grants,
            unmetered_ms: &case.unmetered_ms,
            credits: &case.credits(),
            running: &case.running(),
            unbilled: &case.unbilled,
        };
        let said = said(decide(&asks, &standing).unwrap());
        if said != answer.trim() {
            wrong.push(format!("{line}\n    but it said: {said}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn listed(days: &BTreeMap<Day, DayTotals>) -> Vec<(Day, DayTotals)> {
    days.iter().map(|(day, totals)| (*day, *totals)).collect()
}
