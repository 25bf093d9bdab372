"""Connections to Postgres, and what all parts of staging need of them.

`database` opens engines whose connections never wait forever, maps SQLSTATEs to our errors and names the advisory
locks. `raw_sql` serves the staging thread, where each microsecond of a transaction counts. `notifications` wakes the
drain, `schema_revision` migrates the schema and reads what preflight checks judge, and `page_turn` cuts lists into
pages.
"""
