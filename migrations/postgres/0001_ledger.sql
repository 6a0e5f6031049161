-- Customers, leases, evidence and usage.
--
-- Times are milliseconds since 1970 (UTC); days, hours and months are their numbers since 1970. The account leads
-- every key. Ids compare byte by byte, as the engine
-- does. Rows that are written again and again leave room on their page.

-- Customers.
CREATE TABLE accounts (
    account_id TEXT COLLATE "C" NOT NULL,
    name TEXT NOT NULL,
    status TEXT NOT NULL,
    card_on_file BIGINT NOT NULL,
    daily_limit_micros BIGINT,
    -- the first day on which account_days are kept
    counted_from BIGINT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (account_id)
);

CREATE TABLE keys (
    account_id TEXT COLLATE "C" NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    name TEXT NOT NULL,
    read_only BIGINT NOT NULL,
    daily_limit_micros BIGINT,
    revoked_at BIGINT,
    created_at BIGINT NOT NULL,
    -- set by the first save; later saves without a new secret keep it
    secret_sha256 BYTEA,
    PRIMARY KEY (account_id, key_id)
);
CREATE UNIQUE INDEX keys_by_secret ON keys (secret_sha256);

-- Operators' tokens: of nobody's account.
CREATE TABLE tokens (
    token_id TEXT COLLATE "C" NOT NULL,
    role TEXT NOT NULL,
    host_id TEXT COLLATE "C",
    name TEXT NOT NULL,
    secret_sha256 BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (token_id)
);
CREATE UNIQUE INDEX tokens_by_secret ON tokens (secret_sha256);

CREATE TABLE grants (
    account_id TEXT COLLATE "C" NOT NULL,
    grant_id TEXT COLLATE "C" NOT NULL,
    granted_ms BIGINT NOT NULL,
    used_ms BIGINT NOT NULL,
    starts_on BIGINT NOT NULL,
    expires_on BIGINT,
    note TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, grant_id)
);

-- scope: an account, or empty: the default for all. No card: back to the default.
CREATE TABLE rate_cards (
    scope TEXT COLLATE "C" NOT NULL,
    effective_on BIGINT NOT NULL,
    card_id TEXT COLLATE "C",
    cpu_micros BIGINT,
    memory_micros BIGINT,
    storage_micros BIGINT,
    floor_millicores BIGINT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (scope, effective_on)
);
CREATE UNIQUE INDEX rate_cards_by_id ON rate_cards (card_id);

-- A row a life. It holds the storage meter's latest report and open hour, and the open page of samples at rest.
CREATE TABLE sandboxes (
    account_id TEXT COLLATE "C" NOT NULL,
    sandbox_id TEXT COLLATE "C" NOT NULL,
    life BIGINT NOT NULL,
    first_key_id TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    deleted_at BIGINT,
    latest_lease_id TEXT COLLATE "C",
    latest_key_id TEXT COLLATE "C",
    latest_starts_at BIGINT,
    storage_at BIGINT,
    storage_mib BIGINT,
    -- who reported it; none: a sample at rest
    storage_lease_id TEXT COLLATE "C",
    storage_lease_starts_at BIGINT,
    storage_hour BIGINT,
    storage_hour_key_id TEXT COLLATE "C",
    storage_hour_mib_ms BIGINT,
    page_bytes BYTEA NOT NULL,
    page_next_number BIGINT NOT NULL,
    PRIMARY KEY (account_id, sandbox_id, life)
) WITH (fillfactor = 70);
CREATE INDEX sandboxes_by_storage_hour ON sandboxes (account_id, storage_hour) WHERE storage_hour IS NOT NULL;

-- A lease: the grant, its end, the meter's latest reading and open minute, the open hour and the open page.
CREATE TABLE leases (
    account_id TEXT COLLATE "C" NOT NULL,
    lease_id TEXT COLLATE "C" NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    sandbox_id TEXT COLLATE "C" NOT NULL,
    life BIGINT NOT NULL,
    kind TEXT NOT NULL,
    vcpus BIGINT NOT NULL,
    memory_mib BIGINT NOT NULL,
    starts_at BIGINT NOT NULL,
    ends_at BIGINT NOT NULL,
    -- the request as it came
    asked_starts_at BIGINT,
    asked_timeout_ms BIGINT NOT NULL,
    asked_max_cost_micros BIGINT,
    asked_host_id TEXT COLLATE "C",
    asked_replaces TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    -- what changes
    ended_at BIGINT,
    end_reason TEXT,
    proven_until BIGINT,
    -- ended_at, else ends_at
    effective_end BIGINT NOT NULL,
    host_id TEXT COLLATE "C",
    is_open BIGINT NOT NULL,
    settles_at BIGINT NOT NULL,
    settled_at BIGINT,
    last_at BIGINT,
    last_epoch BIGINT,
    last_cpu_usage_us BIGINT,
    last_memory_mib BIGINT,
    last_storage_mib BIGINT,
    minute BIGINT,
    minute_used_us BIGINT,
    minute_run_ms BIGINT,
    open_hour BIGINT,
    run_ms BIGINT NOT NULL,
    cpu_used_us BIGINT NOT NULL,
    cpu_us BIGINT NOT NULL,
    memory_mib_ms BIGINT NOT NULL,
    storage_mib_ms BIGINT NOT NULL,
    free_ms BIGINT NOT NULL,
    free_cpu_us BIGINT NOT NULL,
    free_memory_mib_ms BIGINT NOT NULL,
    page_bytes BYTEA NOT NULL,
    page_next_number BIGINT NOT NULL,
    PRIMARY KEY (account_id, lease_id)
) WITH (fillfactor = 70);
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
    account_id TEXT COLLATE "C" NOT NULL,
    lease_id TEXT COLLATE "C" NOT NULL,
    extend_id TEXT COLLATE "C" NOT NULL,
    timeout_ms BIGINT NOT NULL,
    max_cost_micros BIGINT,
    at BIGINT NOT NULL,
    PRIMARY KEY (account_id, lease_id, extend_id)
);

