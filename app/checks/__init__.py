"""Checks of machine, database and landing zone, and of the two together.

`preflight` runs the checks of `mirrorgate doctor` and of each start, `fabric_setup` those of a workspace.
`landing_zone` claims a landing zone for a database, moves the database to another one, and compares the ledger with the
files. `source_database` reads the source of a table for `mirrorgate tables check`, and writes nothing. The facts are
gathered here and in `app.landing`; `app.domain.preflight` judges them.
"""
