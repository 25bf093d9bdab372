"""From typed rows of the source to rows of landing files, for tables whose options tell them apart.

While rows are typed, completed and ordered, `row_facts` adds what their changes say beside values as more columns of
the same batch, so that every step moves both. `landing_projection` makes landing rows of them, once their table is
locked: it renames, adds and leaves out columns, after
`filtering` has taken the rows that do not land.
"""
