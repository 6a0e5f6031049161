//! A year of months, closed one after another while usage still comes: all invoices and the open draft are the ledger,
//! and each final one is what its evidence alone makes.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use runtab::domain::id::AccountId;
use runtab::domain::invoice::{Invoice, Item, Status};
use runtab::domain::proof::{ProofHead, Record};
use runtab::domain::time::Month;
use runtab::domain::usage::Usage;
use runtab::ledger::command::Page;
use runtab::ledger::proof::Sink;
use runtab::ledger::verify::{Scope, Told};
use runtab::report::evidence::{head_line, record_line};
use runtab::wire::invoice::Invoice as Shown;
use runtab::wire::proof::check;

use crate::driver::Driver;
use crate::model::{DAY, HOUR, MICRO, plus};
use crate::send::{self, ts};

/// Months of a year.
const MONTHS: u64 = 12;

/// An evidence file.
#[derive(Default)]
struct Lines(String);

impl Sink for Lines {
    fn head(&mut self, head: &ProofHead) {
        head_line(&mut self.0, head);
        self.0.push('\n');
    }

    fn record(&mut self, record: &Record) {
        record_line(&mut self.0, record);
        self.0.push('\n');
    }

    async fn pass_on(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// Final invoices with their evidence, as they were when their month was closed.
type Kept = BTreeMap<(AccountId, Month), (Invoice, String)>;

impl Driver {
    /// Lives through a year.
    pub(crate) async fn year(&mut self, steps: u64) {
        let mut kept = Kept::new();
        for _ in 0..MONTHS {
            let month = ts(self.now).month();
            let end = month.span().end.ms();
            self.steps(steps / MONTHS, end).await;
            if self.now < end {
                self.advance(end - self.now);
            }
            let wait = *self.rng.pick(&[0, HOUR / 3, 5 * HOUR, 3 * DAY]).unwrap();
            self.steps(steps / MONTHS / 4, end + wait).await;
            if self.now < end + wait {
                self.advance(end + wait - self.now);
            }
            let closed = self.ledger.close_month(month, &|_| {}).await.unwrap();
            self.say(|| format!("closed {} with {} invoices", month.index(), closed.invoices));
            for account in self.accounts.values_mut() {
                account.open_from = end;
            }
            self.invoices(&mut kept).await;
        }
        self.steps(steps / MONTHS, i64::MAX).await;
        self.invoices(&mut kept).await;
        self.nothing_differs().await;
    }

    async fn steps(&mut self, count: u64, until: i64) {
        for _ in 0..count {
            if self.now >= until {
                return;
            }
            self.step().await;
        }
    }

    async fn nothing_differs(&self) {
        let told = std::sync::Mutex::new(Vec::new());
        let tell = |one| {
            if let Told::Difference(found) = one {
                told.lock().unwrap().push(found);
            }
        };
        let verified = self.ledger.verify(&Scope::default(), &tell).await.unwrap();
        assert_eq!((told.into_inner().unwrap(), verified.unchecked), (Vec::new(), 0));
        // The daily job chooses some, finds the same, and counts it.
        runtab::jobs::verify::once(&self.ledger, 1).await;
        let tally = self.ledger.tally();
        let counted =
            [&tally.verified_accounts, &tally.verified_differences].map(|count| count.load(Ordering::Relaxed));
        assert_eq!((counted, tally.verified_at_seconds.load(Ordering::Relaxed)), ([1, 0], self.now / 1_000));
    }

    /// All invoices and drafts of every account against the auditor's hours, and the final ones against their evidence.
    async fn invoices(&mut self, kept: &mut Kept) {
        for owner in self.accounts.keys() {
            let id = send::account(owner);
            let page = Page { after: None, limit: 1_000 };
            let all = self.ledger.invoices(&id, page).await.unwrap().items;
            self.assert_ledger(owner, &all);
            for invoice in all.iter().filter(|invoice| matches!(invoice.status, Status::Final { .. })) {
                let mut file = Lines::default();
                assert_eq!(self.ledger.evidence(&id, invoice.month, &mut file).await.unwrap(), *invoice);
                let shown = serde_json::to_vec(&Shown::new(invoice).unwrap()).unwrap();
                let verdict = check(&mut file.0.as_bytes(), &shown).unwrap();
                assert!(verdict.found.is_empty(), "{:?}\n{}", verdict.found, file.0);
                // It never changes, whatever comes.
                let first =
                    kept.entry((id.clone(), invoice.month)).or_insert_with(|| (invoice.clone(), file.0.clone()));
                assert!(first.0 == *invoice && first.1 == file.0, "{}\n{}", first.1, file.0);
            }
        }
    }

    fn assert_ledger(&self, owner: &str, all: &[Invoice]) {
        let account = &self.accounts[owner];
        // By month of use: usage and free time.
        let mut billed: BTreeMap<Month, (Usage, i128)> = BTreeMap::new();
        let mut carried: i64 = 0;
        for invoice in all {
            let sum: i64 = invoice.lines.iter().map(|line| line.amount.count()).sum();
            assert_eq!(sum, invoice.total.count());
            for line in &invoice.lines {
                let Some(used) = &line.used else {
                    carried += line.amount.count();
                    continue;
                };
                let (usage, free) = billed.entry(used.month).or_default();
                match line.item {
                    Item::Cpu => {
                        usage.cpu_us += used.quantity;
                        usage.cpu_used_us += used.measured.unwrap();
                    }
                    Item::Memory => usage.memory_mib_ms += used.quantity,
                    Item::Storage => usage.storage_mib_ms += used.quantity,
                    Item::FreeHours => *free += used.quantity,
                    other => panic!("{other:?}"),
                }
            }
        }
        let mut known: BTreeMap<Month, (Usage, i128)> = BTreeMap::new();
        let (mut list, mut net) = (0, 0);
        for row in account.rows() {
            let (usage, _) = known.entry(ts(row.hour * HOUR).month()).or_default();
            *usage = plus(*usage, Usage { run_ms: 0, ..row.usage });
            let sum = account.sum_of(&row);
            (list, net) = (list + sum.list, net + sum.net);
        }
        for (hour, posted) in account.leases.values().flat_map(|lease| &lease.posted) {
            known.entry(ts(hour * HOUR).month()).or_default().1 += i128::from(posted.free_ms);
        }
        billed.retain(|_, sum| *sum != Default::default());
        known.retain(|_, sum| *sum != Default::default());
        assert_eq!(billed, known, "{owner}");
        // Each is rounded down once, so all together are less than a microdollar each below the ledger.
        let shown = |of: &dyn Fn(&Invoice) -> i64| all.iter().map(|one| i128::from(of(one))).sum::<i128>() * MICRO;
        let within = MICRO * i128::try_from(all.len()).unwrap();
        let lists = shown(&|invoice| invoice.list.count());
        let nets = shown(&|invoice| invoice.list.count() - invoice.free.count());
        assert!((0..within).contains(&(list - lists)), "{owner}: {list} and {lists}");
        assert!((0..within).contains(&(net - nets)), "{owner}: {net} and {nets}");
        let totals: i64 = all.iter().map(|invoice| invoice.total.count()).sum();
        let nets: i64 = all.iter().map(|invoice| invoice.list.count() - invoice.free.count()).sum();
        assert_eq!(totals, nets + carried, "{owner}");
    }
}
