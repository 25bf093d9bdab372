"""A random model of the gateway: tables of random options, changes in every format, and what must land.

`python -m tests.model` runs it. Each table has a seed, from which come its columns, its options and its history:
changes in mixed encodings, loads, dead letters, repeats, recreates and rebuilds. The expectation is a dict per table,
kept by `fold` after the documentation; nothing here uses the gateway's own code for rows.
"""
