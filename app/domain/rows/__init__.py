"""From changes to landing rows: an Arrow record batch of the table's schema version with the row marker.

`row_layout` has the rules of the landing zone, worked out once per shape of changes (`shaped_changes`). `row_builder`
fills layouts change by change and finds every problem; `shaped_rows` fills them for whole requests, or declines.
`typed_columns` types the values with `conversion`, and `landing_rows` puts it together. `from_arrow` does the same for
rows that arrive as Arrow columns. `key_changes` orders rows where updates change keys. `row_image` and
`image_overlay` complete partial updates; `schema_needs` and `source_order` check changes first.
"""
