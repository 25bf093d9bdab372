"""The rules of Mirrorgate without input or output: callers pass time, ids and random values as arguments.

`model` has the nouns: tables, schemas, options, names, changes, files. `rows` turns changes into landing rows, `arrow`
encodes them as bytes. `access` says who may do what, `publication` which batches make which file, and `mirror_report`
how far the Delta mirror has applied them. `fabric` says what Fabric's states mean. `preflight` judges what checks and
probes found, and `source_checks` compares rows with those of their source. Everything here can be tested without
Postgres or a file system.
"""
