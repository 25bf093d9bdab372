"""The bridge of object storage: it posts the messages of objects in a bucket, or files in a folder, to a gateway.

`settings` is its file. `store` lists and reads objects, `marks` is the position that the gateway keeps, `planning`
decides which objects are next, and `reading` cuts an object into requests, by its format in `formats`.
`replicate_files` reads the files of Qlik Replicate with their metadata. `table` sends the objects of one table, and
`engine` runs the tables in a pool of threads. `check` looks at the sources without sending. `status` says how the
bridge is doing, `display` shows it in a terminal.
"""
