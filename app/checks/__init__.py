"""Checks of machine, database and landing zone, and of the two together.

`preflight` runs the checks of `mirrorgate doctor` and of each start. `zone_claim` claims a landing zone for a database
and moves the database to another one. `verify_tables` compares the ledger with the files of `mirrorgate tables verify`.
`source_database` reads the source of a table for `mirrorgate tables check`, and writes nothing. The facts are gathered
here and in `app.landing`; `app.domain.preflight` judges them.
"""
