"""The rules of the Delta mirror that need no Delta table.

`table_report` says how far a table is mirrored. The mirror process makes a report of each table in each round and
stores it in the database, where the API reads it.
"""
