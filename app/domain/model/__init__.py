"""The nouns that all other packages share: tables, schemas, options, names, changes, requests and landing files.

A request gives `change` objects of a `source_name`; `source_routing` says which `table` the source feeds. A table has a
`table_schema` and `table_options`; `drop_plan` and `schema_change` record what happens to it. `request_identity` and
`dead_letter` belong to requests, `landing_file` to publication, `input_limits` and `written_number` to reading.
"""
