//! What is recorded beside final invoices: events of their life, credit notes and debit notes. Append-only.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::id::{AccountId, EventId, NoteId};
use crate::domain::invoice::InvoiceNumber;
use crate::domain::invoice_life::{EventKind, InvoiceEvent};
use crate::domain::note::{Note, NoteKind, NoteLine, NoteNumber};
use crate::domain::tax::Taxed;
use crate::domain::time::Month;

use super::changes::Changes;
use super::dialect::Row;
use super::read::known;
use super::statement::Statement;
use super::{Answer, Rows, StoreError, Tx, Value, all};

macro_rules! event_columns {
    () => {
        "e.account_id, e.month, e.seq, e.event_id, e.kind, e.reference, e.note, e.at"
    };
}
macro_rules! note_columns {
    () => {
        "n.account_id, n.month, n.kind, n.number, n.note_id, n.invoice_number, n.name, n.reason, n.tax_rate_bps,
        n.base_micros, n.tax_micros, n.issued_at"
    };
}
static EVENTS: Statement = Statement::new(
    "events of invoices",
    concat!(
        "SELECT ",
        event_columns!(),
        " FROM {rows account_id text, month int}
        {each invoice_events e: e.account_id = r.account_id AND e.month = r.month} ORDER BY r.ord, e.seq"
    ),
);
static EVENT_BY_ID: Statement = Statement::new(
    "events by id",
    concat!(
        "SELECT ",
        event_columns!(),
        " FROM {rows account_id text, event_id text}
        {each invoice_events e by invoice_events_by_id: e.account_id = r.account_id AND e.event_id = r.event_id}
        ORDER BY r.ord"
    ),
);
static ADD_EVENTS: Statement = Statement::new(
    "add events of invoices",
    "INSERT INTO invoice_events ({columns}) SELECT {r.columns} FROM {rows account_id text, month int, seq int |
        event_id text, kind text, reference text, note text, at int} WHERE true",
);
static NOTES: Statement = Statement::new(
    "notes of invoices",
    concat!(
        "SELECT ",
        note_columns!(),
        " FROM {rows account_id text, month int}
        {each notes n: n.account_id = r.account_id AND n.month = r.month} ORDER BY r.ord, n.issued_at, n.kind, n.number"
    ),
);
static NOTE_BY_ID: Statement = Statement::new(
    "notes by id",
    concat!(
        "SELECT ",
        note_columns!(),
        " FROM {rows account_id text, note_id text}
        {each notes n by notes_by_id: n.account_id = r.account_id AND n.note_id = r.note_id} ORDER BY r.ord"
    ),
);
static NOTE_BY_NUMBER: Statement = Statement::new(
    "notes by number",
    concat!(
        "SELECT ",
        note_columns!(),
        " FROM {rows account_id text, kind text, number int}
        {each notes n by notes_by_number: n.account_id = r.account_id AND n.kind = r.kind AND n.number = r.number}
        ORDER BY r.ord"
    ),
);
static LIST: Statement = Statement::new(
    "list notes",
    concat!(
        "SELECT ",
        note_columns!(),
        " FROM notes n WHERE n.account_id = {text 1} AND (n.month, n.kind, n.number) > ({int 2}, {text 3}, {int 4})
        ORDER BY n.month, n.kind, n.number LIMIT {int 5}"
    ),
);
static LINES: Statement = Statement::new(
    "note lines",
    "SELECT l.kind, l.number, l.description, l.amount_micros
    FROM {rows account_id text, month int, kind text, number int}
    {each note_lines l: l.account_id = r.account_id AND l.month = r.month AND l.kind = r.kind AND l.number = r.number}
    ORDER BY r.ord, l.line",
);
static ADD_NOTES: Statement = Statement::new(
    "add notes",
    "INSERT INTO notes ({columns}) SELECT {r.columns} FROM {rows account_id text, month int, kind text, number int |
        note_id text, invoice_number int, name text, reason text, tax_rate_bps int, base_micros int, tax_micros int,
        issued_at int} WHERE true",
);
static ADD_LINES: Statement = Statement::new(
    "add note lines",
    "INSERT INTO note_lines ({columns}) SELECT {r.columns} FROM {rows account_id text, month int, kind text, number int,
        line int | description text, amount_micros int} WHERE true",
);
static TAKE_TURNS: Statement =
    Statement::new("lock note numbers", "UPDATE note_numbers SET next_number = next_number WHERE kind = {text 1}");
