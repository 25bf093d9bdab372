"""`mirrorgate mirror`: run the Delta mirror and look at its tables.

`upkeep` runs the mirror and maintains its tables, `inspection` shows how far and how well each is mirrored, `rows`
reads and compares rows. `mirror run` reads a landing zone; every other command finds its Delta tables through the
option --to (`target`) and never writes a row.
"""
