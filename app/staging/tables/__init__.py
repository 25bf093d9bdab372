"""Tables in Postgres: what exists, what feeds it, how it changes, and how it is doing.

`registry` reads tables; `registration` creates and changes them, with `schema_versions`, `sources` (which source names
feed a table) and `replicate_sources`. `operations` does what operators ask, `quarantine_release` ends quarantines, and
`drop_completion` finishes a drop or starts the next generation. `events` and `registration_events` record all of it.
`status`, `backlog` and `gateway_status` count. Every change happens under the table's sequence lock.
"""
