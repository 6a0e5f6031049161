-- Closing months: late usage, invoices and their numbers.

-- In which months a month's invoice bills usage of earlier months: written with the first hour of such usage, so that
-- an invoice reads the hours of those months only.
CREATE TABLE late_months (
    account_id TEXT COLLATE "C" NOT NULL,
    billed_month BIGINT NOT NULL,
    use_month BIGINT NOT NULL,
    PRIMARY KEY (account_id, billed_month, use_month)
);

-- Final invoices: frozen.
CREATE TABLE invoices (
    account_id TEXT COLLATE "C" NOT NULL,
    month BIGINT NOT NULL,
    number BIGINT NOT NULL,
    name TEXT NOT NULL,
    list_micros BIGINT NOT NULL,
    free_micros BIGINT NOT NULL,
    total_micros BIGINT NOT NULL,
    finalized_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, month)
);
CREATE UNIQUE INDEX invoices_by_number ON invoices (number);
CREATE INDEX invoices_by_month ON invoices (month, account_id) WHERE number > 0;

-- Their lines, in order. What is NULL is not there: money that is carried has no usage behind it.
CREATE TABLE invoice_lines (
    account_id TEXT COLLATE "C" NOT NULL,
    month BIGINT NOT NULL,
    line BIGINT NOT NULL,
    item TEXT NOT NULL,
    use_month BIGINT,
    from_day BIGINT,
    to_day BIGINT,
    card_id TEXT COLLATE "C",
    quantity BIGINT,
    measured BIGINT,
    price_micros BIGINT,
    amount_micros BIGINT NOT NULL,
    PRIMARY KEY (account_id, month, line)
);

CREATE FUNCTION invoices_frozen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'final invoices are frozen' USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER invoices_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON invoices
    FOR EACH STATEMENT EXECUTE FUNCTION invoices_frozen();
CREATE TRIGGER invoice_lines_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON invoice_lines
    FOR EACH STATEMENT EXECUTE FUNCTION invoices_frozen();
-- A line comes with its invoice, never later.
CREATE FUNCTION invoice_lines_frozen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM invoices i WHERE i.account_id = NEW.account_id AND i.month = NEW.month) THEN
        RAISE EXCEPTION 'final invoices are frozen' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER invoice_lines_no_addition BEFORE INSERT ON invoice_lines
    FOR EACH ROW EXECUTE FUNCTION invoice_lines_frozen();

-- The next number: one row. Its lock makes engines take turns, so that no number is lost or used twice.
CREATE TABLE invoice_numbers (
    id BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    next_number BIGINT NOT NULL
);
INSERT INTO invoice_numbers (id, next_number) VALUES (1, 1);

-- Months whose invoices are all final.
CREATE TABLE closed_months (
    month BIGINT NOT NULL,
    invoices BIGINT NOT NULL,
    PRIMARY KEY (month)
);
