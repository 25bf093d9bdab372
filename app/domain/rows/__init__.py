"""From changes to landing rows: an Arrow record batch of the table's schema version with the row marker.

`row_layout` has the rules of the landing zone, worked out once per shape of changes (`row_rules`), and fills layouts
change by change and finds every problem; `shaped_rows` fills them for whole requests, or declines. `typed_columns`
types the values with `conversion`, and `landing_rows` puts it together. `from_arrow` does the same for rows that arrive
as Arrow columns. `key_changes` orders rows where updates change keys, `source_order` leaves out what was accepted
before. `row_image` and `image_overlay` complete partial updates.

For tables whose options ask for it, files have other columns than the source. While rows are typed, completed and
ordered, `row_facts` adds what their changes say beside values as more columns of the same batch, so that every step
moves both. `landing_projection` makes landing rows of them, once their table is locked, with the columns of
`derived_columns`.
"""