static NEXT: Statement =
    Statement::new("next note number", "SELECT n.next_number FROM note_numbers n WHERE n.kind = {text 1}");
static SET_NEXT: Statement =
    Statement::new("set next note number", "UPDATE note_numbers SET next_number = {int 2} WHERE kind = {text 1}");
pub(super) static STATEMENTS: &[&Statement] = &[
    &EVENTS,
    &EVENT_BY_ID,
    &ADD_EVENTS,
    &NOTES,
    &NOTE_BY_ID,
    &NOTE_BY_NUMBER,
    &LIST,
    &LINES,
    &ADD_NOTES,
    &ADD_LINES,
    &TAKE_TURNS,
    &NEXT,
    &SET_NEXT,
];

fn event(row: &mut Row) -> Answer<InvoiceEvent> {
    Ok(InvoiceEvent {
        account: row.id()?,
        month: row.month()?,
        seq: row.int()?,
        id: row.id()?,
        kind: known(EventKind::of_name(row.text()?), "an event's kind")?,
        reference: row.string()?,
        note: row.string()?,
        at: row.time()?,
    })
}

fn number(kind: &str, count: i64) -> Answer<NoteNumber> {
    let kind = known(NoteKind::ALL.into_iter().find(|known| known.name() == kind), "a note's kind")?;
    known(NoteNumber::new(kind, count), "a note's number")
}

fn note(row: &mut Row) -> Answer<Note> {
    let (account, month, kind, count) = (row.id()?, row.month()?, row.string()?, row.int()?);
    let (id, invoice, name, reason) = (row.id()?, row.int()?, row.string()?, row.string()?);
    let (rate, base, tax) = (row.opt_tax_rate()?, row.micros()?, row.micros()?);
    Ok(Note {
        account,
        name,
        month,
        invoice: known(InvoiceNumber::new(invoice), "an invoice's number")?,
        number: number(&kind, count)?,
        id,
        reason,
        lines: Vec::new(),
        taxed: rate.map(|rate| Taxed { rate, base }),
        base,
        tax,
        issued_at: row.time()?,
    })
}

fn of_months<'a>(account: &'a AccountId, months: &BTreeSet<Month>) -> Rows<'a> {
    Rows::of(months, |rows, month| {
        rows.text(account.as_str()).int(month.index());
    })
}

fn note_key<'a>(rows: &mut Rows<'a>, note: &'a Note) {
    rows.text(note.account.as_str()).int(note.month.index()).text(note.kind().name()).int(note.number.count());
}

impl Tx {
    /// Events of an account's invoices, by month, in order.
    pub async fn invoice_events(&mut self, of: &AccountId, months: &BTreeSet<Month>) -> Answer<Vec<InvoiceEvent>> {
        all(self.fetch_rows(&EVENTS, &of_months(of, months), &[]).await?, event)
    }

    /// An event by its id.
    pub async fn invoice_event(&mut self, of: &AccountId, id: &EventId) -> Answer<Option<InvoiceEvent>> {
        let rows = Rows::of([()], |rows, ()| {
            rows.text(of.as_str()).text(id.as_str());
        });
        Ok(all(self.fetch_rows(&EVENT_BY_ID, &rows, &[]).await?, event)?.pop())
    }

    /// Notes on an account's invoices, by month, in the order of issue.
    pub async fn notes_of_invoices(&mut self, of: &AccountId, months: &BTreeSet<Month>) -> Answer<Vec<Note>> {
        let heads = all(self.fetch_rows(&NOTES, &of_months(of, months), &[]).await?, note)?;
        self.with_note_lines(heads).await
    }

    /// A note by its id.
    pub async fn note_by_id(&mut self, of: &AccountId, id: &NoteId) -> Answer<Option<Note>> {
        let rows = Rows::of([()], |rows, ()| {
            rows.text(of.as_str()).text(id.as_str());
        });
        let heads = all(self.fetch_rows(&NOTE_BY_ID, &rows, &[]).await?, note)?;
        Ok(self.with_note_lines(heads).await?.pop())
    }

