"""Exact conversion of source values to the type of their column.

`column_conversion` converts a whole column with Arrow; `value_definitions` defines the result for one value, and a test
compares the two. `value_reading` says how to read values whose type leaves it open: the zone of timestamps, the form of
bytes. A value that does not fit is reported, never rounded or cut.
"""
