"""The bridge of object storage: it posts the messages of objects in a bucket, or files in a folder, to a gateway.

`settings` is its file; `mirrorgate.object_store` opens its sources. `formats` and `replicate_files`
cut an object into requests. `table` decides by the position that the gateway keeps which objects of one table are next,
and sends them. `engine` runs the tables in a pool of threads, or looks at the sources without sending. `status` says
how the bridge is doing and shows it in a terminal, `metrics` for Prometheus.
"""
