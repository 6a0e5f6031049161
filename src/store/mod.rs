//! The store: the only SQL. A narrow port: load rows by key, save rows, a few reads; no business rule.
//!
//! A caller begins a [`Tx`] in a [`Lane`], locks and loads what a batch touches, and saves one
//! [`changes::Changes`]; or reads from a snapshot ([`Store::read`]). Loads answer the core's own types; a row that is
//! not there is simply absent from the answer.
//!
//! # Lock doctrine
//!
//! Any number of engines write to one PostgreSQL at once, in READ COMMITTED; SQLite has one writer, and locks nothing.
//! Every batch takes its locks in this order, rows of a table in the order of their keys; a bundle (`bundle.rs`) takes those
//! of several steps in one round trip, one after another:
//!
//! | step | row | how | who |
//! |---|---|---|---|
//! | 1 | the watermark | shared; alone by who moves it, which then only adds to hours | every batch |
//! | 2 | accounts | locked (`FOR NO KEY UPDATE`) | what can raise used + reserved or changes what a decision reads: admissions, extensions, limits, keys, grants; usage of an account with free time left; ends of one that drew on it; what makes or deletes sandboxes |
//! | 3 | accounts | shared (`FOR KEY SHARE`) | every other batch that adds to keys' days |
//! | 4 | leases | locked; those that are assumed, in step 7 | what changes them |
//! | 5 | sandboxes | locked | what changes them |
//! | 6 | leases that are due | locked, those that others hold passed over | the gate, before it refuses for money |
//! | 7 | rows of the save | written, counters (`key_days`, then `account_days`) last | every batch that changes something |
//!
//! An account's first limit begins its day counters with the sums of its keys' days: it alone takes the account against
//! those that share it too (`FOR UPDATE`), so that no addition to those days is under way.
//!
//! **No lost update.** A row is written as a whole only by a batch that locked it and loaded it afterwards, or that finds it
//! as it assumed it to be; all else is added to. A locking statement answers its own rows as they are when they are got, for
//! it reads each again after the wait; all else that is decided on is loaded in statements after the lock that keeps it as
//! it is (a join in the locking statement would read from before the wait). For a decision that is its account's: grants, cards, keys and limits change
//! under it, and counters are only lowered without it; so they may be read beside the locks on leases, from before their
//! wait (`decision.rs`). What is read before a lock only says what to lock. A row that is not there can't be locked:
//! leases and sandboxes are made under their account's lock, accounts and rate cards by inserts that break a key when
//! somebody else was first. Who locks leases without their account may miss one that is just being admitted, as if it had
//! come a moment sooner. Where an account was granted free time after it was taken for one without, the batch begins
//! again ([`StoreError::Again`]).
//! Between the gate's load of counters and its commit others can only lower them: so it never admits one too many.
//! It refuses for money only after the counters were loaded again, behind step 6; and where a due lease was passed over,
//! it does not refuse but begins again: so a refusal is right for a state in which all that was due was settled.
//!
//! **No deadlock.** Steps 1 to 5 and 7 are one order over all rows, so nobody waits for one who waits for them. Step 3
//! waits only for a first limit, which holds one account, waits for no other row, and waits only for those who are past
//! step 3. Step 6 is out of order, but never waits; who waits for a row that it locked is in step 4, and holds nothing
//! that steps 6 and 7 could wait for. In step 7 only counters (and draws on grants, of accounts that are locked) are
//! shared between batches that hold different leases: in one order, and nothing comes after them. New rows belong to
//! rows that are locked. Rejected samples beyond those that are kept are deleted where nobody else is deleting them.
//! Should PostgreSQL see a deadlock all the same, it undoes one side, which begins again.
//!
//! **What is tried again.** The whole batch, from its first lock on, after a deadlock (40P01), a lock not got in time
//! (55P03), a serialisation failure (40001), a session that was ended or a connection that was lost before the commit.
//! Lost during the commit, the outcome is unknown ([`StoreError::Unknown`]): the batch is carried out again too, and its
//! commands find by their ids what was done. How often, and why that is exact: `ledger/retry.rs`.
//!
//! **Assumed.** An engine that wrote a lease knows what is in its row, and which transaction wrote it. A batch that only meters
//! such leases need not lock and read them ([`Tx::assume`]): its `UPDATE` names the transaction, takes the locks in the
//! order of the keys, and looks again at each row that it had to wait for. Where one was written by anybody else meanwhile,
//! the batch is undone and begins again with locks. It takes no lock of step 5; what it judged otherwise than as accepted, it
//! judges again with locks, for a row that it does not write is not compared.
//!
//! **Taken for new.** A lease and a sandbox are made under their account's lock, and stay for ever. So whoever has that
//! lock need not look whether they are there: where an insert of a lease, and of a sandbox's first life, breaks no key,
//! they were not, and no lease of that sandbox was. Where it does, the batch is undone and begins again, and looks.
//!
//! **Time.** The locking statements answer the server's clock as it is when a row is got: all engines agree on it, and
//! who comes later to an account has a later time.
//!
//! **Begun with a commit.** Where there is one writer the next batch may begin in the text that commits the one before,
//! and read what it will probably need ([`Tx::commit_and_hold`]). It locks nothing yet: where another program has
//! written when it writes, it begins again.
//!
//! **Begun ahead.** The next decision's transaction may be begun while nobody waits for it: without a statement it has no
//! snapshot and no lock. It is undone where nobody comes.
//!
//! **Neighbours.** Every wait has an end: for a connection, a lock (a quarter of it), a statement (on the server), an
//! answer (here: a server that hangs keeps no limits of its own). A connection that does not answer is closed, not kept.
//!
//! Limits: a SQLite database in memory has one connection in all, so a snapshot waits for the batch that is under
//! way; don't hold both at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

