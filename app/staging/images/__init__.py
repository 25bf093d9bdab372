"""Row images of a whole table, beside those of single keys that `app.staging.batches` reads and writes.

`snapshot` reads all of them as they were at one moment, `size` tells how many there are. Nothing here writes an image:
only a batch does, under the sequence lock of its table.
"""
