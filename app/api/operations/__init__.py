"""The operations of callers with a right: the routes and the console call the same functions.

`visible_tables` finds tables, `table_operations` changes one, `keys` and `dead_letters` settle the others,
`source_checks` compares a table with its source, and `dry_runs` tries messages without staging them. Invariant: each
function checks the caller's table patterns and records what it did in the transaction in which it does it.
"""
