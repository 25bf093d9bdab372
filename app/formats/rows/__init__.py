"""Plain rows of one table, for applications that have rows and no change data capture (docs/reference/rows.md).

`operations` says what becomes of a row; `messages` reads rows from JSON and `csv` from CSV. `columnar` reads the JSON
of many bodies at once, or leaves them to `messages`.
"""
