"""The columnar path: bodies of all sizes that wait are read together, as columns instead of message by message.

`reader_thread` gathers them, `reading` makes typed batches of them, `arcion`, `replicate` and `rows` open the bodies of
one format. The path declines whatever is wrong or unusual (`decline`), and never rejects: `app.ingest.exact_path` does.
"""
