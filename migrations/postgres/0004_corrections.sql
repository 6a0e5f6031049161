-- Credit, tax, corrections of evidence, and the life of invoices after they are final.

-- Basis points; none: no tax line.
ALTER TABLE accounts ADD COLUMN tax_rate_bps BIGINT;

-- Promotional credit in microdollars, dated like free hours. A row never changes: what is drawn is the sum of the draws.
CREATE TABLE credits (
    account_id TEXT COLLATE "C" NOT NULL,
    credit_id TEXT COLLATE "C" NOT NULL,
    granted_micros BIGINT NOT NULL,
    starts_on BIGINT NOT NULL,
    expires_on BIGINT,
    note TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, credit_id)
);

-- What a final invoice drew on a credit for the usage of a day (below zero: given back), in order. Written with the
-- invoice.
CREATE TABLE credit_draws (
    account_id TEXT COLLATE "C" NOT NULL,
    month BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    day BIGINT NOT NULL,
    credit_id TEXT COLLATE "C" NOT NULL,
    drawn_micros BIGINT NOT NULL,
    PRIMARY KEY (account_id, month, seq)
);

ALTER TABLE invoices ADD COLUMN credit_micros BIGINT NOT NULL DEFAULT 0;
ALTER TABLE invoices ADD COLUMN tax_micros BIGINT NOT NULL DEFAULT 0;
ALTER TABLE invoice_lines ADD COLUMN credit_id TEXT COLLATE "C";
ALTER TABLE invoice_lines ADD COLUMN tax_rate_bps BIGINT;
ALTER TABLE invoice_lines ADD COLUMN tax_base_micros BIGINT;

-- Samples that an operator voided: they stay in the evidence and count no more. No lease: at rest.
CREATE TABLE voids (
    account_id TEXT COLLATE "C" NOT NULL,
    sandbox_id TEXT COLLATE "C" NOT NULL,
    life BIGINT NOT NULL,
    lease_id TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    void_id TEXT COLLATE "C" NOT NULL,
    reason TEXT NOT NULL,
    voided_at BIGINT NOT NULL,
    -- the earliest month that was not closed then: what it changes is billed there at the earliest
    open_month BIGINT NOT NULL,
    PRIMARY KEY (account_id, sandbox_id, life, lease_id, at)
);
CREATE UNIQUE INDEX voids_by_id ON voids (account_id, void_id);

-- The latest voided sample of a lease, and the latest voided report of a sandbox's disk: what is not later may be one.
ALTER TABLE leases ADD COLUMN voided_until BIGINT;
ALTER TABLE sandboxes ADD COLUMN voided_until BIGINT;

-- What became of a final invoice: sent, paid, overdue, written off.
CREATE TABLE invoice_events (
    account_id TEXT COLLATE "C" NOT NULL,
    month BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    event_id TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    reference TEXT NOT NULL,
    note TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (account_id, month, seq)
);
CREATE UNIQUE INDEX invoice_events_by_id ON invoice_events (account_id, event_id);

-- Credit notes and debit notes on final invoices, final at once.
CREATE TABLE notes (
    account_id TEXT COLLATE "C" NOT NULL,
    month BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    note_id TEXT COLLATE "C" NOT NULL,
    invoice_number BIGINT NOT NULL,
    name TEXT NOT NULL,
    reason TEXT NOT NULL,
    tax_rate_bps BIGINT,
    base_micros BIGINT NOT NULL,
    tax_micros BIGINT NOT NULL,
    issued_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, month, kind, number)
);
CREATE UNIQUE INDEX notes_by_id ON notes (account_id, note_id);
CREATE UNIQUE INDEX notes_by_number ON notes (kind, number);
CREATE TABLE note_lines (
    account_id TEXT COLLATE "C" NOT NULL,
    month BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    line BIGINT NOT NULL,
    description TEXT NOT NULL,
    amount_micros BIGINT NOT NULL,
    PRIMARY KEY (account_id, month, kind, number, line)
);

-- The next number of each kind. A row's lock makes engines take turns, so that no number is lost or used twice.
CREATE TABLE note_numbers (
    kind TEXT COLLATE "C" NOT NULL,
    next_number BIGINT NOT NULL,
    PRIMARY KEY (kind)
);
INSERT INTO note_numbers (kind, next_number) VALUES ('credit', 1), ('debit', 1);

-- All of these are facts: nothing of them is ever changed or taken back.
CREATE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% are append-only', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER credits_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON credits
    FOR EACH STATEMENT EXECUTE FUNCTION append_only();
CREATE TRIGGER credit_draws_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON credit_draws
    FOR EACH STATEMENT EXECUTE FUNCTION append_only();
CREATE TRIGGER voids_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON voids
    FOR EACH STATEMENT EXECUTE FUNCTION append_only();
CREATE TRIGGER invoice_events_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON invoice_events
    FOR EACH STATEMENT EXECUTE FUNCTION append_only();
CREATE TRIGGER notes_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON notes
    FOR EACH STATEMENT EXECUTE FUNCTION append_only();
CREATE TRIGGER note_lines_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON note_lines
    FOR EACH STATEMENT EXECUTE FUNCTION append_only();
-- Draws come with their invoice, lines with their note, never later.
CREATE TRIGGER credit_draws_no_addition BEFORE INSERT ON credit_draws
    FOR EACH ROW EXECUTE FUNCTION invoice_lines_frozen();
CREATE FUNCTION note_lines_frozen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM notes n WHERE n.account_id = NEW.account_id AND n.month = NEW.month
        AND n.kind = NEW.kind AND n.number = NEW.number) THEN
        RAISE EXCEPTION 'notes are frozen' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER note_lines_no_addition BEFORE INSERT ON note_lines
    FOR EACH ROW EXECUTE FUNCTION note_lines_frozen();
