"""CSV under the formats that have it: bytes -> records, without a meaning yet.

`records` cuts a body into records and their fields, and tells quoted fields from others. Arcion's CSV and that of plain
rows make changes of the records; `blanks` says in which columns blanks around a value count.
"""
