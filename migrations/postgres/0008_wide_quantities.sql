-- A month's quantity of a large account passes 64 bits (880,000 sandboxes of 4 GiB make 2^63 MiB-ms). What does not fit
-- is kept in two parts: high * 2^62 + quantity. NULL: the quantity is all.
ALTER TABLE invoice_lines ADD COLUMN quantity_high BIGINT;
ALTER TABLE invoice_lines ADD COLUMN measured_high BIGINT;
