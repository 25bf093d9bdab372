"""Bridges: programs that read messages from Kafka or object storage and post them to a gateway, each exactly once.

`settings_file` reads the YAML file of a bridge and has the sections of every bridge; `log` and
`health` tell how it is doing. `kafka` reads topics, `objects` reads buckets and folders. A bridge keeps no checkpoint:
it asks the gateway for the producer's position, which the gateway stores in the transaction of the data.
"""
