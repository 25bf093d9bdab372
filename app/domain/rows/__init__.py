"""From changes to landing rows: an Arrow record batch of the table's schema version with the row marker.

`row_builder` applies the rules of the landing zone to single changes, `typed_columns` types the values with
`conversion`, and `landing_rows` puts both together. `columnar_rows` and `snapshot_rows` do the same for changes and
rows that arrive as columns. `key_changes` orders rows where updates change keys. `row_image` and `image_overlay`
complete partial updates; `schema_needs` and `source_order` check changes first.
"""
