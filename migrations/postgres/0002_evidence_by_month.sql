-- Evidence by month, and settings of the hot tables.
--
-- sample_pages keeps its name, columns and key, so statements and older engines know no difference; its rows are in a
-- table a month in the schema `evidence`. What was there before stays where it is, as the table of all months that
-- have no table of their own: nothing is copied. It is the net, too, should a month's table be missing.

CREATE SCHEMA evidence;
ALTER TABLE sample_pages RENAME TO sample_pages_any;
ALTER TABLE sample_pages_any SET SCHEMA evidence;
CREATE TABLE sample_pages (LIKE evidence.sample_pages_any) PARTITION BY RANGE (first_at);
ALTER TABLE sample_pages ADD PRIMARY KEY (account_id, sandbox_id, life, first_at, lease_id, number);
ALTER TABLE sample_pages ATTACH PARTITION evidence.sample_pages_any DEFAULT;
CREATE TRIGGER sample_pages_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON sample_pages
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Makes a month's table ('2026-11') if it is missing; whether it was made. It is made aside and attached, which does
-- not stop those who write. A month of which the table of all others has rows already stays there. Triggers of a
-- statement see only the table that it names, so every table has its own.
CREATE FUNCTION make_evidence_month(month TEXT) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
DECLARE
    name TEXT := 'sample_pages_' || replace(month, '-', '_');
    since TIMESTAMP := (month || '-01')::timestamp;
    low BIGINT := EXTRACT(EPOCH FROM since) * 1000;
    high BIGINT := EXTRACT(EPOCH FROM since + INTERVAL '1 month') * 1000;
BEGIN
    IF to_regclass('evidence.' || name) IS NOT NULL
        OR EXISTS (SELECT FROM evidence.sample_pages_any WHERE first_at >= low AND first_at < high) THEN
        RETURN FALSE;
    END IF;
    EXECUTE format('CREATE TABLE evidence.%I (LIKE evidence.sample_pages_any INCLUDING INDEXES)', name);
    EXECUTE format('CREATE TRIGGER sample_pages_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON evidence.%I '
        'FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', name);
    EXECUTE format('ALTER TABLE sample_pages ATTACH PARTITION evidence.%I FOR VALUES FROM (%s) TO (%s)', name, low, high);
    RETURN TRUE;
END;
$$;

-- Rows that are written every few seconds leave dead versions behind as fast as the table is large: vacuum them by the
-- hundredth rather than by the fifth, and without rests.
ALTER TABLE leases SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE sandboxes SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE key_days SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE account_days SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
-- Rows that later samples of an hour are added to, and grants that are drawn from.
ALTER TABLE usage_hours SET (fillfactor = 90);
ALTER TABLE grants SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
