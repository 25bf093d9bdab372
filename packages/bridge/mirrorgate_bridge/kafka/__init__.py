"""The Kafka bridge: partitions in, change requests out, each offset exactly once and in order.

`settings` reads the file, and maps topics to tables and endpoints. `registry` turns records into JSON by registered
schemas. `cluster` opens the consumer, asks the brokers, and reports without consuming. `bridge` looks for topics,
consumes, assigns and stops, and is the process with its metrics. `partition` is the thread of one partition: it opens
the producer, decides where to read, and takes batches from `buffer`. `delivery` sends them and keeps the records that
the operator wants aside.
"""