-- The evidence: closed pages of samples, of a lease or (lease empty) of a sandbox at rest. A page never spans a UTC
-- hour. Append-only.
CREATE TABLE sample_pages (
    account_id TEXT COLLATE "C" NOT NULL,
    sandbox_id TEXT COLLATE "C" NOT NULL,
    life BIGINT NOT NULL,
    first_at BIGINT NOT NULL,
    lease_id TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    storage_first_at BIGINT,
    storage_last_at BIGINT,
    bytes BYTEA NOT NULL,
    PRIMARY KEY (account_id, sandbox_id, life, first_at, lease_id, number)
);
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END;
$$;
CREATE TRIGGER sample_pages_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON sample_pages
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Usage by hour (lease empty: storage), in the month that bills it. Additive.
CREATE TABLE usage_hours (
    account_id TEXT COLLATE "C" NOT NULL,
    hour BIGINT NOT NULL,
    sandbox_id TEXT COLLATE "C" NOT NULL,
    life BIGINT NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    lease_id TEXT COLLATE "C" NOT NULL,
    billed_month BIGINT NOT NULL,
    run_ms BIGINT NOT NULL,
    cpu_used_us BIGINT NOT NULL,
    cpu_us BIGINT NOT NULL,
    memory_mib_ms BIGINT NOT NULL,
    storage_mib_ms BIGINT NOT NULL,
    free_ms BIGINT NOT NULL,
    free_cpu_us BIGINT NOT NULL,
    free_memory_mib_ms BIGINT NOT NULL,
    PRIMARY KEY (account_id, hour, sandbox_id, life, key_id, lease_id, billed_month)
);
CREATE INDEX usage_hours_by_sandbox ON usage_hours (account_id, sandbox_id, life, hour);

-- Free time that a lease's hour has drawn from a grant; seq: in which order it first drew on its grants.
CREATE TABLE draws (
    account_id TEXT COLLATE "C" NOT NULL,
    lease_id TEXT COLLATE "C" NOT NULL,
    hour BIGINT NOT NULL,
    grant_id TEXT COLLATE "C" NOT NULL,
    drawn_ms BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    PRIMARY KEY (account_id, lease_id, hour, grant_id)
);

-- What a key (an account) used and holds on a UTC day. Additive.
CREATE TABLE key_days (
    account_id TEXT COLLATE "C" NOT NULL,
    day BIGINT NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    used_run_ms BIGINT NOT NULL,
    used_cpu_used_us BIGINT NOT NULL,
    used_cpu_us BIGINT NOT NULL,
    used_memory_mib_ms BIGINT NOT NULL,
    used_storage_mib_ms BIGINT NOT NULL,
    reserved_run_ms BIGINT NOT NULL,
    reserved_cpu_used_us BIGINT NOT NULL,
    reserved_cpu_us BIGINT NOT NULL,
    reserved_memory_mib_ms BIGINT NOT NULL,
    reserved_storage_mib_ms BIGINT NOT NULL,
    PRIMARY KEY (account_id, day, key_id)
) WITH (fillfactor = 70);
CREATE TABLE account_days (
    account_id TEXT COLLATE "C" NOT NULL,
    day BIGINT NOT NULL,
    used_run_ms BIGINT NOT NULL,
    used_cpu_used_us BIGINT NOT NULL,
    used_cpu_us BIGINT NOT NULL,
    used_memory_mib_ms BIGINT NOT NULL,
    used_storage_mib_ms BIGINT NOT NULL,
    reserved_run_ms BIGINT NOT NULL,
    reserved_cpu_used_us BIGINT NOT NULL,
    reserved_cpu_us BIGINT NOT NULL,
    reserved_memory_mib_ms BIGINT NOT NULL,
    reserved_storage_mib_ms BIGINT NOT NULL,
    PRIMARY KEY (account_id, day)
) WITH (fillfactor = 70);

-- Refused admissions, for people.
CREATE TABLE refusals (
    account_id TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    lease_id TEXT COLLATE "C" NOT NULL,
    code TEXT NOT NULL
);
CREATE INDEX refusals_by_time ON refusals (account_id, at);

-- The earliest month that is not closed: one row.
CREATE TABLE watermark (
    id BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    open_month BIGINT NOT NULL
);
INSERT INTO watermark (id, open_month) VALUES (1, 0);
