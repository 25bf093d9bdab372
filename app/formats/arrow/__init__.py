"""Arrow IPC streams: bytes -> one table of snapshot rows for an initial load.

`messages` reads the framing and the buffers of a stream, `stream` makes checked arrays of them. The fields of the
schema are read by `app.domain.arrow.fields`. PyArrow's own reader is not used: decision 0021 says why.
"""
