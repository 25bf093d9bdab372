"""Row images of a whole table, beside those of single keys that `app.staging.batches` reads and writes.

`snapshot` reads all of them as they were at one moment, `size` tells how many there are. `backfill` writes those of
rows from before a table kept images; all others are written with their batch. Both hold the table's sequence lock.
"""
