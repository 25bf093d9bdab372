"""Connections to Postgres, and what all parts of staging need of them.

`database` opens engines; their connections are those of `bounded_connection`, which never wait forever.
`persistent_connection` and `raw_sql` serve the staging thread, where each microsecond of a transaction counts.
`notifications` wakes the drain. `advisory_locks` names the locks, `database_errors` maps SQLSTATEs to our errors,
`schema_revision` migrates the schema, `server_settings` reads what preflight checks judge, and `page_turn` cuts lists
into pages.
"""
