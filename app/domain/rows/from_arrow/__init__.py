"""From rows that arrive as Arrow columns to landing rows: checked by column and never by value.

`columns` types one column; `snapshot_rows` makes the rows of an initial load, `changed_rows` those of upserts, inserts,
updates and deletes. `arrow_images` writes the row images of both.
"""
