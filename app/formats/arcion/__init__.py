"""Arcion's internal CDC format, as Replicant writes it; docs/reference/arcion.md names the sources of each rule.

`messages` turns JSON messages into changes, `csv` does so for CSV records laid out as `csv_layout` says, and `address`
resolves the table addresses of JSON messages. `columnar` reads the messages of many bodies at once, with
`exists_flags` for what `exists` says of their images, or leaves them to `messages`.
"""
