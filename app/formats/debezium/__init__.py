"""Debezium's change events as JSON, also those that Arcion writes with `replication-format: JSON`.

A body becomes records (`records`): key, operation and images, out of an envelope or a flattened row (`events`), with
what the event says of its table (`source_block`). `connect_schema` reads the Connect schema beside a payload, and
`table_plan` says what it needs of the registered table. `messages` makes changes of records for one table, value by
value (`values`, `times`, `unavailable`). `reading` has what the request says about its body.
"""
