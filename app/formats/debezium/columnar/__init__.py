"""Columnar reading of Debezium's envelopes: many events at once, without an object per event.

`schemas` cuts the Connect schemas out of a body, `events` decodes the rest of it without its images, and `images`
decodes the images of one table, whose columns `values` reads (docs/decisions/0048).

Invariant: the changes equal those of the exact path, or NotPlain is raised. It never rejects.
"""
