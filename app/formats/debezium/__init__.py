"""Debezium's change events as JSON, also those that Arcion writes with `replication-format: JSON`.

A body becomes records (`records`): key, operation and images, out of an envelope or a flattened row (`events`), with
what the event says of its table. `connect_schema` reads the Connect schema beside a payload, and says what it needs of
the registered table. `messages` makes changes of records for one table, value by value (`values`).

Columnar reading of many events: `columnar_schemas` cuts the Connect schemas out of a body, and `columnar_events`
decodes the rest of it without its images. `columnar_images` decodes the images of one table
(docs/contribute/decisions/0047). Invariant: the changes equal those of the exact path, or NotColumnar is raised. It
never rejects.
"""
