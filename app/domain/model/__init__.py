"""The nouns that all other packages share: tables, schemas, options, names, changes, requests and landing files.

A request gives objects of `change` of a source; `table` says which table the source feeds, and what happens to it. A
table has a `table_schema` and `table_options`, with `expressions` and `projection`. `request_identity` and
`dead_letter` belong to requests, `landing_file` to publication, `written_values` to reading.
"""
