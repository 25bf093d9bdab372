"""The Kafka bridge: partitions in, change requests out, each offset exactly once and in order.

`settings` reads the file, and `topics` maps topics to tables and endpoints. `records` and `registered_records` turn a
record into JSON, the latter by the schemas of `registry` and by `avro`. `clients` opens the gateway and the decoders,
`cluster` the consumer, and asks the brokers. `partition` sends one partition. `bridge` looks for topics, consumes,
assigns and stops. `check` reports without consuming, and `service` is the process with its metrics.
"""
