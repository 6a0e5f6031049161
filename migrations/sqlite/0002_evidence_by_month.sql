-- PostgreSQL keeps evidence by month, so that a month can be archived and dropped whole. Here all of it is in one file:
-- nothing changes.
SELECT 1;
