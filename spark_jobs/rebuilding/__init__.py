"""Rebuilds in the drain: row images -> blocks and images of a table's next generation.

`rebuilds` runs the rebuilds that are due beside the drain's loop, which continues to publish. Each is a `rebuild_run`:
one attempt that reads one snapshot, has `parts` copied by Spark tasks, corrects what changed meanwhile and switches the
table to its next generation. The loop then deletes the old folder and publishes as always.
"""
