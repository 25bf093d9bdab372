"""Writers for applications: they buffer rows or messages, and post them in the background, each once and in order.

`core` decides everything: what a request holds, when it is due, and what an answer means. `change_writer` runs it with
a thread, and `async_change_writer` puts coroutines in front of that. `row_encoding` writes rows as JSON, and `outcome`
holds what a caller gets back: receipts, and the rows that the gateway rejected.
"""
