-- Closing months: late usage, invoices and their numbers.

-- In which months a month's invoice bills usage of earlier months: written with the first hour of such usage, so that
-- an invoice reads the hours of those months only.
CREATE TABLE late_months (
    account_id TEXT NOT NULL,
    billed_month INTEGER NOT NULL,
    use_month INTEGER NOT NULL,
    PRIMARY KEY (account_id, billed_month, use_month)
) STRICT, WITHOUT ROWID;

-- Final invoices: frozen.
CREATE TABLE invoices (
    account_id TEXT NOT NULL,
    month INTEGER NOT NULL,
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    list_micros INTEGER NOT NULL,
    free_micros INTEGER NOT NULL,
    total_micros INTEGER NOT NULL,
    finalized_at INTEGER NOT NULL,
    PRIMARY KEY (account_id, month)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX invoices_by_number ON invoices (number);
CREATE INDEX invoices_by_month ON invoices (month, account_id) WHERE number > 0;

-- Their lines, in order. What is NULL is not there: money that is carried has no usage behind it.
CREATE TABLE invoice_lines (
    account_id TEXT NOT NULL,
    month INTEGER NOT NULL,
    line INTEGER NOT NULL,
    item TEXT NOT NULL,
    use_month INTEGER,
    from_day INTEGER,
    to_day INTEGER,
    card_id TEXT,
    quantity INTEGER,
    measured INTEGER,
    price_micros INTEGER,
    amount_micros INTEGER NOT NULL,
    PRIMARY KEY (account_id, month, line)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER invoices_no_update BEFORE UPDATE ON invoices
BEGIN
    SELECT RAISE(ABORT, 'final invoices are frozen');
END;
CREATE TRIGGER invoices_no_delete BEFORE DELETE ON invoices
BEGIN
    SELECT RAISE(ABORT, 'final invoices are frozen');
END;
CREATE TRIGGER invoice_lines_no_update BEFORE UPDATE ON invoice_lines
BEGIN
    SELECT RAISE(ABORT, 'final invoices are frozen');
END;
CREATE TRIGGER invoice_lines_no_delete BEFORE DELETE ON invoice_lines
BEGIN
    SELECT RAISE(ABORT, 'final invoices are frozen');
END;
-- A line comes with its invoice, never later.
CREATE TRIGGER invoice_lines_no_addition BEFORE INSERT ON invoice_lines
WHEN EXISTS (SELECT 1 FROM invoices i WHERE i.account_id = NEW.account_id AND i.month = NEW.month)
BEGIN
    SELECT RAISE(ABORT, 'final invoices are frozen');
END;

-- The next number: one row. Its lock makes engines take turns, so that no number is lost or used twice.
CREATE TABLE invoice_numbers (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    next_number INTEGER NOT NULL
) STRICT;
INSERT INTO invoice_numbers (id, next_number) VALUES (1, 1);

-- Months whose invoices are all final.
CREATE TABLE closed_months (
    month INTEGER NOT NULL,
    invoices INTEGER NOT NULL,
    PRIMARY KEY (month)
) STRICT, WITHOUT ROWID;
