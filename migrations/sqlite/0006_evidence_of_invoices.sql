-- The proof of invoices: what of the evidence had been accepted when a month was closed, and the digest of it.
--
-- A month's invoice bills what was accepted up to its closing. So with all that can change a bill, the earliest open
-- month of that moment is kept (the watermark): evidence of an invoice is what has the invoice's month or an earlier
-- one. NULL: from before this migration, which is before any closing that makes a digest.

ALTER TABLE sample_pages ADD COLUMN accepted_month INTEGER;
ALTER TABLE leases ADD COLUMN page_month INTEGER;
ALTER TABLE leases ADD COLUMN end_month INTEGER;
ALTER TABLE sandboxes ADD COLUMN page_month INTEGER;
ALTER TABLE sandboxes ADD COLUMN deleted_month INTEGER;

-- Of draws on free time, the part that hours of closed months drew (or gave back, negative) later, by the month that
-- bills it. Additive; draws has it too.
CREATE TABLE late_draws (
    account_id TEXT NOT NULL,
    lease_id TEXT NOT NULL,
    hour INTEGER NOT NULL,
    grant_id TEXT NOT NULL,
    billed_month INTEGER NOT NULL,
    drawn_ms INTEGER NOT NULL,
    PRIMARY KEY (account_id, lease_id, hour, grant_id, billed_month)
) STRICT, WITHOUT ROWID;

-- NULL: the invoice was made before invoices had them.
ALTER TABLE invoices ADD COLUMN evidence_sha256 BLOB;
ALTER TABLE invoices ADD COLUMN terms_sha256 BLOB;

-- The first month whose evidence is at hand: one row.
CREATE TABLE evidence_watermark (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    from_month INTEGER NOT NULL
) STRICT;
INSERT INTO evidence_watermark (id, from_month) VALUES (1, 0);

-- Of evidence that is archived, the samples that later months go on from, each a page of one sample.
CREATE TABLE kept_pages (
    account_id TEXT NOT NULL,
    sandbox_id TEXT NOT NULL,
    life INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    lease_id TEXT NOT NULL,
    accepted_month INTEGER,
    bytes BLOB NOT NULL,
    PRIMARY KEY (account_id, sandbox_id, life, first_at, lease_id)
) STRICT, WITHOUT ROWID;
