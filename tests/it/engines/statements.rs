//! Every statement of a decision keeps to its accounts: so the database can be split by account.

use runtab::store::{Options, Store};

/// Statements that are not about given accounts, each with the reason.
const NAMED: [(&str, &str); 43] = [
    ("open month", "the watermark is one row for all"),
    ("open month, held", "the watermark is one row for all"),
    ("transaction", "of no row"),
    ("migrations done", "the record of migrations"),
    ("add migration", "the record of migrations"),
    ("rate cards by id", "cards of the default scope are nobody's; read when one is added or removed"),
    ("rate card entries", "by scope: the accounts, and the default one"),
    ("terms", "by scope: the accounts, and the default one"),
    ("add rate cards", "by scope"),
    ("remove rate cards", "by the card's id; rare, and no decision"),
    ("list rate cards", "an operator's list"),
    ("insert token", "operators' tokens are of no account"),
    ("delete token", "operators' tokens are of no account"),
    ("list tokens", "operators' tokens are of no account"),
    ("bearers", "finds the token, or the account, of a secret; no decision"),
    ("list accounts", "an operator's list"),
    ("usage of all accounts", "an operator's sum"),
    ("stale leases of all accounts", "an operator's sum"),
    ("oldest parts", "finds parts that wait; each sandbox's are then loaded by its account"),
    ("remove parts", "by the numbers of parts that were loaded by account"),
    ("list rejected samples", "an operator's list"),
    ("incomplete leases of all accounts", "an operator's sum"),
    ("due leases of all accounts", "finds what to settle; each lease is then locked by its account"),
    ("list rate cards after", "an operator's list"),
    ("rate cards", "an operator's list"),
    ("accounts list", "an operator's list"),
    ("tokens", "operators' tokens are of no account"),
    ("lock invoice numbers", "numbers have no gaps over all accounts"),
    ("next invoice number", "numbers have no gaps over all accounts"),
    ("set next invoice number", "numbers have no gaps over all accounts"),
    ("lock note numbers", "numbers have no gaps over all accounts"),
    ("next note number", "numbers have no gaps over all accounts"),
    ("set next note number", "numbers have no gaps over all accounts"),
    ("count invoices", "an operator's sum"),
    ("lock watermark", "the watermark is one row for all"),
    ("move watermark", "the watermark is one row for all"),
    ("late usage that waits", "an operator's question before evidence is dropped"),
    ("evidence at hand", "the watermark of evidence is one row for all"),
    ("move evidence watermark", "the watermark of evidence is one row for all"),
    ("first hour", "finds the first month to close"),
    ("closed month", "the record of closed months"),
    ("last closed month", "the record of closed months"),
    ("add closed month", "the record of closed months"),
];

#[tokio::test]
async fn statements_keep_to_their_accounts() {
    let store = Store::open("sqlite::memory:", Options::default()).await.unwrap();
    let mut wrong = Vec::new();
    for (name, text) in Store::texts() {
        if NAMED.iter().any(|(known, _)| *known == name) {
            continue;
        }
        // It reaches its rows by the account of the row source, or by one account given beside it; what it writes
        // begins with the account.
        let bounded = text.contains("account_id = r.account_id")
            || text.contains("account_id = {text ")
            || text.contains("FROM {rows account_id text");
        // No two rows of the source meet: each row's join names its own account, never another table's.
        let crosses = text.match_indices("account_id <> ").next().is_some();
        if !bounded || crosses {
            wrong.push(format!("{name}: {text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    store.close().await;
}
