"""The Kafka bridge: partitions in, change requests out, each offset exactly once and in order.

`settings` reads the file and `topics` says what becomes of a topic. `records` turns a record into JSON, `batches` cuts
requests, `positions` decides where a partition starts, `partitions` sends one partition, and `bridge` consumes, assigns
and stops. `check` is the second stage of `--check`.
"""
