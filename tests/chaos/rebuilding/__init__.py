"""Rebuilds whose drains are killed: `history` rebuilds one table for every cause, and compares it with its `source`.

`drain_process` is a drain in a process of its own that stops at each step, so that `history` can let the source change
rows, kill the process, or end its connections there.
"""
