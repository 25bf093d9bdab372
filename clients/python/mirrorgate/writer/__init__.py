"""Writers for applications: they buffer rows or messages, and post them in the background, each once and in order.

`core` decides everything: what a request holds, when it is due, and what an answer means, as receipts and rejected
rows. `change_writer` writes rows as JSON and runs the core with a thread, and `async_change_writer` puts coroutines in
front of that.
"""
