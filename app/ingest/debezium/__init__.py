"""Debezium requests: Connect schemas register and evolve tables, records are routed to them and read.

`tables` takes a request's records to the changes of tables, and asks `registration` to register and evolve those whose
events have a schema. `app.formats.debezium` reads the events and says what a schema needs.
"""
