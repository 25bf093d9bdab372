"""The backfill of row images: gives one to each row that a table had before it kept any.

`request` asks a drain for a backfill; `run` is the loop, in the drain or in a command. It takes rows from `payloads`,
the staged blocks from the first one on, or, if some are purged, from `mirrored`, a version of the Delta table, and then
from the blocks behind that. `rules` says which tables can have a backfill, `images` writes the images of one step, and
`progress` stores after each step how far the backfill is.
"""
