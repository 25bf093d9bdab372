"""Rebuilds in Postgres: a table's next generation, prepared from its row images beside the present one.

`progress` begins, reads and ends rebuilds. `copies` reads a snapshot of the row images and stages each part of it as a
block of the next generation, with new images. Meanwhile batches note in `touched_rows` which rows they change,
`corrections` brings the copies up to date, and `switch` makes the next generation the current one.
"""
