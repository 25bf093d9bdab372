"""The Kafka bridge: partitions in, change requests out, each offset exactly once and in order.

`settings` reads the file, `topics` maps topics to tables and endpoints, and `choices` reads what the operator decides
on the command line. `records` and `registered_records` turn a record into JSON, the latter by the schemas of `registry`
and by `avro`. `clients` and `consumer` open connections, and `cluster` asks the brokers. `partition` sends one
partition. `bridge` consumes, assigns and stops, `watch` looks for topics, and `metrics` and `check` report. `service`
is the process.
"""
