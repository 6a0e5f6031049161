-- Credit, tax, corrections of evidence, and the life of invoices after they are final.

-- Basis points; none: no tax line.
ALTER TABLE accounts ADD COLUMN tax_rate_bps INTEGER;

-- Promotional credit in microdollars, dated like free hours. A row never changes: what is drawn is the sum of the draws.
CREATE TABLE credits (
    account_id TEXT NOT NULL,
    credit_id TEXT NOT NULL,
    granted_micros INTEGER NOT NULL,
    starts_on INTEGER NOT NULL,
    expires_on INTEGER,
    note TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (account_id, credit_id)
) STRICT, WITHOUT ROWID;

-- What a final invoice drew on a credit for the usage of a day (below zero: given back), in order. Written with the
-- invoice.
CREATE TABLE credit_draws (
    account_id TEXT NOT NULL,
    month INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    day INTEGER NOT NULL,
    credit_id TEXT NOT NULL,
    drawn_micros INTEGER NOT NULL,
    PRIMARY KEY (account_id, month, seq)
) STRICT, WITHOUT ROWID;

ALTER TABLE invoices ADD COLUMN credit_micros INTEGER NOT NULL DEFAULT 0;
ALTER TABLE invoices ADD COLUMN tax_micros INTEGER NOT NULL DEFAULT 0;
ALTER TABLE invoice_lines ADD COLUMN credit_id TEXT;
ALTER TABLE invoice_lines ADD COLUMN tax_rate_bps INTEGER;
ALTER TABLE invoice_lines ADD COLUMN tax_base_micros INTEGER;

-- Samples that an operator voided: they stay in the evidence and count no more. No lease: at rest.
CREATE TABLE voids (
    account_id TEXT NOT NULL,
    sandbox_id TEXT NOT NULL,
    life INTEGER NOT NULL,
    lease_id TEXT NOT NULL,
    at INTEGER NOT NULL,
    void_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    voided_at INTEGER NOT NULL,
    -- the earliest month that was not closed then: what it changes is billed there at the earliest
    open_month INTEGER NOT NULL,
    PRIMARY KEY (account_id, sandbox_id, life, lease_id, at)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX voids_by_id ON voids (account_id, void_id);

-- The latest voided sample of a lease, and the latest voided report of a sandbox's disk: what is not later may be one.
ALTER TABLE leases ADD COLUMN voided_until INTEGER;
ALTER TABLE sandboxes ADD COLUMN voided_until INTEGER;

-- What became of a final invoice: sent, paid, overdue, written off.
CREATE TABLE invoice_events (
    account_id TEXT NOT NULL,
    month INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    reference TEXT NOT NULL,
    note TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (account_id, month, seq)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX invoice_events_by_id ON invoice_events (account_id, event_id);

-- Credit notes and debit notes on final invoices, final at once.
CREATE TABLE notes (
    account_id TEXT NOT NULL,
    month INTEGER NOT NULL,
    kind TEXT NOT NULL,
    number INTEGER NOT NULL,
    note_id TEXT NOT NULL,
    invoice_number INTEGER NOT NULL,
    name TEXT NOT NULL,
    reason TEXT NOT NULL,
    tax_rate_bps INTEGER,
    base_micros INTEGER NOT NULL,
    tax_micros INTEGER NOT NULL,
    issued_at INTEGER NOT NULL,
    PRIMARY KEY (account_id, month, kind, number)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX notes_by_id ON notes (account_id, note_id);
CREATE UNIQUE INDEX notes_by_number ON notes (kind, number);
CREATE TABLE note_lines (
    account_id TEXT NOT NULL,
    month INTEGER NOT NULL,
    kind TEXT NOT NULL,
    number INTEGER NOT NULL,
    line INTEGER NOT NULL,
    description TEXT NOT NULL,
    amount_micros INTEGER NOT NULL,
    PRIMARY KEY (account_id, month, kind, number, line)
) STRICT, WITHOUT ROWID;

-- The next number of each kind. A row's lock makes engines take turns, so that no number is lost or used twice.
CREATE TABLE note_numbers (
    kind TEXT NOT NULL,
    next_number INTEGER NOT NULL,
    PRIMARY KEY (kind)
) STRICT, WITHOUT ROWID;
INSERT INTO note_numbers (kind, next_number) VALUES ('credit', 1), ('debit', 1);

-- All of these are facts: nothing of them is ever changed or taken back.
CREATE TRIGGER credits_no_update BEFORE UPDATE ON credits
BEGIN
    SELECT RAISE(ABORT, 'credits are append-only');
END;
CREATE TRIGGER credits_no_delete BEFORE DELETE ON credits
BEGIN
    SELECT RAISE(ABORT, 'credits are append-only');
END;
CREATE TRIGGER credit_draws_no_update BEFORE UPDATE ON credit_draws
BEGIN
    SELECT RAISE(ABORT, 'credit_draws are append-only');
END;
CREATE TRIGGER credit_draws_no_delete BEFORE DELETE ON credit_draws
BEGIN
    SELECT RAISE(ABORT, 'credit_draws are append-only');
END;
CREATE TRIGGER voids_no_update BEFORE UPDATE ON voids
BEGIN
    SELECT RAISE(ABORT, 'voids are append-only');
END;
CREATE TRIGGER voids_no_delete BEFORE DELETE ON voids
BEGIN
    SELECT RAISE(ABORT, 'voids are append-only');
END;
CREATE TRIGGER invoice_events_no_update BEFORE UPDATE ON invoice_events
BEGIN
    SELECT RAISE(ABORT, 'invoice_events are append-only');
END;
CREATE TRIGGER invoice_events_no_delete BEFORE DELETE ON invoice_events
BEGIN
    SELECT RAISE(ABORT, 'invoice_events are append-only');
END;
CREATE TRIGGER notes_no_update BEFORE UPDATE ON notes
BEGIN
    SELECT RAISE(ABORT, 'notes are append-only');
END;
CREATE TRIGGER notes_no_delete BEFORE DELETE ON notes
BEGIN
    SELECT RAISE(ABORT, 'notes are append-only');
END;
CREATE TRIGGER note_lines_no_update BEFORE UPDATE ON note_lines
BEGIN
    SELECT RAISE(ABORT, 'note_lines are append-only');
END;
CREATE TRIGGER note_lines_no_delete BEFORE DELETE ON note_lines
BEGIN
    SELECT RAISE(ABORT, 'note_lines are append-only');
END;
-- Draws come with their invoice, lines with their note, never later.
CREATE TRIGGER credit_draws_no_addition BEFORE INSERT ON credit_draws
WHEN EXISTS (SELECT 1 FROM invoices i WHERE i.account_id = NEW.account_id AND i.month = NEW.month)
BEGIN
    SELECT RAISE(ABORT, 'final invoices are frozen');
END;
CREATE TRIGGER note_lines_no_addition BEFORE INSERT ON note_lines
WHEN EXISTS (SELECT 1 FROM notes n WHERE n.account_id = NEW.account_id AND n.month = NEW.month
    AND n.kind = NEW.kind AND n.number = NEW.number)
BEGIN
    SELECT RAISE(ABORT, 'notes are frozen');
END;
