"""Read the Delta tables of a mirror: history, differences, queries and health; and maintain their files.

Input is a `MirrorTarget`, never a landing zone. `history` finds a table, opens it at a version or a time, and explains
each version; `difference` says by key what happened between two versions; `query` runs SQL of DuckDB; `health` compares
files and row groups with Direct Lake's limits; `maintenance` compacts, clusters and vacuums. Nothing here changes a
row.
"""
