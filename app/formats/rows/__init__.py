"""Plain rows of one table, for applications that have rows and no change data capture (docs/reference/rows.md).

`messages` reads rows from JSON and CSV, `declaration` the table that a request declares. `columnar` reads the bodies of
many requests at once, or leaves them to `messages`.
"""
