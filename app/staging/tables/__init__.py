"""Tables in Postgres: what exists, what feeds it, how it changes, and how it is doing.

`registry` reads tables and the source names that feed them; `registration` creates and changes them, with
`schema_versions` and `replicate_sources`. `operations` does what operators ask, and finishes drops for the drain.
`events` records all of it, and `status` counts. Every change happens under the table's sequence lock.
"""
