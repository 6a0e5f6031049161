-- Parts of samples that wait for others, replicas that are listened to, and what was set aside.

-- A number of one series at one instant. It goes when it has become part of a sample, or has waited too long. No lease:
-- the disk of a sandbox.
CREATE TABLE sample_parts (
    seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id TEXT COLLATE "C" NOT NULL,
    sandbox_id TEXT COLLATE "C" NOT NULL,
    lease_id TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    series TEXT COLLATE "C" NOT NULL,
    value BIGINT NOT NULL,
    received_at BIGINT NOT NULL,
    host_id TEXT COLLATE "C",
    epoch BIGINT
);
CREATE UNIQUE INDEX sample_parts_by_sandbox ON sample_parts (account_id, sandbox_id, lease_id, kind, at, series);
CREATE INDEX sample_parts_by_time ON sample_parts (received_at);

-- Of several senders of the same, the one that is listened to.
CREATE TABLE replicas (
    account_id TEXT COLLATE "C" NOT NULL,
    sandbox_id TEXT COLLATE "C" NOT NULL,
    replica TEXT NOT NULL,
    seen_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, sandbox_id)
);

-- What was received and is not used, for people: the latest of each account. Empty account: of none that is known.
CREATE TABLE rejected_samples (
    seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id TEXT COLLATE "C" NOT NULL,
    received_at BIGINT NOT NULL,
    door TEXT COLLATE "C" NOT NULL,
    host_id TEXT COLLATE "C",
    sandbox TEXT,
    lease TEXT,
    at BIGINT,
    code TEXT COLLATE "C" NOT NULL,
    detail TEXT NOT NULL
);
CREATE INDEX rejected_samples_by_account ON rejected_samples (account_id, seq);
