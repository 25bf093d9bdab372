"""Arcion's internal CDC format, as Replicant writes it; docs/reference/arcion.md names the sources of each rule.

`messages` turns JSON messages into changes, `csv` does so for CSV records. `columnar` reads the messages of many bodies
at once, or leaves them to `messages`.
"""
