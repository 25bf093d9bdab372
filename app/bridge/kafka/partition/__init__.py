"""One partition of a topic, from its records to durable requests.

`partition` is the thread: it opens the producer, decides by `positions` where to read, and takes batches from `buffer`.
`delivery` sends them and keeps the records that the operator wants aside, and `elements` writes the bodies.
"""
