"""What an operator looks at: a summary of each table, or all facts of chosen tables.

`table_summaries` reads one row a table for the console's overview, without its schema, options and ledger sums. Its
cost depends on the number of tables and of unpublished blocks, never on the length of the ledger. `table_facts` reads
all that is known of a table, for its status in the API and its page in the console. `producers` lists who sends
numbered requests, and `alerts` stores which troubles a webhook was told.
"""