mod archive;
mod audit;
mod billed;
mod bundle;
mod credits;
mod customers;
mod days;
pub mod decision;
mod dialect;
mod draws;
mod error;
mod hours;
mod invoices;
mod leases;
mod lists;
mod migrate;
mod months;
mod notes;
mod pages;
mod parts;
mod proof;
mod rate_cards;
mod read;
mod rejected;
mod reports;
mod rows;
mod sandboxes;
mod save;
mod statement;
mod sums;
mod terms;
mod tokens;
mod tx;
mod voids;

pub mod changes;
pub mod shapes;

pub use error::StoreError;
pub use rows::WrittenBy;
pub use tx::Tx;

use dialect::{Backend, Row};
use rows::{Rows, Value};
use statement::Statement;
use tx::{all, known_row, within};

/// How much longer than the server's own limits an answer is awaited, in milliseconds.
const WAIT_MORE_MS: u64 = 250;

/// What the store answers.
pub type Answer<T> = Result<T, StoreError>;

/// Which writers share connections: a lane has its own, so that neither starves the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Admissions, limits, grants: what can raise what is committed.
    Decision,
    /// Samples, ends, settling.
    Meter,
}

/// Bounds of the connections to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Most batches of samples that write at once, beside one of ends and those of decisions. Each has two connections.
    /// PostgreSQL only: SQLite has one writer in all.
    pub meters_max: u32,
    /// Most connections that read.
    pub readers_max: u32,
    /// Longest wait for a connection, a lock or a statement, in milliseconds; afterwards: unavailable.
    pub wait_ms_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { meters_max: 4, readers_max: 4, wait_ms_max: 5_000 }
    }
}

/// The database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    backend: Backend,
    /// Longest wait for one answer: a little more than the server's own limits, whose errors say more.
    wait: Duration,
    reports: Option<Reports>,
}

/// A read replica for reports: opened when it is first needed, so that an engine starts without it.
#[derive(Clone, Debug)]
struct Reports {
    url: Arc<str>,
    options: Options,
    backend: Arc<OnceCell<Backend>>,
}

impl Store {
    /// Connects to `sqlite:PATH`, `sqlite::memory:` or `postgres://...`; [`StoreError::Unavailable`] when it can't. The
    /// schema is [`Store::migrate`]'s.
    pub async fn open(url: &str, options: Options) -> Answer<Self> {
        let wait = Duration::from_millis(options.wait_ms_max.saturating_add(WAIT_MORE_MS));
        Ok(Self { backend: Backend::open(url, options).await?, wait, reports: None })
    }

    /// Takes the snapshots of [`Store::read_reports`] from another database: a read replica of this one.
    #[must_use]
    pub fn with_reports(self, url: &str, options: Options) -> Self {
        // A replica takes no writes: one connection a lane stands idle.
        let options = Options { meters_max: 1, ..options };
        Self { reports: Some(Reports { url: url.into(), options, backend: Arc::default() }), ..self }
    }

    /// Whether the database answers and has its schema.
    pub async fn ready(&self) -> Answer<()> {
        self.read().await?.open_month(false).await.map(drop)
    }

    /// Begins a batch that writes. On SQLite it has its turn then; another program is kept out from its first statement on.
    pub async fn begin(&self, lane: Lane) -> Answer<Tx> {
        self.is_well()?;
        let connection = within(self.wait, self.backend.begin(lane)).await?;
        Ok(Tx::of_batch(connection, self.wait, self.backend.log().cloned()))
    }

