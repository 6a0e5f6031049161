//! Final invoices against their evidence alone: made again from it, line by line, and digested again.

use super::account::Check;
use crate::domain::invoice::{Head, Invoice};
use crate::domain::money::Micros;
use crate::domain::proof::bill::{Bill, Wrong};
use crate::domain::proof::credits;
use crate::domain::proof::{ProofHead, Record};
use crate::ledger::proof::{self, Sink, Wanted};
use crate::report::evidence::Digester;
use crate::store::{StoreError, Tx};

impl Check<'_> {
    /// A final invoice is what its evidence alone makes, and so is its digest.
    pub(super) async fn proof(&mut self, tx: &mut Tx, kept: &Invoice, carried_over: Micros) -> Result<(), StoreError> {
        let (Some(digests), Some(head)) = (kept.digests, proof::head_of(kept, carried_over)) else {
            self.sum.unchecked = self.sum.unchecked.saturating_add(1);
            return Ok(());
        };
        if !proof::at_hand(tx, &kept.account, kept.month).await? {
            self.sum.unchecked = self.sum.unchecked.saturating_add(1);
            return Ok(());
        }
        let mut sink = Again { digester: Digester::default(), bill: Ok(Bill::new(kept.account.clone(), kept.month)) };
        let credits = credits::records(&proof::credits_before(tx, kept).await?, kept);
        let (account, month) = (&kept.account, kept.month);
        let wanted = Wanted { account, month, book: self.book, at: head.at, credits: &credits };
        proof::read(tx, wanted, &mut sink).await?;
        let computed = sink.digester.finish().with_head(&head, &[]);
        self.differences.digests(kept, digests, computed);
        match sink.bill.and_then(Bill::finish) {
            Ok(billed) => {
                let ProofHead { account, name, month, tax, .. } = head;
                let head = Head { account, name, month, carried_over, credits: billed.credits, tax };
                let computed = Invoice::draft(head, &billed.days, &billed.book)?;
                self.differences.invoice(kept, &computed);
            }
            Err(wrong) => {
                let row = format!("invoice of {}: {wrong}", kept.month.index());
                self.differences.figure("evidence", &row, "contradictions", 1, 0);
            }
        }
        Ok(())
    }
}

/// Makes a bill and its digest again.
struct Again {
    digester: Digester,
    bill: Result<Bill, Wrong>,
}

impl Sink for Again {
    fn head(&mut self, _: &ProofHead) {}

    fn record(&mut self, record: &Record) {
        self.digester.take(record);
        if let Ok(bill) = &mut self.bill
            && let Err(wrong) = bill.take(record.clone())
        {
            self.bill = Err(wrong);
        }
    }

    async fn pass_on(&mut self) -> Result<(), String> {
        Ok(())
    }
}
