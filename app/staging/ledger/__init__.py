"""The drain's records of publication in Postgres, in the transactions of docs/contribute/publication-protocol.md.

`leases` gives a table to one drain under an epoch (W1); all other durable steps check that epoch. `planning` binds file
numbers to batches (W4), and `files` registers builds (W5), records published files (W8) with the hash chain of schemas
and files, and reads the ledger. `reports` keeps what operators and other drains need to know: failing tables, and what
Fabric reports of the database and its tables.
"""
