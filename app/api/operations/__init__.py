"""What callers with a right can do, apart from how they ask for it: the routes and the console call the same functions.

`visible_tables` finds a table, `table_operations` changes one, `keys` and `dead_letters` settle the others, and
`source_checks` compares a table with its source. Invariant:
each function checks the caller's table patterns and records what it did in the transaction in which it does it.
"""
