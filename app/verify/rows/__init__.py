"""Check the rows of a table: its markers, its keys, and whether each change fits the rows before it.

`row_check` is the entry point. It reads each file once (`row_chunks` of `app.published`), turns its rows into change
events with hashed keys (`change_events`), and compares these with the history of each key. Invariant: no value of a row
leaves this package.
"""
