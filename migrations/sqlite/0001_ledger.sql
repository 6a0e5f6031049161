-- Customers, leases, evidence and usage.
--
-- Times are milliseconds since 1970 (UTC); days, hours and months are their numbers since 1970. The account leads
-- every key. Tables are STRICT: a sum that leaves 64 bits is refused.

-- Customers.
CREATE TABLE accounts (
    account_id TEXT NOT NULL,
    name TEXT NOT NULL,
    status TEXT NOT NULL,
    card_on_file INTEGER NOT NULL,
    daily_limit_micros INTEGER,
    -- the first day on which account_days are kept
    counted_from INTEGER,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (account_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE keys (
    account_id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    name TEXT NOT NULL,
    read_only INTEGER NOT NULL,
    daily_limit_micros INTEGER,
    revoked_at INTEGER,
    created_at INTEGER NOT NULL,
    -- set by the first save; later saves without a new secret keep it
    secret_sha256 BLOB,
    PRIMARY KEY (account_id, key_id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX keys_by_secret ON keys (secret_sha256);

-- Operators' tokens: of nobody's account.
CREATE TABLE tokens (
    token_id TEXT NOT NULL,
    role TEXT NOT NULL,
    host_id TEXT,
    name TEXT NOT NULL,
    secret_sha256 BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (token_id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX tokens_by_secret ON tokens (secret_sha256);

CREATE TABLE grants (
    account_id TEXT NOT NULL,
    grant_id TEXT NOT NULL,
    granted_ms INTEGER NOT NULL,
    used_ms INTEGER NOT NULL,
    starts_on INTEGER NOT NULL,
    expires_on INTEGER,
    note TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (account_id, grant_id)
) STRICT, WITHOUT ROWID;

-- scope: an account, or empty: the default for all. No card: back to the default.
CREATE TABLE rate_cards (
    scope TEXT NOT NULL,
    effective_on INTEGER NOT NULL,
    card_id TEXT,
    cpu_micros INTEGER,
    memory_micros INTEGER,
    storage_micros INTEGER,
    floor_millicores INTEGER,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (scope, effective_on)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX rate_cards_by_id ON rate_cards (card_id);

-- A row a life. It holds the storage meter's latest report and open hour, and the open page of samples at rest.
CREATE TABLE sandboxes (
    account_id TEXT NOT NULL,
    sandbox_id TEXT NOT NULL,
    life INTEGER NOT NULL,
    first_key_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    deleted_at INTEGER,
    latest_lease_id TEXT,
    latest_key_id TEXT,
    latest_starts_at INTEGER,
    storage_at INTEGER,
    storage_mib INTEGER,
    -- who reported it; none: a sample at rest
    storage_lease_id TEXT,
    storage_lease_starts_at INTEGER,
    storage_hour INTEGER,
    storage_hour_key_id TEXT,
    storage_hour_mib_ms INTEGER,
    page_bytes BLOB NOT NULL,
    page_next_number INTEGER NOT NULL,
    PRIMARY KEY (account_id, sandbox_id, life)
) STRICT;
CREATE INDEX sandboxes_by_storage_hour ON sandboxes (account_id, storage_hour) WHERE storage_hour IS NOT NULL;

-- A lease: the grant, its end, the meter's latest reading and open minute, the open hour and the open page.
CREATE TABLE leases (
    account_id TEXT NOT NULL,
    lease_id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    sandbox_id TEXT NOT NULL,
    life INTEGER NOT NULL,
    kind TEXT NOT NULL,
    vcpus INTEGER NOT NULL,
    memory_mib INTEGER NOT NULL,
    starts_at INTEGER NOT NULL,
    ends_at INTEGER NOT NULL,
    -- the request as it came
    asked_starts_at INTEGER,
    asked_timeout_ms INTEGER NOT NULL,
    asked_max_cost_micros INTEGER,
    asked_host_id TEXT,
    asked_replaces TEXT,
    created_at INTEGER NOT NULL,
    -- what changes
    ended_at INTEGER,
    end_reason TEXT,
    proven_until INTEGER,
    -- ended_at, else ends_at
    effective_end INTEGER NOT NULL,
    host_id TEXT,
    is_open INTEGER NOT NULL,
    settles_at INTEGER NOT NULL,
    settled_at INTEGER,
    last_at INTEGER,
    last_epoch INTEGER,
    last_cpu_usage_us INTEGER,
    last_memory_mib INTEGER,
    last_storage_mib INTEGER,
    minute INTEGER,
    minute_used_us INTEGER,
    minute_run_ms INTEGER,
    open_hour INTEGER,
    run_ms INTEGER NOT NULL,
    cpu_used_us INTEGER NOT NULL,
    cpu_us INTEGER NOT NULL,
    memory_mib_ms INTEGER NOT NULL,
    storage_mib_ms INTEGER NOT NULL,
    free_ms INTEGER NOT NULL,
    free_cpu_us INTEGER NOT NULL,
    free_memory_mib_ms INTEGER NOT NULL,
    page_bytes BLOB NOT NULL,
    page_next_number INTEGER NOT NULL,
    PRIMARY KEY (account_id, lease_id)
) STRICT;
-- Planners that have no statistics yet take any index that begins with the account. So an index here is partial, and
-- only a statement that repeats its condition can use it; where the condition holds for every row, that is its purpose.
CREATE INDEX leases_due ON leases (settles_at) WHERE settled_at IS NULL;
CREATE INDEX leases_unsettled ON leases (account_id, settles_at) WHERE settled_at IS NULL;
CREATE INDEX leases_by_open_hour ON leases (account_id, open_hour) WHERE open_hour IS NOT NULL;
CREATE INDEX leases_by_start ON leases (account_id, sandbox_id, life, starts_at) WHERE starts_at >= 0;
CREATE INDEX leases_by_end ON leases (account_id, sandbox_id, effective_end) WHERE effective_end >= 0;
-- Two leases of one sandbox never run at once, whoever asks.
CREATE UNIQUE INDEX leases_one_open ON leases (account_id, sandbox_id) WHERE is_open = 1;

CREATE TABLE lease_extensions (
    account_id TEXT NOT NULL,
    lease_id TEXT NOT NULL,
    extend_id TEXT NOT NULL,
    timeout_ms INTEGER NOT NULL,
    max_cost_micros INTEGER,
    at INTEGER NOT NULL,
    PRIMARY KEY (account_id, lease_id, extend_id)
) STRICT, WITHOUT ROWID;

-- The evidence: closed pages of samples, of a lease or (lease empty) of a sandbox at rest. A page never spans a UTC
-- hour. Append-only.
CREATE TABLE sample_pages (
    account_id TEXT NOT NULL,
    sandbox_id TEXT NOT NULL,
    life INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    lease_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    storage_first_at INTEGER,
    storage_last_at INTEGER,
    bytes BLOB NOT NULL,
    PRIMARY KEY (account_id, sandbox_id, life, first_at, lease_id, number)
) STRICT;
CREATE TRIGGER sample_pages_no_update BEFORE UPDATE ON sample_pages
BEGIN
    SELECT RAISE(ABORT, 'sample pages are append-only');
END;
CREATE TRIGGER sample_pages_no_delete BEFORE DELETE ON sample_pages
BEGIN
    SELECT RAISE(ABORT, 'sample pages are append-only');
END;

-- Usage by hour (lease empty: storage), in the month that bills it. Additive.
CREATE TABLE usage_hours (
    account_id TEXT NOT NULL,
    hour INTEGER NOT NULL,
    sandbox_id TEXT NOT NULL,
    life INTEGER NOT NULL,
    key_id TEXT NOT NULL,
    lease_id TEXT NOT NULL,
    billed_month INTEGER NOT NULL,
    run_ms INTEGER NOT NULL,
    cpu_used_us INTEGER NOT NULL,
    cpu_us INTEGER NOT NULL,
    memory_mib_ms INTEGER NOT NULL,
    storage_mib_ms INTEGER NOT NULL,
    free_ms INTEGER NOT NULL,
    free_cpu_us INTEGER NOT NULL,
    free_memory_mib_ms INTEGER NOT NULL,
    PRIMARY KEY (account_id, hour, sandbox_id, life, key_id, lease_id, billed_month)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_hours_by_sandbox ON usage_hours (account_id, sandbox_id, life, hour);

-- Free time that a lease's hour has drawn from a grant; seq: in which order it first drew on its grants.
CREATE TABLE draws (
    account_id TEXT NOT NULL,
    lease_id TEXT NOT NULL,
    hour INTEGER NOT NULL,
    grant_id TEXT NOT NULL,
    drawn_ms INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (account_id, lease_id, hour, grant_id)
) STRICT, WITHOUT ROWID;

-- What a key (an account) used and holds on a UTC day. Additive.
CREATE TABLE key_days (
    account_id TEXT NOT NULL,
    day INTEGER NOT NULL,
    key_id TEXT NOT NULL,
    used_run_ms INTEGER NOT NULL,
    used_cpu_used_us INTEGER NOT NULL,
    used_cpu_us INTEGER NOT NULL,
    used_memory_mib_ms INTEGER NOT NULL,
    used_storage_mib_ms INTEGER NOT NULL,
    reserved_run_ms INTEGER NOT NULL,
    reserved_cpu_used_us INTEGER NOT NULL,
    reserved_cpu_us INTEGER NOT NULL,
    reserved_memory_mib_ms INTEGER NOT NULL,
    reserved_storage_mib_ms INTEGER NOT NULL,
    PRIMARY KEY (account_id, day, key_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE account_days (
    account_id TEXT NOT NULL,
    day INTEGER NOT NULL,
    used_run_ms INTEGER NOT NULL,
    used_cpu_used_us INTEGER NOT NULL,
    used_cpu_us INTEGER NOT NULL,
    used_memory_mib_ms INTEGER NOT NULL,
    used_storage_mib_ms INTEGER NOT NULL,
    reserved_run_ms INTEGER NOT NULL,
    reserved_cpu_used_us INTEGER NOT NULL,
    reserved_cpu_us INTEGER NOT NULL,
    reserved_memory_mib_ms INTEGER NOT NULL,
    reserved_storage_mib_ms INTEGER NOT NULL,
    PRIMARY KEY (account_id, day)
) STRICT, WITHOUT ROWID;

-- Refused admissions, for people.
CREATE TABLE refusals (
    account_id TEXT NOT NULL,
    at INTEGER NOT NULL,
    key_id TEXT NOT NULL,
    lease_id TEXT NOT NULL,
    code TEXT NOT NULL
) STRICT;
CREATE INDEX refusals_by_time ON refusals (account_id, at);

-- The earliest month that is not closed: one row.
CREATE TABLE watermark (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    open_month INTEGER NOT NULL
) STRICT;
INSERT INTO watermark (id, open_month) VALUES (1, 0);
