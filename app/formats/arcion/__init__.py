"""Arcion's internal CDC format, as Replicant writes it; docs/formats.md names the sources of each rule.

`messages` turns JSON messages into changes, `csv` does so for CSV records laid out as `csv_layout` says, and `address`
resolves the table addresses of JSON messages. `columnar` is the fast path for large JSON bodies, with
`columnar_images` and `image_layout`: it returns columns of texts, or declines a body that `messages` then reads.
"""
