"""Source databases, which `mirrorgate tables check` reads.

`database` connects to one by its SQLAlchemy address and runs the queries of `app.domain.source_checks`; nothing is
written. The gateway itself never connects to a source.
"""
