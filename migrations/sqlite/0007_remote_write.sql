-- Parts of samples that wait for others, replicas that are listened to, and what was set aside.

-- A number of one series at one instant. It goes when it has become part of a sample, or has waited too long. No lease:
-- the disk of a sandbox.
CREATE TABLE sample_parts (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    account_id TEXT NOT NULL,
    sandbox_id TEXT NOT NULL,
    lease_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    series TEXT NOT NULL,
    value INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    host_id TEXT,
    epoch INTEGER
) STRICT;
CREATE UNIQUE INDEX sample_parts_by_sandbox ON sample_parts (account_id, sandbox_id, lease_id, kind, at, series);
CREATE INDEX sample_parts_by_time ON sample_parts (received_at);

-- Of several senders of the same, the one that is listened to.
CREATE TABLE replicas (
    account_id TEXT NOT NULL,
    sandbox_id TEXT NOT NULL,
    replica TEXT NOT NULL,
    seen_at INTEGER NOT NULL,
    PRIMARY KEY (account_id, sandbox_id)
) STRICT, WITHOUT ROWID;

-- What was received and is not used, for people: the latest of each account. Empty account: of none that is known.
CREATE TABLE rejected_samples (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    account_id TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    door TEXT NOT NULL,
    host_id TEXT,
    sandbox TEXT,
    lease TEXT,
    at INTEGER,
    code TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;
CREATE INDEX rejected_samples_by_account ON rejected_samples (account_id, seq);
