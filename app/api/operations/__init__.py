"""The operations of callers with a right: the routes and the console call the same functions.

`table_operations` finds and changes tables, carries out load sessions, and settles dead letters; `keys` is about keys.
Invariant: each function checks the caller's table patterns and records what it did in the transaction in which it does
it.
"""
