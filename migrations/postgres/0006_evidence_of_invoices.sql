-- The proof of invoices: what of the evidence had been accepted when a month was closed, and the digest of it.
--
-- A month's invoice bills what was accepted up to its closing. So with all that can change a bill, the earliest open
-- month of that moment is kept (the watermark): evidence of an invoice is what has the invoice's month or an earlier
-- one. NULL: from before this migration, which is before any closing that makes a digest.

ALTER TABLE sample_pages ADD COLUMN accepted_month BIGINT;
ALTER TABLE leases ADD COLUMN page_month BIGINT;
ALTER TABLE leases ADD COLUMN end_month BIGINT;
ALTER TABLE sandboxes ADD COLUMN page_month BIGINT;
ALTER TABLE sandboxes ADD COLUMN deleted_month BIGINT;

-- Of draws on free time, the part that hours of closed months drew (or gave back, negative) later, by the month that
-- bills it. Additive; draws has it too.
CREATE TABLE late_draws (
    account_id TEXT COLLATE "C" NOT NULL,
    lease_id TEXT COLLATE "C" NOT NULL,
    hour BIGINT NOT NULL,
    grant_id TEXT COLLATE "C" NOT NULL,
    billed_month BIGINT NOT NULL,
    drawn_ms BIGINT NOT NULL,
    PRIMARY KEY (account_id, lease_id, hour, grant_id, billed_month)
);

-- NULL: the invoice was made before invoices had them.
ALTER TABLE invoices ADD COLUMN evidence_sha256 BYTEA;
ALTER TABLE invoices ADD COLUMN terms_sha256 BYTEA;

-- The first month whose evidence is at hand: one row.
CREATE TABLE evidence_watermark (
    id BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    from_month BIGINT NOT NULL
);
INSERT INTO evidence_watermark (id, from_month) VALUES (1, 0);

-- Of evidence that is archived, the samples that later months go on from, each a page of one sample.
CREATE TABLE kept_pages (
    account_id TEXT COLLATE "C" NOT NULL,
    sandbox_id TEXT COLLATE "C" NOT NULL,
    life BIGINT NOT NULL,
    first_at BIGINT NOT NULL,
    lease_id TEXT COLLATE "C" NOT NULL,
    accepted_month BIGINT,
    bytes BYTEA NOT NULL,
    PRIMARY KEY (account_id, sandbox_id, life, first_at, lease_id)
);
