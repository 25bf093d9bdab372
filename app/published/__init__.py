"""Read what any publisher has put into a landing zone: tables, metadata and data files.

The mirror and `mirrorgate verify` read zones that Mirrorgate did not write, so nothing here trusts a name, a size or a
byte. `table_files` finds the tables and lists their data files in order, `table_metadata` reads `_metadata.json`, and
`data_file` reads rows of Parquet and delimited text. Invariant: nothing here writes to a zone.
"""