    /// Waits until all that is committed by now outlives a loss of power: only then may anybody be told of it. What a
    /// [`Tx::commit`] or a snapshot answers has waited already.
    pub fn keep(&self) -> impl Future<Output = Answer<()>> + Send + use<> {
        let kept = self.backend.log().map(|log| log.keep());
        let wait = self.wait;
        async move {
            match kept {
                Some(kept) => within(wait, kept).await,
                None => Ok(()),
            }
        }
    }

    /// Whether [`Store::keep`] has anything to wait for.
    #[must_use]
    pub fn keeps_later(&self) -> bool {
        self.backend.log().is_some()
    }

    /// [`StoreError::Unavailable`] where nobody knows any more what is on disk.
    pub fn is_well(&self) -> Answer<()> {
        self.backend.log().map_or(Ok(()), |log| log.is_well())
    }

    /// Begins a [`Lane::Decision`] that will be asked for at once, while nobody waits for it.
    pub fn begin_ahead(&self) {
        self.backend.begin_ahead(self.wait);
    }

    /// Begins a consistent snapshot to read from; it never waits for a lock.
    pub async fn read(&self) -> Answer<Tx> {
        self.is_well()?;
        let connection = within(self.wait, self.backend.read()).await?;
        Ok(Tx::of_snapshot(connection, self.wait, self.backend.log().cloned()))
    }

    /// All rows of one statement, outside of any transaction: it sees what is committed when it begins.
    async fn ask(&self, statement: &'static Statement, rows: &Rows<'_>) -> Answer<Vec<Row>> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        within(self.wait, self.backend.ask(statement, rows)).await
    }

    /// Whether several can write at once, so that each lane may have a worker of its own.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.backend.is_shared()
    }

    /// Begins a snapshot for a report: of the read replica where there is one, which may be behind by its lag; never
    /// to be decided or authenticated by.
    pub async fn read_reports(&self) -> Answer<Tx> {
        let Some(reports) = &self.reports else { return self.read().await };
        let backend = reports.backend.get_or_try_init(|| Backend::open(&reports.url, reports.options)).await?;
        let connection = within(self.wait, backend.read()).await?;
        Ok(Tx::of_snapshot(connection, self.wait, backend.log().cloned()))
    }

    /// Closes all connections, after those that are in use are given back.
    pub async fn close(&self) {
        self.backend.close().await;
        if let Some(backend) = self.reports.as_ref().and_then(|reports| reports.backend.get()) {
            backend.close().await;
        }
    }

    /// Every statement that there is: name and text, before its words are put in.
    pub fn texts() -> impl Iterator<Item = (&'static str, &'static str)> {
        statements().map(|statement| (statement.name, statement.text()))
    }

    /// How the database would run every statement: name and plan, a line a step. Every statement is prepared by it.
    pub async fn plans(&self) -> Answer<Vec<(&'static str, Vec<String>)>> {
        let mut tx = self.begin(Lane::Decision).await?;
        let mut plans = Vec::new();
        for statement in statements() {
            plans.push((statement.name, tx.connection.plan(statement).await?));
        }
        let bundles = [
            (decision::HOLD.name, tx.connection.plan_bundle(&decision::HOLD).await?),
            (decision::LOAD.name, tx.connection.plan_bundle(&decision::LOAD).await?),
            (save::ADD_NEW.name, tx.connection.plan_bundle(&save::ADD_NEW).await?),
            (save::ADD_COUNTED.name, tx.connection.plan_bundle(&save::ADD_COUNTED).await?),
        ];
        plans.extend(bundles.into_iter().filter_map(|(name, plan)| Some((name, plan?))));
        Ok(plans)
    }
}

fn statements() -> impl Iterator<Item = &'static Statement> {
    let lists = [
        tx::STATEMENTS,
        archive::STATEMENTS,
        audit::STATEMENTS,
        billed::STATEMENTS,
        credits::STATEMENTS,
        customers::STATEMENTS,
        days::STATEMENTS,
        draws::STATEMENTS,
        hours::STATEMENTS,
        invoices::STATEMENTS,
        leases::STATEMENTS,
        lists::STATEMENTS,
        migrate::STATEMENTS,
        months::STATEMENTS,
        notes::STATEMENTS,
        pages::STATEMENTS,
        parts::STATEMENTS,
        proof::STATEMENTS,
        rate_cards::STATEMENTS,
        rejected::STATEMENTS,
        reports::STATEMENTS,
        sandboxes::STATEMENTS,
        save::STATEMENTS,
        sums::STATEMENTS,
        terms::STATEMENTS,
        tokens::STATEMENTS,
        voids::STATEMENTS,
    ];
    lists.into_iter().flatten().copied()
}
