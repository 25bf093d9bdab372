"""Delta tables in an object store, which deltalake reads and writes itself.

`store_options` completes the options of one opening, `table_listing` finds the tables with them, and `store_errors`
says what an error of the store means. A local folder passes through unchanged. Options can have secrets: no text shows
them.
"""
