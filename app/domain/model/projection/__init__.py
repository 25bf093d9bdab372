"""How the rows of landing files differ from the rows of their source: a table's *projection*.

`audit_columns` has the columns that the gateway fills, `transforms` those that land under other names, with constants
or with masked values, `row_filter` which rows land. `landing_schema` puts the columns of landing files together:
those of the source, then the gateway's. `app.domain.rows.projection` makes the rows.
"""
