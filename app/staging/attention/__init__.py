"""What an operator looks at first, read cheaply: each table at a glance, without its schema, options and ledger sums.

`glances` reads one row a table for the console's overview. Its cost depends on the number of tables and of unpublished
blocks, never on the length of the ledger. `producers` lists who sends numbered requests, and `alerts` stores which
troubles a webhook was told.
"""
