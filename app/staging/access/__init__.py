"""API keys and the audit in Postgres.

`api_keys` stores keys and the hashes of their secrets, never a secret. `audit_events` records operations on keys and
tables in their own transactions, and counts of rejected calls. `audit_writer` is the thread that writes those counts
and the last use of each key about once a second, so that no request waits for them. `mask_secrets` keeps fingerprints
of the secret of hashed columns, so that processes with different secrets do not mix their hashes.
"""
