"""Columnar reading of Debezium's events: many at once, without an object per event.

`schemas` cuts the Connect schemas out of a body, and `events` decodes the rest of it without its images. `sources`
finds the table of each envelope, `rows` that of each flattened row. `images` decodes the images of one table, whose
columns `values` reads or types (docs/contribute/decisions/0047).

Invariant: the changes equal those of the exact path, or NotColumnar is raised. It never rejects.
"""