    /// A note by its number.
    pub async fn note(&mut self, of: &AccountId, number: NoteNumber) -> Answer<Option<Note>> {
        let rows = Rows::of([()], |rows, ()| {
            rows.text(of.as_str()).text(number.kind().name()).int(number.count());
        });
        let heads = all(self.fetch_rows(&NOTE_BY_NUMBER, &rows, &[]).await?, note)?;
        Ok(self.with_note_lines(heads).await?.pop())
    }

    /// An account's notes after one, by month of the invoice, kind and number, at most `limit`.
    pub async fn list_notes(
        &mut self,
        of: &AccountId,
        after: Option<(Month, NoteNumber)>,
        limit: i64,
    ) -> Answer<Vec<Note>> {
        let (month, kind, number) =
            after.map_or((-1, "", 0), |(month, number)| (month.index(), number.kind().name(), number.count()));
        let values =
            [Value::text(of.as_str()), Value::int(month), Value::text(kind), Value::int(number), Value::int(limit)];
        let heads = all(self.fetch(&LIST, &values).await?, note)?;
        self.with_note_lines(heads).await
    }

    async fn with_note_lines(&mut self, mut notes: Vec<Note>) -> Answer<Vec<Note>> {
        let rows = Rows::of(&notes, |rows, note| note_key(rows, note));
        let found = all(self.fetch_rows(&LINES, &rows, &[]).await?, |row| {
            let (kind, count) = (row.string()?, row.int()?);
            Ok((number(&kind, count)?, NoteLine { description: row.string()?, amount: row.micros()? }))
        })?;
        let mut lines: BTreeMap<NoteNumber, Vec<NoteLine>> = BTreeMap::new();
        for (number, line) in found {
            lines.entry(number).or_default().push(line);
        }
        for note in &mut notes {
            note.lines = lines.remove(&note.number).unwrap_or_default();
        }
        Ok(notes)
    }

    /// Locks the numbers of a kind, so that engines take turns, and answers the next one.
    pub async fn lock_note_numbers(&mut self, kind: NoteKind) -> Answer<NoteNumber> {
        self.execute(&TAKE_TURNS, &[Value::text(kind.name())]).await?;
        let found = self.fetch(&NEXT, &[Value::text(kind.name())]).await?.into_iter().next();
        let next = found.ok_or_else(|| StoreError::corrupt("no note numbers"))?.int()?;
        known(NoteNumber::new(kind, next), "a note's number")
    }

    /// Adds events and notes; the caller holds the numbers.
    pub(super) async fn save_notes(&mut self, changes: &Changes) -> Answer<()> {
        let events = Rows::of(&changes.invoice_events, |rows, event| {
            rows.text(event.account.as_str()).int(event.month.index()).int(event.seq).text(event.id.as_str());
            rows.text(event.kind.name()).text(&event.reference).text(&event.note).int(event.at.ms());
        });
        self.write(&ADD_EVENTS, &events).await?;
        let mut lines = Rows::default();
        for note in &changes.notes {
            for (place, line) in note.lines.iter().enumerate() {
                note_key(&mut lines, note);
                lines.int(i64::try_from(place).map_err(|_| StoreError::Overflow)?);
                lines.text(&line.description).int(line.amount.count());
                lines.end();
            }
        }
        // The lines first: once the note is there, it takes no more.
        self.write(&ADD_LINES, &lines).await?;
        let notes = Rows::of(&changes.notes, |rows, note| {
            note_key(rows, note);
            rows.text(NoteId::as_str(&note.id)).int(note.invoice.count()).text(&note.name).text(&note.reason);
            rows.opt_int(note.taxed.map(|taxed| taxed.rate.bps())).int(note.base.count()).int(note.tax.count());
            rows.int(note.issued_at.ms());
        });
        self.write(&ADD_NOTES, &notes).await?;
        for note in &changes.notes {
            let next = note.number.count().checked_add(1).ok_or(StoreError::Overflow)?;
            self.execute(&SET_NEXT, &[Value::text(note.kind().name()), Value::int(next)]).await?;
        }
        Ok(())
    }
}
