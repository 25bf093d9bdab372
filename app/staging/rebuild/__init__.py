"""Rebuilds in Postgres: a table's next generation, prepared from its row images beside the present one.

`progress` begins, reads and ends rebuilds. `copies` reads a snapshot of the row images and stages each part of it as a
block of the next generation, with new images. Meanwhile batches note which rows they change; `switch` brings the copies
up to date and makes the next generation the current one.
"""
