"""The bridge of object storage: it posts the messages of objects in a bucket, or files in a folder, to a gateway.

`settings` is its file, and how objects of each format are read; `replicate_files` cuts an object into requests. `table`
decides by the position that the gateway keeps which objects of one table are next, sends them, and shows how the bridge
is doing. `engine` runs the tables in a pool of threads, or looks at the sources without sending. `metrics` is for
Prometheus.
"""
