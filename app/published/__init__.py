"""Read what any publisher has put into a landing zone: tables, metadata and data files.

The mirror and `mirrorgate verify` read zones that Mirrorgate did not write, so nothing here trusts a name, a size or a
byte. `table_folders` finds the tables, `table_metadata` reads `_metadata.json`, `table_files` lists the data files in
order, and `data_file` and `delimited_text` read their rows. Invariant: nothing here writes to a zone.
"""
