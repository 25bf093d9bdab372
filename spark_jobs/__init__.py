"""The drain: a Spark driver that turns staged batches into published landing files, in order.

`drain` is the entry point; `drain_loop` hands due tables to worker slots, and `drain_cycle` takes each table through W1
to W9 of docs/contribute/publication-protocol.md. `steps` has the steps, `build_files` the Spark tasks, `spark` the
session and its health. A planned file becomes a BuildOrder, a task returns a BuiltFile or a BuildFailure, and
`steps.publishing` renames and records the file.
"""

import os

os.environ.setdefault("MIMALLOC_PURGE_DELAY", "10000")
"""Milliseconds for which Arrow's allocator keeps freed memory, before Arrow is imported. It gave the memory of each
file back to the system, and a tenth of the time of the next file went into zeroed pages (performance notebook)."""
