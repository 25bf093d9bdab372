"""The steps of the publication protocol that a drain runs for a table (docs/contribute/publication-protocol.md).

`context` opens what the steps share: the database, the claimed landing zone and its identity. A table passes through
`take_over` (W1 to W3), `dropping` (R3 to R6) and `publishing` (W6 to W9). `failures` records what stopped a table, and
which epochs this process has taken. Each step writes its decision to Postgres under the table's epoch before it acts on
it.
"""
