"""API keys, sessions and the audit in Postgres.

`api_keys` stores keys and the hashes of their secrets, never a secret, and `console_sessions` the sessions of the
console. `audit_events` records operations on keys and tables in their own transactions; a thread writes the counts of
rejected calls and the last use of each key, so that no request waits for them. `mask_secrets` keeps fingerprints of the
secret of hashed columns, so that processes with different secrets do not mix their hashes.
"""
