"""The Delta mirror: what Fabric makes of a landing zone, as Delta tables in a folder or an object store.

The modules here apply the numbered files of a zone to Delta tables, one table at a time, by Fabric's rules.
`inspection` reads those tables: history, differences, queries, health, and their maintenance.
"""
