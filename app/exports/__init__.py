"""Tables written to files outside the landing zone.

`table_rows` writes the present rows of a table, from its row images, as one Parquet file.
"""
