"""The backfill of row images: gives one to each row that a table had before it kept any.

`request` asks the table's drain for it and says which tables can have one. `replay` is the drain's part: it reads the
staged payloads from the first batch on. `progress` stores after each step how far the backfill is.
"""
